//! The flags of the slow path's attempts (`gfp_to_alloc_flags`, `__gfp_pfmemalloc_flags`).

use super::{Caller, Demand};
use crate::base::alloc_flags::AllocFlags;
use crate::base::mobility::Migratetype;
use crate::base::request::Gfp;
use crate::policy::{Boost, HighatomicHigh, Nofragment, OomReserve, Policy, Slowpath, WmarkCheck};

/// Returns the flags of ordinary attempts in the slow path (`gfp_to_alloc_flags`). The same commits changed which
/// requests are urgent and how a watermark check treats them, so [`WmarkCheck`] decides both.
#[must_use]
pub fn slow_alloc_flags(policy: &Policy, demand: &Demand, caller: &Caller) -> AllocFlags {
    let mut flags = AllocFlags::WMARK_MIN.with(AllocFlags::CPUSET);
    if demand.gfp.has(Gfp::HIGH) {
        flags = flags.with(AllocFlags::MIN_RESERVE);
    }
    if policy.boost != Boost::Off && demand.gfp.has(Gfp::KSWAPD_RECLAIM) {
        flags = flags.with(AllocFlags::KSWAPD);
    }
    if demand.migratetype == Migratetype::Movable {
        flags = flags.with(AllocFlags::CMA);
    }
    // The first generation has no step that would ever drop it.
    let drops = policy.slowpath != Slowpath::CompactEachRound;
    if policy.nofragment == Nofragment::DefragMode && drops {
        flags = flags.with(AllocFlags::NOFRAGMENT);
    }
    match policy.wmark_check {
        WmarkCheck::HalvePerOrder => {
            harder(flags, demand, caller, !demand.gfp.has(Gfp::DIRECT_RECLAIM))
        }
        WmarkCheck::ListExists => harder(flags, demand, caller, is_atomic(demand.gfp)),
        WmarkCheck::FlagsCombine | WmarkCheck::FreeHighatomic => {
            reserves(policy, flags, demand, caller)
        }
    }
}

/// Returns whether a request has `__GFP_ATOMIC` of 4.4 to 6.2. Later kernels lack the bit; their `GFP_ATOMIC` is the
/// same request.
const fn is_atomic(gfp: Gfp) -> bool {
    gfp.has(Gfp::ATOMIC) || (gfp.has(Gfp::GFP_ATOMIC) && !gfp.has(Gfp::DIRECT_RECLAIM))
}

const fn is_rt_task(caller: &Caller) -> bool {
    caller.rt_task && !caller.in_interrupt
}

/// The reserves of a request up to 6.2.
const fn harder(flags: AllocFlags, demand: &Demand, caller: &Caller, atomic: bool) -> AllocFlags {
    if atomic {
        let flags = flags.without(AllocFlags::CPUSET);
        return if demand.gfp.has(Gfp::NOMEMALLOC) {
            flags
        } else {
            flags.with(AllocFlags::HARDER)
        };
    }
    if is_rt_task(caller) { flags.with(AllocFlags::HARDER) } else { flags }
}

/// The reserves of a request from 6.3.
fn reserves(policy: &Policy, flags: AllocFlags, demand: &Demand, caller: &Caller) -> AllocFlags {
    if demand.gfp.has(Gfp::DIRECT_RECLAIM) {
        return if is_rt_task(caller) { flags.with(AllocFlags::MIN_RESERVE) } else { flags };
    }
    let high = flags.has(AllocFlags::MIN_RESERVE);
    let mut flags = flags;
    if !demand.gfp.has(Gfp::NOMEMALLOC) {
        flags = flags.with(AllocFlags::NON_BLOCK);
        if demand.order > 0 && (high || policy.highatomic_high == HighatomicHigh::All) {
            flags = flags.with(AllocFlags::HIGHATOMIC);
        }
    }
    if high { flags.without(AllocFlags::CPUSET) } else { flags }
}

/// Returns the flags of the reserves that the caller may also use; `None` for most callers
/// (`__gfp_pfmemalloc_flags`).
#[must_use]
pub fn reserve_flags(policy: &Policy, gfp: Gfp, caller: &Caller) -> Option<AllocFlags> {
    if gfp.has(Gfp::NOMEMALLOC) {
        None
    } else if gfp.has(Gfp::MEMALLOC) || caller.pf_memalloc {
        Some(AllocFlags::NO_WATERMARKS)
    } else if !caller.oom_victim || caller.in_interrupt {
        None
    } else if policy.oom_reserve == OomReserve::Half {
        Some(AllocFlags::OOM)
    } else {
        Some(AllocFlags::NO_WATERMARKS)
    }
}
