//! The short way of an allocation: a block of a warm CPU list of the first zone, where that has
//! plenty of free memory.
//!
//! It is the same for every policy. What it needs to be right is less than any version asks for
//! ([`Zone::has_plenty`], [`Allocator::first_zone_serves`]); where that does not hold, nothing has
//! changed yet, and the [walk](crate::walk) decides in full.

use crate::alloc::{Allocator, Attempt};
use crate::alloc_flags::AllocFlags;
use crate::event::Observer;
use crate::frame::Pfn;
use crate::request::Gfp;

#[cfg(doc)]
use crate::zone::Zone;

impl Allocator<'_> {
    /// Takes a block from the CPU's list of the first zone, if a walk would do the same at once.
    #[inline(always)]
    pub(crate) fn take_warm(
        &mut self,
        attempt: &Attempt,
        observer: &mut impl Observer,
    ) -> Option<Pfn> {
        let Attempt { cpu, order, mt, gfp, highest, .. } = *attempt;
        let (at, cpus) = (usize::from(attempt.first), self.cpu_nodes.len());
        let zone = self.zones.get_mut(at)?;
        let flags = attempt.own_flags(&zone.policy);
        if !self.first_zone_serves
            || zone.managed == 0
            || !attempt.may_use(zone.node)
            || gfp.has(Gfp::WRITE)
            || flags.has_any(AllocFlags::RESERVES)
            || !zone.has_plenty(order, highest)
        {
            return None;
        }
        let cache = self.caches.get_mut(at * cpus + cpu)?;
        let i = cache.pop(&zone.map, cache.list_index(order, mt)?, order)?;
        cache.note_alloc();
        zone.wake_for_boost(flags, observer);
        Some(zone.hand_out(i, attempt, observer))
    }
}
