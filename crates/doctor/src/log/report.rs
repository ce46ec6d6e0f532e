//! The reports in a log: failed allocations, the OOM killer, and what SysRq-m prints.

use std::sync::LazyLock;

use regex_lite::Regex;
use serde::Serialize;

use super::mem_info::Parser;
use super::{Line, MemInfo};

/// What a report is about.
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
    /// The state of memory.
    pub memory: MemInfo,
}

/// No kernel's blocks are that large; a larger number is damage.
const MOST_ORDER: u32 = 20;

static FAILURE: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?:^|\s)(\S+): page allocation (failure|stalls for)"));
static OOM: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?:^|\s)(\S+) invoked oom-killer"));
static ORDER: LazyLock<Regex> = LazyLock::new(|| pattern(r"order[:=]\s*(\d+)"));
static MODE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"(?:mode:|gfp_mask=)\s*0x([0-9a-fA-F]+)\s*(?:\(([A-Za-z0-9_|\s]+)\))?")
});
static NODEMASK: LazyLock<Regex> = LazyLock::new(|| pattern(r"nodemask=\(?([0-9,\-]+)\)?"));
static MEMS: LazyLock<Regex> = LazyLock::new(|| pattern(r"mems_allowed=(\d[0-9,\-]*\d|\d)"));
static VERSION: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"[Tt]ainted:? .*?\b(\d+\.\d+(?:\.\d+)?[^\s]*)(?:\s+#|\s*$)"));

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the pattern is valid")
}

/// What a line must have one of to begin a report, or to say something of one that is not the state of memory.
pub(super) const MARKS: [&str; 9] = [
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
const MEMCG: &str = "Memory cgroup out of memory";
const CONSTRAINT: &str = "oom-kill:constraint=";
/// The lines of a report that describe the request, before the state of memory.
const HEAD_LINES: usize = 200;

/// Finds the reports of a log, line by line.
pub(super) struct Finder {
    found: Vec<Report>,
    open: Open,
}

/// A report that has not ended.
struct Open {
    kind: Kind,
    line: usize,
    head: Vec<String>,
    has_header: bool,
    is_memcg: bool,
    /// The nodes that the line of an OOM report's constraint allows, if it has that line.
    constraint: Option<Option<String>>,
    memory: Parser,
}

impl Finder {
    pub(super) fn new() -> Self {
        // A state whose first lines were lost.
        Self { found: Vec::new(), open: Open::new(Kind::State, 1) }
    }

    /// Tells whether the next line matters even if it has none of [`MARKS`] and of the words of a state.
    pub(super) fn is_within(&self) -> bool {
        let Open { head, has_header, memory, .. } = &self.open;
        (!has_header && head.len() < HEAD_LINES) || memory.is_within()
    }

    /// Returns how many reports were found.
    pub(super) fn len(&self) -> usize {
        self.found.len()
    }

    /// Reads a line.
    pub(super) fn push(&mut self, line: &Line) {
        if let Some(kind) = begins(&line.text) {
            self.begin(kind, line.number);
        } else if is_header(&line.text) && self.open.has_header && self.open.kind != Kind::State {
            // The first lines of a further state were lost.
            self.begin(Kind::Dump, line.number);
        }
        self.open.push(line);
    }

    fn begin(&mut self, kind: Kind, line: usize) {
        let before = std::mem::replace(&mut self.open, Open::new(kind, line));
        self.found.extend(before.finish());
    }

    /// Returns the reports in their order.
    pub(super) fn finish(mut self) -> Vec<Report> {
        self.found.extend(self.open.finish());
        self.found
    }
}

/// Tells whether a line is the header of a state of memory.
fn is_header(text: &str) -> bool {
    text.contains("Mem-Info:") || text.contains("Mem-info:")
}

/// Returns what a line begins.
pub(crate) fn begins(text: &str) -> Option<Kind> {
    // A search for a text costs a tenth of a pattern.
    if text.contains("page allocation")
        && let Some(found) = FAILURE.captures(text)
    {
        let stalls = found.get(2).is_some_and(|word| word.as_str() != "failure");
        return Some(if stalls { Kind::Stall } else { Kind::Failure });
    }
    if text.contains("oom-killer") && OOM.is_match(text) {
        return Some(Kind::Oom);
    }
    let dump = text.contains("Show Memory") || text.contains("show-memory-usage");
    (dump && text.to_ascii_lowercase().contains("sysrq")).then_some(Kind::Dump)
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
    fn new(kind: Kind, line: usize) -> Self {
        Self {
            kind,
            line,
            head: Vec::new(),
            has_header: false,
            is_memcg: false,
            constraint: None,
            memory: Parser::default(),
        }
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
        self.memory.push(line);
    }

    /// Returns the report; `None` for lines before the first one that have no state of memory.
    fn finish(self) -> Option<Report> {
        let Self { kind, line, head, is_memcg, constraint, memory, .. } = self;
        let memory = memory.finish();
        if kind == Kind::State && memory.zones.iter().all(|zone| zone.free.is_none()) {
            return None;
        }
        let request = head[..head.len().min(4)].join(" ");
        let head = head.join("\n");
        let flags = word(&MODE, &request, 2);
        Some(Report {
            kind: if is_memcg && kind == Kind::Oom { Kind::MemcgOom } else { kind },
            line,
            task: word(&FAILURE, &request, 1).or_else(|| word(&OOM, &request, 1)),
            order: word(&ORDER, &request, 1)
                .and_then(|order| order.parse().ok())
                .filter(|order| *order <= MOST_ORDER),
            mode: word(&MODE, &request, 1).and_then(|hex| u64::from_str_radix(&hex, 16).ok()),
            flags: flags.map(|names| names.split_ascii_whitespace().collect()),
            nodemask: word(&NODEMASK, &request, 1),
            // OOM reports print it at their end.
            mems_allowed: word(&MEMS, &head, 1).or(constraint.flatten()),
            version: version(&head),
            memory,
        })
    }
}

/// Returns a group of a pattern's first match.
fn word(pattern: &Regex, text: &str, group: usize) -> Option<String> {
    Some(pattern.captures(text)?.get(group)?.as_str().to_owned())
}
