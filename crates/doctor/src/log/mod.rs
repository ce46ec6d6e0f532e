//! A kernel's log: its lines without what loggers and mail put around them, and the reports in it.

mod cgroup;
mod mem_info;
mod notice;
mod read;
mod report;
mod unwrap;
mod vmalloc;

use std::sync::LazyLock;

use regex_lite::Regex;

pub use self::cgroup::{Cgroup, Victim};
pub(crate) use self::mem_info::kind_name;
pub use self::mem_info::{FreeList, MemInfo, Zone};
pub use self::notice::{About, Notice};
pub use self::read::{Logged, read};
pub(crate) use self::report::begins;
pub use self::report::{Kind, Report, Slab};
pub use self::vmalloc::{Lack, Vmalloc};

/// A line of a log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line {
    /// Its number in the log, from 1.
    pub number: usize,
    /// What the kernel printed.
    pub text: String,
    /// When, in microseconds since boot, where the line has it.
    pub at_us: Option<u64>,
    /// Who printed it: a task (`T100`) or a CPU (`C1`), where the kernel prints callers.
    pub caller: Option<String>,
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
        r"\(\d+\)\[\d+:[^\]]*\]",
        r"\d+,\d+,\d+,[^;]{0,40};",
        r"(?:kern|user|daemon) *:\w+ *:",
        r"(?:\w{3} +\d+ \d\d:\d\d:\d\d|\d{4}-\d\d-\d\d[T ]\S+) (?:\S+ )?kernel(?:\[\d+\])?:",
        r"kernel(?:\[\d+\])?:",
    ];
    Regex::new(&format!(r"^(?:\s*(?:{}))+\s?", part.join("|"))).expect("the pattern is valid")
});

/// Returns the lines of a piece of a log as the kernel printed them; a newline that syslog wrote as `#012`, or that was
/// wrapped, parts lines too.
fn lines(number: usize, piece: &str) -> impl Iterator<Item = Line> {
    let piece = unwrap::unwrap(piece).replace("#012", "\n");
    let line = |text: &str| {
        let start = PREFIX.find(text).map_or(0, |prefix| prefix.end());
        let (prefix, text) = text.split_at(start);
        let text = text.trim_end().to_owned();
        Line { number, text, at_us: bracketed(prefix, at_us), caller: bracketed(prefix, caller) }
    };
    piece.split('\n').map(line).collect::<Vec<_>>().into_iter()
}

/// Returns the first of what stands in brackets in a prefix that `read` understands.
fn bracketed<T>(prefix: &str, read: fn(&str) -> Option<T>) -> Option<T> {
    prefix.split('[').skip(1).find_map(|rest| read(rest.split(']').next()?.trim()))
}

fn at_us(text: &str) -> Option<u64> {
    let (seconds, part) = text.split_once('.')?;
    let part: u64 = format!("{part:0<6}").get(..6)?.parse().ok()?;
    seconds.parse::<u64>().ok()?.checked_mul(1_000_000)?.checked_add(part)
}

fn caller(text: &str) -> Option<String> {
    let number = text.strip_prefix(['T', 'C'])?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_callers_are_read_from_what_stands_before_a_message() {
        let line = |text: &str| lines(1, text).next().unwrap();
        let read = line("<4>[   72.087057][ T1234] Mem-Info:");
        assert_eq!((read.at_us, read.caller.as_deref()), (Some(72_087_057), Some("T1234")));
        assert_eq!(line("[    1.5][    C1] a").at_us, Some(1_500_000));
        assert_eq!(
            line("Mem-Info: [ 7.1][ T1]"),
            Line { at_us: None, caller: None, ..line("Mem-Info: [ 7.1][ T1]") }
        );
    }

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
            "[  174.391002]  (1)[10406:mosdns]Mem-Info:",
            "4,1202,174391002,-;Mem-Info:",
            r#"{"log": "[ 1.0] Mem-Info:\n", "stream": "stdout"}"#,
            "\x1b[32m[ 1.0] \x1b[0m\x1b[33m Mem-Info:\x1b[0m",
        ] {
            assert_eq!(lines(1, line).next().unwrap().text.trim(), "Mem-Info:", "{line}");
        }
        let parts: Vec<Line> = lines(2, "a#012 b").collect();
        assert_eq!(
            (parts.len(), &parts[1]),
            (2, &Line { number: 2, text: " b".into(), at_us: None, caller: None })
        );
    }
}
