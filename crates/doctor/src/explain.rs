//! Explains the reports in a kernel's log.

use std::io::{self, Read};

use pageblock::request::Gfp;
use pageblock_recording::KernelVersion;
use serde::Serialize;

use crate::advice::{self, Advice, Case};
use crate::class::{self, Class, Confidence};
use crate::gfp;
use crate::holders::{self, Holder};
use crate::interfaces::{rules, usual_rules, without_letters};
use crate::log::{self, Cgroup, Kind, Lack, Logged, Report};
use crate::watermark::{Check, Request};

/// What a report means.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Explanation {
    /// The report.
    pub report: Report,
    /// What the request's flags allow; `None` if it has none.
    #[serde(serialize_with = "gfp::allows")]
    pub flags: Option<Gfp>,
    /// The zones that it may use, the highest of each node first.
    pub zones: Vec<Check>,
    /// Who has the memory, the largest first, where it is used up.
    pub holders: Vec<Holder>,
    /// Why it failed.
    pub class: Class,
    /// How sure that is.
    pub confidence: Confidence,
    /// What helps, best first.
    pub helps: Vec<Advice>,
    /// What is often advised, and does not.
    pub does_not_help: Vec<Advice>,
    /// What the log lacks.
    pub missing: Vec<&'static str>,
}

/// The most reports of one log.
const REPORTS: usize = 1 << 16;

/// What a log says of memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Explained {
    /// Every report, explained.
    pub found: Vec<Explanation>,
    /// The number of the log's lines.
    pub lines: usize,
}

/// Explains every report in a log.
///
/// # Panics
/// Never: a text in memory can be read.
#[must_use]
pub fn explain(text: &str) -> Vec<Explanation> {
    let read = log::read(text.as_bytes(), usize::MAX).expect("a text in memory can be read");
    read.reports.into_iter().map(explain_report).collect()
}

/// Explains every report in a log of any length, of which only the reports are kept.
///
/// # Errors
/// If the log cannot be read, or has more than 65,536 reports.
pub fn explain_log(log: impl Read + Send) -> io::Result<Explained> {
    let Logged { reports, lines } = log::read(log, REPORTS)?;
    Ok(Explained { found: reports.into_iter().map(explain_report).collect(), lines })
}

fn explain_report(report: Report) -> Explanation {
    let version = report.version.as_deref().and_then(KernelVersion::parse);
    let version = version.or_else(|| without_letters().filter(|_| report.memory.has_no_letters()));
    let policy = &version.as_ref().map_or_else(usual_rules, rules).allocator;
    // A page fault that failed calls the OOM killer without flags.
    let flags = gfp::flags_of(&report, version.as_ref());
    let flags = flags.filter(|_| report.kind != Kind::FaultOom);
    let order = report.order.unwrap_or(0);
    let allowed = |node: u32| {
        let masks = [&report.nodemask, &report.mems_allowed];
        masks.into_iter().flatten().all(|mask| in_mask(mask, node))
    };
    let memory = &report.memory;
    let zones = match (flags, report.kind) {
        (Some(flags), _) => Request::new(policy, order, flags).checks(memory, allowed),
        // As a page that the kernel needs for itself would find it.
        (None, Kind::Dump | Kind::State | Kind::FaultOom) => {
            Request::new(policy, 0, Gfp::GFP_KERNEL).checks(memory, allowed)
        }
        (None, _) => Vec::new(),
    };
    let anywhere = flags.map_or(Vec::new(), |flags| {
        let any_zone = flags.without(Gfp::DMA | Gfp::DMA32);
        Request::new(policy, order, any_zone).checks(memory, |_| true)
    });
    let is_own = |other: &Check| zones.iter().any(|z| (z.node, z.kind) == (other.node, other.kind));
    let others: Vec<Check> = anywhere.into_iter().filter(|other| !is_own(other)).collect();
    let (class, confidence) = class::classify(&report, flags, &zones, &others);
    let holders = match class {
        Class::Shortage | Class::SlowReclaim => holders::holders(memory),
        _ => Vec::new(),
    };
    let case = Case {
        order,
        flags: flags.unwrap_or_default(),
        version: version.as_ref(),
        holding: holders.first().map(|holder| holder.holding),
        cgroup_version: report.cgroup.as_ref().and_then(|cgroup| cgroup.version),
        waits_for_writeback: waits_for_writeback(&report),
        lack: report.vmalloc.map(|vmalloc| vmalloc.lack),
        is_boosted: boost(class, &zones).is_some(),
    };
    let helps = match &report.notice {
        Some(notice) => advice::of_notice(&notice.about),
        None => advice::helps(class, case),
    };
    Explanation {
        missing: missing(&report, &zones),
        helps,
        does_not_help: advice::does_not_help(class, order, case.flags),
        holders,
        report,
        flags,
        zones,
        class,
        confidence,
    }
}

impl Explanation {
    /// Returns the zone that would have served the request but for the boost of its watermark, where that decides.
    #[must_use]
    pub fn boosted(&self) -> Option<&Check> {
        boost(self.class, &self.zones)
    }

    /// Returns whether free swap was not printed, and decides.
    #[must_use]
    pub fn lacks_swap(&self) -> bool {
        self.class == Class::Shortage && class::reclaimable(&self.report).is_none()
    }
}

/// Returns whether at least half of a cgroup's limit is page cache that waits to be written.
#[must_use]
pub fn waits_for_writeback(report: &Report) -> bool {
    report.cgroup.as_ref().and_then(Cgroup::dirty_percent).is_some_and(|percent| percent >= 50)
}

fn boost(class: Class, zones: &[Check]) -> Option<&Check> {
    let decides = matches!(class, Class::Shortage | Class::SlowReclaim | Class::Burst);
    zones.iter().find(|zone| decides && zone.fits_without_boost)
}

/// Returns whether a list of nodes, such as `0-1,3`, has a node.
fn in_mask(mask: &str, node: u32) -> bool {
    mask.split(',').any(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        match (first.parse(), last.parse()) {
            (Ok(first), Ok(last)) => (first..=last).contains(&node),
            // A mask that cannot be read excludes nothing.
            _ => true,
        }
    })
}

fn missing(report: &Report, zones: &[Check]) -> Vec<&'static str> {
    let memory = &report.memory;
    let mut missing = Vec::new();
    let is_of_addresses = report.vmalloc.is_some_and(|vmalloc| vmalloc.lack != Lack::Pages);
    if matches!(report.kind, Kind::MemcgOom | Kind::Notice) || is_of_addresses {
        // What the machine has does not matter to it.
        return missing;
    }
    if memory.zones.is_empty() && !memory.is_whole {
        missing.push("the state of memory (from Mem-Info on)");
        return missing;
    }
    if report.kind == Kind::State {
        missing.push("the request (`page allocation failure` or `invoked oom-killer`)");
    }
    if report.version.is_none() {
        missing.push("the kernel's version (the line with `Not tainted`)");
    }
    if memory.zones.iter().any(|zone| zone.free.is_none() || zone.min.is_none()) {
        missing.push("the watermarks of a zone");
    }
    if memory.zones.iter().any(|zone| zone.lists.is_empty()) {
        missing.push("the free lists of a zone");
    }
    if zones.iter().any(|zone| zone.reserve.is_none()) {
        missing.push("the reserves of lower zones (lowmem_reserve)");
    }
    if report.is_oom() && memory.free_swap_kb.is_none() {
        missing.push("free swap (the line `Free swap`)");
    }
    if memory.repeats {
        missing.push("the header of a second dump: two are mixed, and the first counts");
    }
    missing
}
