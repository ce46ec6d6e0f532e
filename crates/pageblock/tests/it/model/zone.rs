//! Free lists, splitting, merging, moving, isolation, the reserves.

use std::collections::BTreeMap;
use std::ops::Range;

use pageblock::capture::CaptureSlot;
use pageblock::event::{Event, Extfrag};
use pageblock::frame::{Order, Pfn};
use pageblock::layout::ZoneKind;
use pageblock::mobility::Migratetype::{self, Cma, HighAtomic, Isolate, Movable, Reserve};
use pageblock::policy::{
    Capture, Isolation, MergeRule, MoveTo, Placement, Policy, Reserve as ReservePolicy, Retype,
    SplitLarge, UntouchedTo,
};
use pageblock::tuning::Watermarks;
use pageblock::zone::{Geometry, Zone};

use super::Out;
use super::packing::Packing;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Block {
    Free { order: Order, mt: Migratetype },
    Cached { order: Order, mt: Migratetype },
    Used { order: Order, movable: bool },
}

pub(crate) struct ModelZone {
    pub(crate) policy: Policy,
    pub(crate) geometry: Geometry,
    pub(crate) mobility_off: bool,
    pub(crate) node: u8,
    pub(crate) kind: ZoneKind,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) managed: u64,
    pub(crate) watermarks: Watermarks,
    pub(crate) lowmem_reserve: Vec<u64>,
    /// Blocks by their first frame.
    pub(crate) blocks: BTreeMap<u64, Block>,
    /// From the head, by order and type; absent where empty or never used.
    lists: BTreeMap<(Order, Migratetype), Vec<u64>>,
    /// Type of each pageblock without isolation; movable where absent.
    types: BTreeMap<u64, Migratetype>,
    isolated: Vec<u64>,
    pub(crate) reserved_highatomic: u64,
    pub(crate) boost: u64,
    pub(crate) boosted: bool,
    pub(crate) below_high: bool,
    pub(crate) reclaim_active: bool,
    pub(crate) alloc_batch: i64,
    pub(crate) fair_depleted: bool,
    pub(crate) capture: Option<CaptureSlot>,
    pub(crate) packing: Packing,
    pub(crate) silent: bool,
}

impl ModelZone {
    pub(crate) fn of(
        zone: &Zone<'_>,
        policy: Policy,
        geometry: Geometry,
        mobility_off: bool,
    ) -> Self {
        Self {
            policy,
            geometry,
            mobility_off,
            node: zone.node().0,
            kind: zone.kind(),
            start: zone.span().start.0,
            end: zone.span().end.0,
            managed: zone.managed(),
            watermarks: zone.watermarks(),
            lowmem_reserve: zone.lowmem_reserve().to_vec(),
            blocks: BTreeMap::new(),
            lists: BTreeMap::new(),
            types: BTreeMap::new(),
            isolated: Vec::new(),
            reserved_highatomic: 0,
            boost: 0,
            boosted: false,
            below_high: false,
            reclaim_active: false,
            alloc_batch: zone.watermarks().high as i64 - zone.watermarks().low as i64,
            fair_depleted: false,
            capture: None,
            packing: Packing::default(),
            silent: false,
        }
    }

    pub(crate) fn pageblock_pages(&self) -> u64 {
        1 << self.geometry.pageblock_order
    }

    pub(crate) fn pageblock(&self, pfn: u64) -> u64 {
        pfn / self.pageblock_pages()
    }

    pub(crate) fn is_whole(&self, order: Order) -> bool {
        order >= self.geometry.pageblock_order
    }

    pub(crate) fn block_type(&self, pfn: u64) -> Migratetype {
        let block = self.pageblock(pfn);
        if self.isolated.contains(&block) {
            return Isolate;
        }
        self.types.get(&block).copied().unwrap_or(Movable)
    }

    /// A new type ends isolation.
    pub(crate) fn set_type(&mut self, pfn: u64, mt: Migratetype) {
        let block = self.pageblock(pfn);
        self.isolated.retain(|&b| b != block);
        self.types.insert(block, mt);
        self.settle(pfn);
    }

    /// Every pageblock of a block.
    pub(crate) fn set_types(&mut self, pfn: u64, order: Order, mt: Migratetype) {
        for page in (pfn..pfn + (1 << order)).step_by(self.pageblock_pages() as usize) {
            self.set_type(page, mt);
        }
    }

    pub(crate) fn list(&self, order: Order, mt: Migratetype) -> &[u64] {
        self.lists.get(&(order, mt)).map_or(&[], |list| list)
    }

    pub(crate) fn nr_free(&self, order: Order) -> u64 {
        Migratetype::ALL.iter().map(|&mt| self.list(order, mt).len() as u64).sum()
    }

    pub(crate) fn free_pages_of(&self, mt: Migratetype) -> u64 {
        self.lists.iter().filter(|(k, _)| k.1 == mt).map(|(k, l)| (l.len() as u64) << k.0).sum()
    }

    pub(crate) fn free_pages(&self) -> u64 {
        let counted = Migratetype::ALL.into_iter().filter(|&mt| mt != Isolate);
        counted.map(|mt| self.free_pages_of(mt)).sum()
    }

    pub(crate) fn free_at(&self, pfn: u64, order: Order) -> bool {
        matches!(self.blocks.get(&pfn), Some(Block::Free { order: o, .. }) if *o == order)
    }

    pub(crate) fn insert(&mut self, pfn: u64, order: Order, mt: Migratetype, tail: bool) {
        self.blocks.insert(pfn, Block::Free { order, mt });
        let list = self.lists.entry((order, mt)).or_default();
        list.insert(if tail { list.len() } else { 0 }, pfn);
        if self.policy.placement != Placement::Linux && order < self.geometry.pageblock_order {
            list.sort_unstable();
        }
        self.moved(pfn, order, mt);
    }

    pub(crate) fn unlist(&mut self, pfn: u64) -> Order {
        let Some(&Block::Free { order, mt }) = self.blocks.get(&pfn) else { panic!("{pfn}") };
        self.blocks.remove(&pfn);
        self.lists.get_mut(&(order, mt)).unwrap().retain(|&p| p != pfn);
        self.moved(pfn, order, mt);
        order
    }

    /// Splits what is on no list; the lowest part is kept.
    pub(crate) fn split(&mut self, pfn: u64, from: Order, to: Order, mt: Migratetype) {
        for half in (to..from).rev() {
            self.insert(pfn + (1 << half), half, mt, false);
        }
    }

    pub(crate) fn take_smallest(&mut self, order: Order, mt: Migratetype) -> Option<u64> {
        if self.is_packed() {
            return self.take_packed(order, mt);
        }
        let mut orders = order..=self.geometry.max_order;
        let (pfn, found) = orders.find_map(|o| Some((*self.list(o, mt).first()?, o)))?;
        self.unlist(pfn);
        self.split(pfn, found, order, mt);
        Some(pfn)
    }

    /// Frees by the type of the pageblock, in pieces where the version does.
    pub(crate) fn free(&mut self, pfn: u64, order: Order, tail: bool, out: &mut Out) {
        match self.policy.split_large {
            SplitLarge::Off => self.free_one(pfn, order, self.block_type(pfn), tail, out),
            SplitLarge::On => self.free_pieces(pfn, order, tail, out),
        }
    }

    fn free_pieces(&mut self, pfn: u64, order: Order, tail: bool, out: &mut Out) {
        let piece = order.min(self.geometry.pageblock_order);
        for at in (pfn..pfn + (1 << order)).step_by(1 << piece) {
            self.free_one(at, piece, self.block_type(at), tail, out);
        }
    }

    pub(crate) fn free_one(
        &mut self,
        mut pfn: u64,
        mut order: Order,
        mt: Migratetype,
        tail: bool,
        out: &mut Out,
    ) {
        let max = self.geometry.max_order;
        let freed = pfn;
        let limited =
            self.policy.merge_rule == MergeRule::FreedIsolated && self.block_type(pfn) == Isolate;
        let cap = if limited { max.min(self.geometry.pageblock_order) } else { max };
        if self.is_packed() && self.capture.is_none() && self.block_type(pfn) == mt {
            (pfn, order) = self.merge_own(pfn, order, cap, mt);
        }
        while order < cap {
            if self.capture(pfn, order, mt, out) {
                return;
            }
            let buddy = pfn ^ (1 << order);
            if !self.free_at(buddy, order) || !self.may_merge(buddy, order, mt) {
                break;
            }
            self.unlist(buddy);
            if self.is_whole(order) && self.block_type(buddy) != mt {
                match self.policy.merge_rule {
                    MergeRule::Retype if self.is_packed() => self.set_types(buddy, order, mt),
                    MergeRule::Retype => self.set_type(buddy, mt),
                    MergeRule::RetypeAll => self.set_types(buddy, order, mt),
                    _ => {}
                }
            }
            pfn &= buddy;
            order += 1;
        }
        if self.is_whole(order) {
            self.settle(freed);
        }
        let pair = pfn & !(1 << order);
        let soon = order + 2 <= max && self.free_at(pair ^ (2 << order), order + 1);
        self.insert(pfn, order, mt, tail || soon);
    }

    fn may_merge(&self, buddy: u64, order: Order, mt: Migratetype) -> bool {
        let other = self.block_type(buddy);
        if !self.is_whole(order) || other == mt {
            return true;
        }
        match self.policy.merge_rule {
            MergeRule::Free | MergeRule::FreedIsolated => true,
            MergeRule::EitherIsolated => mt != Isolate && other != Isolate,
            _ => mt.is_mergeable() && other.is_mergeable(),
        }
    }

    fn capture(&mut self, pfn: u64, order: Order, mt: Migratetype, out: &mut Out) -> bool {
        let Some(slot) = self.capture else { return false };
        let small_movable = mt == Movable && !self.is_whole(order);
        let refused = match self.policy.capture {
            Capture::Off => true,
            Capture::NotMovable => small_movable,
            Capture::IfMovable | Capture::IfMovableReported => {
                small_movable && slot.migratetype != Movable
            }
        };
        if slot.pfn.is_some() || slot.order != order || matches!(mt, Cma | Isolate) || refused {
            return false;
        }
        if self.policy.capture == Capture::IfMovableReported && slot.migratetype != mt {
            let own = self.block_type(pfn) == slot.migratetype;
            out.events.push(extfrag(pfn, (order, slot.migratetype), (order, mt), own));
        }
        self.blocks.insert(pfn, Block::Used { order, movable: slot.migratetype == Movable });
        self.capture = Some(CaptureSlot { pfn: Some(Pfn(pfn)), ..slot });
        true
    }

    /// The frames that move with the pageblock of a page.
    pub(crate) fn moving_range(&self, pfn: u64) -> Option<Range<u64>> {
        let start = self.pageblock(pfn) * self.pageblock_pages();
        let end = start + self.pageblock_pages();
        let hygiene = self.policy.retype == Retype::Together;
        match (start >= self.start, end <= self.end) {
            (_, false) => None,
            (true, true) => Some(start..end),
            (false, true) => (!hygiene).then_some(pfn..end),
        }
    }

    pub(crate) fn move_to_list(&mut self, pfn: u64, mt: Migratetype) -> Order {
        let order = self.unlist(pfn);
        self.insert(pfn, order, mt, self.policy.move_to == MoveTo::Tail);
        order
    }

    pub(crate) fn move_block(&mut self, pfn: u64, mt: Migratetype) -> u64 {
        let Some(range) = self.moving_range(pfn) else { return 0 };
        let free =
            |(&pfn, block): (&u64, &Block)| matches!(block, Block::Free { .. }).then_some(pfn);
        let pages: Vec<u64> = self.blocks.range(range).filter_map(free).collect();
        pages.into_iter().map(|p| 1 << self.move_to_list(p, mt)).sum()
    }

    /// The free block that holds a frame.
    fn free_block_of(&self, pfn: u64) -> Option<(u64, Order)> {
        let (&start, block) = self.blocks.range(..=pfn).next_back()?;
        match *block {
            Block::Free { order, .. } if start + (1 << order) > pfn => Some((start, order)),
            _ => None,
        }
    }

    fn set_isolated(&mut self, pfn: u64, isolated: bool, to: Option<Migratetype>) -> Migratetype {
        let block = self.pageblock(pfn);
        if isolated {
            self.isolated.push(block);
        } else {
            self.isolated.retain(|&b| b != block);
            if let Some(mt) = to {
                self.set_type(pfn, mt);
            }
        }
        self.settle(pfn);
        self.block_type(pfn)
    }

    pub(crate) fn any_isolated(&self) -> bool {
        !self.isolated.is_empty()
    }

    /// Isolates the pageblock of a frame, or ends that; tells whether it could.
    pub(crate) fn isolate(
        &mut self,
        pfn: u64,
        on: bool,
        to: Option<Migratetype>,
        out: &mut Out,
    ) -> bool {
        let hygiene = self.policy.isolation == Isolation::Split;
        let first = (self.pageblock(pfn) * self.pageblock_pages()).max(self.start);
        let pfn = if first % self.pageblock_pages() == 0 { first } else { pfn };
        if (self.block_type(pfn) == Isolate) == on || (hygiene && self.moving_range(pfn).is_none())
        {
            return false;
        }
        let held = self.free_block_of(pfn);
        if !on && let Some((start, order)) = held.filter(|h| h.0 == pfn) {
            let buddy = pfn ^ (1 << order);
            let alone = !hygiene || order == self.geometry.pageblock_order;
            if self.policy.merge_rule != MergeRule::Free
                && self.is_whole(order)
                && alone
                && order < self.geometry.max_order
                && self.free_at(buddy, order)
                && self.block_type(buddy) != Isolate
            {
                self.unlist(start);
                let mt = self.set_isolated(pfn, on, to);
                let tail = self.policy.untouched_to == UntouchedTo::Tail;
                self.free_one(start, order, mt, tail, out);
                return true;
            }
        }
        match held {
            Some((start, order)) if hygiene && order > self.geometry.pageblock_order => {
                self.unlist(start);
                self.set_isolated(pfn, on, to);
                self.free_pieces(start, order, false, out);
            }
            _ => {
                let mt = self.set_isolated(pfn, on, to);
                self.move_block(pfn, mt);
            }
        }
        true
    }

    pub(crate) fn reserve_highatomic(&mut self, pfn: u64, order: Order) {
        let percent = self.managed / 100;
        let block = self.pageblock_pages();
        let cap = match self.policy.reserve {
            ReservePolicy::MigrateReserve => return,
            ReservePolicy::Highatomic => percent + block,
            _ if percent < block => return,
            _ => percent.div_ceil(block) * block,
        };
        let mt = self.block_type(pfn);
        let eligible = match self.policy.reserve {
            ReservePolicy::Highatomic => !matches!(mt, HighAtomic | Isolate | Cma),
            _ => mt.is_mergeable(),
        };
        if self.reserved_highatomic >= cap || !eligible {
            return;
        }
        if self.policy.retype == Retype::Apart {
            self.set_type(pfn, HighAtomic);
            self.move_block(pfn, HighAtomic);
            self.reserved_highatomic += block;
        } else if self.is_whole(order) {
            self.set_types(pfn, order, HighAtomic);
            self.reserved_highatomic += 1 << order;
        } else if self.moving_range(pfn).is_some() {
            self.move_block(pfn, HighAtomic);
            self.set_type(pfn, HighAtomic);
            self.reserved_highatomic += block;
        }
    }

    pub(crate) fn unreserve_highatomic(&mut self, to: Migratetype, all: bool) -> bool {
        let block = self.pageblock_pages();
        if !all && self.reserved_highatomic <= block {
            return false;
        }
        for order in 0..=self.geometry.max_order {
            let found = if self.is_packed() {
                self.packed_candidate(order, HighAtomic, None).map(|(pfn, _)| pfn)
            } else {
                self.list(order, HighAtomic).first().copied()
            };
            let Some(pfn) = found else { continue };
            let whole = self.policy.retype == Retype::Together && self.is_whole(order);
            if self.block_type(pfn) == HighAtomic {
                let size = if whole { block.max(1 << order) } else { block };
                self.reserved_highatomic -= size.min(self.reserved_highatomic);
            }
            if whole {
                self.move_to_list(pfn, to);
                self.set_types(pfn, order, to);
                return true;
            }
            let moved = self.move_block(pfn, to);
            self.set_type(pfn, to);
            if moved > 0 {
                return true;
            }
        }
        false
    }

    /// The migrate reserve of up to 4.3; `released` tells whether a frame ever was.
    pub(crate) fn setup_migrate_reserve(&mut self, released: impl Fn(u64) -> bool) {
        let block = self.pageblock_pages();
        let mut wanted = self.watermarks.min.div_ceil(block).min(2);
        let hygiene = self.policy.retype == Retype::Together;
        let mut pfn = self.start.div_ceil(block) * block;
        while pfn < self.end {
            let whole = (pfn..(pfn + block).min(self.end)).all(&released);
            match self.block_type(pfn) {
                _ if hygiene && self.moving_range(pfn).is_none() => {}
                Movable if whole && wanted > 0 => {
                    self.retype(pfn, Reserve);
                    wanted -= 1;
                }
                Reserve if whole && wanted > 0 => wanted -= 1,
                Reserve if wanted == 0 => self.retype(pfn, Movable),
                _ => {}
            }
            pfn += block;
        }
    }

    /// Gives a pageblock and its free pages a type; under hygiene larger blocks are split for it.
    fn retype(&mut self, pfn: u64, mt: Migratetype) {
        let held = self.free_block_of(pfn).filter(|h| h.1 > self.geometry.pageblock_order);
        match held {
            Some((start, order)) if self.policy.retype == Retype::Together => {
                self.unlist(start);
                self.set_type(pfn, mt);
                self.free_pieces(start, order, false, &mut Out::default());
            }
            _ => {
                self.set_type(pfn, mt);
                self.move_block(pfn, mt);
            }
        }
    }
}

/// The event of a fallback: what was wanted, what was found.
pub(crate) fn extfrag(
    pfn: u64,
    (alloc_order, alloc_migratetype): (Order, Migratetype),
    (fallback_order, fallback_migratetype): (Order, Migratetype),
    change_ownership: bool,
) -> Event {
    Event::Extfrag(Extfrag {
        pfn: Pfn(pfn),
        alloc_order,
        fallback_order,
        alloc_migratetype,
        fallback_migratetype,
        change_ownership,
    })
}
