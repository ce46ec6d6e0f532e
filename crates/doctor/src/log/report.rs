//! The reports in a log: failed allocations, the OOM killer, and what SysRq-m prints.

use std::sync::LazyLock;

use regex_lite::{Captures, Regex};
use serde::Serialize;

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

/// Returns the reports of a log in their order.
#[must_use]
pub fn reports(lines: &[Line]) -> Vec<Report> {
    let begins: Vec<(usize, Kind)> =
        lines.iter().enumerate().filter_map(|(at, line)| Some((at, begins(&line.text)?))).collect();
    // A state whose first lines were lost.
    let before = &lines[..begins.first().map_or(lines.len(), |first| first.0)];
    let mut reports: Vec<Report> = Some(report(Kind::State, before))
        .filter(|report| report.memory.zones.iter().any(|zone| zone.free.is_some()))
        .into_iter()
        .collect();
    for (n, &(at, kind)) in begins.iter().enumerate() {
        let end = begins.get(n + 1).map_or(lines.len(), |next| next.0);
        let mut states = further_states(&lines[at..end]);
        states.push(end - at);
        reports.push(report(kind, &lines[at..at + states[0]]));
        for state in states.windows(2) {
            reports.push(report(Kind::Dump, &lines[at + state[0]..at + state[1]]));
        }
    }
    reports
}

/// Tells whether a line is the header of a state of memory.
fn is_header(text: &str) -> bool {
    text.contains("Mem-Info:") || text.contains("Mem-info:")
}

/// Returns where the states of memory in a report begin but for the first: their first lines were lost.
fn further_states(lines: &[Line]) -> Vec<usize> {
    let headers = (0..lines.len()).filter(|&at| is_header(&lines[at].text));
    headers.skip(1).collect()
}

/// Returns what a line begins.
pub(crate) fn begins(text: &str) -> Option<Kind> {
    if let Some(found) = FAILURE.captures(text) {
        let stalls = found.get(2).is_some_and(|word| word.as_str() != "failure");
        return Some(if stalls { Kind::Stall } else { Kind::Failure });
    }
    if OOM.is_match(text) {
        return Some(Kind::Oom);
    }
    let dump = text.contains("Show Memory") || text.contains("show-memory-usage");
    (dump && text.to_ascii_lowercase().contains("sysrq")).then_some(Kind::Dump)
}

/// Returns the version, which mail may have wrapped to the next line.
fn version(head: &str) -> Option<String> {
    let lines: Vec<&str> = head.lines().collect();
    let found = |text: &str| Some(VERSION.captures(text)?.get(1)?.as_str().to_owned());
    let wrapped = || {
        let pairs = lines.windows(2).filter(|pair| pair[0].contains("ainted"));
        pairs.map(|pair| pair.join(" ")).find_map(|pair| found(&pair))
    };
    lines.iter().find_map(|line| found(line)).or_else(wrapped)
}

fn report(kind: Kind, lines: &[Line]) -> Report {
    // What describes the request may be wrapped, or follow the stack.
    let before = |line: &&Line| !is_header(&line.text);
    let head: Vec<&str> =
        lines.iter().take_while(before).take(200).map(|line| line.text.as_str()).collect();
    let request = head.iter().take(4).copied().collect::<Vec<_>>().join(" ");
    let head = head.join("\n");
    let whole = || lines.iter().map(|line| line.text.as_str());
    let memcg = kind == Kind::Oom
        && whole().any(|text| {
            text.contains("Memory cgroup out of memory") || text.contains("CONSTRAINT_MEMCG")
        });
    let word = |found: Option<Captures<'_>>, at| {
        found.and_then(|found| Some(found.get(at)?.as_str().to_owned()))
    };
    let flags = word(MODE.captures(&request), 2);
    Report {
        kind: if memcg { Kind::MemcgOom } else { kind },
        line: lines.first().map_or(1, |line| line.number),
        task: word(FAILURE.captures(&request), 1).or_else(|| word(OOM.captures(&request), 1)),
        order: word(ORDER.captures(&request), 1)
            .and_then(|order| order.parse().ok())
            .filter(|order| *order <= MOST_ORDER),
        mode: word(MODE.captures(&request), 1).and_then(|hex| u64::from_str_radix(&hex, 16).ok()),
        flags: flags.map(|names| names.split_ascii_whitespace().collect()),
        nodemask: word(NODEMASK.captures(&request), 1),
        // OOM reports print it at their end.
        mems_allowed: word(MEMS.captures(&head), 1).or_else(|| {
            let line = whole().find(|line| line.contains("oom-kill:constraint="))?;
            word(MEMS.captures(line), 1)
        }),
        version: version(&head),
        memory: MemInfo::parse(lines),
    }
}
