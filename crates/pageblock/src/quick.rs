//! The short ways: a block of a warm CPU list of the first zone, where that has plenty of free
//! memory; and a block to a CPU list that keeps it.
//!
//! They are the same for every policy. What they need to be right is less than any version asks for
//! ([`Front::has_plenty`], [`Front::is_calm`], `Calm`); where that does not hold, nothing has changed
//! yet, and the [long ways](crate::local) decide in full.

use crate::event::{Event, Observer};
use crate::frame::{Order, Pfn};
use crate::map::FrameState;
use crate::request::{Gfp, Request};
use crate::row::Row;

#[cfg(doc)]
use crate::levels::Front;

/// Requests with one of these flags take the long way: they ask the observer, leave out nodes, or
/// may use reserves.
const LONG_WAY: u32 = Gfp::WRITE.0 | Gfp::THISNODE.0;

impl Row<'_> {
    /// Takes a block from the list of the first zone, if a walk would do the same at once.
    #[inline(always)]
    pub(crate) fn take_warm(
        &mut self,
        request: &Request,
        observer: &mut impl Observer,
    ) -> Option<Pfn> {
        let Request { order, gfp, node, nodemask } = *request;
        if gfp.0 & LONG_WAY != 0
            || nodemask != u64::MAX
            || node.is_some_and(|node| node != self.node)
            || (order > 0 && gfp.has(Gfp::HIGH))
        {
            return None;
        }
        let (mt, highest) = (gfp.migratetype()?, gfp.highest_zone());
        let zone = self.zones.get_mut(usize::from(self.first[highest as usize]))?;
        let (cache, map) = (&mut zone.cache, &zone.front.map);
        let list = usize::from(cache.take_list(order, mt)?);
        if !zone.front.has_plenty(order, highest) {
            return None;
        }
        let i = cache.pop(map, list, order)?;
        cache.note_alloc();
        cache.count_alloc(order);
        map.set(i, FrameState::Allocated { order, movable: gfp.has(Gfp::MOVABLE) });
        let pfn = map.pfn(i);
        observer.event(Event::PageAlloc { pfn: Some(pfn), order, migratetype: mt, gfp });
        Some(pfn)
    }

    /// Puts an allocated block of the zone that was freed to last on a list, if that keeps it. Tells
    /// whether it did.
    #[inline(always)]
    pub(crate) fn put_warm(
        &mut self,
        pfn: Pfn,
        order: Order,
        observer: &mut impl Observer,
    ) -> bool {
        self.put_if_warm(pfn, order, observer).is_some()
    }

    #[inline(always)]
    fn put_if_warm(&mut self, pfn: Pfn, order: Order, observer: &mut impl Observer) -> Option<()> {
        let zone = self.zones.get_mut(usize::from(self.recent))?;
        let (cache, map) = (&mut zone.cache, &zone.front.map);
        let lists = cache.put_lists(order)?;
        let (i, state) = map.allocated(pfn, order)?;
        let type_bits = map.block_type_bits(i);
        let list = lists.list(type_bits)?;
        if !zone.front.is_calm() || !cache.note_calm_free(order) {
            return None;
        }
        observer.event(Event::PageFree { pfn, order });
        state.set_on_cpu_list(order, type_bits);
        cache.link(map, i, list);
        cache.count_free(order);
        Some(())
    }
}
