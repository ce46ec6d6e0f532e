//! The prefix of a kernel's message: times, levels, hosts, callers, quotes.

use std::sync::LazyLock;

use regex::Regex;

use super::stamp::Stamp;

/// The parts of a prefix, each any number of times.
static PREFIX: LazyLock<Regex> = LazyLock::new(|| {
    let iso = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[\d.,]*(?: ?(?:Z|UTC|[+-]\d\d:?\d\d))?";
    let parts = [
        // Quotes of mail and of trackers, and what `diff` adds.
        r"[>|+]\s?",
        r"bq\. ",
        // The title of a mail.
        r"Subject: (?:(?:Re|RE|Aw|AW|Fwd?|FW): )*",
        // grep with several files; a CSV that begins with a time.
        r"(?:/[\w./-]+|[\w./-]*(?:\.log|\.txt|messages|syslog|dmesg)[\w.-]*):(?:\d+:)?",
        r#"\d{13},""#,
        // `journalctl -o verbose`.
        r"MESSAGE=",
        // Levels.
        r"<\d{1,3}>(?:\d )?",
        r"(?:kern|user|daemon|syslog) *:\w+ *:",
        // Times since boot, callers, and what vendors add.
        r"\[ *\+?[\d:]*[.:][\d.:]*(?:,\d+)?(?: <[ \d.]+>)?\]",
        r"\[[ \d.]+\]?\[ *[TC]\d+\]",
        r"\[ *[TC]\d+\]",
        r"\[[A-Z][a-z]{2} ?\d{1,2} \d\d:\d\d\]",
        // `dmesg -T` in any language.
        r"\[[^\s\]]{1,6} {1,2}[^\s\]]{1,6} {1,2}\d{1,2} \d\d:\d\d:\d\d \d{4}\]",
        r"[A-Z]?\[\d+: *[^\]]*\]",
        r"-?\(\d+\)\[\d+:[^\]]*\]",
        r"(?:\d+\.\d+\.\d+\.\d+:? )?\d+,\d+,\d+,[^;]{0,60};",
        r"\d+\.\d+\.\d+\.\d+:? ",
        // Android.
        r"\d\d-\d\d \d\d:\d\d:\d\d\.\d+ +(?:\w+ +)?\d+ +\d+ [VDIWEF] [^:]{0,40}:",
        r"[VDIWEF]/[^:(]{0,40}\( *\d+\):",
        // Hypervisors, containers, traces.
        r"\((?:d\d+|XEN)\)",
        r"[\w.-]+ +\| ",
        r" *\S+-\d+ +\[\d{3}\] \S+ +\d+\.\d+: console:",
        // Times of day, with a host and `kernel:` or without.
        r"(?:\d{4} )?[^\s\d\[\]:]{3,5} +\d+ \d\d:\d\d:\d\d(?:\.\d+)? (?:\S+ ){0,2}kernel(?:\[\d+\])?:",
        r"\d{1,2}月 +\d+ \d\d:\d\d:\d\d (?:\S+ ){0,2}kernel(?:\[\d+\])?:",
        r"\w{3} \w{3} +\d+ \d\d:\d\d:\d\d \d{4} \w+\.\w+ kernel:",
        r"(?:[A-Za-zäéû]{3} )?\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \w{2,5} (?:\S+ )?kernel(?:\[\d+\])?:",
        r"\d\d:\d\d:\d\d(?:\.\d+)? (?:\S+ )?kernel(?:\[\d+\])?:",
        r"\d{10}\.\d{6} (?:\S+ )?kernel(?:\[\d+\])?:",
        &format!(r"{iso} (?:\S+ ){{0,2}}kernel(?:\[\d+\])?(?::| - \S+ (?:-|\[[^\]]*\]))"),
        &format!(r"{iso}(?: std(?:out|err) [FP] |\| [\w-]+\|| In\(\d+\) [\w-]+ - Guest: )?"),
        r"(?:[\w.-]+ )?kernel(?:\[\d+\])?:",
    ];
    Regex::new(&format!(r"^(?:\s*(?:{}))+\s?", parts.join("|"))).expect("the pattern is valid")
});

static NUMBER: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^ *\d+(?:[:-]|\t| {1,3})").expect("the pattern is valid"));

/// The time of a line that was joined to the one before it.
static JOINED: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\S\s?((?:<\d{1,3}>)?\[ *\d+\.\d{6}\])").expect("the pattern is valid")
});

/// The prefix of a message.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Prefix(pub(in crate::log) String);

impl Prefix {
    /// Returns when the line was printed, in microseconds since boot.
    #[must_use]
    pub fn at_us(&self) -> Option<u64> {
        self.bracketed(at_us).or_else(|| self.field(2)?.parse().ok())
    }

    /// Returns the task (`T100`) or CPU (`C1`) that printed it, if the kernel prints callers.
    #[must_use]
    pub fn caller(&self) -> Option<String> {
        let field = || caller(self.0.split("caller=").nth(1)?.split([',', ';']).next()?);
        self.bracketed(caller).or_else(field)
    }

    /// Returns the time of day.
    #[must_use]
    pub fn stamp(&self) -> Option<Stamp> {
        Stamp::find(&self.0)
    }

    /// Returns the first text in brackets that `read` understands.
    fn bracketed<T>(&self, read: fn(&str) -> Option<T>) -> Option<T> {
        self.0.split('[').skip(1).find_map(|rest| read(rest.split(']').next()?.trim()))
    }

    /// Returns a field of a record of `/dev/kmsg`: `level,sequence,microseconds,flags;`.
    fn field(&self, at: usize) -> Option<&str> {
        let record = self.0.trim_end().strip_suffix(';')?;
        record.rsplit(' ').next()?.split(',').nth(at)
    }
}

fn at_us(text: &str) -> Option<u64> {
    // `+` is the time since the line before.
    let (seconds, part) = text.split_once('.').filter(|_| !text.starts_with('+'))?;
    let part = part.split([',', ' ']).next()?;
    let part: u64 = format!("{part:0<6}").get(..6)?.parse().ok()?;
    seconds.trim().parse::<u64>().ok()?.checked_mul(1_000_000)?.checked_add(part)
}

fn caller(text: &str) -> Option<String> {
    let number = text.strip_prefix(['T', 'C'])?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.to_owned())
}

/// Splits a line into its prefix and the message.
pub(super) fn split(line: &str) -> (&str, &str) {
    let prefix = |line: &str| PREFIX.find(line).map_or(0, |prefix| prefix.end());
    let mut end = prefix(line);
    // A number of `grep -n`, `cat -n` or `less -N` is known by what follows it; quotes may stand before it.
    if line[..end].trim_matches([' ', '>', '|', '+']).is_empty()
        && let Some(number) = NUMBER.find(&line[end..])
    {
        let after = end + number.end();
        let more = prefix(&line[after..]);
        end = if more > 0 { after + more } else { end };
    }
    line.split_at(end)
}

/// Splits a line where line breaks were lost: before the prefix of another line.
pub(super) fn parted(line: &str) -> Vec<&str> {
    let from = split(line).0.len().saturating_sub(1);
    let from = (0..=from).rev().find(|at| line.is_char_boundary(*at)).unwrap_or(0);
    // A search for a character costs a hundredth of a pattern.
    if !line[from..].contains('[') {
        return vec![line];
    }
    let starts = JOINED.captures_iter(&line[from..]).filter_map(|found| found.get(1));
    let mut lines = Vec::new();
    let mut last = 0;
    for start in starts.map(|start| from + start.start()) {
        lines.push(&line[last..start]);
        last = start;
    }
    lines.push(&line[last..]);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_callers_are_read_from_what_stands_before_a_message() {
        for (line, us, caller) in [
            ("<4>[   72.087057][ T1234] Mem-Info:", Some(72_087_057), Some("T1234")),
            ("[    1.5][    C1] a", Some(1_500_000), Some("C1")),
            ("[   72.087057,2] a", Some(72_087_057), None),
            ("4,1202,174391002,-,caller=T1;Mem-Info:", Some(174_391_002), Some("T1")),
            ("Jun 15 12:08:50 host kernel: [ 5061.330805] a", Some(5_061_330_805), None),
            ("[  +1.130923] a", None, None),
            ("Mem-Info: [ 7.1][ T1]", None, None),
        ] {
            let prefix = Prefix(split(line).0.to_owned());
            assert_eq!((prefix.at_us(), prefix.caller().as_deref()), (us, caller), "{line}");
        }
    }
}
