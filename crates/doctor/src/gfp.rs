//! The permissions of a request by its flags (`gfp_t`).

use pageblock::request::Gfp;
use pageblock_recording::{KernelVersion, gfp};
use serde::{Serialize, Serializer};

use crate::log::{Kind, Report};

/// The permissions of a request, for JSON.
#[derive(Serialize)]
struct Allows {
    /// `__GFP_DMA`.
    dma: bool,
    /// `__GFP_DMA32`.
    dma32: bool,
    /// `__GFP_HIGHMEM`.
    highmem: bool,
    /// `__GFP_MOVABLE`.
    movable: bool,
    /// `__GFP_HIGH`: may use a part of the reserves.
    high: bool,
    /// May use more of the reserves because the caller cannot wait (`__GFP_ATOMIC` up to 6.2, then `__GFP_HIGH` without
    /// direct reclaim).
    harder: bool,
    /// `__GFP_DIRECT_RECLAIM`, up to 4.3 `__GFP_WAIT`.
    direct_reclaim: bool,
    /// `__GFP_IO`.
    io: bool,
    /// `__GFP_FS`.
    fs: bool,
    /// `__GFP_MEMALLOC`: watermarks are ignored.
    memalloc: bool,
    /// `__GFP_NORETRY`.
    noretry: bool,
    /// `GFP_TRANSHUGE` or `GFP_TRANSHUGE_LIGHT`, if flags are printed by name.
    huge: bool,
}

/// Serializes flags as permissions.
pub(crate) fn allows<S: Serializer>(flags: &Option<Gfp>, to: S) -> Result<S::Ok, S::Error> {
    let of = |flags: Gfp| {
        let high = flags.has(Gfp::HIGH);
        let direct_reclaim = flags.has(Gfp::DIRECT_RECLAIM);
        Allows {
            dma: flags.has(Gfp::DMA),
            dma32: flags.has(Gfp::DMA32),
            highmem: flags.has(Gfp::HIGHMEM),
            movable: flags.has(Gfp::MOVABLE),
            high,
            harder: flags.has(Gfp::ATOMIC) || (high && !direct_reclaim),
            direct_reclaim,
            io: flags.has(Gfp::IO),
            fs: flags.has(Gfp::FS),
            memalloc: flags.has(Gfp::MEMALLOC),
            noretry: flags.has(Gfp::NORETRY),
            huge: flags.has(Gfp::GFP_TRANSHUGE_LIGHT),
        }
    };
    flags.map(of).serialize(to)
}

/// Returns the flags of a report's request; `None` if it has none.
#[must_use]
pub fn flags_of(report: &Report, version: Option<&KernelVersion>) -> Option<Gfp> {
    let flags = match (&report.flags, report.mode) {
        (Some(names), _) => Some(gfp::named(names, version)),
        (None, mode) => mode.map(|bits| gfp::numbered(bits, version)),
    };
    // Only a caller that may reclaim gets there, however its flags were copied.
    let waits = matches!(report.kind, Kind::Oom | Kind::Stall);
    flags.map(|flags| if waits && !may_wait(flags) { flags | Gfp::GFP_KERNEL } else { flags })
}

/// Returns whether the caller has a fallback: it asked the kernel not to retry (`__GFP_NORETRY`) an order above those that
/// the kernel retries, or made a request like a page fault's for a huge page.
#[must_use]
pub const fn is_optional(flags: Gfp, order: u32) -> bool {
    order > crate::class::COSTLY_ORDER
        && (flags.has(Gfp::NORETRY) || flags.has(Gfp::GFP_TRANSHUGE_LIGHT))
}

/// Returns whether the caller may wait until memory is reclaimed.
#[must_use]
pub const fn may_wait(flags: Gfp) -> bool {
    flags.has(Gfp::DIRECT_RECLAIM)
}

/// Describes the request in the words of the kernel's documentation.
#[must_use]
pub const fn kind(flags: Gfp) -> &'static str {
    if flags.has(Gfp::MEMALLOC) {
        "may use all reserves"
    } else if !flags.has(Gfp::DIRECT_RECLAIM) && flags.has(Gfp::HIGH) {
        "cannot wait or reclaim (atomic); may use a part of the reserves"
    } else if !flags.has(Gfp::DIRECT_RECLAIM) {
        "cannot wait or reclaim"
    } else if !flags.has(Gfp::IO) {
        "may reclaim, but not start I/O"
    } else if !flags.has(Gfp::FS) {
        "may reclaim, but not call file systems"
    } else {
        "may reclaim and compact"
    }
}
