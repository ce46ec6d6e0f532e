//! The later generations, from 4.8: retries are bounded, compaction has priorities. The third
//! (7.2 and later) is one loop, whose first round may skip reclaim.

use super::{
    At, CompactPriority, CompactResult, Nodes, Progress, Round, SlowPath, Step, reserve_flags,
};
use crate::base::alloc_flags::AllocFlags;
use crate::base::mobility::Migratetype;
use crate::base::request::Gfp;
use crate::policy::{
    CompactFirst, DefragRetries, ForceUnreserve, Reserve, SkippedGivesUp, Slowpath,
    ThisnodeGivesUp, WithoutIo, WmarkCheck,
};

impl SlowPath<'_> {
    pub(super) fn start_later(&mut self) -> Step {
        self.round = Round::CompactFirst;
        self.wake_and_attempt()
    }

    fn is_third_generation(&self) -> bool {
        self.policy.slowpath == Slowpath::OneLoop
    }

    /// Starts a new round. The second generation considers its reserves from its second round on.
    pub(super) fn retry_later(&mut self) -> Step {
        self.round = Round::Loop;
        if !self.is_third_generation() {
            self.take_reserves();
        }
        self.wake_and_attempt()
    }

    /// Sets the flags of the reserve that the caller may use, if any; and all nodes, if it uses a reserve or its
    /// cpuset does not matter.
    fn take_reserves(&mut self) {
        let reserve = reserve_flags(self.policy, self.demand.gfp, &self.caller);
        if let Some(reserve) = reserve {
            let kept = AllocFlags::CMA.with(AllocFlags::KSWAPD);
            self.flags = AllocFlags(self.flags.0 & kept.0).with(reserve);
        }
        if reserve.is_some() || !self.flags.has(AllocFlags::CPUSET) {
            self.nodes = Nodes::Any;
        }
    }

    pub(super) fn after_attempt_later(&mut self) -> Step {
        if !self.is_third_generation() {
            return match self.round {
                Round::CompactFirst if self.compacts_first() => self.compact(Round::CompactFirst),
                Round::CompactFirst => self.start_loop(),
                _ => self.after_last_free_attempt(),
            };
        }
        let before = (self.flags, self.nodes);
        self.take_reserves();
        if (self.flags, self.nodes) == before {
            return self.after_last_free_attempt();
        }
        self.go(At::Reserve, self.try_alloc())
    }

    fn start_loop(&mut self) -> Step {
        self.priority = CompactPriority::SyncLight;
        self.retry()
    }

    /// Returns whether the request is likely to need compaction rather than reclaim.
    fn compacts_first(&self) -> bool {
        let kernel_block = self.demand.order > 0 && self.demand.migratetype != Migratetype::Movable;
        self.has(Gfp::DIRECT_RECLAIM)
            && !self.cannot_compact()
            && reserve_flags(self.policy, self.demand.gfp, &self.caller).is_none()
            && (self.demand.is_costly()
                || (kernel_block && self.policy.compact_first == CompactFirst::KernelBlocks))
    }

    /// Returns whether the slow path knows that the request may not compact, for want of I/O.
    fn cannot_compact(&self) -> bool {
        self.policy.without_io == WithoutIo::NoCompaction && !self.has(Gfp::IO)
    }

    /// Decides what follows once everything that is free of cost was tried.
    pub(super) fn after_last_free_attempt(&mut self) -> Step {
        if !self.has(Gfp::DIRECT_RECLAIM) {
            // Up to 7.1 such a request fails though it could still split a block of another type.
            let kswapd = AllocFlags::NOFRAGMENT.with(AllocFlags::KSWAPD);
            let drops =
                self.is_third_generation() && self.flags.has(kswapd) && !self.never_splits();
            return if drops { self.drop_nofragment() } else { self.nopage() };
        }
        if self.caller.pf_memalloc {
            return self.nopage();
        }
        if self.round == Round::CompactFirst {
            if self.compacts_first() {
                return self.compact(Round::CompactFirst);
            }
            self.priority = CompactPriority::SyncLight;
        }
        self.reclaim()
    }

    pub(super) fn after_compact_later(&mut self) -> Step {
        if self.round == Round::CompactFirst {
            return self.after_compact_first_round();
        }
        let retries = self.has(Gfp::RETRY_MAYFAIL) && !self.cannot_compact();
        if self.has(Gfp::NORETRY) || (self.demand.is_costly() && !retries) {
            return self.nopage();
        }
        self.reclaim_retry()
    }

    fn after_compact_first_round(&mut self) -> Step {
        let noretry = self.has(Gfp::NORETRY);
        // From 7.2 on orders that are not costly do so too, and what compaction found does not matter.
        let third = self.is_third_generation();
        let light = noretry && (third || self.demand.is_costly());
        let gives_up = self.policy.thisnode_gives_up == ThisnodeGivesUp::On;
        let thisnode = gives_up && self.has(Gfp::THISNODE);
        if light && (thisnode || (!third && self.compaction_is_hopeless())) {
            return self.nopage();
        }
        if light { self.retry() } else { self.start_loop() }
    }

    fn compaction_is_hopeless(&self) -> bool {
        match self.compacted.0 {
            CompactResult::Deferred => true,
            CompactResult::Skipped => self.policy.skipped_gives_up == SkippedGivesUp::On,
            _ => false,
        }
    }

    /// Asks whether reclaim should be retried (`should_reclaim_retry`).
    fn reclaim_retry(&mut self) -> Step {
        if self.reclaimed > 0 && !self.demand.is_costly() && !self.retries_for_block() {
            self.no_progress_loops = 0;
        } else {
            self.no_progress_loops += 1;
        }
        if self.no_progress_loops > self.policy.reclaim_retries {
            return self.force_unreserve();
        }
        let no_progress_loops = self.no_progress_loops;
        self.go(At::ReclaimRetry, Step::ReclaimRetry { flags: self.flags, no_progress_loops })
    }

    /// Before giving up on reclaim, the last highatomic block may be given back.
    pub(super) fn force_unreserve(&mut self) -> Step {
        let exists = self.policy.reserve != Reserve::MigrateReserve;
        if exists && self.policy.force_unreserve == ForceUnreserve::On {
            return self.go(At::ForceUnreserve, Step::UnreserveHighatomic { force: true });
        }
        self.compact_retry()
    }

    /// Asks whether compaction should be retried (`should_compact_retry`).
    ///
    /// Linux: before 6.8 a request without IO, which cannot compact, was not excluded and could loop forever. 4.8 has
    /// no limit here: it always retries orders that are not costly.
    pub(super) fn compact_retry(&mut self) -> Step {
        let for_block = self.retries_for_block();
        let compacts = for_block || self.demand.order > 0;
        let possible = compacts && self.has(Gfp::IO) && !self.caller.fatal_signal;
        if self.reclaimed == 0 || !possible {
            return self.drop_nofragment_or_oom();
        }
        match self.compacted.0 {
            CompactResult::Skipped if for_block => return self.drop_nofragment_or_oom(),
            CompactResult::Skipped => {
                let flags = self.flags;
                return self.go(At::CompactRetry, Step::CompactRetry { flags });
            }
            CompactResult::Success => {
                self.compaction_retries += 1;
                if self.compaction_retries <= self.compact_retries_max() {
                    return self.retry();
                }
            }
            _ => {}
        }
        let hardest = if self.demand.is_costly() {
            CompactPriority::SyncLight
        } else {
            CompactPriority::SyncFull
        };
        let Some(harder) = self.priority.harder(hardest) else {
            return self.drop_nofragment_or_oom();
        };
        self.priority = harder;
        self.compaction_retries = 0;
        self.retry()
    }

    /// Returns whether reclaim and compaction work for more than the request, and retries know it: reclaim reports
    /// progress where compaction could do the rest, though it has freed nothing.
    fn retries_for_block(&self) -> bool {
        self.policy.defrag_retries == DefragRetries::Block
            && self.effort_order() != self.demand.order
    }

    fn compact_retries_max(&self) -> u32 {
        let most = self.policy.compact_retries;
        if self.demand.is_costly() { most / 4 } else { most }
    }

    pub(super) fn drop_nofragment_or_oom(&mut self) -> Step {
        let drops = self.flags.has(AllocFlags::NOFRAGMENT) && !self.never_splits();
        if drops { self.drop_nofragment() } else { self.oom() }
    }

    fn drop_nofragment(&mut self) -> Step {
        self.go(At::Drop, Step::DropNofragment)
    }

    pub(super) fn after_drop(&mut self) -> Step {
        let for_block = self.retries_for_block();
        self.flags = self.flags.without(AllocFlags::NOFRAGMENT);
        if for_block {
            // Only the search for whole blocks has failed so far.
            self.no_progress_loops = 0;
            self.compaction_retries = 0;
        }
        self.retry()
    }

    pub(super) fn after_oom_later(&mut self, progress: Progress) -> Step {
        let had_reserve = self.flags.has_any(AllocFlags::OOM.with(AllocFlags::NO_WATERMARKS));
        let victim_is_done = had_reserve || self.has(Gfp::NOMEMALLOC);
        if progress == Progress::None || (self.caller.oom_victim && victim_is_done) {
            return self.nopage();
        }
        self.no_progress_loops = 0;
        self.retry()
    }

    /// Fails the request. One that may not fail (`__GFP_NOFAIL`) retries forever, with part of the reserve.
    fn nopage(&mut self) -> Step {
        if !self.has(Gfp::NOFAIL) || !self.has(Gfp::DIRECT_RECLAIM) {
            return self.over(Step::Fail);
        }
        let more = match self.policy.wmark_check {
            WmarkCheck::HalvePerOrder | WmarkCheck::ListExists => AllocFlags::HARDER,
            WmarkCheck::FlagsCombine | WmarkCheck::FreeHighatomic => AllocFlags::MIN_RESERVE,
        };
        let flags = AllocFlags::WMARK_MIN.with(AllocFlags::CPUSET).with(more);
        self.go(At::NofailTry, Step::TryAlloc { flags, nodes: self.nodes })
    }
}
