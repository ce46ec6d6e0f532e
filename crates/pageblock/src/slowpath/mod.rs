//! The slow path as a state machine: the next step of a request that the fast path could not serve.
//!
//! [`SlowPath::next`] returns one [`Step`] at a time; the caller runs it, or charges simulated time
//! for it, and reports the [`Outcome`]. The order of steps depends on the generation
//! of `__alloc_pages_slowpath`: [`Slowpath`] of the policy.
//!
//! ```
//! use pageblock::mobility::Migratetype;
//! use pageblock::policy::Policy;
//! use pageblock::request::Gfp;
//! use pageblock::slowpath::{Caller, Demand, Outcome, SlowPath, Step};
//!
//! let policy = Policy::parse("linux-6.12").unwrap();
//! let demand = Demand {
//!     gfp: Gfp::GFP_KERNEL,
//!     order: 0,
//!     migratetype: Migratetype::Unmovable,
//!     max_order: 10,
//!     pageblock_order: 9,
//! };
//! let mut path = SlowPath::new(&policy, demand, Caller::default());
//! let mut reclaimed = 0;
//! let mut outcome = Outcome::Start;
//! loop {
//!     outcome = match path.next(outcome) {
//!         Step::WakeKswapd { order } => {
//!             assert_eq!(order, 0);
//!             Outcome::Done
//!         }
//!         // Pass the flags to `Allocator::alloc_with` here; this example has memory once some was reclaimed.
//!         Step::TryAlloc { .. } if reclaimed > 0 => Outcome::Page,
//!         Step::TryAlloc { .. } => Outcome::NoPage,
//!         Step::DirectReclaim { .. } => {
//!             reclaimed += 32;
//!             Outcome::Reclaimed { pages: 32 }
//!         }
//!         Step::Served => break,
//!         other => panic!("a page needs no {other:?}"),
//!     };
//! }
//! assert_eq!(reclaimed, 32);
//! ```

mod first;
mod flags;
mod later;
mod step;
#[cfg(test)]
mod tests;

pub use flags::{reserve_flags, slow_alloc_flags};
pub use step::{
    Caller, CompactPriority, CompactResult, Contention, Demand, Nodes, OomResult, Outcome, Step,
    Wait,
};

use crate::base::alloc_flags::AllocFlags;
use crate::base::frame::{COSTLY_ORDER, Order};
use crate::base::mobility::Migratetype;
use crate::base::request::Gfp;
use crate::policy::{
    CompactTry, DefragBlocks, DefragLast, NofailKills, NofailReserve, Nofragment, OomSparesMayfail,
    OomWithoutFs, Policy, Reserve, Slowpath,
};

/// Orders above it are costly: their requests retry only briefly and never call the OOM killer
/// (`PAGE_ALLOC_COSTLY_ORDER`).
pub const PAGE_ALLOC_COSTLY_ORDER: Order = COSTLY_ORDER;

/// The most rounds of reclaim without progress, and of compaction with progress
/// (`MAX_RECLAIM_RETRIES`, `MAX_COMPACT_RETRIES`), as every Linux has them: a policy's `reclaim_retries` and
/// `compact_retries`.
pub const MAX_RETRIES: u32 = 16;

/// The state of a request: which step was returned last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum At {
    Start,
    Wake,
    Attempt,
    Reserve,
    ReserveWait,
    Compact,
    CompactTry,
    Reclaim,
    ReclaimTry,
    Unreserve,
    Drain,
    DrainTry,
    ReclaimRetry,
    ForceUnreserve,
    CompactRetry,
    Drop,
    RetryWait,
    OomTry,
    Oom,
    OomWait,
    OomLast,
    NofailTry,
    Over(Step),
}

/// The place of a direct compaction in the slow path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Round {
    /// Before anything was reclaimed.
    CompactFirst,
    /// In the loop.
    Loop,
    /// The last attempt.
    Last,
}

/// One request on its way through the slow path.
#[derive(Clone, Copy, Debug)]
pub struct SlowPath<'p> {
    policy: &'p Policy,
    demand: Demand,
    caller: Caller,
    at: At,
    round: Round,
    flags: AllocFlags,
    nodes: Nodes,
    priority: CompactPriority,
    compacted: (CompactResult, Contention),
    reclaimed: u64,
    reclaimed_total: u64,
    no_progress_loops: u32,
    compaction_retries: u32,
}

impl<'p> SlowPath<'p> {
    /// Returns a request that the fast path could not serve.
    #[must_use]
    pub fn new(policy: &'p Policy, demand: Demand, caller: Caller) -> Self {
        Self {
            policy,
            demand,
            caller,
            at: At::Start,
            round: Round::Loop,
            flags: slow_alloc_flags(policy, &demand, &caller),
            nodes: Nodes::Request,
            priority: CompactPriority::Async,
            compacted: (CompactResult::Skipped, Contention::None),
            reclaimed: 0,
            reclaimed_total: 0,
            no_progress_loops: 0,
            compaction_retries: 0,
        }
    }

    /// Updates the caller's flags: the OOM killer chose it, or a signal arrived.
    pub const fn set_caller(&mut self, caller: Caller) {
        self.caller = caller;
    }

    /// Returns the flags of the next attempt.
    #[must_use]
    pub const fn flags(&self) -> AllocFlags {
        self.flags
    }

    /// Returns the number of pages reclaimed so far.
    #[must_use]
    pub const fn reclaimed_total(&self) -> u64 {
        self.reclaimed_total
    }

    /// Takes the outcome of the last step, and returns the next. Begins with [`Outcome::Start`].
    pub fn next(&mut self, outcome: Outcome) -> Step {
        if let At::Over(step) = self.at {
            return step;
        }
        if outcome == Outcome::Page {
            return self.over(Step::Served);
        }
        match self.at {
            At::Start => self.start(),
            At::Wake => self.attempt(),
            At::RetryWait | At::NofailTry => self.retry(),
            At::Attempt | At::ReserveWait => self.after_attempt(),
            At::Reserve => self.after_reserve(),
            At::Compact => self.take_compacted(outcome),
            At::CompactTry => self.after_compact(),
            At::Reclaim => self.take_reclaimed(outcome),
            At::ReclaimTry => self.unreserve_and_drain(),
            At::Unreserve => self.go(At::Drain, Step::DrainAll),
            At::Drain => self.go(At::DrainTry, self.try_alloc()),
            At::DrainTry => self.after_reclaim(),
            At::ReclaimRetry | At::ForceUnreserve | At::CompactRetry if outcome == Outcome::Yes => {
                self.retry()
            }
            At::ReclaimRetry => self.force_unreserve(),
            At::ForceUnreserve => self.compact_retry(),
            At::CompactRetry => self.drop_nofragment_or_oom(),
            At::Drop => self.after_drop(),
            At::OomTry => self.oom_kill(),
            At::Oom => self.take_oom(outcome),
            At::OomWait | At::OomLast => self.after_oom(Progress::Made),
            At::Over(step) => step,
        }
    }
}

/// Whether a round made progress.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Progress {
    Made,
    None,
}

// What all generations share.
impl SlowPath<'_> {
    fn go(&mut self, at: At, step: Step) -> Step {
        self.at = at;
        step
    }

    fn over(&mut self, step: Step) -> Step {
        self.go(At::Over(step), step)
    }

    fn is_first_generation(&self) -> bool {
        self.policy.slowpath == Slowpath::CompactEachRound
    }

    fn has(&self, bits: Gfp) -> bool {
        self.demand.gfp.has(bits)
    }

    fn try_alloc(&self) -> Step {
        Step::TryAlloc { flags: self.flags, nodes: self.nodes }
    }

    fn start(&mut self) -> Step {
        if self.demand.order > self.demand.max_order {
            return self.over(Step::Fail);
        }
        if self.is_first_generation() { self.start_first() } else { self.start_later() }
    }

    /// Wakes kswapd if the request may do so, then tries the zones.
    fn wake_and_attempt(&mut self) -> Step {
        if !self.has(Gfp::KSWAPD_RECLAIM) {
            return self.attempt();
        }
        let order = match self.policy.nofragment {
            Nofragment::DefragMode => self.demand.order.max(self.demand.pageblock_order),
            _ => self.demand.order,
        };
        self.go(At::Wake, Step::WakeKswapd { order })
    }

    fn attempt(&mut self) -> Step {
        self.go(At::Attempt, self.try_alloc())
    }

    fn after_attempt(&mut self) -> Step {
        if self.is_first_generation() {
            self.after_attempt_first()
        } else {
            self.after_attempt_later()
        }
    }

    fn after_reserve(&mut self) -> Step {
        if self.is_first_generation() {
            self.after_reserve_first()
        } else {
            self.after_last_free_attempt()
        }
    }

    fn retry(&mut self) -> Step {
        if self.is_first_generation() { self.retry_first() } else { self.retry_later() }
    }

    /// Returns the order that reclaim and compaction work for. With `defrag_blocks` it is a whole pageblock while blocks
    /// of other types must not be split: nothing smaller would serve a kernel request.
    fn effort_order(&self) -> Order {
        let promotes = match self.policy.defrag_blocks {
            DefragBlocks::Off => false,
            DefragBlocks::On => self.demand.migratetype != Migratetype::Movable,
            DefragBlocks::All => true,
        };
        if promotes && self.flags.has(AllocFlags::NOFRAGMENT) {
            self.demand.order.max(self.demand.pageblock_order)
        } else {
            self.demand.order
        }
    }

    /// Returns whether the request must not split blocks of other types to the end.
    fn never_splits(&self) -> bool {
        self.policy.defrag_last == DefragLast::Fails && self.flags.has(AllocFlags::NOFRAGMENT)
    }

    /// Compacts directly (`__alloc_pages_direct_compact`).
    fn compact(&mut self, round: Round) -> Step {
        self.round = round;
        self.compacted = (CompactResult::Skipped, Contention::None);
        match self.effort_order() {
            0 => self.after_compact(),
            order => self.go(At::Compact, Step::DirectCompact { order, priority: self.priority }),
        }
    }

    fn take_compacted(&mut self, outcome: Outcome) -> Step {
        if let Outcome::Compacted(result, contention) = outcome {
            self.compacted = (result, contention);
        }
        if self.tries_after(self.compacted.0) {
            self.go(At::CompactTry, self.try_alloc())
        } else {
            self.after_compact()
        }
    }

    /// Returns whether the free lists are tried after a direct compaction that ended with `result`, which also counts as a stall.
    #[must_use]
    pub fn tries_after(&self, result: CompactResult) -> bool {
        match self.policy.compact_try {
            CompactTry::Always => true,
            CompactTry::UnlessSkipped => result != CompactResult::Skipped,
            CompactTry::WhenCompacted => {
                !matches!(result, CompactResult::Skipped | CompactResult::Deferred)
            }
        }
    }

    fn after_compact(&mut self) -> Step {
        if self.is_first_generation() {
            self.after_compact_first()
        } else {
            self.after_compact_later()
        }
    }

    /// Reclaims directly (`__alloc_pages_direct_reclaim`).
    fn reclaim(&mut self) -> Step {
        self.go(At::Reclaim, Step::DirectReclaim { order: self.effort_order() })
    }

    fn take_reclaimed(&mut self, outcome: Outcome) -> Step {
        self.reclaimed = if let Outcome::Reclaimed { pages } = outcome { pages } else { 0 };
        self.reclaimed_total = self.reclaimed_total.saturating_add(self.reclaimed);
        if self.reclaimed == 0 {
            return self.after_reclaim();
        }
        self.go(At::ReclaimTry, self.try_alloc())
    }

    /// Drains CPU lists and releases the reserve: reclaimed pages may be there.
    fn unreserve_and_drain(&mut self) -> Step {
        match self.policy.reserve {
            Reserve::MigrateReserve => self.go(At::Drain, Step::DrainAll),
            _ => self.go(At::Unreserve, Step::UnreserveHighatomic { force: false }),
        }
    }

    fn after_reclaim(&mut self) -> Step {
        if self.is_first_generation() {
            self.after_reclaim_first()
        } else {
            self.compact(Round::Loop)
        }
    }

    /// Calls the OOM killer (`__alloc_pages_may_oom`), after one attempt at the high watermark, which succeeds only if
    /// another task has just freed much memory.
    fn oom(&mut self) -> Step {
        let mut flags = AllocFlags::WMARK_HIGH.with(AllocFlags::CPUSET);
        if self.never_splits() {
            flags = flags.with(AllocFlags::NOFRAGMENT);
        }
        self.go(At::OomTry, Step::TryAlloc { flags, nodes: self.nodes })
    }

    fn oom_kill(&mut self) -> Step {
        if !self.may_kill() {
            return self.after_oom(Progress::None);
        }
        let progresses = self.policy.oom_without_fs == OomWithoutFs::Progresses;
        if progresses && !self.has(Gfp::FS) && !self.has(Gfp::NOFAIL) {
            return self.after_oom(Progress::Made);
        }
        self.go(At::Oom, Step::Oom)
    }

    fn may_kill(&self) -> bool {
        let mayfail = self.policy.oom_spares_mayfail == OomSparesMayfail::On;
        let spares = self.has(Gfp::THISNODE) || (mayfail && self.has(Gfp::RETRY_MAYFAIL));
        let useless = self.demand.is_costly() || self.is_below_normal() || spares;
        let insists = self.has(Gfp::NOFAIL) && self.policy.nofail_kills == NofailKills::On;
        !useless || insists
    }

    /// Killing user tasks does not free memory of the lowest zones.
    fn is_below_normal(&self) -> bool {
        self.has(Gfp::DMA) || self.has(Gfp::DMA32)
    }

    fn take_oom(&mut self, outcome: Outcome) -> Step {
        match outcome {
            Outcome::Oom(OomResult::Busy) => self.go(At::OomWait, Step::Wait(Wait::Tick)),
            _ if self.has(Gfp::NOFAIL) && self.policy.nofail_reserve == NofailReserve::On => {
                let flags = AllocFlags::NO_WATERMARKS.with(AllocFlags::CPUSET);
                self.go(At::OomLast, Step::TryAlloc { flags, nodes: self.nodes })
            }
            Outcome::Oom(OomResult::Killed) => self.after_oom(Progress::Made),
            _ => self.after_oom(Progress::None),
        }
    }

    fn after_oom(&mut self, progress: Progress) -> Step {
        if self.is_first_generation() {
            self.after_oom_first(progress)
        } else {
            self.after_oom_later(progress)
        }
    }
}
