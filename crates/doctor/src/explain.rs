//! Explains the reports in a kernel's log.

use std::io::{self, Read};

use pageblock::layout::ZoneKind;
use pageblock::policy::Policy;
use pageblock::request::Gfp;
use pageblock_recording::KernelVersion;
use serde::Serialize;

use crate::advice::{self, Advice, Case};
use crate::boost;
use crate::class::{self, Class, Confidence};
use crate::gfp;
use crate::holders::{self, Holder, Holding};
use crate::interfaces::{rules, usual_rules, without_letters};
use crate::log::{self, Kind, Lack, Logged, MemInfo, Report, SlabCache, Zone};
use crate::watermark::{Check, Request, Verdict};

/// A report and its meaning.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Explanation {
    /// The file, if several were read.
    pub file: Option<String>,
    /// The report.
    pub report: Report,
    /// The permissions of the request by its flags; `None` if it has none.
    #[serde(serialize_with = "gfp::allows")]
    pub flags: Option<Gfp>,
    /// The zones that the request may use, the highest of each node first.
    pub zones: Vec<Check>,
    /// The holders of memory, the largest first, if memory is used up; other failures do not depend on them.
    pub holders: Vec<Holder>,
    /// Why it failed.
    pub class: Class,
    /// The confidence in the class.
    pub confidence: Confidence,
    /// If the class is unknown, the likeliest one by the request alone.
    pub likely: Option<Class>,
    /// The advice that helps, best first.
    pub helps: Vec<Advice>,
    /// Common advice that does not help.
    pub does_not_help: Vec<Advice>,
    /// The parts that the log lacks.
    pub missing: Vec<&'static str>,
}

/// The time before which the settings of `/etc/sysctl.d` are hardly read, in microseconds since boot.
const BOOT_US: u64 = 20_000_000;
/// The largest number of reports of one log.
const REPORTS: usize = 1 << 16;

/// The reports in a log.
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
    explain_reports(read.reports)
}

/// Explains every report in a log of any length, and keeps only the reports.
///
/// # Errors
/// If the log cannot be read, or has more than 65,536 reports.
pub fn explain_log(log: impl Read + Send) -> io::Result<Explained> {
    let Logged { reports, lines } = log::read(log, REPORTS)?;
    Ok(Explained { found: explain_reports(reports), lines })
}

fn explain_reports(mut reports: Vec<Report>) -> Vec<Explanation> {
    boost::infer(&mut reports);
    reports.into_iter().map(explain_report).collect()
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
    let is_lost = flags.is_none() && report.kind == Kind::Oom;
    let asked = flags.or_else(|| likely_flags(policy, memory, allowed).filter(|_| is_lost));
    let zones = match (asked, report.kind) {
        (Some(flags), kind) => {
            Request::new(policy, order, flags).of_oom(kind == Kind::Oom).checks(memory, allowed)
        }
        // The check for a page that the kernel needs for itself.
        (None, Kind::Dump | Kind::State | Kind::FaultOom) => {
            Request::new(policy, 0, Gfp::GFP_KERNEL).checks(memory, allowed)
        }
        (None, _) => Vec::new(),
    };
    let others = flags.map_or(Vec::new(), |flags| others(policy, order, flags, memory, &zones));
    let (class, mut confidence) = class::classify(&report, asked, &zones, &others);
    if (is_lost || report.state_of.is_some()) && confidence == Confidence::High {
        confidence = Confidence::Medium;
    }
    let likely = class::likely(&report, flags).filter(|_| class == Class::Unknown);
    let holders = held_by(&report, likely.unwrap_or(class), &zones);
    let largest = report.largest().map(|(task, _)| task);
    let grown = memory.growth.as_ref().and_then(|growth| Holding::of_field(&growth.field));
    let case = Case {
        order,
        flags: flags.unwrap_or_default(),
        version: version.as_ref(),
        holding: grown.or(holders
            .first()
            .filter(|holder| !is_beside(&report, holder))
            .map(|holder| holder.holding)),
        largest: largest.as_deref(),
        cache: largest_cache(&report, &holders),
        cgroup: report.cgroup.as_ref(),
        lack: report.vmalloc.map(|vmalloc| vmalloc.lack),
        is_boosted: boosted(class, &zones).is_some(),
        purpose: purpose(&report, flags),
        has_caller: report.caller.is_some(),
        is_at_boot: is_at_boot(&report),
        min_free_kb: min_free_kb(memory),
        is_high_memory_free: is_high_memory_free(memory, flags),
        has_state: !memory.zones.is_empty(),
        is_available: memory.is_available() && grown.is_none_or(|of| of == Holding::Anonymous),
        has_request: !matches!(report.kind, Kind::State),
        is_of_write: report.flags.as_ref().is_some_and(|flags| flags.contains("__GFP_WRITE")),
        has_filled: report.is_oom()
            && (!is_mostly_boost(class, &zones) || is_mostly_of_kernel(memory, &holders)),
    };
    Explanation {
        file: None,
        missing: missing(&report, &zones),
        helps: helps(&report, likely.unwrap_or(class), case),
        does_not_help: advice::does_not_help(likely.unwrap_or(class), order, case.flags),
        holders,
        report,
        flags,
        zones,
        class,
        confidence,
        likely,
    }
}

/// Returns the holders of the memory that a class of failures depends on, the largest first.
fn held_by(report: &Report, class: Class, zones: &[Check]) -> Vec<Holder> {
    let memory = &report.memory;
    let holders = match class {
        Class::Shortage | Class::SlowReclaim | Class::NoRequest | Class::FaultOom => {
            holders::holders(memory)
        }
        Class::ZoneMask | Class::NodeMask => holders::holders_of(memory, zones),
        _ => Vec::new(),
    };
    // The kernel lists these caches only where they have more than all processes and files.
    let listed: u64 = report.slab_caches.iter().map(|cache| cache.kb).sum();
    if holders.is_empty() && listed > 0 && report.kind == Kind::Oom && !memory.has_counts() {
        return vec![Holder { holding: Holding::SlabUnreclaimable, kb: listed }];
    }
    holders
}

fn helps(report: &Report, class: Class, case: Case<'_>) -> Vec<Advice> {
    match &report.notice {
        Some(notice) => {
            let all = advice::of_notice(&notice.about, is_at_boot(report));
            advice::of_stack(notice).into_iter().chain(all).collect()
        }
        None if is_of_initramfs(report) => advice::of_notice(&log::About::Initramfs, true),
        None => advice::helps(class, case),
    }
}

/// Returns what a request was for: by its caller, or at boot by the zone that it asks.
fn purpose(report: &Report, flags: Option<Gfp>) -> Option<log::Purpose> {
    match &report.caller {
        Some(caller) => caller.purpose,
        // Only the pools of DMA memory are allocated there.
        None => is_of_kernels_boot(report)
            .then_some(log::Purpose::DmaPool)
            .filter(|_| flags.is_some_and(|flags| flags.highest_zone() == ZoneKind::Dma)),
    }
}

impl Explanation {
    /// Returns the zone that would have served the request without the boost of its watermark, if that decides.
    #[must_use]
    pub fn boosted(&self) -> Option<&Check> {
        boosted(self.class, &self.zones)
    }

    /// Returns whether the class depends on free swap, which was not printed.
    #[must_use]
    pub fn lacks_swap(&self) -> bool {
        self.class == Class::Shortage && class::reclaimable(&self.report).is_none()
    }
}

/// Returns the flags of the likeliest request that called the OOM killer, if its first line was lost. Most requests are
/// for a page of a process; if such a page is available, for one of the kernel.
fn likely_flags(policy: &Policy, memory: &MemInfo, allowed: impl Fn(u32) -> bool) -> Option<Gfp> {
    [Gfp::GFP_HIGHUSER_MOVABLE, Gfp::GFP_KERNEL].into_iter().find(|flags| {
        let checks = Request::new(policy, 0, *flags).of_oom(true).checks(memory, &allowed);
        checks.iter().all(|check| check.verdict != Verdict::Fits)
    })
}

/// Returns whether a request failed before the machine had read its settings.
#[must_use]
pub fn is_at_boot(report: &Report) -> bool {
    report.at_us.is_some_and(|us| us < BOOT_US)
}

/// Returns whether the kernel itself asked, as it booted.
fn is_of_kernels_boot(report: &Report) -> bool {
    is_at_boot(report) && report.task.as_deref().is_some_and(|task| task.starts_with("swapper"))
}

/// Returns whether memory was used up before the kernel started a process: its first file system is unpacked into memory.
#[must_use]
pub fn is_of_initramfs(report: &Report) -> bool {
    let is_bare = report.memory.zones.is_empty() && report.caller.is_none();
    report.unpacks || (report.kind == Kind::Oom && is_bare && is_of_kernels_boot(report))
}

/// Returns whether a holder has little of a machine that has memory available.
fn is_beside(report: &Report, holder: &Holder) -> bool {
    let memory = &report.memory;
    let ram = memory.ram_pages.map(|pages| pages.saturating_mul(memory.page_kb()));
    let is_small = ram.is_some_and(|ram| holder.kb.saturating_mul(4) < ram);
    report.kind == Kind::State && memory.is_available() && is_small
}

/// Returns whether high memory, which the request may not use, has more free than its watermark.
fn is_high_memory_free(memory: &MemInfo, flags: Option<Gfp>) -> bool {
    let mut high = memory.zones.iter().filter(|zone| zone.kind == ZoneKind::HighMem);
    let is_free = high.any(|zone| {
        let cma = zone.free_cma.unwrap_or(0);
        zone.free.zip(zone.high).is_some_and(|(free, mark)| free.saturating_sub(cma) > mark)
    });
    is_free && flags.is_some_and(|flags| flags.highest_zone() < ZoneKind::HighMem)
}

/// Returns the sum of the min watermarks, without known boosts.
fn min_free_kb(memory: &MemInfo) -> Option<u64> {
    let min = |zone: &Zone| Some(zone.min?.saturating_sub(zone.known_boost().unwrap_or(0)));
    // Zones that the request may not use are not always printed.
    let is_whole = memory.is_whole && memory.zones.iter().any(|zone| zone.kind == ZoneKind::Normal);
    let low = memory.zones.iter().filter(|zone| zone.kind <= ZoneKind::Normal);
    low.map(min).sum::<Option<u64>>().filter(|_| is_whole)
}

fn boosted(class: Class, zones: &[Check]) -> Option<&Check> {
    let decides =
        matches!(class, Class::Shortage | Class::SlowReclaim | Class::Burst | Class::NoRequest);
    zones.iter().find(|zone| decides && zone.fits_without_boost)
}

/// Returns whether the boost is at least half of the memory that must stay free.
fn is_mostly_boost(class: Class, zones: &[Check]) -> bool {
    let both = boosted(class, zones).and_then(|zone| zone.boost.zip(zone.needed()));
    both.is_some_and(|(boost, needed)| boost.saturating_mul(2) >= needed)
}

/// Returns the checks of the zones and nodes that a request may not use, as if it might.
fn others(
    policy: &Policy,
    order: u32,
    flags: Gfp,
    memory: &MemInfo,
    zones: &[Check],
) -> Vec<Check> {
    let any_zone = flags.without(Gfp::DMA | Gfp::DMA32) | Gfp::HIGHMEM;
    let anywhere = Request::new(policy, order, any_zone).checks(memory, |_| true);
    let is_own = |other: &Check| zones.iter().any(|z| (z.node, z.kind) == (other.node, other.kind));
    anywhere.into_iter().filter(|other| !is_own(other)).collect()
}

/// Returns the name of the largest slab cache; of those that the kernel cannot free, if they hold most.
fn largest_cache<'r>(report: &'r Report, holders: &[Holder]) -> Option<&'r str> {
    let is_kept = holders.first().is_some_and(|of| of.holding == Holding::SlabUnreclaimable);
    let is_held = |cache: &&SlabCache| !(is_kept && cache.is_reclaimable());
    report.slab_caches.iter().find(is_held).map(|cache| cache.name.as_str())
}

/// Returns whether the kernel or a driver holds at least half of the zones' memory.
fn is_mostly_of_kernel(memory: &MemInfo, holders: &[Holder]) -> bool {
    let of_kernel = [Holding::Uncounted, Holding::SlabUnreclaimable, Holding::PageTables];
    let first = holders.first().filter(|holder| of_kernel.contains(&holder.holding));
    first.is_some_and(|holder| holder.kb.saturating_mul(2) >= memory.managed_kb())
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
    if report.kind == Kind::Failure && report.order.is_none() && report.mode.is_none() {
        missing.push("the first line (`page allocation failure`: order and flags)");
    }
    if report.kind == Kind::Oom && report.order.is_none() && report.victim.is_none() {
        missing.push("the first line (`invoked oom-killer`: order and flags)");
    }
    let is_of_addresses =
        report.vmalloc.is_some_and(|vmalloc| !matches!(vmalloc.lack, Lack::Pages | Lack::Blocks));
    if matches!(report.kind, Kind::MemcgOom | Kind::Notice) || is_of_addresses {
        // What the machine has does not matter to it.
        return missing;
    }
    let has_part = memory.file_pages.is_some() && !memory.is_whole;
    if memory.zones.is_empty() && (has_part || report.kind == Kind::State) {
        missing.push("the zones with their watermarks and free lists");
    } else if memory.zones.is_empty() && !memory.is_whole {
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
