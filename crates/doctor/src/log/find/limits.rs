//! The control files of a memory cgroup, as pasted: `cat memory.max` with the number below, `grep . memory.*`, or a list.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;

use super::about::About;
use crate::log::Line;

/// Such a line contains at least one of these strings, or is at the beginning of a text, as are files of pressure.
pub(in crate::log) const MARKS: [&str; 3] = [OF_STATS, "memory.", KILLS];
/// Lines of `/proc/pressure/memory` or of a cgroup's `memory.pressure`, which the line above names.
const OF_PRESSURE: &str = " avg10=";
const PRESSURE: [&str; 2] = ["pressure/memory", "memory.pressure"];
static PRESSURES: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\b(some|full) avg10=(\d{1,3})\.(\d\d) avg60=(\d{1,3})\.(\d\d) ")
        .expect("the pattern is valid")
});
/// The largest number of lines between the name of the file and what it has.
const LINES: usize = 3;
const KILLS: &str = "oom_kill ";
/// `docker stats` prints what a container uses of its limit, which is the machine's memory if it has none.
const OF_STATS: &str = "iB / ";
static STATS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\s(\d+)(?:\.(\d)\d*)?([KMG])iB / (\d+)(?:\.(\d)\d*)?([KMG])iB\s+(?:9[5-9]|100)(?:\.\d+)?%")
        .expect("the pattern is valid")
});
/// The files that are read.
const FILES: [&str; 7] = [
    "memory.limit_in_bytes",
    "memory.usage_in_bytes",
    "memory.max_usage_in_bytes",
    "memory.failcnt",
    "memory.max",
    "memory.current",
    "memory.peak",
];
/// The kernel prints the largest number of pages where there is no limit.
const NO_LIMIT: u64 = 1 << 60;

/// Reads them.
#[derive(Default)]
pub(super) struct Parser {
    values: BTreeMap<&'static str, u64>,
    kills: Option<u64>,
    first: Option<Line>,
    last: usize,
    /// The line that names the file of pressure.
    named: Option<usize>,
    /// The first line of pressure, and the shares of the last 10 s that some and all tasks waited, in hundredths of a percent.
    pressure: Option<(Line, u64, u64)>,
    /// A command that prints a file, whose number is in the next line.
    asked: Option<(&'static str, Line)>,
}

impl Parser {
    /// Returns whether the next line may be the content of a file.
    pub(super) const fn is_within(&self) -> bool {
        self.asked.is_some()
    }

    /// Reads a line.
    pub(super) fn push(&mut self, line: &Line) {
        let text = line.text.trim();
        if let Some((file, first)) = self.asked.take()
            && line.number == first.number + 1
            && let Some(bytes) = number(text)
        {
            return self.add(file, bytes, &first, line.number);
        }
        if let Some(kills) = text.strip_prefix(KILLS).and_then(number) {
            self.kills = Some(kills);
        }
        self.pressure(line);
        if text.contains(OF_STATS)
            && let Some(found) = STATS.captures(text)
        {
            let bytes = |at: usize| {
                let unit = match &found[at + 2] {
                    "K" => 1_u64 << 10,
                    "M" => 1 << 20,
                    _ => 1 << 30,
                };
                let tenths = found.get(at + 1).and_then(|part| part.as_str().parse::<u64>().ok());
                let whole: u64 = found[at].parse().ok()?;
                Some(whole.checked_mul(unit)? + tenths.unwrap_or(0) * unit / 10)
            };
            if let Some((usage, limit)) = bytes(1).zip(bytes(4)) {
                self.add("memory.current", usage, line, line.number);
                self.add("memory.max", limit, line, line.number);
            }
        }
        // The report of a crash of Java has the same names and sizes in its own form.
        let of_java = text.strip_prefix("memory_").and_then(|rest| rest.strip_suffix(" k"));
        if let Some((name, kb)) = of_java.and_then(|rest| rest.split_once(": "))
            && let Some(file) = FILES.iter().find(|file| file.strip_prefix("memory.") == Some(name))
            && let Some(kb) = kb.parse::<u64>().ok().filter(|kb| *kb < NO_LIMIT >> 10)
        {
            return self.add(file, kb << 10, line, line.number);
        }
        if !text.contains("memory.") {
            return;
        }
        let words: Vec<&str> = text
            .split(|c: char| c.is_whitespace() || matches!(c, ':' | '=' | '`' | '|'))
            .filter(|word| !word.is_empty())
            .collect();
        let name = |word: &str| {
            let name = word.rsplit('/').next().unwrap_or(word);
            FILES.into_iter().find(|file| *file == name)
        };
        let Some(at) = words.iter().rposition(|word| name(word).is_some()) else { return };
        let Some(file) = name(words[at]) else { return };
        match words.get(at + 1) {
            Some(word) => {
                // A sentence goes on with words, and may have a number in it.
                if let Some(bytes) = number(word).filter(|_| words.len() == at + 2) {
                    self.add(file, bytes, line, line.number);
                }
            }
            None => self.asked = Some((file, line.clone())),
        }
    }

    /// Reads a line of a file of pressure. The longer average counts if it is larger.
    fn pressure(&mut self, line: &Line) {
        let text = &line.text;
        if PRESSURE.iter().any(|name| text.contains(name) || line.prefix.0.contains(name)) {
            self.named = Some(line.number);
        }
        let is_near = |at: usize| line.number - at <= LINES;
        if !text.contains(OF_PRESSURE) || !self.named.is_some_and(is_near) {
            return;
        }
        let Some(found) = PRESSURES.captures(text) else { return };
        let share = |at: usize| found[at].parse::<u64>().unwrap_or(0) * 100;
        let part = |at: usize| found[at].parse::<u64>().unwrap_or(0);
        let most = (share(2) + part(3)).max(share(4) + part(5));
        let known = self.pressure.get_or_insert_with(|| (line.clone(), 0, 0));
        match &found[1] {
            "some" => known.1 = known.1.max(most),
            _ => known.2 = known.2.max(most),
        }
    }

    fn add(&mut self, file: &'static str, bytes: u64, line: &Line, last: usize) {
        self.values.insert(file, bytes);
        self.first.get_or_insert_with(|| line.clone());
        self.last = last;
    }

    /// Returns what the files say, with the first line of each.
    pub(super) fn finish(mut self) -> Vec<(About, Line)> {
        let pressure = self.pressure.take();
        let pressure = pressure.map(|(line, some, full)| (About::Pressure { some, full }, line));
        self.usage().into_iter().chain(pressure).collect()
    }

    /// Returns the limit, and what was used of it, with the first line; `None` without both.
    fn usage(self) -> Option<(About, Line)> {
        let kb = |files: [&str; 2]| {
            files.iter().find_map(|file| self.values.get(file)).map(|bytes| bytes >> 10)
        };
        let limit =
            kb(["memory.limit_in_bytes", "memory.max"]).filter(|kb| *kb < NO_LIMIT >> 10)?;
        let usage = kb(["memory.usage_in_bytes", "memory.current"]);
        let peak = kb(["memory.max_usage_in_bytes", "memory.peak"]);
        usage.or(peak)?;
        let refused = self.values.get("memory.failcnt").copied();
        let kills = self.kills;
        Some((About::Usage { limit, usage, peak, refused, kills }, self.first?))
    }
}

/// Returns the number of a file; `max` is no limit.
fn number(text: &str) -> Option<u64> {
    match text.trim() {
        "max" => Some(u64::MAX),
        digits => digits.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<(About, usize)> {
        let mut parser = Parser::default();
        for (number, text) in (1..).zip(text.lines()) {
            parser.push(&Line { number, text: text.to_owned(), ..Line::default() });
        }
        parser.finish().into_iter().map(|(about, line)| (about, line.number)).next()
    }

    #[test]
    fn files_of_both_versions_are_read() {
        let of = |usage, peak, refused, kills| {
            Some((About::Usage { limit: 1 << 10, usage, peak, refused, kills }, 1))
        };
        for (text, about) in [
            (
                "sh$ cat memory.usage_in_bytes\n1000448\nsh$ cat memory.max_usage_in_bytes\n1048576\nsh$ cat memory.limit_in_bytes\n1048576\n",
                of(Some(977), Some(1024), None, None),
            ),
            (
                "/sys/fs/cgroup/memory.current:1000448\n/sys/fs/cgroup/memory.max:1048576\n",
                of(Some(977), None, None, None),
            ),
            (
                "memory.max = 1048576\nmemory.peak = 1048576\nmemory.failcnt 12\noom_kill 3\n",
                of(None, Some(1024), Some(12), Some(3)),
            ),
            ("db  1.20%  1.0MiB / 1MiB  99.50%", of(Some(1024), None, None, None)),
            ("db  1.20%  3.9MiB / 4GiB  0.10%", None),
            ("cat memory.current\n1048576\ncat memory.max\nmax\n", None),
            (
                "memory_limit_in_bytes: 1024 k\nmemory_soft_limit_in_bytes: unlimited\nmemory_usage_in_bytes: 1000 k\n",
                of(Some(1000), None, None, None),
            ),
            (
                "cat /proc/pressure/memory\nsome avg10=42.10 avg60=8.77 avg300=2.01 total=9\nfull avg10=1.05 avg60=2.40 avg300=1 total=1\n",
                Some((About::Pressure { some: 4210, full: 240 }, 2)),
            ),
            ("some avg10=42.10 avg60=8.77 avg300=2.01 total=9\n", None),
            ("set memory.max to 1048576 and memory.current\nfell\n", None),
        ] {
            assert_eq!(read(text), about, "{text}");
        }
    }
}
