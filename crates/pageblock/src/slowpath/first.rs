//! The first generation, 3.10 to 4.7: compaction before reclaim in every round.

use super::{
    At, CompactPriority, CompactResult, Contention, Nodes, Progress, Round, SlowPath, Step, Wait,
    reserve_flags,
};
use crate::base::alloc_flags::AllocFlags;
use crate::base::frame::pages;
use crate::base::request::Gfp;
use crate::policy::{OomReach, RetryWakes, ThpContended, ThpWaits};

/// `GFP_THISNODE` of these versions: one attempt on one node.
const GFP_THISNODE: Gfp = Gfp(Gfp::THISNODE.0 | Gfp::NOWARN.0 | Gfp::NORETRY.0);

/// `GFP_TRANSHUGE` of these versions, which also never wakes kswapd.
const GFP_TRANSHUGE: Gfp = Gfp(Gfp::GFP_TRANSHUGE.0 | Gfp::NORETRY.0);

impl SlowPath<'_> {
    pub(super) fn start_first(&mut self) -> Step {
        if self.has(GFP_THISNODE) && !self.has(Gfp::DIRECT_RECLAIM) {
            return self.over(Step::Fail);
        }
        self.wake_and_attempt()
    }

    pub(super) fn retry_first(&mut self) -> Step {
        if self.policy.retry_wakes == RetryWakes::On {
            self.wake_and_attempt()
        } else {
            self.attempt()
        }
    }

    pub(super) fn after_attempt_first(&mut self) -> Step {
        match reserve_flags(self.policy, self.demand.gfp, &self.caller) {
            Some(reserve) => self.attempt_reserve(reserve),
            None => self.compact_if_may_wait(),
        }
    }

    fn attempt_reserve(&mut self, reserve: AllocFlags) -> Step {
        let flags = self.flags.with(reserve);
        self.go(At::Reserve, Step::TryAlloc { flags, nodes: Nodes::Any })
    }

    /// Sends requests that may not fail back to the reserve (`__alloc_pages_high_priority`).
    pub(super) fn after_reserve_first(&mut self) -> Step {
        if self.has(Gfp::NOFAIL) {
            return self.go(At::ReserveWait, Step::Wait(Wait::IffCongested));
        }
        self.compact_if_may_wait()
    }

    pub(super) fn compact_if_may_wait(&mut self) -> Step {
        let may_wait = self.has(Gfp::DIRECT_RECLAIM);
        if !may_wait || self.caller.pf_memalloc || self.caller.oom_victim {
            return self.over(Step::Fail);
        }
        self.compact(Round::Loop)
    }

    pub(super) fn after_compact_first(&mut self) -> Step {
        if self.round == Round::Last || self.huge_page_gives_up() {
            return self.over(Step::Fail);
        }
        if self.compacts_in_earnest() {
            self.priority = CompactPriority::SyncLight;
        }
        self.reclaim()
    }

    fn is_huge_page(&self) -> bool {
        self.has(GFP_TRANSHUGE) && !self.has(Gfp::KSWAPD_RECLAIM)
    }

    /// Returns whether a huge page request fails here: reclaim does not help it where compaction was deferred or gave up.
    fn huge_page_gives_up(&self) -> bool {
        let (result, contention) = self.compacted;
        let deferred = result == CompactResult::Deferred;
        if self.policy.thp_contended == ThpContended::Any {
            let contended = contention != Contention::None;
            return (deferred || contended) && !self.has(Gfp::KSWAPD_RECLAIM);
        }
        let contended = match contention {
            Contention::None => false,
            Contention::Lock => true,
            Contention::Resched => !self.caller.kthread,
        };
        self.is_huge_page() && (deferred || contended)
    }

    fn compacts_in_earnest(&self) -> bool {
        self.policy.thp_waits == ThpWaits::On || !self.is_huge_page() || self.caller.kthread
    }

    pub(super) fn after_reclaim_first(&mut self) -> Step {
        if self.policy.oom_reach == OomReach::WithoutProgress {
            return self.after_reclaim_without_progress();
        }
        if self.reclaimed == 0 && self.has(Gfp::FS) && !self.has(Gfp::NORETRY) {
            return self.oom();
        }
        let costly = self.demand.is_costly();
        let again = self.has(Gfp::NOFAIL) || !costly || self.wants_more();
        if again && !self.has(Gfp::NORETRY) {
            self.wait_and_retry()
        } else {
            self.compact(Round::Last)
        }
    }

    fn after_reclaim_without_progress(&mut self) -> Step {
        if self.has(Gfp::NORETRY) {
            return self.compact(Round::Last);
        }
        let progress = self.reclaimed > 0 && !self.demand.is_costly();
        if progress || self.wants_more() { self.wait_and_retry() } else { self.oom() }
    }

    /// `__GFP_REPEAT` retries until it has reclaimed as many pages as the block has.
    fn wants_more(&self) -> bool {
        self.has(Gfp::RETRY_MAYFAIL) && self.reclaimed_total < pages(self.demand.order)
    }

    fn wait_and_retry(&mut self) -> Step {
        self.go(At::RetryWait, Step::Wait(Wait::IffCongested))
    }

    pub(super) fn after_oom_first(&mut self, progress: Progress) -> Step {
        let nofail = self.has(Gfp::NOFAIL);
        if self.policy.oom_reach == OomReach::WithoutProgress {
            let again = nofail || progress == Progress::Made;
            return if again { self.retry() } else { self.compact(Round::Last) };
        }
        if !nofail && (self.demand.is_costly() || self.is_below_normal()) {
            return self.over(Step::Fail);
        }
        self.wake_and_attempt()
    }
}
