//! Serves a request from blocks of another type: chooses the block, and what becomes of its pageblock.
//!
//! The decision ([`Zone::find_fallback`]) is separate from its effect (`Zone::take_fallback`), so that a replay can
//! compare it with the kernel's before anything changes.
//!
//! Source: `__rmqueue_fallback`, `find_suitable_fallback`, `steal_suitable_fallback`,
//! `try_to_claim_block`, `__rmqueue_claim`, `__rmqueue_steal` of Linux 3.10 to 7.3.

use crate::policy::source::PolicySource;
use core::ops::Range;

use crate::base::alloc_flags::AllocFlags;
use crate::base::decide::{Decide, Linux, Want};
pub use crate::base::decide::{Fallback, Outcome};
use crate::base::frame::{Order, pages};
use crate::base::mobility::Migratetype::{self, Cma, HighAtomic, Movable, Reclaimable, Unmovable};
use crate::policy::{ClaimPred, ClaimRule, CmaUse, FallbackPick};
use crate::table::map::{FrameState, Index};
use crate::zone::Zone;
use crate::zone::packing::Prefer;

/// The result of a search for a fallback.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct FallbackSearch {
    /// The block to take, if any.
    pub found: Option<Fallback>,
    /// Pageblocks on the way that could not be claimed (6.15 and later; each boosts the watermark).
    pub failed_claims: u32,
    /// Lists probed.
    pub probes: u32,
    /// Pages read to count the pageblocks' content ([`Zone::block_looks`]).
    pub looks: u32,
}

/// Where the next search of a bulk operation starts (`enum rmqueue_mode`, 6.15 and later).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Mode {
    /// With the list of the requested type.
    #[default]
    Normal,
    /// With CMA.
    Cma,
    /// With the search for a pageblock to claim.
    Claim,
    /// With the search for a block to steal.
    Steal,
}

/// The content of a pageblock, in pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct BlockCount {
    pub(super) free: u64,
    /// Allocated and movable.
    pub(super) movable: u64,
    /// Pages that Linux reads to count them: one per free block, and every other page.
    pub(super) looks: u32,
}

/// The least order that leaves the choice to `claim_pred`.
const AS_PRED: u32 = 15;

pub(super) type Candidate = (Index, Order, Migratetype);

impl<P: PolicySource> Zone<'_, P> {
    /// Returns the types that a request of a type falls back to, in order (`fallbacks`;
    /// docs/linux/fallback.md#candidate-types).
    pub(super) fn fallback_types(&self, start: Migratetype) -> &'static [Migratetype] {
        match start {
            Unmovable => &[Reclaimable, Movable],
            Reclaimable => &[Unmovable, Movable],
            Movable if self.policy.cma == CmaUse::InFallback => &[Cma, Reclaimable, Unmovable],
            Movable => &[Reclaimable, Unmovable],
            _ => &[],
        }
    }

    /// Returns whether a block of this order is large enough to claim its whole pageblock (`can_steal_fallback`,
    /// `should_try_claim_block`).
    fn claimable(&self, order: Order, start: Migratetype) -> bool {
        let kernel = match self.policy.claim_pred {
            ClaimPred::Reclaimable => start == Reclaimable,
            ClaimPred::Kernel => matches!(start, Unmovable | Reclaimable),
        };
        let large = match self.least_claim_order(start) {
            AS_PRED => order >= self.geometry.pageblock_order / 2 || kernel,
            least => u32::from(order) >= least,
        };
        large || self.mobility_off
    }

    fn least_claim_order(&self, start: Migratetype) -> u32 {
        match start {
            Unmovable => self.policy.claim_order_unmovable,
            Reclaimable => self.policy.claim_order_reclaimable,
            _ => self.policy.claim_order_movable,
        }
    }

    /// Returns whether some type has a block of this order that is large enough to claim its pageblock.
    pub(crate) fn can_claim_at(&self, order: Order, start: Migratetype) -> bool {
        self.claimable(order, start)
            && self.candidate_at(order, (order, Prefer::Emptiest), start, &mut 0).is_some()
    }

    /// Returns the first block of an order among the types that a request falls back to; under packed placement one of at
    /// least order `min` in a pageblock whose largest block has this order.
    #[inline(never)]
    fn candidate_at(
        &self,
        order: Order,
        (min, prefer): (Order, Prefer),
        start: Migratetype,
        probes: &mut u32,
    ) -> Option<Candidate> {
        self.fallback_types(start).iter().find_map(|&from| {
            *probes += 1;
            if self.is_packed() {
                return self.packed_candidate(order, min, from, prefer);
            }
            let i = self.area.list(order, from).head()?;
            Some((i, order, from))
        })
    }

    fn largest(&self, min: Order, start: Migratetype, probes: &mut u32) -> Option<Candidate> {
        let mut orders = (min..=self.geometry.max_order).rev();
        orders.find_map(|at| self.candidate_at(at, (at, Prefer::Emptiest), start, probes))
    }

    fn smallest_fallback(
        &self,
        min: Order,
        start: Migratetype,
        probes: &mut u32,
    ) -> Option<Candidate> {
        let mut orders = min..=self.geometry.max_order;
        orders.find_map(|at| self.candidate_at(at, (min, Prefer::Fullest), start, probes))
    }

    /// Returns the smallest order of a block that may be taken from another type.
    pub(super) fn min_fallback_order(&self, order: Order, flags: AllocFlags) -> Order {
        if flags.has(AllocFlags::NOFRAGMENT) {
            order.max(self.geometry.pageblock_order)
        } else {
            order
        }
    }

    /// Searches the lists of other types for a block that serves a request. Changes nothing.
    #[must_use]
    pub fn find_fallback(
        &self,
        order: Order,
        start: Migratetype,
        flags: AllocFlags,
        mode: Mode,
    ) -> FallbackSearch {
        self.find_fallback_by(order, start, flags, mode, &mut Linux)
    }

    /// [`find_fallback`](Self::find_fallback), which asks what becomes of pageblocks.
    pub(super) fn find_fallback_by(
        &self,
        order: Order,
        start: Migratetype,
        flags: AllocFlags,
        mode: Mode,
        decider: &mut impl Decide,
    ) -> FallbackSearch {
        let mut search = FallbackSearch::default();
        if order > self.geometry.max_order {
            return search;
        }
        let min = self.min_fallback_order(order, flags);
        let probes = &mut search.probes;
        let candidate = match self.policy.fallback_pick {
            FallbackPick::ClaimThenSteal => {
                return self.find_claim_then_steal(
                    Want { order, kind: start, flags },
                    mode,
                    decider,
                );
            }
            FallbackPick::Largest => self.largest(min, start, probes),
            FallbackPick::Smallest => self.smallest_fallback(min, start, probes),
            FallbackPick::Hybrid => self.largest(min, start, probes).and_then(|found| {
                if u32::from(found.1) <= self.policy.hybrid_threshold {
                    self.smallest_fallback(min, start, probes)
                } else {
                    Some(found)
                }
            }),
            FallbackPick::LargestThenSmallestM => {
                self.largest(min, start, probes).and_then(|found| {
                    let small = start == Movable && found.1 > order;
                    if small && !self.claimable(found.1, start) {
                        self.smallest_fallback(order, start, probes)
                    } else {
                        Some(found)
                    }
                })
            }
        };
        search.found = candidate.map(|found| {
            let want = Want { order, kind: start, flags };
            let (fallback, looks) = self.counted_outcome(found, want, decider);
            search.looks = looks;
            fallback
        });
        debug_assert!(
            search.found.is_none_or(|found| found.from != start && found.order >= order),
            "{search:?}"
        );
        search
    }

    fn find_claim_then_steal(
        &self,
        want: Want,
        mode: Mode,
        decider: &mut impl Decide,
    ) -> FallbackSearch {
        let Want { order, kind: start, flags } = want;
        let mut search = FallbackSearch::default();
        if mode <= Mode::Claim {
            for at in (self.min_fallback_order(order, flags)..=self.geometry.max_order).rev() {
                // Smaller orders cannot claim either: the threshold is the order alone.
                if !self.claimable(at, start) {
                    break;
                }
                let whole = (at, Prefer::Emptiest);
                let Some(found) = self.candidate_at(at, whole, start, &mut search.probes) else {
                    continue;
                };
                let (fallback, looks) = self.counted_outcome(found, want, decider);
                search.looks += looks;
                if matches!(fallback.outcome, Outcome::Claim | Outcome::ClaimWhole) {
                    search.found = Some(fallback);
                    return search;
                }
                search.failed_claims += 1;
            }
        }
        if !flags.has(AllocFlags::NOFRAGMENT) {
            let found = self.smallest_fallback(order, start, &mut search.probes);
            search.found = found.map(|(i, order, from)| {
                let pfn = self.map.pfn(i);
                Fallback { pfn, order, from, outcome: Outcome::Single }
            });
        }
        debug_assert!(
            search.found.is_none_or(|found| found.from != start && found.order >= order),
            "{search:?}"
        );
        search
    }

    /// Returns the number of pageblocks that a search tries to claim if it can claim none of them (6.15 and later;
    /// one per order that is large enough).
    #[must_use]
    pub fn claims_to_try(&self, order: Order, start: Migratetype, flags: AllocFlags) -> u32 {
        if self.policy.fallback_pick != FallbackPick::ClaimThenSteal {
            return 0;
        }
        let orders = self.min_fallback_order(order, flags)..=self.geometry.max_order;
        let tried = orders.filter(|&order| self.can_claim_at(order, start));
        tried.count() as u32
    }

    /// Decides what becomes of a candidate's pageblock.
    #[cfg(feature = "replay")]
    pub(crate) fn outcome(&self, candidate: Candidate, start: Migratetype) -> Fallback {
        let want = Want { order: 0, kind: start, flags: AllocFlags(0) };
        self.counted_outcome(candidate, want, &mut Linux).0
    }

    /// Decides what becomes of a candidate's pageblock, and returns the number of pages read for that.
    fn counted_outcome(
        &self,
        (i, order, from): Candidate,
        want: Want,
        decider: &mut impl Decide,
    ) -> (Fallback, u32) {
        let mut looks = 0;
        let outcome = self.decide((i, order, from), want, &mut looks, decider);
        (Fallback { pfn: self.map.pfn(i), order, from, outcome }, looks)
    }

    fn decide(
        &self,
        (i, order, from): Candidate,
        want: Want,
        looks: &mut u32,
        decider: &mut impl Decide,
    ) -> Outcome {
        let start = want.kind;
        let counts_alike =
            matches!(self.policy.claim_rule, ClaimRule::CompatibleCounts | ClaimRule::TypesAgree);
        // CMA pageblocks keep their type, and from 4.12 so do those of the highatomic reserve.
        if from == Cma || (counts_alike && self.map.block_type(i) == HighAtomic) {
            return Outcome::Single;
        }
        if self.is_whole_block(order) {
            return Outcome::ClaimWhole;
        }
        if !self.claimable(order, start) {
            return Outcome::Single;
        }
        let BlockCount { free, movable, looks: looked } = match self.movable_range(i) {
            Some(range) => self.count_block(range),
            None if counts_alike => return Outcome::Single,
            None => BlockCount::default(),
        };
        *looks += looked;
        let alike = match start {
            _ if !counts_alike => 0,
            Movable => movable,
            _ if self.map.block_type(i) == Movable => {
                self.geometry.pageblock_pages() - (free + movable)
            }
            _ => 0,
        };
        let share = u64::from(self.policy.claim_share) * self.geometry.pageblock_pages();
        let strict = self.policy.claim_rule == ClaimRule::TypesAgree;
        let linux = match 100 * (free + alike) >= share || self.mobility_off {
            true => Outcome::Claim,
            false if strict => Outcome::Single,
            false => Outcome::Refile,
        };
        let holds = self.holds(i, free, movable);
        let outcome = self.asked_outcome(want, (i, order, from), holds, linux, decider);
        // From 6.10 the pages are counted first, and moved in a second pass.
        if strict && outcome == Outcome::Claim {
            *looks += looked;
        }
        outcome
    }

    /// Counts the pages of a [movable range](Self::movable_range) by use.
    pub(super) fn count_block(&self, range: Range<Index>) -> BlockCount {
        let (mut free, mut movable, mut looks) = (0, 0, 0);
        let Range { start: mut at, end } = range;
        while at < end {
            let (order, looked) = match self.map.state(at) {
                FrameState::Free { order, .. } => {
                    free += pages(order);
                    (order, 1)
                }
                FrameState::Allocated { order, movable: true } => {
                    movable += pages(order);
                    (order, 1 << order)
                }
                FrameState::Allocated { order, .. } | FrameState::CpuList { order, .. } => {
                    (order, 1 << order)
                }
                FrameState::Hole | FrameState::Reserved | FrameState::Tail => (0, 1),
            };
            at += 1 << order;
            looks += looked;
        }
        let block_pages = self.geometry.pageblock_pages();
        BlockCount { free: free.min(block_pages), movable: movable.min(block_pages), looks }
    }
}
