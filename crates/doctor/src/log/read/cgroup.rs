//! Lines of the OOM killer about a memory cgroup, and about the task that it killed.

use std::sync::LazyLock;

use regex_lite::{Captures, Regex};
use serde::Serialize;

/// Strings of which a relevant line contains at least one.
pub(in crate::log) const MARKS: [&str; 7] = [
    "emory: usage",
    "swap: usage",
    STATS,
    "as a result of limit of",
    "Killed process ",
    "Kill process ",
    GROUP,
];
const STATS: &str = "emory cgroup stats for ";
const GROUP: &str = "memory.oom.group";
/// The lines of a cgroup's statistics from 5.2 on, at most.
const STAT_LINES: usize = 100;
/// More than any machine has, 4 PiB. A missing limit is printed as a larger number.
const MOST_KB: u64 = 1 << 42;

static USAGE: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"^[Mm]emory: usage (\d+)kB, limit (\d+)kB"));
static PATH: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?:as a result of limit of |oom_memcg=)([^\s,]+)"));
static STATS_OF: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"emory cgroup stats for ([^\s:]+):\s*(.*)"));
static KILL: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"Kill(?:ed)? process (\d+),? \((.*?)\)(?: |,|$)(?:.*?anon-rss:(\d+)kB)?")
});

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the pattern is valid")
}

/// A memory cgroup at its limit. Sizes are kB; `None`: not printed.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Cgroup {
    /// The cgroup whose limit was reached.
    pub path: Option<String>,
    /// Its memory.
    pub usage_kb: Option<u64>,
    /// Its limit.
    pub limit_kb: Option<u64>,
    /// The version of cgroups: 1 or 2.
    pub version: Option<u32>,
    /// Anonymous memory.
    pub anon_kb: Option<u64>,
    /// Page cache, with tmpfs.
    pub file_kb: Option<u64>,
    /// Dirty page cache.
    pub dirty_kb: Option<u64>,
    /// Page cache under writeback.
    pub writeback_kb: Option<u64>,
    /// tmpfs and shared memory.
    pub shmem_kb: Option<u64>,
}

impl Cgroup {
    /// Returns the share of the limit that waits for writeback, in percent.
    #[must_use]
    pub fn dirty_percent(&self) -> Option<u64> {
        let dirty = self.dirty_kb? + self.writeback_kb.unwrap_or(0);
        let limit = self.limit_kb?;
        (dirty * 100 + limit / 2).checked_div(limit)
    }

    /// Takes a number of the statistics.
    fn take(&mut self, key: &str, kb: u64) {
        let field = match key {
            "rss" | "anon" => &mut self.anon_kb,
            "cache" | "file" => &mut self.file_kb,
            "dirty" | "file_dirty" => &mut self.dirty_kb,
            "writeback" | "file_writeback" => &mut self.writeback_kb,
            "shmem" => &mut self.shmem_kb,
            _ => return,
        };
        // The statistics of cgroups below follow, in 1.
        field.get_or_insert(kb.min(MOST_KB));
    }
}

/// A task that the OOM killer killed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Victim {
    /// The line that reports it.
    pub line: usize,
    /// Its number.
    pub pid: u32,
    /// Its name.
    pub task: String,
    /// Its anonymous memory.
    pub anon_kb: Option<u64>,
}

/// Reads the lines of an OOM report about a cgroup and its victim.
#[derive(Default)]
pub(in crate::log) struct Parser {
    cgroup: Cgroup,
    victim: Option<Victim>,
    /// Every task of a cgroup is killed.
    is_group: bool,
    /// The lines of statistics that may follow.
    stats: usize,
}

impl Parser {
    /// Returns whether a line is of another report: what it says was said.
    pub(in crate::log) fn is_of_next(&self, text: &str) -> bool {
        let usage = USAGE.is_match(text) && self.cgroup.usage_kb.is_some();
        let victim = self.victim.as_ref().filter(|_| !self.is_group);
        usage || victim.zip(killed(text)).is_some_and(|(victim, pid)| victim.pid != pid)
    }

    /// Returns whether the next line matters even if it has none of [`MARKS`].
    pub(in crate::log) fn is_within(&self) -> bool {
        self.stats > 0
    }

    /// Reads a line.
    pub(in crate::log) fn push(&mut self, text: &str, line: usize) {
        self.is_group |= text.contains(GROUP);
        let cgroup = &mut self.cgroup;
        if self.stats > 0 {
            // From 5.2 on a line has a number, in bytes or pages.
            let pair = text.trim().split_once(' ');
            match pair.and_then(|(key, value)| Some((key, value.parse::<u64>().ok()?))) {
                Some((key, bytes)) => cgroup.take(key, bytes >> 10),
                None => self.stats = 0,
            }
            self.stats = self.stats.saturating_sub(1);
        }
        if let Some(found) = USAGE.captures(text) {
            cgroup.usage_kb = number(&found, 1).filter(|kb| *kb <= MOST_KB);
            cgroup.limit_kb = number(&found, 2).filter(|kb| *kb <= MOST_KB);
        } else if text.starts_with("memory+swap: usage") {
            cgroup.version = Some(1);
        } else if text.starts_with("swap: usage") {
            cgroup.version = Some(2);
        }
        if let Some(found) = PATH.captures(text) {
            cgroup.path.get_or_insert(found[1].to_owned());
        }
        if let Some(found) = STATS_OF.captures(text) {
            cgroup.path.get_or_insert(found[1].to_owned());
            for (key, value) in found[2].split_whitespace().filter_map(|pair| pair.split_once(':'))
            {
                let kb = value.strip_suffix("KB").and_then(|kb| kb.parse().ok());
                kb.into_iter().for_each(|kb| cgroup.take(key, kb));
            }
            self.stats = if found[2].is_empty() { STAT_LINES } else { 0 };
        }
        if let Some(found) = KILL.captures(text)
            && let Some(pid) = number(&found, 1).and_then(|pid| pid.try_into().ok())
        {
            let new = Victim { line, pid, task: found[2].to_owned(), anon_kb: None };
            let victim = self.victim.get_or_insert(new);
            victim.anon_kb = victim.anon_kb.or(number(&found, 3));
        }
    }

    /// Returns the result.
    pub(in crate::log) fn finish(self) -> (Option<Cgroup>, Option<Victim>) {
        (Some(self.cgroup).filter(|cgroup| *cgroup != Cgroup::default()), self.victim)
    }
}

/// Returns whether a line is one of an OOM report, below its first one.
pub(in crate::log) fn is_of_oom(text: &str) -> bool {
    USAGE.is_match(text) || text.contains("as a result of limit of") || is_kill(text)
}

fn is_kill(text: &str) -> bool {
    text.contains("ut of memory") && killed(text).is_some()
}

/// Returns the number of the task that a line reports as killed.
fn killed(text: &str) -> Option<u32> {
    if !text.contains("process ") {
        return None;
    }
    number(&KILL.captures(text)?, 1)?.try_into().ok()
}

fn number(found: &Captures<'_>, group: usize) -> Option<u64> {
    found.get(group)?.as_str().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cgroups_of_both_versions_are_read() {
        let mut parser = Parser::default();
        for line in [
            "memory: usage 1024kB, limit 1024kB, failcnt 9",
            "swap: usage 0kB, limit 9007199254740988kB, failcnt 0",
            "Memory cgroup stats for /a/b:",
            "anon 524288",
            "file 262144",
            "file_dirty 131072",
            "Tasks state (memory values in pages):",
            "shmem 4096",
            "oom-kill:constraint=CONSTRAINT_MEMCG,oom_memcg=/a/b,task_memcg=/a/b/c,task=x,pid=7",
            "Memory cgroup out of memory: Killed process 7 (x (y)) total-vm:9kB, anon-rss:5kB, file-rss:1kB",
        ] {
            assert!(!parser.is_of_next(line), "{line}");
            parser.push(line, 1);
        }
        assert!(parser.is_of_next("Memory cgroup out of memory: Killed process 8 (x)"));
        let (cgroup, victim) = parser.finish();
        let cgroup = cgroup.unwrap();
        assert_eq!((cgroup.path.as_deref(), cgroup.version), (Some("/a/b"), Some(2)));
        assert_eq!((cgroup.anon_kb, cgroup.file_kb, cgroup.shmem_kb), (Some(512), Some(256), None));
        assert_eq!(cgroup.dirty_percent(), Some(13));
        let victim = victim.unwrap();
        assert_eq!((victim.pid, victim.anon_kb), (7, Some(5)));
    }
}
