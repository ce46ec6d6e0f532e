//! Groups equal reports: one explanation, their number, and their differences.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::Explanation;
use crate::class::Class;
use crate::log::{Kind, Stamp};

/// The largest number of names of a kind of difference.
const NAMES: usize = 5;

/// Reports with the same explanation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Group {
    /// The index of the most informative explanation; of equal ones the first.
    pub shown: usize,
    /// The indices of all, in order.
    pub members: Vec<usize>,
}

/// The differences between the reports of a group: names with their counts, the most frequent first.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Differences {
    /// The requesting tasks.
    pub tasks: Vec<(String, usize)>,
    /// The requesting functions.
    pub callers: Vec<(String, usize)>,
    /// The tasks that were killed.
    pub victims: Vec<(String, usize)>,
    /// The zone with the most memory, and the least and the most free memory in it, in kB.
    pub free: Option<(String, u64, u64)>,
    /// The number of reports that the kernel suppressed.
    pub suppressed: u64,
}

/// The place of a report.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Seen {
    /// The file, if several were read.
    pub file: Option<String>,
    /// The line.
    pub line: usize,
    /// Microseconds since boot.
    pub at_us: Option<u64>,
    /// The time of day.
    pub at: Option<Stamp>,
}

/// A group for output: its most informative report, and the number, the times and the differences of all.
#[derive(Debug, Serialize)]
pub struct Grouped<'e> {
    /// The number of reports; of a notice, the number of lines.
    pub count: u64,
    /// The first.
    pub first: Seen,
    /// The last.
    pub last: Seen,
    /// The differences between them.
    pub differences: Differences,
    /// The most informative report.
    #[serde(flatten)]
    pub shown: &'e Explanation,
}

/// Returns the groups of explanations for output.
#[must_use]
pub fn grouped(found: &[Explanation]) -> Vec<Grouped<'_>> {
    let seen = |of: &Explanation| Seen {
        file: of.file.clone(),
        line: of.report.line,
        at_us: of.report.at_us,
        at: of.report.at,
    };
    let of = |group: &Group| {
        let shown = &found[group.shown];
        let at = |member: Option<&usize>| seen(member.map_or(shown, |&at| &found[at]));
        let (first, mut last) = (at(group.members.first()), at(group.members.last()));
        let mut count = group.members.len() as u64;
        if let Some(notice) = &shown.report.notice {
            count = notice.count;
            (last.line, last.at_us, last.at) =
                (notice.last_line, notice.last_at_us, notice.last_at);
        }
        Grouped { count, first, last, differences: group.differences(found), shown }
    };
    groups(found).iter().map(of).collect()
}

/// The properties that equal reports share.
type Key<'e> =
    (Kind, Class, Option<u32>, Option<u64>, Option<&'e str>, Option<&'e str>, Option<&'e str>);

fn key(of: &Explanation) -> Option<Key<'_>> {
    let report = &of.report;
    if report.notice.is_some() {
        return None;
    }
    let cgroup = report.cgroup.as_ref().and_then(|cgroup| cgroup.path.as_deref());
    let slab = report.slab.as_ref().and_then(|slab| slab.cgroup.as_deref());
    let flags = report.flags.as_deref();
    Some((report.kind, of.class, report.order, report.mode, flags, cgroup, slab))
}

/// Groups explanations, in the order of their first members.
#[must_use]
pub fn groups(found: &[Explanation]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    for (at, of) in found.iter().enumerate() {
        let group = key(of).map(|key| *known.entry(format!("{key:?}")).or_insert(groups.len()));
        match group.filter(|group| *group < groups.len()) {
            Some(group) => groups[group].members.push(at),
            None => groups.push(Group { shown: at, members: vec![at] }),
        }
    }
    for group in &mut groups {
        let says = |at: &usize| {
            let of = &found[*at];
            (of.zones.len(), of.report.stall_ms, of.report.version.is_some())
        };
        // The first of the most informative; of stalls the longest.
        let best = group.members.iter().rev().max_by_key(|at| says(at));
        group.shown = best.copied().unwrap_or(group.shown);
    }
    groups
}

impl Group {
    /// Returns the differences between its reports.
    #[must_use]
    pub fn differences(&self, found: &[Explanation]) -> Differences {
        let members = || self.members.iter().map(|at| &found[*at]);
        let task = |of: &Explanation| of.report.task.clone();
        let caller = |of: &Explanation| of.report.caller.as_ref().map(|c| c.function.clone());
        let victim = |of: &Explanation| of.report.victim.as_ref().map(|victim| victim.task.clone());
        let zone = found[self.shown].zones.iter().max_by_key(|zone| zone.free);
        let free = zone.and_then(|zone| {
            let same = |of: &Explanation| {
                let mut zones = of.zones.iter();
                zones.find(|other| (other.node, other.kind) == (zone.node, zone.kind))?.free
            };
            let all: Vec<u64> = members().filter_map(same).collect();
            let name = format!("node {} {}", zone.node, zone.kind.name());
            Some((name, all.iter().min().copied()?, all.iter().max().copied()?))
        });
        Differences {
            tasks: counted(members().filter_map(task)),
            callers: counted(members().filter_map(caller)),
            victims: counted(members().filter_map(victim)),
            free,
            suppressed: members()
                .filter_map(|of| of.report.suppressed)
                .fold(0, u64::saturating_add),
        }
    }
}

fn counted(names: impl Iterator<Item = String>) -> Vec<(String, usize)> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    names.for_each(|name| *counts.entry(name).or_default() += 1);
    let mut counts: Vec<(String, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    if counts.len() > NAMES {
        let rest: usize = counts.drain(NAMES..).map(|(_, count)| count).sum();
        counts.push(("others".to_owned(), rest));
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain;

    #[test]
    fn equal_reports_are_one_group_and_say_how_they_differ() {
        let report = |n: u64, order: u32| {
            format!(
                "app/{}: page allocation failure: order:{order}, mode:0x820(GFP_ATOMIC)\n\
                 CPU: 0 PID: 1 Comm: app/{} Not tainted 6.1.0 #1\nMem-Info:\n\
                 Node 0 Normal free:{}kB min:4000kB low:5000kB high:6000kB managed:800000kB\n\
                 Node 0 Normal: {}*4kB (U) = 9000kB\n",
                n % 2,
                n % 2,
                400 + n,
                100 + n
            )
        };
        let log: String = (0..1000).map(|n| report(n, 0)).chain([report(0, 2)]).collect();
        let found = explain(&log);
        let groups = groups(&found);
        assert_eq!(groups.iter().map(|group| group.members.len()).collect::<Vec<_>>(), [1000, 1]);
        let differ = groups[0].differences(&found);
        assert_eq!(differ.tasks, [("app/0".to_owned(), 500), ("app/1".to_owned(), 500)]);
        assert_eq!(differ.free, Some(("node 0 Normal".to_owned(), 400, 1399)));
        let written = serde_json::to_value(grouped(&found)).unwrap();
        assert_eq!((&written[0]["count"], &written[1]["count"]), (&1000.into(), &1.into()));
        assert_eq!(
            (&written[0]["first"]["line"], &written[0]["last"]["line"]),
            (&1.into(), &4996.into())
        );
        assert_eq!(written[0]["report"]["order"], 0);
    }
}
