//! The second stage, the reports in a log: failed allocations, the OOM killer, and what SysRq-m prints.

mod notice;

use std::sync::LazyLock;

use regex_lite::Regex;
use serde::Serialize;

pub use self::notice::{About, Notice};
use super::read::cgroup::{self, Cgroup, Victim};
use super::read::mem_info::{MemInfo, Parser};
use super::read::vmalloc::{self, Vmalloc};
use super::{Line, Stamp};

/// The kind of a report.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// `page allocation failure`.
    Failure,
    /// `page allocation stalls for`.
    Stall,
    /// The OOM killer was invoked.
    Oom,
    /// The OOM killer of a memory cgroup.
    MemcgOom,
    /// The OOM killer after a failed page fault (`VM_FAULT_OOM`), called without a request.
    FaultOom,
    /// The OOM killer, called by SysRq-f.
    AskedOom,
    /// `vmalloc` failed.
    Vmalloc,
    /// Lines of a part of the kernel that lacks memory, without a report.
    Notice,
    /// SysRq-m, or a further state within a report.
    Dump,
    /// A state whose request is not in the log.
    State,
}

/// A report.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Report {
    /// What it is about.
    pub kind: Kind,
    /// Its first line in the log.
    pub line: usize,
    /// When its first line was printed, in microseconds since boot.
    pub at_us: Option<u64>,
    /// The same as a time of day.
    pub at: Option<Stamp>,
    /// The task that asked for memory.
    pub task: Option<String>,
    /// The order that it asked for.
    pub order: Option<u32>,
    /// The flags as a number.
    pub mode: Option<u64>,
    /// The flags by name.
    pub flags: Option<String>,
    /// The nodes that the request may use, as printed; `None` for any.
    pub nodemask: Option<String>,
    /// The nodes that the task's cpuset allows, as printed.
    pub mems_allowed: Option<String>,
    /// The kernel's version.
    pub version: Option<String>,
    /// The slab cache whose allocation failed just before.
    pub slab: Option<Slab>,
    /// The memory cgroup at its limit.
    pub cgroup: Option<Cgroup>,
    /// The task that the OOM killer ended.
    pub victim: Option<Victim>,
    /// How `vmalloc` failed.
    pub vmalloc: Option<Vmalloc>,
    /// The lines of a notice.
    pub notice: Option<Notice>,
    /// The state of memory.
    pub memory: MemInfo,
}

/// A slab cache whose allocation failed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Slab {
    /// The line that says so.
    pub line: usize,
    /// Its name.
    pub cache: Option<String>,
    /// Its memory cgroup, which is part of its name up to 5.8.
    pub cgroup: Option<String>,
}

impl Report {
    fn of_notice(notice: Notice) -> Self {
        Self {
            task: notice.task.clone(),
            notice: Some(notice.clone()),
            ..Self::new(Kind::Notice, notice.line)
        }
    }

    fn new(kind: Kind, line: usize) -> Self {
        Self {
            kind,
            line,
            at_us: None,
            at: None,
            task: None,
            order: None,
            mode: None,
            flags: None,
            nodemask: None,
            mems_allowed: None,
            version: None,
            slab: None,
            cgroup: None,
            victim: None,
            vmalloc: None,
            notice: None,
            memory: MemInfo::default(),
        }
    }

    /// Returns whether the OOM killer was invoked for the machine's memory.
    #[must_use]
    pub const fn is_oom(&self) -> bool {
        matches!(self.kind, Kind::Oom | Kind::FaultOom | Kind::AskedOom)
    }
}

/// Larger than the blocks of any kernel; a larger number is damage.
const MOST_ORDER: u32 = 20;

static FAILURE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"\S: page allocation (failure|stalls for)|^page allocation failure: order:")
});
static OOM: LazyLock<Regex> = LazyLock::new(|| pattern(r"\S invoked oom-killer"));
static COMM: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"[Cc]omm: (.{1,15}?)(?: Not [Tt]ainted| Tainted| Kdump:|\s*$)"));
static ORDER: LazyLock<Regex> = LazyLock::new(|| pattern(r"order[:=]\s*(\d+)"));
static MODE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"(?:mode:|gfp_mask=)\s*0x([0-9a-fA-F]+)\s*(?:\(([A-Za-z0-9_|\s]+)\))?")
});
static NODEMASK: LazyLock<Regex> = LazyLock::new(|| pattern(r"nodemask=\(?([0-9,\-]+)\)?"));
static MEMS: LazyLock<Regex> = LazyLock::new(|| pattern(r"mems_allowed=(\d[0-9,\-]*\d|\d)"));
static VERSION: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"[Tt]ainted:? .*?\b(\d+\.\d+(?:\.\d+)?[^\s]*)(?:\s+#|\s*$)"));

static CACHE: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"cache: ([^,(]+)(?:\(\d+:([^)]*)\))?, object size"));

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the pattern is valid")
}

/// Strings of which a line contains at least one if it begins a report, or belongs to a report but not to its state
/// of memory.
pub(super) const MARKS: [&[&str]; 4] =
    [&OWN_MARKS, &cgroup::MARKS, &notice::MARKS, &vmalloc::MARKS];
const OWN_MARKS: [&str; 11] = [
    SLUB,
    SLUB_CACHE,
    "page allocation",
    "oom-killer",
    "Show Memory",
    "show-memory-usage",
    "Mem-Info:",
    "Mem-info:",
    MEMCG,
    "CONSTRAINT_MEMCG",
    CONSTRAINT,
];
const SLUB: &str = "SLUB: Unable to allocate memory";
const SLUB_CACHE: &str = "object size:";
const MEMCG: &str = "Memory cgroup out of memory";
const CONSTRAINT: &str = "oom-kill:constraint=";
/// The longest name of a task (`TASK_COMM_LEN` less its end).
const COMM_LEN: usize = 15;
/// The lines after the first one that say what was asked for, at most: mail wraps them, and people reply between them.
const REQUEST_LINES: usize = 12;
/// The lines of a report that describe the request, before the state of memory.
const HEAD_LINES: usize = 200;

/// The callers whose reports are read at once, at most.
const CALLERS: usize = 64;
/// The clocks of CPUs differ by less: a time that is earlier by more is of another event, in microseconds.
const CLOCKS_DIFFER_US: u64 = 1000;
/// The lines between what led to a report and its first line, at most.
const LINES_BEFORE: usize = 20;

/// Finds the reports of a log, line by line.
pub(super) struct Finder {
    found: Vec<Report>,
    /// What is read: the first of lines without a caller, or of callers whose first lines were lost; then by caller.
    open: Vec<(Option<String>, Open)>,
    slab: Option<Slab>,
    notices: notice::Parser,
}

/// A report that has not ended.
struct Open {
    kind: Kind,
    line: usize,
    at_us: Option<u64>,
    at: Option<Stamp>,
    slab: Option<Slab>,
    head: Vec<String>,
    has_header: bool,
    is_memcg: bool,
    /// The nodes that the line of an OOM report's constraint allows, if it has that line.
    constraint: Option<Option<String>>,
    oom: cgroup::Parser,
    vmalloc: Option<Vmalloc>,
    memory: Parser,
}

impl Finder {
    pub(super) fn new() -> Self {
        // A state whose first lines were lost.
        let lost = Open::new(Kind::State, &Line::default());
        Self {
            found: Vec::new(),
            open: vec![(None, lost)],
            slab: None,
            notices: notice::Parser::default(),
        }
    }

    /// Returns whether the next line matters even if it has none of [`MARKS`] and of the words of a state.
    pub(super) fn is_within(&self) -> bool {
        self.open.iter().any(|(_, open)| open.is_within())
    }

    /// Returns how many reports were found.
    pub(super) fn len(&self) -> usize {
        self.found.len()
    }

    /// Reads a line.
    pub(super) fn push(&mut self, line: &Line) {
        self.look_before(line);
        self.notices.push(line);
        let (begun, header) = (begins(&line.text), is_header(&line.text));
        let of_oom = line.text.contains(CONSTRAINT) || cgroup::is_of_oom(&line.text);
        let at = self.of_caller(line, begun.is_some() || header || of_oom);
        let open = &self.open[at].1;
        if let Some(kind) = begun {
            self.begin(at, kind, line);
        } else if of_oom && !open.takes_kill(&line.text) {
            // The first lines of an OOM report were lost.
            self.begin(at, Kind::Oom, line);
        } else if header && open.has_header && open.kind != Kind::State {
            // The first lines of a further state were lost.
            self.begin(at, Kind::Dump, line);
        } else if header && open.is_after(line) {
            // The state is older than the request before it.
            self.begin(at, Kind::State, line);
        }
        self.open[at].1.push(line);
    }

    /// Remembers the slab cache that got no memory.
    fn look_before(&mut self, line: &Line) {
        if line.text.contains(SLUB) {
            self.slab = Some(Slab { line: line.number, cache: None, cgroup: None });
        } else if let Some(slab) = &mut self.slab
            && slab.cache.is_none()
            && line.text.contains(SLUB_CACHE)
        {
            slab.cache = word(&CACHE, &line.text, 1);
            slab.cgroup = word(&CACHE, &line.text, 2);
        }
    }

    /// Returns where a line's report is read; a line that `starts` one gets a place of its own for its caller.
    fn of_caller(&mut self, line: &Line, starts: bool) -> usize {
        let caller = line.prefix.caller();
        if caller.is_none() {
            return 0;
        }
        match self.open.iter().position(|(other, _)| *other == caller) {
            Some(at) => at,
            None if !starts => 0,
            None => {
                if self.open.len() > CALLERS {
                    self.found.extend(self.open.remove(1).1.finish());
                }
                let open = Open::new(Kind::State, line);
                self.open.push((caller, open));
                self.open.len() - 1
            }
        }
    }

    fn begin(&mut self, at: usize, kind: Kind, line: &Line) {
        let mut open = Open::new(kind, line);
        let is_near = |slab: &Slab| line.number - slab.line.min(line.number) <= LINES_BEFORE;
        if kind == Kind::Oom {
            open.slab = self.slab.take().filter(is_near);
        }
        let before = std::mem::replace(&mut self.open[at].1, open);
        self.found.extend(before.finish());
    }

    /// Returns the reports in their order.
    pub(super) fn finish(mut self) -> Vec<Report> {
        self.found.extend(self.open.into_iter().filter_map(|(_, open)| open.finish()));
        self.found.extend(self.notices.finish().into_iter().map(Report::of_notice));
        self.found.sort_by_key(|report| report.line);
        self.found
    }
}

/// Returns whether a line is the header of a state of memory.
fn is_header(text: &str) -> bool {
    text.contains("Mem-Info:") || text.contains("Mem-info:")
}

/// Returns what a line begins.
pub(crate) fn begins(text: &str) -> Option<Kind> {
    // A search for a text costs a tenth of a pattern.
    if text.contains("page allocation")
        && let Some(found) = FAILURE.captures(text)
    {
        let stalls = found.get(1).is_some_and(|word| word.as_str() != "failure");
        return Some(if stalls { Kind::Stall } else { Kind::Failure });
    }
    if text.contains("oom-killer") && OOM.is_match(text) {
        return Some(Kind::Oom);
    }
    if Vmalloc::read(text).is_some() {
        return Some(Kind::Vmalloc);
    }
    let dump = text.contains("Show Memory") || text.contains("show-memory-usage");
    (dump && text.to_ascii_lowercase().contains("sysrq")).then_some(Kind::Dump)
}

/// Returns the lines that say what was asked for, as one: those before the CPU's and the stack's.
fn request(head: &[String]) -> String {
    let ends = |line: &&String| {
        ["CPU:", "Pid:", "Call Trace", "Hardware name"].iter().any(|next| line.starts_with(next))
    };
    let first = head.len().min(1);
    let rest = head[first..].iter().take_while(|line| !ends(line)).filter(|line| !line.is_empty());
    let lines: Vec<&str> =
        head[..first].iter().chain(rest.take(REQUEST_LINES)).map(String::as_str).collect();
    lines.join(" ")
}

/// Returns the name of the task that asked, whole: blanks may be in it, and what a console printed before it.
fn task(head: &[String]) -> Option<String> {
    let first = head.first()?;
    let before = |what: &str| first.find(what).map(|at| first[..at].trim());
    let printed = before(": page allocation")
        .or_else(|| before(" invoked oom-killer"))
        .or_else(|| before(": vmalloc"));
    let comm = head.iter().find_map(|line| word(&COMM, line, 1));
    let Some(printed) = printed.filter(|name| !name.is_empty()) else {
        return begins(first).and(comm);
    };
    if comm.as_ref().is_some_and(|comm| printed.ends_with(comm.as_str())) {
        return comm;
    }
    let name = printed.rsplit(']').next().unwrap_or(printed).trim();
    let name = if name.is_empty() { printed } else { name };
    // A longer text has more than a name.
    let last = name.split_whitespace().next_back().unwrap_or(name);
    Some(if name.len() <= COMM_LEN { name } else { last }.to_owned())
}

/// Returns the version, which mail may have wrapped to the next line.
fn version(head: &str) -> Option<String> {
    let lines: Vec<&str> = head.lines().collect();
    let found = |text: &str| text.contains("ainted").then(|| word(&VERSION, text, 1)).flatten();
    let wrapped = || {
        let pairs = lines.windows(2).filter(|pair| pair[0].contains("ainted"));
        pairs.map(|pair| pair.join(" ")).find_map(|pair| found(&pair))
    };
    lines.iter().find_map(|line| found(line)).or_else(wrapped)
}

impl Open {
    fn new(kind: Kind, line: &Line) -> Self {
        Self {
            kind,
            line: line.number.max(1),
            at_us: line.prefix.at_us(),
            at: line.prefix.stamp(),
            slab: None,
            head: Vec::new(),
            has_header: false,
            is_memcg: false,
            constraint: None,
            oom: cgroup::Parser::default(),
            vmalloc: None,
            memory: Parser::default(),
        }
    }

    fn is_within(&self) -> bool {
        (!self.has_header && self.head.len() < HEAD_LINES)
            || self.memory.is_within()
            || self.oom.is_within()
    }

    /// Returns whether a line below the first one of an OOM report is of this one.
    fn takes_kill(&self, text: &str) -> bool {
        let is_oom = match self.kind {
            Kind::Oom => true,
            // Its first lines were lost.
            Kind::State | Kind::Dump => self.memory.has_zones(),
            _ => false,
        };
        let is_said = text.contains(CONSTRAINT) && self.constraint.is_some();
        is_oom && !is_said && !self.oom.is_of_next(text)
    }

    /// Returns whether its first line was printed after a line that follows it.
    fn is_after(&self, line: &Line) -> bool {
        let times = self.at_us.zip(line.prefix.at_us());
        times.is_some_and(|(first, at)| at.saturating_add(CLOCKS_DIFFER_US) < first)
    }

    fn push(&mut self, line: &Line) {
        let text = &line.text;
        self.has_header |= is_header(text);
        // What describes the request may be wrapped, or follow the stack.
        if !self.has_header && self.head.len() < HEAD_LINES {
            self.head.push(text.clone());
        }
        self.is_memcg |= text.contains(MEMCG) || text.contains("CONSTRAINT_MEMCG");
        if self.constraint.is_none() && text.contains(CONSTRAINT) {
            self.constraint = Some(word(&MEMS, text, 1));
        }
        self.oom.push(text, line.number);
        if self.kind == Kind::Vmalloc && self.vmalloc.is_none() {
            self.vmalloc = Vmalloc::read(text);
        }
        self.memory.push(line);
    }

    /// Returns the report; `None` for lines before the first one that have no state of memory.
    fn finish(self) -> Option<Report> {
        let Self {
            kind,
            line,
            at_us,
            at,
            head,
            is_memcg,
            constraint,
            memory,
            slab,
            oom,
            vmalloc,
            ..
        } = self;
        let memory = memory.finish();
        let (cgroup, victim) = oom.finish();
        let is_memcg = is_memcg || cgroup.is_some();
        if kind == Kind::State && memory.zones.iter().all(|zone| zone.free.is_none()) {
            return None;
        }
        let (request, task) = (request(&head), task(&head));
        let head = head.join("\n");
        let flags = word(&MODE, &request, 2);
        let mode = word(&MODE, &request, 1).and_then(|hex| u64::from_str_radix(&hex, 16).ok());
        let kind = match kind {
            Kind::Oom if is_memcg => Kind::MemcgOom,
            // What the kernel calls it with for want of an order.
            Kind::Oom if request.contains("order=-1") => Kind::AskedOom,
            Kind::Oom if mode == Some(0) => Kind::FaultOom,
            kind => kind,
        };
        Some(Report {
            at_us,
            at,
            task,
            order: word(&ORDER, &request, 1)
                .and_then(|order| order.parse().ok())
                .filter(|order| *order <= MOST_ORDER),
            mode,
            flags: flags.map(|names| names.split_ascii_whitespace().collect()),
            nodemask: word(&NODEMASK, &request, 1),
            // OOM reports print it at their end.
            mems_allowed: word(&MEMS, &head, 1).or(constraint.flatten()),
            version: version(&head),
            slab,
            cgroup,
            victim,
            vmalloc,
            memory,
            ..Report::new(kind, line)
        })
    }
}

/// Returns a group of a pattern's first match.
fn word(pattern: &Regex, text: &str, group: usize) -> Option<String> {
    Some(pattern.captures(text)?.get(group)?.as_str().to_owned())
}
