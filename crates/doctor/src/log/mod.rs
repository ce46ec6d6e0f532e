//! A kernel's log: its lines without what loggers and mail put around them, and the reports in it.

mod mem_info;
mod read;
mod report;

use std::sync::LazyLock;

use regex_lite::Regex;

pub use self::mem_info::{FreeList, MemInfo, Zone, ZoneKind};
pub use self::read::{Logged, read};
pub(crate) use self::report::begins;
pub use self::report::{Kind, Report};

/// A line of a log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line {
    /// Its number in the log, from 1.
    pub number: usize,
    /// What the kernel printed.
    pub text: String,
}

/// What stands before a kernel's message, each part as often as it comes: quotes of mail, log levels, times, CPUs and
/// tasks in brackets, the name of a host and `kernel:`.
static PREFIX: LazyLock<Regex> = LazyLock::new(|| {
    let part = [
        r"[>|]\s?",
        r"<\d{1,3}>",
        r"\[[ \d.:]+\]",
        r"\[[ \d.]+\]?\[ *[TC]\d+\]",
        r"\[ *[TC]\d+\]",
        r"\[\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4}\]",
        r"\[\d+: *[^\]]*\]",
        r"(?:kern|user|daemon) *:\w+ *:",
        r"(?:\w{3} +\d+ \d\d:\d\d:\d\d|\d{4}-\d\d-\d\d[T ]\S+) (?:\S+ )?kernel(?:\[\d+\])?:",
        r"kernel(?:\[\d+\])?:",
    ];
    Regex::new(&format!(r"^(?:\s*(?:{}))+\s?", part.join("|"))).expect("the pattern is valid")
});

/// Returns the lines of a piece of a log; a newline that syslog wrote as `#012` parts lines too.
fn lines(number: usize, piece: &str) -> impl Iterator<Item = Line> {
    piece.split("#012").map(move |text| {
        let start = PREFIX.find(text).map_or(0, |prefix| prefix.end());
        Line { number, text: text[start..].trim_end().to_owned() }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_loggers_and_mail_add_is_dropped() {
        for line in [
            "Mem-Info:",
            "\tMem-Info:",
            "[   72.087057] Mem-Info:",
            "<4>[   72.087057] Mem-Info:",
            "[   72.087057][ T1234] Mem-Info:",
            "[Mon Apr 20 15:08:07 2020] Mem-Info:",
            "[3:  binder:99] Mem-Info:",
            "Feb  9 08:09:39 prod-server kernel: Mem-Info:",
            "Jun 15 12:08:50 fstest kernel: [ 5061.330805] Mem-Info:",
            "2024-01-31T10:11:12.123456+01:00 host kernel: Mem-Info:",
            "> kern  :warn  : [   38.984654] Mem-Info:",
            ">>> [   30.370084] Mem-Info:",
        ] {
            assert_eq!(lines(1, line).next().unwrap().text.trim(), "Mem-Info:", "{line}");
        }
        let parts: Vec<Line> = lines(2, "a#012 b").collect();
        assert_eq!((parts.len(), &parts[1]), (2, &Line { number: 2, text: " b".into() }));
    }
}
