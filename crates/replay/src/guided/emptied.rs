//! Lists that the kernel found empty: the blocks that the model still has on them are elsewhere.

use pageblock::fallback::{Fallback, Outcome};
use pageblock::frame::{Order, Pfn};
use pageblock::ids::{CpuId, ZoneIndex};
use pageblock::mobility::Migratetype::{self, Movable, Reclaimable, Unmovable};
use pageblock::zone::Zone;

use super::{Guided, Inferred};

impl Guided<'_, '_> {
    /// Sets the pageblocks whose type no event tells.
    pub fn types_are_guessed(&mut self, pageblocks: &[Pfn]) {
        self.start.guessed = pageblocks.iter().copied().collect();
    }

    /// Sets the free blocks whose place on their list is not known.
    pub fn places_are_unknown(&mut self, blocks: impl IntoIterator<Item = (Pfn, Order)>) {
        self.start.unplaced = blocks.into_iter().collect();
    }

    /// Empties lists that the kernel found empty: it took a block of the order `found`, or of another type, so the
    /// lists of this type had no smaller ones.
    ///
    /// * Blocks in pageblocks with a guessed type are on another type's lists.
    /// * Blocks that leave the lists without an event have left.
    pub(super) fn empty_lists(
        &mut self,
        at: usize,
        order: Order,
        mt: Migratetype,
        found: Option<Order>,
    ) {
        // With the probes every block that leaves the lists has an event.
        if self.look_ahead.has_isolation() {
            return;
        }
        while let Some((zone, _)) = self.allocator.zone_and_cache(ZoneIndex::new(at), CpuId(0))
            && let Some((pfn, smaller)) = zone.next_of_list(order, mt)
            && found.is_none_or(|found| smaller < found)
            && (self.retype(at, pfn, smaller, mt) || self.take_gone(at, pfn, smaller))
        {}
    }

    /// Moves blocks that the model would have claimed, although the kernel took one without a claim: they were not
    /// first.
    pub(super) fn pass_over_claims(
        &mut self,
        at: usize,
        search: impl Fn(&Zone<'_>) -> Option<Fallback>,
    ) {
        while let Some(claim) = search(&self.allocator.zones()[at])
            && claim.outcome == Outcome::Claim
            && self.was_not_first(at, claim)
        {}
    }

    /// Moves a block to the end of its list that the kernel would have taken if it had been first, and whose place
    /// is a guess from the start. Returns whether it was.
    pub(super) fn was_not_first(&mut self, at: usize, block: Fallback) -> bool {
        let Fallback { pfn, order, from, .. } = block;
        if self.start.unplaced.get(&pfn) != Some(&order) {
            return false;
        }
        let Some((zone, _)) = self.allocator.zone_and_cache(ZoneIndex::new(at), CpuId(0)) else {
            return false;
        };
        let mut list = zone.free_list(order, from);
        if list.next() != Some(pfn) {
            return false;
        }
        let second = list.next();
        drop(list);
        if let Some(second) = second {
            zone.rotate_free_list(second);
        }
        // A block is moved once only.
        self.start.unplaced.remove(&pfn).is_some()
    }

    /// Changes the guessed type of a pageblock.
    fn retype(&mut self, at: usize, pfn: Pfn, order: Order, mt: Migratetype) -> bool {
        let pageblock_order = self.allocator.geometry().pageblock_order;
        if !self.start.guessed.contains(&pfn.align_down(pageblock_order)) {
            return false;
        }
        let Some((zone, _)) = self.allocator.zone_and_cache(ZoneIndex::new(at), CpuId(0)) else {
            return false;
        };
        let other = match mt {
            Movable => Unmovable,
            Unmovable => Reclaimable,
            _ => Movable,
        };
        let boost = zone.boost();
        let whole = Fallback { pfn, order, from: mt, outcome: Outcome::Claim };
        let moved = zone.impose_claim(other, whole).is_ok();
        zone.impose_boost(boost);
        self.counts.guesses_corrected += u64::from(moved);
        moved
    }

    /// Takes the pages of a block that leave the lists without an event.
    fn take_gone(&mut self, at: usize, pfn: Pfn, order: Order) -> bool {
        let mut gone = false;
        for page in (pfn.0..pfn.0 + (1 << order)).map(Pfn) {
            if self.look_ahead.untraced().block(page, 0, self.event.now)
                && let Some((zone, _)) = self.allocator.zone_and_cache(ZoneIndex::new(at), CpuId(0))
            {
                gone |= zone.impose_take(page, 0, true).is_ok();
                self.counts.unseen += 1;
                self.event.inferred.push(Inferred::Isolated { pfn: page, order: 0 });
            }
        }
        gone
    }
}
