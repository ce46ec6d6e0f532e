//! The processes and slab caches that an OOM report lists.

use std::collections::BTreeMap;

use serde::Serialize;

/// Strings in the lines of both lists, or in the line above them. Only rows of tasks have wide gaps.
pub(in crate::log) const MARKS: [&str; 3] = ["total_vm", "Unreclaimable slab info", GAP];
/// The gap before `oom_score_adj`.
const GAP: &str = "         ";
/// The number of rows of tasks, without the line above them, that cannot be a coincidence.
const ROWS: usize = 3;
/// The number of numbers in such a row, by version.
const NUMBERS: [usize; 3] = [8, 9, 11];
/// In rows without the line above them a smaller number is not known to be pages in swap: 2.6.32 prints `oom_adj` there.
const LEAST_SWAP: u64 = 18;
/// Daemons of a machine. A memory cgroup's list of tasks has none of them.
const DAEMONS: [&str; 11] = [
    "systemd-udevd",
    "systemd-logind",
    "udevd",
    "agetty",
    "getty",
    "lxc-start",
    "dockerd",
    "containerd",
    "kubelet",
    "libvirtd",
    "ubusd",
];
/// The number of entries kept of each list, the largest first.
pub(super) const LARGEST: usize = 5;
/// The largest number of process names that are counted: damage could make any number.
const NAMES: usize = 1 << 12;
/// A size that no process exceeds, in pages.
const MOST_PAGES: u64 = 1 << 40;
/// A size that no slab cache exceeds, in kB.
const MOST_KB: u64 = 1 << 42;

/// A process.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// Its name.
    pub task: String,
    /// Its resident pages; some may be shared.
    pub rss_pages: u64,
    /// Its pages in swap, if the list has them (from 3.8 on).
    pub swap_pages: Option<u64>,
}

impl Process {
    /// Returns the largest number of pages, in memory and in swap, that its end can free.
    #[must_use]
    pub fn pages(&self) -> u64 {
        self.rss_pages + self.swap_pages.unwrap_or(0)
    }
}

/// All processes of a name.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Named {
    /// The name.
    pub task: String,
    /// Their number.
    pub count: u64,
    /// Their pages in memory and in swap; shared pages count for each process.
    pub pages: u64,
}

/// Parts of the names of caches that the kernel frees when memory is short.
const RECLAIMABLE: [&str; 7] = [
    "dentry",
    "inode",
    "buffer_head",
    "radix_tree_node",
    "xarray_node",
    "kmalloc-rcl",
    "ext4_extent_status",
];

/// A slab cache.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct SlabCache {
    /// Its name.
    pub name: String,
    /// Its memory in kB.
    pub kb: u64,
}

impl SlabCache {
    /// Returns whether the kernel can free most of it.
    #[must_use]
    pub fn is_reclaimable(&self) -> bool {
        RECLAIMABLE.iter().any(|part| self.name.contains(part))
    }
}

/// The lists of a report, the largest first.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(in crate::log) struct Lists {
    pub(in crate::log) processes: Vec<Process>,
    pub(in crate::log) slabs: Vec<SlabCache>,
    /// The number of processes of each name, and their pages.
    names: BTreeMap<String, (u64, u64)>,
    within: Within,
    /// The number of columns before the name of a process.
    before_name: usize,
    /// The column of pages in swap.
    swap: Option<usize>,
    has_head: bool,
    /// The rows of tasks without the line above them.
    bare_rows: usize,
    /// Whether the list is the machine's.
    pub(in crate::log) has_daemons: bool,
    /// The rows of tasks that Kubernetes marks by `oom_score_adj`.
    marked_rows: usize,
    rows: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Within {
    #[default]
    Nothing,
    Processes,
    Slabs,
}

impl Lists {
    /// Returns whether the next line matters even if it has none of [`MARKS`].
    pub(in crate::log) fn is_within(&self) -> bool {
        self.within != Within::Nothing
    }

    /// Reads a line.
    pub(in crate::log) fn push(&mut self, text: &str) {
        self.has_head |= text.contains("Tasks state");
        if text.contains("total_vm") && text.contains("name") {
            (self.within, self.has_head) = (Within::Processes, true);
            // `[ pid ]` is one column here, and is read as such below.
            let columns = text.replace(['[', ']'], " ");
            self.before_name = columns.split_whitespace().count().saturating_sub(1);
            self.swap = columns.split_whitespace().position(|column| column == "swapents");
            return;
        }
        if text.contains("Unreclaimable slab info") {
            self.within = Within::Slabs;
            return;
        }
        let is_read = match self.within {
            Within::Nothing => return self.bare(text),
            Within::Processes => self.process(text),
            Within::Slabs => text.starts_with("Name ") || self.slab(text),
        };
        if !is_read && !text.is_empty() {
            self.within = Within::Nothing;
        }
    }

    /// Returns whether a list of tasks was read, by the line above it or by its rows.
    pub(in crate::log) fn has_tasks(&self) -> bool {
        self.has_head || self.bare_rows >= ROWS
    }

    /// Returns the processes of the name with the most memory, if they have more than the largest process.
    pub(in crate::log) fn most_named(&self) -> Option<Named> {
        let (task, (count, pages)) = self.names.iter().max_by_key(|(_, (_, pages))| *pages)?;
        let largest = self.processes.first().map_or(0, Process::pages);
        let is_more = *count > 1 && *pages > largest;
        is_more.then(|| Named { task: task.clone(), count: *count, pages: *pages })
    }

    /// Returns whether all tasks are a container's.
    pub(in crate::log) fn is_of_container(&self) -> bool {
        self.rows >= ROWS && self.marked_rows == self.rows
    }

    /// Reads the row of a task if the line above the list was cut off.
    fn bare(&mut self, text: &str) {
        if self.has_head || !text.contains(GAP) || !text.trim_start().starts_with('[') {
            return;
        }
        let columns = text.replace(['[', ']'], " ");
        let is_number = |word: &&str| word.parse::<i64>().is_ok();
        let numbers = columns.split_whitespace().take_while(is_number).count();
        if NUMBERS.contains(&numbers) {
            (self.before_name, self.swap) = (numbers, Some(numbers - 2));
            self.bare_rows += usize::from(self.process(text));
        }
    }

    /// Reads the line of a process; returns whether it is one.
    fn process(&mut self, text: &str) -> bool {
        let Some(rest) = text.trim_start().strip_prefix('[') else { return false };
        let rest = rest.replacen(']', " ", 1);
        let words: Vec<&str> = rest.split_whitespace().collect();
        let number = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok());
        let (Some(pid), Some(rss_pages)) = (number(0), number(4)) else { return false };
        let Ok(pid) = pid.try_into() else { return false };
        let name = words.get(self.before_name..).unwrap_or_default().join(" ");
        self.rows += 1;
        let adj = words.get(self.before_name.wrapping_sub(1)).and_then(|word| word.parse().ok());
        self.marked_rows += usize::from(adj.is_some_and(|adj: i64| adj >= 900 || adj == -997));
        self.has_daemons |= DAEMONS.contains(&name.as_str());
        if !name.is_empty() && rss_pages <= MOST_PAGES {
            let least = if self.has_head { 0 } else { LEAST_SWAP };
            let swap_pages =
                self.swap.and_then(number).filter(|p| (least..=MOST_PAGES).contains(p));
            let process = Process { pid, task: name, rss_pages, swap_pages };
            if self.names.len() < NAMES || self.names.contains_key(&process.task) {
                let (count, pages) = self.names.entry(process.task.clone()).or_default();
                (*count, *pages) = (*count + 1, pages.saturating_add(process.pages()));
            }
            self.processes.push(process);
            self.processes.sort_by_key(|process| std::cmp::Reverse(process.pages()));
            self.processes.truncate(LARGEST);
        }
        true
    }

    /// Reads the line of a slab cache; returns whether it is one.
    fn slab(&mut self, text: &str) -> bool {
        let words: Vec<&str> = text.split_whitespace().collect();
        let kb =
            |word: &str| word.strip_suffix("KB")?.parse::<u64>().ok().filter(|kb| *kb <= MOST_KB);
        let [name, used, total] = words[..] else { return false };
        let (Some(_), Some(kb)) = (kb(used), kb(total)) else { return false };
        self.slabs.push(SlabCache { name: name.to_owned(), kb });
        self.slabs.sort_by_key(|slab| std::cmp::Reverse(slab.kb));
        self.slabs.truncate(LARGEST);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_every_version_are_read() {
        // Of 2.6.32, 3.10, 4.19 and 6.8: the columns after `total_vm`, and the numbers in them.
        for (columns, numbers) in [
            ("rss cpu oom_adj oom_score_adj", "12000   0       0             0"),
            ("rss nr_ptes swapents oom_score_adj", "12000     160        0             0"),
            ("rss pgtables_bytes swapents oom_score_adj", "12000   655360        0             0"),
            (
                "rss rss_anon rss_file rss_shmem pgtables_bytes swapents oom_score_adj",
                "12000 11000 1000 0 655360 0 0",
            ),
        ] {
            let head = &format!("[ pid ]   uid  tgid total_vm      {columns} name");
            let line = &format!("[ 1841]    48  1841    86230    {numbers} Web Content");
            let mut lists = Lists::default();
            for text in
                [head, line, &line.replace("12000", "90000"), "Out of memory: Killed process 1841"]
            {
                lists.push(text);
            }
            assert!(!lists.is_within());
            let seen: Vec<_> =
                lists.processes.iter().map(|p| (p.pid, p.task.as_str(), p.rss_pages)).collect();
            assert_eq!(
                seen,
                [(1841, "Web Content", 90_000), (1841, "Web Content", 12_000)],
                "{head}"
            );
        }
    }

    #[test]
    fn rows_of_tasks_are_read_without_the_line_above_them() {
        let mut lists = Lists::default();
        for text in [
            "[   2786]     0  2786      326      224    16384        0             0 dropbear",
            "[   3000]     0  3000      775      342    24576       90         -1000 a b",
            "[   3000]     0  3000      775",
        ] {
            lists.push(text);
        }
        assert!(!lists.has_tasks());
        lists.push(
            "[ 2700]     0  2700      492       29       4       0        0             0 agetty",
        );
        assert!(lists.has_tasks() && lists.has_daemons);
        let seen: Vec<_> =
            lists.processes.iter().map(|p| (p.task.as_str(), p.rss_pages, p.swap_pages)).collect();
        assert_eq!(seen, [("a b", 342, Some(90)), ("dropbear", 224, None), ("agetty", 29, None)]);
    }

    #[test]
    fn slab_caches_are_read_the_largest_first() {
        let mut lists = Lists::default();
        let lines = [
            "Unreclaimable slab info:",
            "Name                      Used          Total",
            "kmalloc-8k  64KB 96KB",
            "task_struct  1024KB 2048KB",
            "Tasks state (memory values in pages):",
            "other 1KB 1KB",
        ];
        lines.iter().for_each(|line| lists.push(line));
        let seen: Vec<_> = lists.slabs.iter().map(|slab| (slab.name.as_str(), slab.kb)).collect();
        assert_eq!(seen, [("task_struct", 2048), ("kmalloc-8k", 96)]);
    }
}
