//! Lists that the kernel found empty: what the model still has on them is somewhere else.

use pageblock::fallback::{Fallback, Outcome};
use pageblock::frame::{Order, Pfn};
use pageblock::ids::{CpuId, ZoneIndex};
use pageblock::mobility::Migratetype::{self, Movable, Reclaimable, Unmovable};
use pageblock::zone::Zone;

use super::{Guided, Inferred};

impl Guided<'_, '_> {
    /// Sets the pageblocks whose type no event tells.
    pub fn types_are_guessed(&mut self, pageblocks: &[Pfn]) {
        self.guessed = pageblocks.iter().copied().collect();
    }

    /// Sets the free blocks whose place on their list is not known.
    pub fn places_are_unknown(&mut self, blocks: impl IntoIterator<Item = (Pfn, Order)>) {
        self.unplaced = blocks.into_iter().collect();
    }

    /// Empties lists that the kernel found empty: it took a block of the order `found`, or of another
    /// type, so those of this type had no smaller ones.
    ///
    /// * Those in pageblocks with a guessed type are on another type's lists.
    /// * Those that leave the lists without an event have left them.
    pub(super) fn empty_lists(
        &mut self,
        at: usize,
        order: Order,
        mt: Migratetype,
        found: Option<Order>,
    ) {
        if self.look_ahead.has_isolation() {
            return;
        }
        while let Some((zone, _)) = self.allocator.zone_and_cache(ZoneIndex::new(at), CpuId(0))
            && let Some((pfn, smaller)) = zone.next_of_list(order, mt)
            && found.is_none_or(|found| smaller < found)
            && (self.retype(at, pfn, smaller, mt) || self.take_gone(at, pfn, smaller))
        {}
    }

    /// Moves what the model would have claimed where the kernel took a block as it is: it was not first.
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

    /// Moves a block that the kernel would have taken if it had been the first of its list. Where
    /// its place is a guess from the start, it goes to the end; tells whether it was.
    pub(super) fn was_not_first(&mut self, at: usize, block: Fallback) -> bool {
        let Fallback { pfn, order, from, .. } = block;
        if self.unplaced.get(&pfn) != Some(&order) {
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
        // It has had its turn.
        self.unplaced.remove(&pfn).is_some()
    }

    /// Gives a pageblock with a guessed type another.
    fn retype(&mut self, at: usize, pfn: Pfn, order: Order, mt: Migratetype) -> bool {
        let pageblock_order = self.allocator.geometry().pageblock_order;
        if !self.guessed.contains(&pfn.align_down(pageblock_order)) {
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
        self.guesses_corrected += u64::from(moved);
        moved
    }

    /// Takes the pages of a block that leave the lists without an event.
    fn take_gone(&mut self, at: usize, pfn: Pfn, order: Order) -> bool {
        let mut gone = false;
        for page in (pfn.0..pfn.0 + (1 << order)).map(Pfn) {
            if self.look_ahead.untraced().block(page, 0, self.now)
                && let Some((zone, _)) = self.allocator.zone_and_cache(ZoneIndex::new(at), CpuId(0))
            {
                gone |= zone.impose_take(page, 0, true).is_ok();
                self.unseen += 1;
                self.inferred.push(Inferred::Isolated { pfn: page, order: 0 });
            }
        }
        gone
    }
}
