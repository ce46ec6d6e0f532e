//! The short way of an allocation: a block of a warm CPU list of the first zone, where that has
//! plenty of free memory.
//!
//! It is the same for every policy. What it needs to be right is less than any version asks for
//! ([`Front::has_plenty`]); where that does not hold, nothing has changed yet, and the
//! [walk](crate::walk) decides in full.

use crate::event::{Event, Observer};
use crate::frame::Pfn;
use crate::local::{Local, Zones};
use crate::map::FrameState;
use crate::request::{Gfp, Request};

#[cfg(doc)]
use crate::levels::Front;

/// Requests with one of these flags take the long way: they ask the observer, leave out nodes, or
/// may use reserves.
const LONG_WAY: u32 = Gfp::WRITE.0 | Gfp::THISNODE.0;

impl<'m, Z: Zones<'m>> Local<'_, 'm, Z> {
    /// Takes a block from the CPU's list of the first zone, if a walk would do the same at once.
    #[inline(always)]
    pub(crate) fn take_warm(
        &mut self,
        request: &Request,
        observer: &mut impl Observer,
    ) -> Option<Pfn> {
        let Request { order, gfp, node, nodemask } = *request;
        if gfp.0 & LONG_WAY != 0 || nodemask != u64::MAX || (order > 0 && gfp.has(Gfp::HIGH)) {
            return None;
        }
        let (mt, highest) = (gfp.migratetype()?, gfp.highest_zone());
        let node = usize::from(node.unwrap_or(self.node));
        let at = usize::from(self.machine.first_zones.get(node)?[highest as usize]);
        let front = self.machine.fronts.get(at)?;
        let cache = self.caches.get_mut(at)?;
        let index = cache.list_index(order, mt)?;
        if !front.has_plenty(order, highest) {
            return None;
        }
        let i = cache.pop(&front.map, index, order)?;
        cache.note_alloc();
        cache.count_alloc(order);
        front.map.set(i, FrameState::Allocated { order, movable: gfp.has(Gfp::MOVABLE) });
        let pfn = front.map.pfn(i);
        observer.event(Event::PageAlloc { pfn: Some(pfn), order, migratetype: mt, gfp });
        Some(pfn)
    }
}
