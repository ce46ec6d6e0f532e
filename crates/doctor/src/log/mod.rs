//! A kernel's log: its lines without what loggers and mail put around them, and the reports in it.

mod mem_info;
mod report;

use std::sync::LazyLock;

use regex_lite::Regex;

pub use self::mem_info::{FreeList, MemInfo, Zone, ZoneKind};
pub use self::report::{Kind, Report, reports};

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

/// Returns the lines of a log; a newline that syslog wrote as `#012` parts lines too.
#[must_use]
pub fn lines(log: &str) -> Vec<Line> {
    let whole = if is_quoted_printable(log) { unquoted(log) } else { plain(log) };
    let parts = whole.into_iter().flat_map(|(number, line)| {
        let parts: Vec<String> = line.split("#012").map(str::to_owned).collect();
        parts.into_iter().map(move |part| (number, part))
    });
    let stripped = parts.map(|(number, text)| {
        let start = PREFIX.find(&text).map_or(0, |prefix| prefix.end());
        Line { number, text: text[start..].trim_end().to_owned() }
    });
    stripped.collect()
}

fn plain(log: &str) -> Vec<(usize, String)> {
    (1..).zip(log.lines().map(str::to_owned)).collect()
}

/// Tells whether a log was copied from the source of a mail, where `=` at a line's end joins it with the next.
fn is_quoted_printable(log: &str) -> bool {
    log.contains("=3D") && log.lines().any(|line| line.ends_with('='))
}

fn unquoted(log: &str) -> Vec<(usize, String)> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    let mut joins = false;
    for (number, line) in (1..).zip(log.lines()) {
        let part = line.strip_suffix('=');
        let text = part.unwrap_or(line).replace("=3D", "=").replace("=20", " ").replace("=0A", "");
        match lines.last_mut().filter(|_| joins) {
            Some((_, last)) => last.push_str(&text),
            None => lines.push((number, text)),
        }
        joins = part.is_some();
    }
    lines
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
            assert_eq!(lines(line)[0].text.trim(), "Mem-Info:", "{line}");
        }
        let mail =
            "> Node 0 DMA free:13428kB rese=\nrved_highatomic:0KB ac=\ntive_anon:0kB=\n\n= =3D 5kB";
        let text: Vec<String> = lines(mail).into_iter().map(|line| line.text).collect();
        assert_eq!(text[0], "Node 0 DMA free:13428kB reserved_highatomic:0KB active_anon:0kB");
        assert_eq!(lines("a#012 b\nc").len(), 3);
        assert_eq!(lines("a#012 b\nc")[2], Line { number: 2, text: "c".into() });
    }
}
