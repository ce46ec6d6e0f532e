//! The short ways: a block of a warm CPU list of the first zone, where that has plenty of free
//! memory; and a block to a CPU list that keeps it.
//!
//! They are the same for every policy. What they need to be right is less than any version asks for
//! ([`Front::has_plenty`], [`Front::is_calm`], `Calm`); where that does not hold, nothing has changed
//! yet, and the [long ways](crate::local) decide in full.

use crate::event::{Event, Observer};
use crate::frame::{Order, Pfn};
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
        let list = cache.take_list(order, mt)?;
        if !zone.front.has_plenty(order, highest) {
            return None;
        }
        let (i, state) = cache.take_hot(map, list, order)?;
        state.set_allocated(order, gfp.has(Gfp::MOVABLE));
        let pfn = map.pfn(i);
        observer.event(Event::PageAlloc { pfn: Some(pfn), order, migratetype: mt, gfp });
        Some(pfn)
    }

    /// Brings the list that a request looks at first to where [`take_warm`](Self::take_warm) finds
    /// its blocks, and tries again.
    pub(crate) fn warm_and_take(
        &mut self,
        request: &Request,
        observer: &mut impl Observer,
    ) -> Option<Pfn> {
        let Request { order, gfp, .. } = *request;
        let zone = self.zones.get_mut(usize::from(self.first[gfp.highest_zone() as usize]))?;
        let warm = zone.cache.warm(&zone.front.map, order, gfp.migratetype()?);
        if warm { self.take_warm(request, observer) } else { None }
    }

    /// Puts an allocated block of the zone and type that was freed last on a list, if that keeps it. Tells
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
        let count = cache.calm_count(order)?;
        let (i, state) = map.allocated(pfn, order)?;
        // The list is found from the last type, not from this one, so that the processor need not
        // wait for the type to know where the block goes.
        let type_bits = zone.recent_type;
        if map.list_type_bits(i) != type_bits {
            return None;
        }
        let list = lists.list(type_bits)?;
        if !zone.front.is_calm() || !cache.put_hot(i, list, order, count) {
            return None;
        }
        observer.event(Event::PageFree { pfn, order });
        state.set_on_cpu_list(order, type_bits);
        Some(())
    }

    /// Makes room where [`put_warm`](Self::put_warm) puts a block, and tries again with the zone and
    /// the type of the block.
    pub(crate) fn make_room_and_put(
        &mut self,
        at: usize,
        pfn: Pfn,
        order: Order,
        observer: &mut impl Observer,
    ) -> bool {
        self.recent = at as u16;
        let Some(zone) = self.zones.get_mut(at) else { return false };
        let map = &zone.front.map;
        let Some((i, _)) = map.allocated(pfn, order) else { return false };
        let type_bits = map.list_type_bits(i);
        if !zone.cache.make_room(map, order, type_bits) {
            return false;
        }
        zone.recent_type = type_bits;
        self.put_warm(pfn, order, observer)
    }
}
