//! Lines by which parts of the kernel report a lack of memory, without a full report.

use std::sync::LazyLock;

use regex_lite::Regex;
use serde::Serialize;

use crate::log::Line;

/// Strings of which a relevant line contains at least one.
pub(super) const MARKS: [&str; 8] =
    [XFS, "cma_alloc:", HUGETLB, BLOCKED, COMPACTS[0], COMPACTS[1], RECLAIMS[0], RECLAIMS[1]];
const XFS: &str = "possible memory allocation deadlock";
const HUGETLB: &str = "Only allocated";
const BLOCKED: &str = "blocked for more than";
/// Functions in the stack of a task that compacts, and of one that reclaims.
const COMPACTS: [&str; 2] = ["compact_zone", "__alloc_pages_direct_compact"];
const RECLAIMS: [&str; 2] = ["try_to_free_pages", "shrink_node"];
/// The kinds of lines that are kept: damage could make any number.
const KINDS: usize = 64;
/// The lines of a stack, at most.
const STACK_LINES: usize = 80;

static XFS_SIZE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"XFS: (.{1,15})\(\d+\) possible memory allocation deadlock size (\d+)")
});
static CMA: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"cma_alloc: .*alloc failed, req-size: (\d+) pages, ret: (-?\d+)"));
static PAGES: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"allocating (\d+) of page size (.+?) failed.*Only allocated (\d+) hugepages")
});
static TASK: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"task (.{1,15}):\d+ blocked for more than (\d+) seconds"));

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the pattern is valid")
}

/// The subject of such a line.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum About {
    /// XFS waits for one piece of memory of a size, in bytes.
    Xfs(u64),
    /// CMA could not allocate a number of pages; the error.
    Cma(u64, i64),
    /// There are fewer huge pages than requested: both numbers, and the size of a huge page.
    Hugetlb(u64, u64, String),
    /// A task has waited in compaction for this many seconds.
    Compaction(u64),
    /// A task has waited in reclaim for this many seconds.
    Reclaim(u64),
}

/// Lines of one kind.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Notice {
    /// The subject of the first line, or of the one with the largest size.
    pub about: About,
    /// The line of the first.
    pub line: usize,
    /// The line of the last.
    pub last_line: usize,
    /// The number of lines.
    pub count: u64,
    /// The task of the first, where a line has it.
    pub task: Option<String>,
}

/// Reads such lines.
#[derive(Default)]
pub(super) struct Parser {
    found: Vec<Notice>,
    /// A task that waits, where and how long, until its stack tells why.
    blocked: Option<(usize, String, u64)>,
}

impl Parser {
    /// Reads a line.
    pub(super) fn push(&mut self, line: &Line) {
        let text = &line.text;
        if text.contains(XFS)
            && let Some(found) = XFS_SIZE.captures(text)
        {
            let task = Some(found[1].to_owned());
            found[2]
                .parse()
                .into_iter()
                .for_each(|size| self.add(About::Xfs(size), line.number, task.clone()));
        } else if let Some(found) = CMA.captures(text)
            && let (Ok(pages), Ok(error)) = (found[1].parse(), found[2].parse())
        {
            self.add(About::Cma(pages, error), line.number, None);
        } else if text.contains(HUGETLB)
            && let Some(found) = PAGES.captures(text)
            && let (Ok(wanted), Ok(got)) = (found[1].parse(), found[3].parse())
        {
            self.add(About::Hugetlb(wanted, got, found[2].to_owned()), line.number, None);
        } else if text.contains(BLOCKED) {
            self.blocked = TASK
                .captures(text)
                .and_then(|found| Some((line.number, found[1].to_owned(), found[2].parse().ok()?)));
        } else {
            self.stack(line);
        }
    }

    /// Reads a line of a stack: it tells what a blocked task waits for.
    fn stack(&mut self, line: &Line) {
        let has = |names: &[&str]| names.iter().any(|name| line.text.contains(name));
        let about: fn(u64) -> About = match () {
            () if has(&COMPACTS) => About::Compaction,
            () if has(&RECLAIMS) => About::Reclaim,
            () => return,
        };
        let Some((first, task, seconds)) = self.blocked.take() else { return };
        if line.number - first <= STACK_LINES {
            self.add(about(seconds), first, Some(task));
        }
    }

    fn add(&mut self, about: About, line: usize, task: Option<String>) {
        let same = |notice: &&mut Notice| match (&notice.about, &about) {
            (About::Cma(_, error), About::Cma(_, other)) => error == other,
            (About::Hugetlb(.., size), About::Hugetlb(.., other)) => size == other,
            (one, other) => std::mem::discriminant(one) == std::mem::discriminant(other),
        };
        let room = self.found.len() < KINDS;
        let Some(notice) = self.found.iter_mut().find(same) else {
            if room {
                self.found.push(Notice { about, line, last_line: line, count: 1, task });
            }
            return;
        };
        (notice.last_line, notice.count) = (line, notice.count + 1);
        if let (About::Xfs(size) | About::Cma(size, _), About::Xfs(new) | About::Cma(new, _)) =
            (&mut notice.about, about)
        {
            *size = new.max(*size);
        }
    }

    /// Returns the notices.
    pub(super) fn finish(self) -> Vec<Notice> {
        self.found
    }
}
