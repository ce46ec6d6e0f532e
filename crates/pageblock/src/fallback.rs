//! Serving a request from blocks of another type: which block is taken, and what becomes of it.
//!
//! The decision ([`Zone::find_fallback`]) and its effect (`Zone::take_fallback`) are apart, so that
//! a replay can compare the first with what a kernel did before anything changes.
//!
//! Source: `__rmqueue_fallback`, `find_suitable_fallback`, `steal_suitable_fallback`,
//! `try_to_claim_block`, `__rmqueue_claim`, `__rmqueue_steal` of Linux 3.10 to 7.3.

use crate::alloc_flags::AllocFlags;
use crate::buddy::BlockCount;
use crate::event::{Event, Extfrag, Observer};
use crate::frame::{Order, Pfn};
use crate::map::{FrameState, Index};
use crate::mobility::Migratetype::{self, Cma, HighAtomic, Movable, Reclaimable, Unmovable};
use crate::policy::{ClaimPred, ClaimRule, CmaUse, FallbackPick, Nofragment};
use crate::zone::{End, Zone};

/// What becomes of the pageblock of the block that a fallback takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The block is a pageblock or more: all of it takes the requested type.
    ClaimWhole,
    /// The pageblock takes the requested type, and its free pages move to that list.
    Claim,
    /// Its free pages move, but it keeps its type (up to 6.9).
    Refile,
    /// Only what was found is used.
    Single,
}

/// The block of another type that serves a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fallback {
    /// Its first frame.
    pub pfn: Pfn,
    /// Its order.
    pub order: Order,
    /// The type of its list.
    pub from: Migratetype,
    /// What becomes of its pageblock.
    pub outcome: Outcome,
}

/// The result of a search.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct FallbackSearch {
    /// What was found.
    pub found: Option<Fallback>,
    /// Pageblocks that could not be claimed on the way (6.15 and later; each boosts the watermark).
    pub failed_claims: u32,
    /// Lists looked at.
    pub probes: u32,
    /// Pages looked at to count pageblocks ([`Zone::block_looks`]).
    pub looks: u32,
}

/// Where a search in one bulk operation starts (`enum rmqueue_mode`, 6.15 and later).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Mode {
    /// At the list of the requested type.
    #[default]
    Normal,
    /// At CMA.
    Cma,
    /// At the search for a pageblock to claim.
    Claim,
    /// At the search for a block to steal.
    Steal,
}

type Candidate = (Index, Order, Migratetype);

impl Zone<'_> {
    /// The types that a request of a type falls back to, in order (`fallbacks`, facts 5.1).
    fn fallback_types(&self, start: Migratetype) -> &'static [Migratetype] {
        match start {
            Unmovable => &[Reclaimable, Movable],
            Reclaimable => &[Unmovable, Movable],
            Movable if self.policy.cma == CmaUse::InFallback => &[Cma, Reclaimable, Unmovable],
            Movable => &[Reclaimable, Unmovable],
            _ => &[],
        }
    }

    /// Whether a block of this order is reason enough to go for its whole pageblock
    /// (`can_steal_fallback`, `should_try_claim_block`).
    fn claimable(&self, order: Order, start: Migratetype) -> bool {
        let kernel = match self.policy.claim_pred {
            ClaimPred::Reclaimable => start == Reclaimable,
            ClaimPred::Kernel => matches!(start, Unmovable | Reclaimable),
        };
        order >= self.geometry.pageblock_order / 2 || kernel || self.mobility_off
    }

    /// Whether some type has a block of this order that is reason enough to claim its pageblock.
    pub(crate) fn can_claim_at(&self, order: Order, start: Migratetype) -> bool {
        self.claimable(order, start) && self.candidate_at(order, start, &mut 0).is_some()
    }

    fn candidate_at(
        &self,
        order: Order,
        start: Migratetype,
        probes: &mut u32,
    ) -> Option<Candidate> {
        self.fallback_types(start).iter().find_map(|&from| {
            *probes += 1;
            let i = self.area.list(order, from).head()?;
            Some((i, order, from))
        })
    }

    fn largest(&self, min: Order, start: Migratetype, probes: &mut u32) -> Option<Candidate> {
        (min..=self.geometry.max_order).rev().find_map(|o| self.candidate_at(o, start, probes))
    }

    fn smallest_fallback(
        &self,
        min: Order,
        start: Migratetype,
        probes: &mut u32,
    ) -> Option<Candidate> {
        (min..=self.geometry.max_order).find_map(|o| self.candidate_at(o, start, probes))
    }

    /// The smallest block that may be taken from another type.
    fn min_fallback_order(&self, order: Order, flags: AllocFlags) -> Order {
        let whole = match self.policy.nofragment {
            Nofragment::Off | Nofragment::On => true,
            Nofragment::SubBlock | Nofragment::DefragMode => !self.is_whole_block(order),
        };
        if flags.has(AllocFlags::NOFRAGMENT) && whole {
            order.max(self.geometry.pageblock_order)
        } else {
            order
        }
    }

    /// Searches the lists of other types for a block to serve a request; changes nothing.
    #[must_use]
    pub fn find_fallback(
        &self,
        order: Order,
        start: Migratetype,
        flags: AllocFlags,
        mode: Mode,
    ) -> FallbackSearch {
        let mut search = FallbackSearch::default();
        if order > self.geometry.max_order {
            return search;
        }
        let min = self.min_fallback_order(order, flags);
        let probes = &mut search.probes;
        let candidate = match self.policy.fallback_pick {
            FallbackPick::ClaimThenSteal => {
                return self.find_claim_then_steal(order, start, flags, mode);
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
            let (fallback, looks) = self.counted_outcome(found, start);
            search.looks = looks;
            fallback
        });
        search
    }

    fn find_claim_then_steal(
        &self,
        order: Order,
        start: Migratetype,
        flags: AllocFlags,
        mode: Mode,
    ) -> FallbackSearch {
        let mut search = FallbackSearch::default();
        if mode <= Mode::Claim {
            for at in (self.min_fallback_order(order, flags)..=self.geometry.max_order).rev() {
                if !self.claimable(at, start) {
                    break;
                }
                let Some(found) = self.candidate_at(at, start, &mut search.probes) else {
                    continue;
                };
                let (fallback, looks) = self.counted_outcome(found, start);
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
        search
    }

    /// How many pageblocks a search tries to claim where it can claim none of them (6.15 and later;
    /// one for each order that is reason enough).
    #[must_use]
    pub fn claims_to_try(&self, order: Order, start: Migratetype, flags: AllocFlags) -> u32 {
        if self.policy.fallback_pick != FallbackPick::ClaimThenSteal {
            return 0;
        }
        let orders = self.min_fallback_order(order, flags)..=self.geometry.max_order;
        let tried = orders.filter(|&order| self.can_claim_at(order, start));
        tried.count() as u32
    }

    /// Decides what becomes of the pageblock of a candidate.
    pub(crate) fn outcome(&self, candidate: Candidate, start: Migratetype) -> Fallback {
        self.counted_outcome(candidate, start).0
    }

    /// The same, and the pages that were looked at for it.
    fn counted_outcome(&self, (i, order, from): Candidate, start: Migratetype) -> (Fallback, u32) {
        let mut looks = 0;
        let outcome = self.decide((i, order, from), start, &mut looks);
        (Fallback { pfn: self.map.pfn(i), order, from, outcome }, looks)
    }

    fn decide(&self, (i, order, from): Candidate, start: Migratetype, looks: &mut u32) -> Outcome {
        let counts_alike = matches!(self.policy.claim_rule, ClaimRule::V412 | ClaimRule::V610);
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
        let half = self.geometry.pageblock_pages() / 2;
        if free + alike >= half || self.mobility_off {
            // From 6.10 on the pages are counted first, and moved in a second pass.
            if self.policy.claim_rule == ClaimRule::V610 {
                *looks += looked;
            }
            Outcome::Claim
        } else if self.policy.claim_rule == ClaimRule::V610 {
            Outcome::Single
        } else {
            Outcome::Refile
        }
    }

    /// Serves a request by a decision of [`find_fallback`](Self::find_fallback).
    ///
    /// Gives the block's first frame, and the type that a CPU list remembers for it (up to 6.9).
    /// Failed claims are to be passed on, as each boosts the watermark.
    pub(crate) fn take_fallback(
        &mut self,
        order: Order,
        start: Migratetype,
        fallback: Fallback,
        flags: AllocFlags,
        observer: &mut impl Observer,
    ) -> Option<(Index, Migratetype)> {
        let i = self.map.index(fallback.pfn)?;
        if self.map.free_list(i, fallback.order) != Some(fallback.from) || fallback.order < order {
            return None;
        }
        let event = |zone: &Self, page: Index, printed: Migratetype, owned: bool| {
            Event::Extfrag(Extfrag {
                pfn: zone.map.pfn(page),
                alloc_order: order,
                fallback_order: fallback.order,
                alloc_migratetype: start,
                fallback_migratetype: printed,
                change_ownership: owned,
            })
        };
        match self.policy.claim_rule {
            ClaimRule::V610 => {
                let page = self.take_strict(i, order, start, fallback, flags, observer)?;
                let owned = self.map.block_type(page) == start;
                observer.event(event(self, page, fallback.from, owned));
                Some((page, start))
            }
            ClaimRule::V412 => {
                self.refile(i, start, fallback, flags);
                let owned = self.map.block_type(i) == start;
                observer.event(event(self, i, fallback.from, owned));
                let page = self.rmqueue_smallest(order, start)?;
                self.trace_zone_locked(page, order, start, start, observer);
                Some((page, start))
            }
            rule => {
                let (new, rest) = self.move_and_split(i, order, start, fallback, rule);
                let owned = match rule {
                    ClaimRule::V310 => new == start,
                    ClaimRule::V312 | ClaimRule::V316 => {
                        matches!(fallback.outcome, Outcome::Claim | Outcome::ClaimWhole)
                    }
                    _ => self.map.block_type(i) == start,
                };
                let printed = if rule == ClaimRule::V310 { new } else { fallback.from };
                observer.event(event(self, i, printed, owned));
                self.trace_zone_locked(i, order, start, start, observer);
                Some((i, rest))
            }
        }
    }

    /// Up to 4.9: moves the block's free pages, then splits what was found. Gives the type that the
    /// block is treated as, and that of the remainder.
    fn move_and_split(
        &mut self,
        i: Index,
        order: Order,
        start: Migratetype,
        fallback: Fallback,
        rule: ClaimRule,
    ) -> (Migratetype, Migratetype) {
        let Fallback { order: found, from, outcome, .. } = fallback;
        let mut list = from;
        match outcome {
            Outcome::ClaimWhole => self.set_block_types(i, found, start),
            // Nothing moves out of a pageblock that the zone's end cuts.
            Outcome::Claim if self.retype_block(i, start) > 0 => list = start,
            Outcome::Refile if self.move_freepages_block(i, start) > 0 => list = start,
            Outcome::Claim | Outcome::Refile => {}
            Outcome::Single => {}
        }
        let claimed = matches!(outcome, Outcome::Claim | Outcome::ClaimWhole);
        let moved = claimed || outcome == Outcome::Refile;
        let follows_move = matches!(rule, ClaimRule::V310 | ClaimRule::V319);
        let new = if claimed || (follows_move && moved) { start } else { from };
        let rest = match rule {
            _ if from == Cma => Cma,
            ClaimRule::V316 | ClaimRule::V319 => new,
            _ => start,
        };
        self.remove(i, found, list);
        self.expand(i, order, found, rest);
        (new, rest)
    }

    /// 4.12 to 6.9: puts what was found on the list of the requested type, without splitting it.
    pub(crate) fn refile(
        &mut self,
        i: Index,
        start: Migratetype,
        fallback: Fallback,
        flags: AllocFlags,
    ) {
        let Fallback { order, from, outcome, .. } = fallback;
        if outcome == Outcome::ClaimWhole {
            self.set_block_types(i, order, start);
        } else if self.map.block_type(i) != HighAtomic {
            self.boost_watermark(flags);
        }
        match outcome {
            Outcome::ClaimWhole | Outcome::Single => self.move_to_list(i, order, from, start),
            Outcome::Claim => {
                self.retype_block(i, start);
            }
            Outcome::Refile => {
                self.move_freepages_block(i, start);
            }
        }
    }

    /// From 6.10: the remainder stays on the list of the pageblock's type.
    fn take_strict(
        &mut self,
        i: Index,
        order: Order,
        start: Migratetype,
        fallback: Fallback,
        flags: AllocFlags,
        observer: &mut impl Observer,
    ) -> Option<Index> {
        let Fallback { order: found, from, outcome, .. } = fallback;
        let steals = self.policy.fallback_pick == FallbackPick::ClaimThenSteal;
        match outcome {
            Outcome::ClaimWhole => {
                self.remove(i, found, from);
                self.set_block_types(i, found, start);
                self.expand(i, order, found, start);
                Some(i)
            }
            Outcome::Claim => {
                self.boost_watermark(flags);
                self.retype_block(i, start);
                let page = self.rmqueue_smallest(order, start)?;
                self.trace_zone_locked(page, order, start, start, observer);
                Some(page)
            }
            Outcome::Refile | Outcome::Single => {
                if !steals && self.map.block_type(i) != HighAtomic {
                    self.boost_watermark(flags);
                }
                self.remove(i, found, from);
                self.expand(i, order, found, from);
                Some(i)
            }
        }
    }

    /// Raises the watermarks after a fallback below the pageblock order (`boost_watermark`).
    pub(crate) fn boost_watermark(&mut self, flags: AllocFlags) {
        use crate::policy::Boost;
        let boost = crate::tuning::boost_watermark(
            &self.policy,
            self.watermarks.high,
            self.boost,
            self.managed,
            self.geometry.pageblock_order,
        );
        if let Some(boost) = boost {
            self.boost = boost;
        }
        let unconditional = matches!(self.policy.boost, Boost::V50 | Boost::V58);
        let marks = self.policy.boost != Boost::Off && (unconditional || boost.is_some());
        if marks && flags.has(AllocFlags::KSWAPD) {
            self.boosted = true;
        }
    }

    /// Takes a block of `order` from the zone for a request of a type (`__rmqueue`).
    ///
    /// Gives the block's first frame, and the type that a CPU list remembers for it (up to 6.9).
    pub(crate) fn rmqueue(
        &mut self,
        order: Order,
        start: Migratetype,
        flags: AllocFlags,
        mode: &mut Mode,
        observer: &mut impl Observer,
    ) -> Option<(Index, Migratetype)> {
        let modes = self.policy.fallback_pick == FallbackPick::ClaimThenSteal;
        if !modes {
            *mode = Mode::Normal;
        }
        let cma_first = self.prefers_cma(flags);
        if cma_first && let Some(page) = self.rmqueue_from(order, Cma, start, observer) {
            return Some(page);
        }
        if *mode == Mode::Normal
            && let Some(page) = self.rmqueue_from(order, start, start, observer)
        {
            return Some(page);
        }
        let cma = flags.has(AllocFlags::CMA) && self.policy.cma != CmaUse::InFallback;
        if cma
            && *mode <= Mode::Cma
            && let Some(page) = self.rmqueue_from(order, Cma, start, observer)
        {
            *mode = Mode::Cma;
            return Some(page);
        }
        let search = self.find_fallback(order, start, flags, *mode);
        self.counters.list_probes += u64::from(search.probes);
        self.block_looks += u64::from(search.looks);
        for _ in 0..search.failed_claims {
            self.boost_watermark(flags);
        }
        if let Some(fallback) = search.found {
            let steal = fallback.outcome == Outcome::Single;
            *mode = if modes && steal { Mode::Steal } else { Mode::Normal };
            return self.take_fallback(order, start, fallback, flags, observer);
        }
        if self.policy.reserve == crate::policy::Reserve::MigrateReserve {
            return self.rmqueue_from(order, Migratetype::Reserve, start, observer);
        }
        None
    }

    /// Takes blocks for a request of a type as up to `n` calls of [`rmqueue`](Self::rmqueue) would,
    /// where those find one after the other in one block of the type itself: the first block, and how
    /// many. `None` where only `rmqueue` can say.
    #[inline]
    pub(crate) fn rmqueue_run(
        &mut self,
        order: Order,
        start: Migratetype,
        mode: Mode,
        n: u32,
        observer: &mut impl Observer,
    ) -> Option<(Index, u32)> {
        let modes = self.policy.fallback_pick == FallbackPick::ClaimThenSteal;
        if (modes && mode != Mode::Normal) || self.is_packed() || self.free_pages_of(Cma) > 0 {
            return None;
        }
        let (i, taken) = self.take_run(order, start, n)?;
        for at in 0..taken {
            self.trace_zone_locked(i + (at << order), order, start, start, observer);
        }
        Some((i, taken))
    }

    /// Whether a request looks at CMA first. From 5.8 movable requests keep CMA and other free memory in
    /// balance.
    pub(crate) fn prefers_cma(&self, flags: AllocFlags) -> bool {
        flags.has(AllocFlags::CMA)
            && match self.policy.cma {
                CmaUse::InFallback | CmaUse::BeforeFallback => false,
                CmaUse::HalfRule => self.free_pages_of(Cma) > self.free_pages / 2,
                CmaUse::First => true,
            }
    }

    /// Takes a block from one list for a request of a type, and reports it.
    pub(crate) fn rmqueue_from(
        &mut self,
        order: Order,
        list: Migratetype,
        requested: Migratetype,
        observer: &mut impl Observer,
    ) -> Option<(Index, Migratetype)> {
        let page = self.rmqueue_smallest(order, list)?;
        self.trace_zone_locked(page, order, list, requested, observer);
        Some((page, list))
    }

    /// Serves a request by any fallback that could have been chosen, as a recorded kernel did. The
    /// block is allocated then.
    ///
    /// # Errors
    /// [`FrameError::NotFree`](crate::zone::FrameError::NotFree) where no such block is free, or its
    /// order is not one that the outcome is for.
    pub fn follow_fallback(
        &mut self,
        order: Order,
        start: Migratetype,
        fallback: Fallback,
        observer: &mut impl Observer,
    ) -> Result<Pfn, crate::zone::FrameError> {
        let not_free = crate::zone::FrameError::NotFree(fallback.pfn);
        let whole = fallback.outcome == Outcome::ClaimWhole;
        if whole && !self.is_whole_block(fallback.order) {
            return Err(not_free);
        }
        let (i, _) =
            self.take_fallback(order, start, fallback, AllocFlags(0), observer).ok_or(not_free)?;
        self.map.set(i, FrameState::Allocated { order, movable: start == Movable });
        Ok(self.map.pfn(i))
    }

    /// Puts a block at the end of a free list, to rebuild a state.
    pub(crate) fn insert_tail(&mut self, i: Index, order: Order, list: Migratetype) {
        self.insert(i, order, list, End::Tail);
    }
}
