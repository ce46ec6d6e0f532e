//! Lines that report a lack of memory without a full report.

use std::sync::LazyLock;

use regex::Regex;
use serde::Serialize;

use super::about::About;
use super::beside::{self, Beside};
use super::words::{Told, said};
use super::{repeats, texts};
use crate::log::read::stack::Caller;
use crate::log::{Line, Stamp};

/// A line of a task that waits contains at least one of these strings; the texts of [`About`] have their own.
pub(in crate::log) const MARKS: [&str; 13] = [
    AREA,
    BUFFERS,
    BLOCKED[0],
    BLOCKED[1],
    COMPACTS[0],
    "direct_",
    RECLAIMS[0],
    "shrink_",
    PAGEOUT,
    KSWAPD,
    ISOLATES[0],
    ISOLATES[1],
    "nable to handle kernel",
];
/// What follows a failure of CMA: the area's pages, and the buffers of a graphics driver.
const AREA: &str = " total pages";
const BUFFERS: &str = "size bos allocated: ";
const BLOCKED: [&str; 2] = ["blocked for more than", "soft lockup"];
/// Functions in the stack of a task that compacts, and of one that reclaims.
const COMPACTS: [&str; 2] = ["compact_zone", "__alloc_pages_direct_compact"];
const RECLAIMS: [&str; 11] = [
    "try_to_free_pages",
    "shrink_node",
    "shrink_lruvec",
    "shrink_inactive_list",
    "throttle_direct_reclaim",
    "shrink_page_list",
    "shrink_folio_list",
    "shrink_slab",
    "shrink_zone",
    KSWAPD,
    // It waits for a page that is written.
    PAGEOUT,
];
const PAGEOUT: &str = " pageout";
/// Functions that reclaim for the limit of a memory cgroup, and those that write files out.
const CHARGES: [&str; 2] = ["try_to_free_mem_cgroup_pages", "mem_cgroup_reclaim"];
const WRITES_OUT: [&str; 3] = ["_writepage", "write_allocate", "do_writepages"];
/// The function in which kswapd reclaims.
const KSWAPD: &str = "balance_pgdat";
/// Strings in the lines of a stack, and in those of a crash, whose stack shows no lack of memory.
const FRAME: &str = "+0x";
const CRASHES: [&str; 4] = ["BUG:", "Oops", "general protection", "nable to handle"];
/// Functions of a task that takes a range of pages for itself.
const ISOLATES: [&str; 2] = ["alloc_contig_range", "cma_alloc+"];
/// The largest number of kinds of lines that are kept: damage could make any number.
const KINDS: usize = 64;
/// The largest number of lines about a kill.
const LINES_OF_KILL: usize = 20;
/// The largest number of lines in others' words that are kept.
const WORDS: usize = 3;
/// The largest number of lines of a stack.
const STACK_LINES: usize = 80;

static TASK: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"task (.{1,15}):\d+ blocked for more than (\d+) seconds|stuck for (\d+)s! \[(.{1,15}):\d+\]",
    )
    .expect("the pattern is valid")
});
static AREA_OF: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"=> (\d{1,12}) free of (\d{1,12}) total pages").expect("the pattern is valid")
});
static COMM: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"[Cc]omm: (.{1,15}?)(?: Not [Tt]ainted| Tainted| Kdump:|\s*$)")
        .expect("the pattern is valid")
});

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
    /// The task of the first, if a line names it.
    pub task: Option<String>,
    /// The time of the first.
    pub at: Option<Stamp>,
    /// The time of the first, in microseconds since boot.
    pub at_us: Option<u64>,
    /// The time of the last.
    pub last_at: Option<Stamp>,
    /// The time of the last, in microseconds since boot.
    pub last_at_us: Option<u64>,
    /// The free pages of the area of CMA that it is about, and all of them.
    pub area_pages: Option<(u64, u64)>,
    /// The buffers that a graphics driver counts, in kB.
    pub buffers_kb: Option<u64>,
    /// Whether a task reclaims for the limit of a memory cgroup, by its stack.
    #[serde(skip)]
    pub(crate) of_cgroup: bool,
    /// Whether a task reclaims while it writes a file out, by its stack.
    #[serde(skip)]
    pub(crate) of_write_out: bool,
    /// The caller that asked for memory, if a stack follows.
    pub caller: Option<Caller>,
    /// The function of compaction or reclaim in which a task waits, if its whole stack was read.
    pub waits_in: Option<Caller>,
    /// What the line measures, in its words, or huge pages that were counted beside it.
    pub numbers: Option<String>,
}

impl Notice {
    /// Returns whether it is in others' words that say only that something was not allocated.
    pub(super) const fn is_vague(&self) -> bool {
        matches!(self.about, About::Words(Told::Nothing, _))
    }
}

/// Reads such lines.
#[derive(Default)]
pub(super) struct Parser {
    found: Vec<Notice>,
    /// A task that waits, with place and duration, until its stack tells why.
    blocked: Option<(Line, String, u64)>,
    /// A notice whose stack follows, and the lines of that stack.
    stack: Option<(usize, Vec<String>)>,
    /// Lines in others' words, and stacks without the line above them.
    words: Vec<Notice>,
    has_crash: bool,
    /// A line that the next may continue: mail wraps lines, and only their first piece has a time or ends in parentheses.
    cut: Option<Line>,
    beside: Beside,
    /// A task that waits in reclaim, whose stack follows.
    waiting: Option<usize>,
    /// A task that reclaims, and the line from which on its stack tells for whom.
    below: Option<(usize, usize)>,
    /// The last function of a stack that is not of reclaim or compaction.
    above: Option<(usize, Caller)>,
}

impl Parser {
    /// Returns whether the next line is relevant regardless of its text.
    pub(super) fn is_within(&self) -> bool {
        self.stack.is_some() || self.cut.is_some() || self.below.is_some()
    }

    /// Reads a line.
    pub(super) fn push(&mut self, line: &Line) {
        let has_time = |line: &Line| line.prefix.at_us().is_some() || line.prefix.stamp().is_some();
        if let Some(mut first) = self.cut.take() {
            if line.number == first.number + 1 && !has_time(line) && !line.text.is_empty() {
                first.text = [&first.text, line.text.trim()].join(" ");
                return self.read(&first);
            }
            self.read(&first);
        }
        let is_open = |text: &str| text.rfind('(') > text.rfind(')');
        if (has_time(line) || is_open(&line.text)) && texts::is_marked(&line.text) {
            self.cut = Some(line.clone());
        } else {
            self.read(line);
        }
    }

    fn read(&mut self, line: &Line) {
        self.area(&line.text);
        self.beside.push(&line.text, &mut self.found);
        if let Some(texts::Said { about, task, numbers }) = texts::find(&line.text) {
            self.end_stack();
            // systemd repeats for its unit what the program reported before.
            let is_told = |known: &Notice| {
                known.about == about && line.number - known.last_line <= LINES_OF_KILL
            };
            if line.text.contains("systemd-oomd killed ") && self.found.iter().any(is_told) {
                return;
            }
            let has_stack = matches!(
                about,
                About::TooLarge | About::NoFail | About::Zfs(_) | About::ZfsLarge(_)
            );
            let at = self.add(about, line, task);
            let notice = at.map(|at| &mut self.found[at]);
            for (numbers, notice) in numbers.into_iter().zip(notice) {
                beside::measure(notice, &numbers);
            }
            self.stack = at.filter(|_| has_stack).map(|at| (at, Vec::new()));
        } else if BLOCKED.iter().any(|mark| line.text.contains(mark)) {
            self.blocked = TASK.captures(&line.text).and_then(|found| {
                let task = found.get(1).or(found.get(4))?.as_str().to_owned();
                Some((line.clone(), task, found.get(2).or(found.get(3))?.as_str().parse().ok()?))
            });
            // These do nothing else, however their stack is cut.
            let about: Option<fn(u64) -> About> = match &self.blocked {
                Some((_, task, _)) if task.starts_with("kswapd") => Some(About::Reclaim),
                Some((_, task, _)) if task.starts_with("kcompactd") => Some(About::Compaction),
                _ => None,
            };
            if let Some(about) = about
                && let Some((first, task, seconds)) = self.blocked.take()
            {
                self.waiting = self.add(about(seconds), &first, Some(task));
            }
        } else {
            if let Some(about) = said(&line.text) {
                let is_more = !matches!(about, About::Words(Told::Nothing, _));
                // A line of a patch.
                let is_code = !is_more && line.prefix.0.trim_end().ends_with(['+', '-']);
                if is_code {
                    return;
                }
                if is_more || self.words.len() < WORDS {
                    add(&mut self.words, about, line, None);
                }
            }
            self.waits(line);
            self.below(line);
        }
    }

    /// Reads a line of a stack, which tells what a blocked task waits for.
    fn waits(&mut self, line: &Line) {
        let has = |names: &[&str]| names.iter().any(|name| line.text.contains(name));
        self.below = self.below.filter(|(_, first)| line.number - first < STACK_LINES);
        if let Some(notice) = self.below.and_then(|(at, _)| self.found.get_mut(at)) {
            notice.of_cgroup |= has(&CHARGES);
            notice.of_write_out |= has(&WRITES_OUT);
        }
        let about: fn(u64) -> About = match () {
            () if has(&ISOLATES) => About::Isolation,
            () if has(&COMPACTS) => About::Compaction,
            () if has(&RECLAIMS) => About::Reclaim,
            () => {
                self.has_crash |= CRASHES.iter().any(|crash| line.text.contains(crash));
                let frame = line.text.contains(FRAME).then(|| Caller::of_line(&line.text));
                // Without a frame of reclaim the module tells what kswapd waits for.
                if let Some(at) = self.waiting
                    && let Some(Some(frame)) = &frame
                    && frame.module.is_some()
                {
                    self.waiting = None;
                    wait(&mut self.found, Some(at), Some(frame.clone()));
                }
                self.above =
                    frame.flatten().map(|frame| (line.number, frame)).or(self.above.take());
                return;
            }
        };
        let above = self.above.take().filter(|(at, _)| at + 1 == line.number);
        let waits_in = above.map(|(_, frame)| frame);
        if let Some(at) = self.waiting.take() {
            return wait(&mut self.found, Some(at), waits_in);
        }
        let Some((first, task, seconds)) = self.blocked.take() else {
            // The duration is above the stack, and was not copied.
            if line.text.contains(FRAME) && !self.has_crash {
                let at = add(&mut self.words, about(0), line, None);
                wait(&mut self.words, at, waits_in);
            }
            return;
        };
        if line.number - first.number <= STACK_LINES {
            let at = self.add(about(seconds), &first, Some(task));
            self.below = at.map(|at| (at, line.number));
            wait(&mut self.found, at, waits_in);
        }
    }

    /// Reads the state of an area of CMA below a failure.
    fn area(&mut self, text: &str) {
        let of_cma = |notice: &&mut Notice| matches!(notice.about, About::Cma(..));
        let Some(notice) = self.found.iter_mut().rfind(of_cma) else { return };
        if text.contains(AREA)
            && let Some(found) = AREA_OF.captures(text)
        {
            let pages = found[1].parse().ok().zip(found[2].parse().ok());
            notice.area_pages = notice.area_pages.or(pages);
        }
        if let Some((_, kb)) = text.split_once(BUFFERS) {
            let kb = kb.trim_end_matches("kb").parse().ok();
            notice.buffers_kb = notice.buffers_kb.max(kb);
        }
    }

    /// Reads a line below a notice.
    fn below(&mut self, line: &Line) {
        let Some((_, lines)) = &mut self.stack else { return };
        lines.push(line.text.clone());
        if lines.len() >= STACK_LINES || line.text.contains("end trace") {
            self.end_stack();
        }
    }

    fn end_stack(&mut self) {
        let Some((at, lines)) = self.stack.take() else { return };
        let notice = &mut self.found[at];
        let task = || lines.iter().find_map(|line| Some(COMM.captures(line)?[1].to_owned()));
        notice.task = notice.task.take().or_else(task);
        let caller = || Caller::find(lines.iter().map(String::as_str));
        notice.caller = notice.caller.take().or_else(caller);
    }

    /// Adds a line. Returns the index of its notice.
    pub(super) fn add(&mut self, about: About, line: &Line, task: Option<String>) -> Option<usize> {
        add(&mut self.found, about, line, task)
    }

    /// Returns the notices and the lines in others' words; of the latter only informative ones, if there are any.
    pub(super) fn finish(mut self) -> (Vec<Notice>, Vec<Notice>) {
        if let Some(line) = self.cut.take() {
            self.read(&line);
        }
        self.end_stack();
        repeats::remove(&mut self.found, &self.words);
        for notice in self.found.iter_mut().chain(&mut self.words) {
            self.beside.add_to(notice);
        }
        if !self.words.iter().all(Notice::is_vague) {
            self.words.retain(|notice| !notice.is_vague());
        }
        (self.found, self.words)
    }
}

/// Adds the function in which a task waits to a notice that has none.
fn wait(to: &mut [Notice], at: Option<usize>, waits_in: Option<Caller>) {
    if let Some(notice) = at.and_then(|at| to.get_mut(at)) {
        notice.waits_in = notice.waits_in.take().or(waits_in);
    }
}

/// Adds a line to notices. Returns the index of its notice.
fn add(to: &mut Vec<Notice>, about: About, line: &Line, task: Option<String>) -> Option<usize> {
    let (number, at, at_us) = (line.number, line.prefix.stamp(), line.prefix.at_us());
    if let Some(known) = to.iter().position(|notice| notice.about.is_like(&about)) {
        let notice = &mut to[known];
        // A program that kills says why, and then whom.
        let is_same =
            matches!(about, About::KilledBy(_)) && (task.is_none() || notice.task.is_none());
        notice.task = notice.task.take().or(task);
        (notice.last_line, notice.count) = (number, notice.count + u64::from(!is_same));
        (notice.last_at, notice.last_at_us) = (at, at_us);
        notice.about.enlarge(&about);
        return Some(known);
    }
    if to.len() >= KINDS {
        return None;
    }
    to.push(Notice {
        about,
        line: number,
        last_line: number,
        count: 1,
        task,
        at,
        at_us,
        last_at: at,
        last_at_us: at_us,
        area_pages: None,
        buffers_kb: None,
        of_cgroup: false,
        of_write_out: false,
        caller: None,
        waits_in: None,
        numbers: None,
    });
    Some(to.len() - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notices(lines: &[&str]) -> Vec<Notice> {
        let mut parser = Parser::default();
        for (number, text) in (1..).zip(lines) {
            parser.push(&Line { number, text: (*text).to_owned(), ..Line::default() });
        }
        parser.finish().0
    }

    #[test]
    fn equal_lines_are_one_notice() {
        let found = notices(&[
            "cma: cma_alloc: alloc failed, req-size: 20 pages, ret: -12",
            "cma: cma_alloc: alloc failed, req-size: 30 pages, ret: -12",
            "cma: cma_alloc: alloc failed, req-size: 20 pages, ret: -16",
        ]);
        let seen: Vec<_> =
            found.into_iter().map(|n| (n.about, n.line, n.last_line, n.count)).collect();
        assert_eq!(seen, [(About::Cma(30, -12), 1, 2, 2), (About::Cma(20, -16), 3, 3, 1)]);
    }

    #[test]
    fn the_area_of_a_failure_of_cma_is_known() {
        let found = notices(&[
            "cma: __cma_alloc: reserved: alloc failed, req-size: 257 pages, ret: -16",
            "cma: number of available pages: 3@125+20@172=> 1042 free of 32768 total pages",
            "[drm] size bos allocated: 62328kb",
        ]);
        assert_eq!(
            (found[0].area_pages, found[0].buffers_kb),
            (Some((1042, 32_768)), Some(62_328))
        );
    }

    #[test]
    fn what_kswapd_waits_for_is_known() {
        let first = "INFO: task kswapd0:63 blocked for more than 120 seconds.";
        for (stack, function) in [
            (
                [" wait_on_page_writeback+0x43/0x90", " shrink_page_list+0x7a8/0xbb0"],
                "wait_on_page_writeback",
            ),
            ([" ? mutex_lock+0x1a/0x2d", " ? zfs_zinactive+0x4a/0xac [zfs]"], "zfs_zinactive"),
        ] {
            let found = notices(&[first, stack[0], stack[1]]);
            let waits = found[0].waits_in.as_ref().map(|caller| caller.function.as_str());
            assert_eq!(waits, Some(function));
        }
    }

    #[test]
    fn a_line_that_mail_wrapped_is_joined() {
        let log =
            "May  1 10:00:00 h kernel: a: swiotlb buffer is full (sz:\n270336 bytes), total 9\n";
        let found = crate::log::read(log.as_bytes(), 9).unwrap().reports;
        assert_eq!(found[0].notice.as_ref().unwrap().about, About::SwiotlbSize(270_336));
    }

    #[test]
    fn a_stack_tells_who_asked_and_what_a_task_waits_for() {
        let found = notices(&[
            "WARNING: CPU: 3 PID: 1 at mm/page_alloc.c:4724 __alloc_pages_nodemask+0x1ee/0x320",
            "CPU: 3 PID: 1 Comm: dma to device Tainted: G 5.4.0",
            " kmalloc_large_node+0x3d/0x80",
            " map_user_buf+0x74/0x1e0 [xdma]",
            "---[ end trace 8b3c0a4d3c1 ]---",
            "INFO: task geth:98211 blocked for more than 120 seconds.",
            " schedule+0x4f/0xc0",
            " compact_zone+0x38e/0x8c0",
            "INFO: task kworker/u8:0:5 blocked for more than 120 seconds.",
            " schedule+0x4f/0xc0",
            "watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [kswapd0:45]",
            " __mutex_lock_slowpath+0xd7/0x150",
        ]);
        assert_eq!(found.len(), 3, "{found:?}");
        assert_eq!(
            (&found[0].about, found[0].task.as_deref()),
            (&About::TooLarge, Some("dma to device"))
        );
        let caller = found[0].caller.as_ref().unwrap();
        assert_eq!(
            (caller.function.as_str(), caller.module.as_deref()),
            ("map_user_buf", Some("xdma"))
        );
        assert_eq!((&found[1].about, found[1].line), (&About::Compaction(120), 6));
        assert_eq!(
            (&found[2].about, found[2].task.as_deref()),
            (&About::Reclaim(22), Some("kswapd0"))
        );
    }

    #[test]
    fn a_task_that_waits_for_a_written_page_or_for_a_range_is_known() {
        let found = notices(&[
            "INFO: task python3:5604 blocked for more than 120 seconds.",
            " [<ffffffff818205db>] bit_wait_io+0x1b/0x60",
            " [<ffffffff8119d225>] ? pageout.isra.43+0x1a5/0x280",
            "INFO: task swapper/0:1 blocked for more than 10 seconds.",
            " drain_all_pages+0x1e4/0x210",
            " alloc_contig_range+0xdc/0x37c",
            " cma_alloc+0x190/0x2d4",
        ]);
        let seen: Vec<_> =
            found.iter().map(|found| (&found.about, found.task.as_deref())).collect();
        let expected =
            [(&About::Reclaim(120), Some("python3")), (&About::Isolation(10), Some("swapper/0"))];
        assert_eq!(seen, expected);
    }
}
