//! `__rmqueue`: own list, CMA, other types, reserve.

use pageblock::alloc_flags::AllocFlags;
use pageblock::event::Event;
use pageblock::fallback::Mode;
use pageblock::frame::{Order, Pfn};
use pageblock::mobility::Migratetype::{
    self, Cma, HighAtomic, Isolate, Movable, Reclaimable, Reserve, Unmovable,
};
use pageblock::policy::{
    Boost, ClaimPred, ClaimRule, CmaUse, FallbackPick, PcpOrders, Reserve as ReservePolicy,
    TraceRefill,
};

use super::Out;
use super::zone::{Block, ModelZone, extfrag};

/// A block that was found: its first frame, order, and list.
type Found = (u64, Order, Migratetype);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Whole,
    Claim,
    Moved,
    Single,
}

impl ModelZone {
    pub(crate) fn has_pcp(&self, order: Order) -> bool {
        let high = self.policy.pcp_orders == PcpOrders::CostlyAndThp;
        order == 0 || (high && (order <= 3 || order == self.geometry.pageblock_order))
    }

    fn locked(&self, pfn: u64, order: Order, list: Migratetype, want: Migratetype, out: &mut Out) {
        let recent = self.policy.trace_refill == TraceRefill::List;
        let migratetype = if recent || list == Reserve { list } else { want };
        let to_pcp = [Unmovable, Movable, Reclaimable].contains(&list) && self.has_pcp(order);
        let percpu_refill = if recent { to_pcp } else { order == 0 };
        let pfn = Pfn(pfn);
        out.events.push(Event::ZoneLocked { pfn, order, migratetype, percpu_refill });
    }

    pub(crate) fn take_from(
        &mut self,
        order: Order,
        list: Migratetype,
        want: Migratetype,
        out: &mut Out,
    ) -> Option<u64> {
        let pfn = self.take_smallest(order, list)?;
        self.locked(pfn, order, list, want, out);
        Some(pfn)
    }

    /// A block, and the type that a page on a CPU list is remembered with.
    pub(crate) fn rmqueue(
        &mut self,
        order: Order,
        want: Migratetype,
        flags: AllocFlags,
        mode: &mut Mode,
        out: &mut Out,
    ) -> Option<(u64, Migratetype)> {
        let cma = flags.has(AllocFlags::CMA);
        let first = match self.policy.cma {
            CmaUse::HalfRule => self.free_pages_of(Cma) > self.free_pages() / 2,
            other => other == CmaUse::First,
        };
        if cma
            && first
            && let Some(pfn) = self.take_from(order, Cma, want, out)
        {
            return Some((pfn, Cma));
        }
        let remembers = self.policy.fallback_pick == FallbackPick::ClaimThenSteal;
        if !remembers {
            *mode = Mode::Normal;
        }
        if *mode == Mode::Normal
            && let Some(pfn) = self.take_from(order, want, want, out)
        {
            return Some((pfn, want));
        }
        let before = self.policy.cma != CmaUse::InFallback;
        if cma
            && before
            && [Mode::Normal, Mode::Cma].contains(mode)
            && let Some(pfn) = self.take_from(order, Cma, want, out)
        {
            *mode = Mode::Cma;
            return Some((pfn, Cma));
        }
        let found = if remembers {
            self.claim_or_steal(order, want, flags, mode, out)
        } else {
            self.pick(order, want, flags).map(|found| (found, self.fate(found, want)))
        };
        if let Some((found, fate)) = found {
            return Some(self.use_fallback(order, want, found, fate, flags, out));
        }
        if self.policy.reserve == ReservePolicy::MigrateReserve {
            return self.take_from(order, Reserve, want, out).map(|pfn| (pfn, Reserve));
        }
        None
    }

    /// `to_split` is the order that a block must have at least which is only split.
    fn first_of(&self, order: Order, want: Migratetype, to_split: Option<Order>) -> Option<Found> {
        let types: &[Migratetype] = match want {
            Unmovable => &[Reclaimable, Movable],
            Reclaimable => &[Unmovable, Movable],
            _ if self.policy.cma == CmaUse::InFallback => &[Cma, Reclaimable, Unmovable],
            _ => &[Reclaimable, Unmovable],
        };
        types.iter().find_map(|&mt| {
            if self.is_packed() {
                let (pfn, order) = self.packed_candidate(order, mt, to_split)?;
                return Some((pfn, order, mt));
            }
            Some((*self.list(order, mt).first()?, order, mt))
        })
    }

    fn claimable(&self, order: Order, want: Migratetype) -> bool {
        let policy = &self.policy;
        let least = match want {
            Unmovable => policy.claim_order_unmovable,
            Reclaimable => policy.claim_order_reclaimable,
            _ => policy.claim_order_movable,
        };
        if least != 15 {
            return u32::from(order) >= least || self.mobility_off;
        }
        order >= self.geometry.pageblock_order / 2
            || want == Reclaimable
            || (want == Unmovable && policy.claim_pred == ClaimPred::Kernel)
            || self.mobility_off
    }

    fn smallest_allowed(&self, order: Order, flags: AllocFlags) -> Order {
        if flags.has(AllocFlags::NOFRAGMENT) {
            order.max(self.geometry.pageblock_order)
        } else {
            order
        }
    }

    fn pick(&self, order: Order, want: Migratetype, flags: AllocFlags) -> Option<Found> {
        let orders = self.smallest_allowed(order, flags)..=self.geometry.max_order;
        let largest = || orders.clone().rev().find_map(|o| self.first_of(o, want, None));
        let smallest = |from| {
            (from..=self.geometry.max_order).find_map(|o| self.first_of(o, want, Some(from)))
        };
        let found = largest()?;
        match self.policy.fallback_pick {
            FallbackPick::Smallest => smallest(*orders.start()),
            FallbackPick::Hybrid if u32::from(found.1) <= self.policy.hybrid_threshold => {
                smallest(*orders.start())
            }
            FallbackPick::LargestThenSmallestM
                if want == Movable && found.1 > order && !self.claimable(found.1, want) =>
            {
                smallest(order)
            }
            _ => Some(found),
        }
    }

    fn claim_or_steal(
        &mut self,
        order: Order,
        want: Migratetype,
        flags: AllocFlags,
        mode: &mut Mode,
        _out: &mut Out,
    ) -> Option<(Found, Fate)> {
        if *mode != Mode::Steal {
            for o in (self.smallest_allowed(order, flags)..=self.geometry.max_order).rev() {
                if !self.claimable(o, want) {
                    break;
                }
                let Some(found) = self.first_of(o, want, None) else { continue };
                let fate = self.fate(found, want);
                if matches!(fate, Fate::Whole | Fate::Claim) {
                    *mode = Mode::Normal;
                    return Some((found, fate));
                }
                self.boost(want, flags);
            }
        }
        if flags.has(AllocFlags::NOFRAGMENT) {
            return None;
        }
        let orders = order..=self.geometry.max_order;
        let found = orders.into_iter().find_map(|o| self.first_of(o, want, Some(order)))?;
        *mode = Mode::Steal;
        Some((found, Fate::Single))
    }

    /// Free and movable pages among the frames that would move.
    fn count(&self, range: std::ops::Range<u64>) -> (u64, u64) {
        let (mut free, mut movable) = (0, 0);
        for (&start, block) in self.blocks.range(range.clone()) {
            let within = |order: Order| range.end.min(start + (1 << order)) - start;
            match *block {
                Block::Free { order, .. } => free += within(order),
                Block::Used { order, movable: true } => movable += within(order),
                _ => {}
            }
        }
        (free, movable)
    }

    fn fate(&self, (pfn, order, from): Found, want: Migratetype) -> Fate {
        let recent =
            matches!(self.policy.claim_rule, ClaimRule::CompatibleCounts | ClaimRule::TypesAgree);
        let block = self.block_type(pfn);
        if from == Cma || (recent && block == HighAtomic) {
            return Fate::Single;
        }
        if self.is_whole(order) {
            return Fate::Whole;
        }
        if !self.claimable(order, want) {
            return Fate::Single;
        }
        let range = self.moving_range(pfn);
        if recent && range.is_none() {
            return Fate::Single;
        }
        let (free, movable) = range.map_or((0, 0), |range| self.count(range));
        let alike = match (recent, want, block) {
            (true, Movable, _) => movable,
            (true, _, Movable) => self.pageblock_pages() - free - movable,
            _ => 0,
        };
        let share = u64::from(self.policy.claim_share);
        if 100 * (free + alike) >= share * self.pageblock_pages() || self.mobility_off {
            Fate::Claim
        } else if self.policy.claim_rule == ClaimRule::TypesAgree {
            Fate::Single
        } else {
            Fate::Moved
        }
    }

    fn use_fallback(
        &mut self,
        order: Order,
        want: Migratetype,
        (pfn, found, from): Found,
        fate: Fate,
        flags: AllocFlags,
        out: &mut Out,
    ) -> (u64, Migratetype) {
        let event = |pfn, printed, own| extfrag(pfn, (order, want), (found, printed), own);
        match self.policy.claim_rule {
            ClaimRule::TypesAgree => {
                let page = self.use_hygienic(order, want, (pfn, found, from), fate, flags, out);
                out.events.push(event(page, from, self.block_type(page) == want));
                (page, want)
            }
            ClaimRule::CompatibleCounts => {
                if fate != Fate::Whole && self.block_type(pfn) != HighAtomic {
                    self.boost(want, flags);
                }
                match fate {
                    Fate::Whole => {
                        self.set_types(pfn, found, want);
                        self.move_to_list(pfn, want);
                    }
                    Fate::Single => {
                        self.move_to_list(pfn, want);
                    }
                    Fate::Claim | Fate::Moved => {
                        self.move_block(pfn, want);
                    }
                }
                if fate == Fate::Claim {
                    self.set_type(pfn, want);
                }
                out.events.push(event(pfn, from, self.block_type(pfn) == want));
                (self.take_from(order, want, want, out).unwrap(), want)
            }
            rule => {
                let (new, rest) = self.use_old(order, want, (pfn, found, from), fate, rule);
                let claimed = matches!(fate, Fate::Whole | Fate::Claim);
                out.events.push(match rule {
                    ClaimRule::RestTakenEventAfter => event(pfn, new, new == want),
                    ClaimRule::RestTaken | ClaimRule::RestStays => event(pfn, from, claimed),
                    _ => event(pfn, from, self.block_type(pfn) == want),
                });
                self.locked(pfn, order, want, want, out);
                (pfn, rest)
            }
        }
    }

    fn use_hygienic(
        &mut self,
        order: Order,
        want: Migratetype,
        (pfn, found, from): Found,
        fate: Fate,
        flags: AllocFlags,
        out: &mut Out,
    ) -> u64 {
        match fate {
            Fate::Whole => {
                self.unlist(pfn);
                self.set_types(pfn, found, want);
                self.split(pfn, found, order, want);
                pfn
            }
            Fate::Claim => {
                self.boost(want, flags);
                self.move_block(pfn, want);
                self.set_type(pfn, want);
                self.take_from(order, want, want, out).unwrap()
            }
            Fate::Moved | Fate::Single => {
                let steals = self.policy.fallback_pick == FallbackPick::ClaimThenSteal;
                if !steals && self.block_type(pfn) != HighAtomic {
                    self.boost(want, flags);
                }
                self.unlist(pfn);
                self.split(pfn, found, order, from);
                pfn
            }
        }
    }

    /// Up to 4.9: the type that the block counts as, and that of the remainder.
    fn use_old(
        &mut self,
        order: Order,
        want: Migratetype,
        (pfn, found, from): Found,
        fate: Fate,
        rule: ClaimRule,
    ) -> (Migratetype, Migratetype) {
        match fate {
            Fate::Whole => self.set_types(pfn, found, want),
            Fate::Claim => {
                self.move_block(pfn, want);
                self.set_type(pfn, want);
            }
            Fate::Moved => {
                self.move_block(pfn, want);
            }
            Fate::Single => {}
        }
        let new = match (fate, rule) {
            (Fate::Whole | Fate::Claim, _) => want,
            (Fate::Moved, ClaimRule::RestTakenEventAfter | ClaimRule::RestFollows) => want,
            _ => from,
        };
        let rest = match rule {
            _ if from == Cma => Cma,
            ClaimRule::RestTakenEventAfter | ClaimRule::RestTaken | ClaimRule::RestTakenByBlock => {
                want
            }
            _ => new,
        };
        self.unlist(pfn);
        self.split(pfn, found, order, rest);
        (new, rest)
    }

    /// The type that a refill remembers for a page.
    pub(crate) fn remembered(&self, pfn: u64, want: Migratetype, list: Migratetype) -> Migratetype {
        if !matches!(self.policy.claim_rule, ClaimRule::RestTakenEventAfter | ClaimRule::RestTaken)
        {
            return list;
        }
        match self.block_type(pfn) {
            mt @ (Cma | Isolate) => mt,
            _ => want,
        }
    }

    fn boost(&mut self, want: Migratetype, flags: AllocFlags) {
        let block = self.pageblock_pages();
        let (policy, high) = (&self.policy, self.watermarks.high);
        if policy.boost == Boost::Off {
            return;
        }
        let blocks = match want {
            Unmovable => policy.boost_unmovable,
            Reclaimable => policy.boost_reclaimable,
            _ => policy.boost_movable,
        };
        if blocks == 0 {
            return;
        }
        let tiny = 4 * block > self.managed && policy.boost != Boost::EveryZone;
        let most = high * u64::from(policy.watermark_boost_factor) / 10_000;
        let boosts = policy.watermark_boost_factor != 0 && !tiny && most != 0;
        let always = matches!(policy.boost, Boost::EveryZone | Boost::LargeZones);
        if boosts {
            let risen = self.boost + u64::from(blocks) * block;
            self.boost = risen.min(most.max(block)).max(self.boost);
        }
        if (boosts || always) && flags.has(AllocFlags::KSWAPD) {
            self.boosted = true;
        }
    }
}
