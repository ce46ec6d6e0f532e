//! Lines of the OOM killer about a memory cgroup, and about the task that it killed.

use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde::Serialize;

/// A relevant line contains at least one of these strings.
pub(in crate::log) const MARKS: [&str; 5] = [
    // Numbers are found by their unit.
    "ill process ",
    "illed process ",
    STATS,
    "as a result of limit of",
    GROUP,
];
const KILLED: &str = "Killed process ";
const STATS: &str = "emory cgroup stats for ";
const GROUP: &str = "memory.oom.group";
/// The largest number of lines of a cgroup's statistics, from 5.2 on.
const STAT_LINES: usize = 100;
/// 4 PiB, more than any machine has. A missing limit is printed as a larger number.
const MOST_KB: u64 = 1 << 42;

static USAGE: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"^[Mm]emory: usage (\d+)kB, limit (\d+)kB"));
static OTHER: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"^(memory\+swap|swap|kmem): usage (\d+)kB, limit (\d+)kB"));
static TASK_PATH: LazyLock<Regex> = LazyLock::new(|| pattern(r"task_memcg=(/[^\s,]*)"));
static PATH: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?:as a result of limit of |oom_memcg=)([^\s,]+)"));
static STATS_OF: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"emory cgroup stats for ([^\s:]+)(?::\s*(.*)|\s*$)"));
/// The line of an OOM report's constraint names the victim too, from 4.20 on.
static CHOSEN: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"oom-kill:constraint=.*,task=(.*?),pid=(\d+)"));
static KILL: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"[Kk]ill(?:ed)? process (\d+)(?:, UID \d+)?,? \((.*?)(?:\)(?: |,|$|total-vm)|$)(?:.*?anon-rss: ?(\d+)k[Bb])?",
    )
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
    /// Anonymous memory and tmpfs on the lists of reclaim, with what swap has a copy of.
    #[serde(skip)]
    lists_kb: Option<u64>,
    /// The number of such lists that were read.
    #[serde(skip)]
    lists: u8,
    /// Page cache, with tmpfs.
    pub file_kb: Option<u64>,
    /// Dirty page cache.
    pub dirty_kb: Option<u64>,
    /// Page cache under writeback.
    pub writeback_kb: Option<u64>,
    /// tmpfs and shared memory.
    pub shmem_kb: Option<u64>,
    /// The kernel's memory for it: slab, stacks, page tables, percpu, sockets.
    pub kernel_kb: Option<u64>,
    /// The slab in it.
    pub slab_kb: Option<u64>,
    /// Its swap.
    pub swap_kb: Option<u64>,
    /// The limit of its swap; with its memory in version 1.
    pub swap_limit_kb: Option<u64>,
    /// The cgroup of the task that was killed, if it is another.
    pub task_path: Option<String>,
}

/// The largest part of a cgroup's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Share {
    /// Anonymous memory of its processes.
    Anonymous,
    /// Page cache.
    File,
    /// tmpfs and shared memory.
    Shmem,
    /// The kernel's memory for it.
    Kernel,
}

impl Cgroup {
    /// Returns the share of the limit that waits for writeback, in percent.
    #[must_use]
    pub fn dirty_percent(&self) -> Option<u64> {
        let dirty = self.dirty_kb? + self.writeback_kb.unwrap_or(0);
        let limit = self.limit_kb?;
        (dirty * 100 + limit / 2).checked_div(limit)
    }

    /// Returns the part that takes at least half of the limit, if it was printed.
    #[must_use]
    pub fn largest(&self) -> Option<Share> {
        let limit = self.limit_kb.or(self.usage_kb)?;
        let cache = self.file_kb.map(|file| file.saturating_sub(self.shmem_kb.unwrap_or(0)));
        [
            (Share::Anonymous, self.anon_kb),
            (Share::File, cache),
            (Share::Shmem, self.shmem_kb),
            (Share::Kernel, self.kernel_kb.max(self.slab_kb)),
        ]
        .into_iter()
        .find_map(|(share, kb)| kb.filter(|kb| kb.saturating_mul(2) >= limit).map(|_| share))
    }

    /// Reads a number of the statistics.
    fn take(&mut self, key: &str, kb: u64) {
        if matches!(key, "inactive_anon" | "active_anon") && self.lists < 2 {
            self.lists += 1;
            self.lists_kb = Some((self.lists_kb.unwrap_or(0) + kb).min(MOST_KB));
            return;
        }
        if matches!(key, "rss" | "cache") {
            self.version = self.version.or(Some(1));
        }
        let field = match key {
            "swap" => &mut self.swap_kb,
            "rss" | "anon" => &mut self.anon_kb,
            "cache" | "file" => &mut self.file_kb,
            "dirty" | "file_dirty" => &mut self.dirty_kb,
            "writeback" | "file_writeback" => &mut self.writeback_kb,
            "shmem" => &mut self.shmem_kb,
            "kernel" => &mut self.kernel_kb,
            "slab" => &mut self.slab_kb,
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
    /// The victim as the line of the constraint names it.
    named: Option<Victim>,
    /// The victim was chosen; the kernel may still kill a child of it.
    is_chosen: bool,
    /// Every task of a cgroup is killed.
    is_group: bool,
    /// The lines of statistics that may follow.
    stats: usize,
    /// The beginning of a number that a terminal broke.
    broken: Option<String>,
}

impl Parser {
    /// Returns whether a line belongs to another report, because this one has such a line already.
    pub(in crate::log) fn is_of_next(&self, text: &str) -> bool {
        let usage = USAGE.is_match(text) && self.cgroup.usage_kb.is_some();
        // They are printed before the kill.
        let stats = text.contains(STATS) && self.victim.is_some();
        // The line of the kill may name a child of the task that was chosen.
        let is_open = self.is_group || (self.is_chosen && text.contains(KILLED));
        let victim = self.victim.as_ref().filter(|_| !is_open);
        usage || stats || victim.zip(killed(text)).is_some_and(|(victim, pid)| victim.pid != pid)
    }

    /// Returns whether the next line matters even if it has none of [`MARKS`].
    pub(in crate::log) fn is_within(&self) -> bool {
        self.stats > 0 || self.broken.is_some()
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
        if let Some(first) = self.broken.take()
            && text.contains("KB ")
        {
            self.broken = pairs(cgroup, &[&first, text].concat());
        }
        if let Some(found) = USAGE.captures(text) {
            cgroup.usage_kb = number(&found, 1).filter(|kb| *kb <= MOST_KB);
            cgroup.limit_kb = number(&found, 2).filter(|kb| *kb <= MOST_KB);
        } else if let Some(found) = OTHER.captures(text) {
            let kb = |group| number(&found, group).filter(|kb| *kb <= MOST_KB);
            match &found[1] {
                "kmem" => cgroup.kernel_kb = cgroup.kernel_kb.or(kb(2)),
                swap => {
                    cgroup.version = Some(if swap == "swap" { 2 } else { 1 });
                    let usage = kb(2);
                    let with_memory = |all: u64| all.saturating_sub(cgroup.usage_kb.unwrap_or(0));
                    cgroup.swap_kb = if swap == "swap" { usage } else { usage.map(with_memory) };
                    cgroup.swap_limit_kb = kb(3);
                }
            }
        }
        if let Some(found) = PATH.captures(text) {
            cgroup.path.get_or_insert(found[1].to_owned());
        }
        if let Some(found) = TASK_PATH.captures(text).filter(|_| cgroup.path.is_some()) {
            let other = Some(found[1].to_owned()).filter(|path| Some(path) != cgroup.path.as_ref());
            cgroup.task_path = cgroup.task_path.take().or(other);
        }
        if let Some(found) = STATS_OF.captures(text) {
            let (whole, rest) = (&found[1], found.get(2).map(|rest| rest.as_str()));
            // A terminal broke the path before in the middle of a name.
            let is_cut = |path: &String| {
                whole
                    .strip_prefix(path.as_str())
                    .is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'))
            };
            if cgroup.path.as_ref().is_none_or(is_cut) {
                cgroup.path = Some(whole.to_owned());
            }
            self.broken = rest.and_then(|rest| pairs(cgroup, rest));
            self.stats = if rest == Some("") { STAT_LINES } else { 0 };
        }
        if let Some(found) = CHOSEN.captures(text)
            && let Some(pid) = number(&found, 2).and_then(|pid| pid.try_into().ok())
        {
            let new = Victim { line, pid, task: found[1].to_owned(), anon_kb: None };
            self.named.get_or_insert(new);
        }
        if let Some(found) = KILL.captures(text)
            && let Some(pid) = number(&found, 1).and_then(|pid| pid.try_into().ok())
        {
            let new = Victim { line, pid, task: found[2].to_owned(), anon_kb: None };
            let is_final = text.contains(KILLED);
            // A child of the task that was chosen may be killed instead.
            if is_final && self.is_chosen && self.victim.as_ref().is_some_and(|old| old.pid != pid)
            {
                self.victim = None;
            }
            self.is_chosen = !is_final;
            let victim = self.victim.get_or_insert(new);
            victim.anon_kb = victim.anon_kb.or(number(&found, 3));
        }
    }

    /// Returns the result.
    pub(in crate::log) fn finish(mut self) -> (Option<Cgroup>, Option<Victim>) {
        let cgroup = &mut self.cgroup;
        // Pages in the swap cache count as anonymous only while a process maps them.
        if let Some(lists) = cgroup.lists_kb.filter(|_| cgroup.largest().is_none()) {
            let own = lists.saturating_sub(cgroup.shmem_kb.unwrap_or(0));
            cgroup.anon_kb = cgroup.anon_kb.max(Some(own));
        }
        (
            Some(self.cgroup).filter(|cgroup| *cgroup != Cgroup::default()),
            self.victim.or(self.named),
        )
    }
}

/// Reads numbers of statistics such as `rss:448KB`; returns the last if it is broken.
fn pairs(cgroup: &mut Cgroup, text: &str) -> Option<String> {
    for (key, value) in text.split_whitespace().filter_map(|pair| pair.split_once(':')) {
        let kb = value.strip_suffix("KB").and_then(|kb| kb.parse().ok());
        kb.into_iter().for_each(|kb| cgroup.take(key, kb));
    }
    let last = text.split_whitespace().next_back()?;
    (!last.ends_with("KB")).then(|| last.to_owned())
}

/// Returns whether a line is one of an OOM report, below its first one.
pub(in crate::log) fn is_of_oom(text: &str) -> bool {
    USAGE.is_match(text)
        || text.contains("as a result of limit of")
        || text.contains(STATS)
        || is_kill(text)
}

fn is_kill(text: &str) -> bool {
    // Up to 4.18 the line of the kill itself does not say why.
    ["ut of memory", "ut of Memory", " total-vm:", ") vsz:"].iter().any(|part| text.contains(part))
        && killed(text).is_some()
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
    fn kills_of_every_version_tell_the_victim() {
        for line in [
            "Out of memory: kill process 7 (web (x)) score 55 or a child",
            "Out of memory: Kill process 7 (web (x)) score 55 or sacrifice child",
            "Killed process 7, UID 48, (web (x)) total-vm:9kB, anon-rss:5kB, file-rss:1kB",
            "Killed process 7 (web (x)) total-vm:9kB, anon-rss:5kB, file-rss:1kB",
            "Out of memory (oom_kill_allocating_task): Killed process 7 (web (x)) total-vm:9kB",
            "Killed process 7 (web (x))total-vm:9kB",
        ] {
            let mut parser = Parser::default();
            parser.push(line, 1);
            let victim = parser.finish().1.unwrap();
            assert_eq!((victim.pid, victim.task.as_str()), (7, "web (x)"), "{line}");
        }
    }

    #[test]
    fn lines_that_a_terminal_broke_are_joined() {
        let mut parser = Parser::default();
        parser.push("Out of memory: Killed process 7 (we", 1);
        assert_eq!(parser.victim.as_ref().map(|victim| victim.task.as_str()), Some("we"));
        for line in [
            "Task in /kubepods/pod1/c killed as a result of limit of /kubepo",
            "ds/pod1/c",
            "memory: usage 1000kB, limit 1000kB, failcnt 0",
            "Memory cgroup stats for /kubepods/pod1/c: cache:900KB rss:44",
            "8KB rss_huge:0KB dirty:600KB writeback:0KB",
            "dirty:1KB",
        ] {
            parser.push(line, 1);
        }
        let cgroup = parser.finish().0.unwrap();
        assert_eq!(cgroup.path.as_deref(), Some("/kubepods/pod1/c"));
        assert_eq!((cgroup.anon_kb, cgroup.dirty_kb), (Some(448), Some(600)));
    }

    #[test]
    fn a_child_that_is_killed_instead_is_the_victim() {
        let mut parser = Parser::default();
        for line in [
            "Memory cgroup out of memory: Kill process 7 (bash) score 0 or sacrifice child",
            "Killed process 8 (cp) total-vm:9kB, anon-rss:5kB, file-rss:1kB",
        ] {
            assert!(!parser.is_of_next(line), "{line}");
            parser.push(line, 1);
        }
        assert!(parser.is_of_next("Killed process 9 (cp) total-vm:9kB, anon-rss:5kB"));
        let victim = parser.finish().1.unwrap();
        assert_eq!((victim.pid, victim.task.as_str(), victim.anon_kb), (8, "cp", Some(5)));
    }

    #[test]
    fn pages_in_the_swap_cache_are_anonymous() {
        let mut parser = Parser::default();
        let lines = [
            "Memory cgroup stats for /a:",
            "anon 524288",
            "active_anon 4096",
            "inactive_anon 1044480",
        ];
        parser.push("memory: usage 1024kB, limit 1024kB, failcnt 9", 1);
        lines.iter().for_each(|line| parser.push(line, 2));
        assert_eq!(parser.finish().0.unwrap().largest(), Some(Share::Anonymous));
    }

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
