//! The class of a failure.

use pageblock::layout::ZoneKind;
use pageblock::request::Gfp;
use serde::Serialize;

use crate::explain::is_at_boot;
use crate::log::{Kind, Purpose, Report};
use crate::watermark::{Check, Verdict};

/// The largest order for which the kernel tries hard (`PAGE_ALLOC_COSTLY_ORDER`).
pub const COSTLY_ORDER: u32 = 3;

/// Why a request failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// A caller that cannot wait found the reserves used up; memory could have been reclaimed.
    Burst,
    /// Memory is free, but no free block is large enough.
    Fragmentation,
    /// The free memory is CMA's, which the request may not use.
    OnlyCma,
    /// The free memory is in the highatomic reserve.
    OnlyHighatomic,
    /// The zones that the request may use are short, while others have memory.
    ZoneMask,
    /// The nodes that the request may use are short, while others have memory.
    NodeMask,
    /// A memory cgroup is at its limit; the machine may have memory.
    Cgroup,
    /// Memory is used up, and little of it can be reclaimed.
    Shortage,
    /// Memory is used up, and reclaimable memory was not reclaimed in time.
    SlowReclaim,
    /// The printed state would serve the request: it changed since the failure.
    Changed,
    /// A page fault failed because of a request elsewhere; the report has no request of its own.
    FaultOom,
    /// A user requested a kill with SysRq-f.
    Asked,
    /// `vmalloc` failed; its line names the missing resource.
    Vmalloc,
    /// A part of the kernel reports by itself what it lacks.
    Notice,
    /// A state without a request.
    NoRequest,
    /// The report does not tell.
    Unknown,
}

/// The confidence in a class.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// It follows from printed numbers.
    High,
    /// Numbers are missing, or it is an inference.
    Medium,
    /// It is the best guess.
    Low,
}

/// Returns the class of a report and the confidence in it. `others` are the checks of the zones and nodes that the request
/// may not use, computed as if it might.
#[must_use]
pub fn classify(
    report: &Report,
    flags: Option<Gfp>,
    checks: &[Check],
    others: &[Check],
) -> (Class, Confidence) {
    let flags = match before_checks(report, flags, checks) {
        Ok(flags) => flags,
        Err(known) => return known,
    };
    // High memory is above all that the kernel of 32 bits may use for itself.
    let has_high = report.memory.zones.iter().any(|zone| zone.kind == ZoneKind::HighMem);
    let above = if has_high { ZoneKind::HighMem } else { ZoneKind::Normal };
    let is_of_low_zones = flags.highest_zone() < above;
    let any = |verdict| checks.iter().any(|check| check.verdict == verdict);
    let is_whole = |check: &Check| {
        check.reserve.is_some() && check.needed().is_some() && check.hidden_highatomic == 0
    };
    let sure = match checks.iter().all(is_whole) {
        true => Confidence::High,
        false => Confidence::Medium,
    };
    let fits_elsewhere = |node: bool| {
        let own = |other: &Check| checks.iter().any(|check| check.node == other.node);
        others.iter().any(|other| other.verdict == Verdict::Fits && own(other) != node)
    };
    if any(Verdict::Fits) {
        return (Class::Changed, Confidence::Medium);
    }
    // If no watermark was printed, the lists decide; other zones may have more blocks.
    let blocks = |verdict, of: fn(&Check) -> u64| -> u64 {
        checks.iter().filter(|check| check.verdict == verdict).map(of).sum()
    };
    let others = blocks(Verdict::OtherBlocks, |check| check.other_blocks);
    let unknown = blocks(Verdict::Unknown, |check| check.blocks.unwrap_or(0));
    if others > 0 && unknown > others {
        return (Class::Unknown, Confidence::Low);
    }
    if others > 0 {
        let cma = checks.iter().any(|check| check.other_is_cma);
        return (if cma { Class::OnlyCma } else { Class::OnlyHighatomic }, sure);
    }
    if any(Verdict::NoBlock) || any(Verdict::TooFewLarge) {
        return (Class::Fragmentation, sure);
    }
    if checks.iter().any(is_mostly_cma) {
        return (Class::OnlyCma, sure);
    }
    if checks.iter().any(is_mostly_highatomic) {
        return (Class::OnlyHighatomic, sure);
    }
    if checks.is_empty() || checks.iter().all(|check| check.verdict == Verdict::Unknown) {
        return (Class::Unknown, Confidence::Low);
    }
    if fits_elsewhere(true) {
        return (Class::NodeMask, sure);
    }
    if fits_elsewhere(false) && is_of_low_zones {
        return (Class::ZoneMask, sure);
    }
    let higher = |zone: &crate::log::Zone| zone.kind > flags.highest_zone();
    if is_of_low_zones && !report.memory.zones.iter().any(higher) {
        // Zones that it may not use are not printed.
        return (Class::ZoneMask, Confidence::Medium);
    }
    // A zone with an eighth of the machine free, and a watermark that is not known, may have had the page.
    let ram = report.memory.ram_pages.unwrap_or(0).saturating_mul(report.memory.page_kb());
    let is_open = |check: &Check| {
        check.verdict == Verdict::Unknown && check.free.is_some_and(|kb| kb > ram.max(1) / 8)
    };
    if ram > 0 && checks.iter().any(is_open) {
        return (Class::Unknown, Confidence::Low);
    }
    match reclaimable(report) {
        Some(true) if !flags.has(Gfp::DIRECT_RECLAIM) => (Class::Burst, sure),
        Some(true) => (Class::SlowReclaim, Confidence::Medium),
        Some(false) => (Class::Shortage, sure),
        None => (Class::Shortage, Confidence::Medium),
    }
}

/// Returns the flags of a request whose zones must be checked, or the class if it is known without them.
fn before_checks(
    report: &Report,
    flags: Option<Gfp>,
    checks: &[Check],
) -> Result<Gfp, (Class, Confidence)> {
    if let Some(class) = of_kind(report.kind) {
        return Err((
            class,
            report.notice.as_ref().map_or(Confidence::High, |notice| notice.about.confidence()),
        ));
    }
    if report.memory.zones.is_empty() && report.of_nodes {
        return Err((Class::NodeMask, Confidence::Medium));
    }
    let Some(flags) = flags else {
        return Err(match report.kind {
            Kind::Dump | Kind::State => (Class::NoRequest, Confidence::High),
            _ => (Class::Unknown, Confidence::Low),
        });
    };
    let is_of_low_zones = flags.highest_zone() < ZoneKind::Normal;
    if checks.is_empty() && is_of_low_zones && report.memory.is_whole_without(flags.highest_zone())
    {
        return Err((Class::ZoneMask, Confidence::Medium));
    }
    if report.memory.zones.is_empty() {
        return Err((Class::Unknown, Confidence::Low));
    }
    if checks.is_empty() && (report.mems_allowed.is_some() || report.nodemask.is_some()) {
        // The nodes that are printed are those that it may use, and none has a zone for it.
        return Err((Class::NodeMask, Confidence::Medium));
    }
    Ok(flags)
}

/// Returns the likeliest class, by the request alone, if the state of memory is not in the log.
#[must_use]
pub fn likely(report: &Report, flags: Option<Gfp>) -> Option<Class> {
    if !report.memory.zones.is_empty() {
        return None;
    }
    if report.is_before_zones() {
        return None;
    }
    let is_movable = flags.is_some_and(|flags| flags.has(Gfp::MOVABLE));
    if report.kind == Kind::Oom && !report.of_machine && report.of_container && !is_movable {
        // The page of a process has other flags, and its charge to the container's memory cgroup has these.
        return Some(Class::Cgroup);
    }
    // Neither the stack nor the line of the kill has a memory cgroup, or nothing names one.
    let is_request = flags.is_some() && report.order.is_some();
    if report.kind == Kind::Oom
        && (report.of_machine || is_request)
        && report.order.unwrap_or(0) == 0
    {
        // On 32 bits what the kernel needs for itself must lie in low memory.
        let above = if report.is_32_bit { ZoneKind::HighMem } else { ZoneKind::Normal };
        let is_low = flags.is_some_and(|flags| flags.highest_zone() < above);
        return Some(if is_low { Class::ZoneMask } else { Class::Shortage });
    }
    let (order, flags) = (report.order?, flags?);
    let may_wait = flags.has(Gfp::DIRECT_RECLAIM);
    match report.kind {
        Kind::Stall if order <= COSTLY_ORDER => Some(Class::SlowReclaim),
        // While the machine or a crash kernel boots, memory is not fragmented yet.
        Kind::Failure
            if flags.highest_zone() == ZoneKind::Dma
                && (is_at_boot(report) || is_of_pool(report)) =>
        {
            Some(Class::ZoneMask)
        }
        Kind::Failure if order > COSTLY_ORDER => Some(Class::Fragmentation),
        Kind::Failure if may_wait && flags.highest_zone() < ZoneKind::Normal => {
            Some(Class::ZoneMask)
        }
        Kind::Failure if may_wait && order == 0 => Some(Class::SlowReclaim),
        Kind::Failure if may_wait => None,
        Kind::Failure if order == 0 => Some(Class::Burst),
        Kind::Failure => Some(Class::Fragmentation),
        _ => None,
    }
}

/// Returns whether the request is for a pool of DMA memory, which the kernel sets aside as it boots.
fn is_of_pool(report: &Report) -> bool {
    report.caller.as_ref().is_some_and(|caller| caller.purpose == Some(Purpose::DmaPool))
}

/// Returns whether at least half of the free memory that the request may not use is CMA's.
fn is_mostly_cma(check: &Check) -> bool {
    check.verdict == Verdict::BelowWithoutCma
        && check.free.is_none_or(|free| check.unusable_cma >= free / 2)
}

/// Returns whether at least half of the free memory that the request may not use is in the highatomic reserve.
fn is_mostly_highatomic(check: &Check) -> bool {
    check.verdict == Verdict::BelowWithoutHighatomic
        && check.free.is_none_or(|free| check.unusable_highatomic >= free / 2)
}

/// Returns the class that follows from the kind of a report, regardless of the zones that it prints.
const fn of_kind(kind: Kind) -> Option<Class> {
    Some(match kind {
        Kind::AskedOom => Class::Asked,
        Kind::Vmalloc => Class::Vmalloc,
        Kind::Notice => Class::Notice,
        Kind::FaultOom => Class::FaultOom,
        Kind::MemcgOom => Class::Cgroup,
        _ => return None,
    })
}

/// Returns whether a good part of memory (a twentieth) could have been reclaimed: page cache, or anonymous memory while
/// there is swap; `None` if that depends on swap, which was not printed.
pub(crate) fn reclaimable(report: &Report) -> Option<bool> {
    let memory = &report.memory;
    let managed: u64 = memory.zones.iter().filter_map(|zone| zone.managed).sum();
    // The lines of zones may be cut.
    let ram = || memory.ram_pages.map(|pages| pages.saturating_mul(memory.page_kb()));
    let managed = match managed {
        0 if memory.zones.iter().all(|zone| zone.present.is_none()) => {
            ram().or(memory.held.anonymous).unwrap_or(0)
        }
        managed => managed,
    };
    let file_by_zone: u64 = memory.zones.iter().map(|zone| zone.file).sum();
    let file = memory.file_pages.map_or(file_by_zone, |pages| pages * memory.page_kb());
    let enough = |kb: u64| kb.saturating_mul(20) > managed;
    // Swap takes anonymous memory only.
    let anonymous = memory.held.anonymous.unwrap_or(u64::MAX);
    match memory.free_swap_kb {
        Some(swap) => Some(enough(file.saturating_add(swap.min(anonymous)))),
        None if enough(file) => Some(true),
        None if enough(file.saturating_add(anonymous)) => None,
        None => Some(false),
    }
}
