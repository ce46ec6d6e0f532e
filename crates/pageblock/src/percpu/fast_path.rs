//! The fast paths: a block of a warm CPU list of the first zone, where that has plenty of free
//! memory; a refusal where no zone has enough; and a block to a CPU list that keeps it.
//!
//! They are the same for every policy. What they need to be right is less than any version asks for
//! ([`ZoneSnapshot::serves_at_once`], [`ZoneSnapshot::only_size_drains`], `KeepRule`); where that does not hold, nothing has changed
//! yet, and the [full paths](crate::access::local) decide in full.

use crate::base::event::{Event, Observer};
use crate::base::frame::{ORDER_LIMIT, Order, Pfn};
use crate::base::ids::ZoneIndex;
use crate::base::request::{Gfp, Request};
use crate::percpu::caches::{CpuCaches, CpuZone};
use crate::percpu::machine::Machine;
use crate::table::map::Index;

#[cfg(doc)]
use crate::percpu::snapshot::ZoneSnapshot;

impl CpuCaches<'_> {
    /// Takes a block from the list of the first zone, if a walk would do the same at once.
    #[inline(always)]
    pub(crate) fn alloc_fast(
        &mut self,
        request: &Request,
        observer: &mut impl Observer,
    ) -> Option<Pfn> {
        // Pages are what is asked for most: what follows from their order is known when this is compiled.
        match request.order {
            0 => self.try_alloc_fast(&Request { order: 0, ..*request }, observer),
            _ => self.try_alloc_fast(request, observer),
        }
    }

    #[inline(always)]
    fn try_alloc_fast(&mut self, request: &Request, observer: &mut impl Observer) -> Option<Pfn> {
        let Request { order, gfp, node, nodemask } = *request;
        // The full path leaves out nodes, or may use reserves.
        if gfp.has(Gfp::THISNODE)
            || nodemask != u64::MAX
            || node.is_some_and(|node| node != self.node)
            || (order > 0 && gfp.has(Gfp::HIGH))
        {
            return None;
        }
        let (mt, highest) = (gfp.migratetype()?, gfp.highest_zone());
        let zone = self.zones.get_mut(self.first[highest as usize].index())?;
        let CpuZone { cache, map, snapshot, .. } = zone;
        let list = cache.take_list(order, mt)?;
        if !snapshot.serves_at_once(order, highest)
            || (gfp.has(Gfp::WRITE) && !observer.node_dirty_ok(snapshot.node))
        {
            return None;
        }
        let (i, state) = cache.take_hot(map, list, order)?;
        state.set_allocated(order, gfp.has(Gfp::MOVABLE));
        let pfn = map.pfn(i);
        observer.event(Event::PageAlloc { pfn: Some(pfn), order, migratetype: mt, gfp });
        Some(pfn)
    }

    /// Tells whether a walk would refuse the request, and do nothing else. Never if it would not, but for what other CPUs
    /// are just changing.
    #[inline(always)]
    pub(crate) fn refuses(&self, machine: &Machine<'_>, request: &Request) -> bool {
        let Request { order, gfp, node, nodemask } = *request;
        let highest = gfp.highest_zone();
        let first = self.zones.get(self.first[highest as usize].index());
        first.is_some_and(|zone| zone.snapshot.refuses(order, highest))
            && order <= ORDER_LIMIT
            // The full path leaves out nodes, may use reserves, and asks the observer of dirty pages.
            && !gfp.has(Gfp::THISNODE)
            && nodemask == u64::MAX
            && node.is_none_or(|node| node == self.node)
            && !(order > 0 && gfp.has(Gfp::HIGH))
            && !gfp.has(Gfp::WRITE)
            && gfp.migratetype().is_some()
            && (self.zones.len() == 1
                || machine.snapshots.iter().all(|zone| {
                    zone.kind > highest || zone.refuses(order, highest)
                }))
    }

    /// Brings the list that a request looks at first to where [`alloc_fast`](Self::alloc_fast) finds
    /// its blocks, and tries again.
    #[inline(always)]
    pub(crate) fn fill_stack_and_alloc(
        &mut self,
        request: &Request,
        observer: &mut impl Observer,
    ) -> Option<Pfn> {
        let Request { order, gfp, .. } = *request;
        let zone = self.zones.get_mut(self.first[gfp.highest_zone() as usize].index())?;
        let map = zone.map;
        let warm = zone.flushed().warm(&map, order, gfp.migratetype()?);
        if warm { self.alloc_fast(request, observer) } else { None }
    }

    /// Puts an allocated block of the zone and type that was freed last on a list, if that keeps it. Tells
    /// whether it did.
    #[inline(always)]
    pub(crate) fn free_fast(
        &mut self,
        pfn: Pfn,
        order: Order,
        observer: &mut impl Observer,
    ) -> bool {
        match order {
            0 => self.try_free_fast(pfn, 0, observer).is_some(),
            _ => self.free_block_fast(pfn, order, observer),
        }
    }

    /// The same for the higher orders, apart, so that pages need fewer registers.
    #[inline(never)]
    fn free_block_fast(&mut self, pfn: Pfn, order: Order, observer: &mut impl Observer) -> bool {
        self.try_free_fast(pfn, order, observer).is_some()
    }

    #[inline(always)]
    fn try_free_fast(
        &mut self,
        pfn: Pfn,
        order: Order,
        observer: &mut impl Observer,
    ) -> Option<()> {
        if order > ORDER_LIMIT {
            return None;
        }
        let zone = self.zones.get_mut(self.recent.index())?;
        let CpuZone { map, cache, .. } = zone;
        if !cache.flush_hot() {
            return None;
        }
        let count = cache.count_if_kept(order)?;
        let (offset, state) = map.allocated(pfn, order)?;
        // The list is found from the last type, not from this one, so that the processor need not
        // wait for the type to know where the block goes.
        let mt = zone.recent_type;
        if !map.is_in_block_of(offset, mt) {
            return None;
        }
        let list = if order == 0 { zone.recent_list } else { cache.put_list(order, mt)? };
        if !zone.snapshot.only_size_drains() || !cache.put_hot(offset as Index, list, order, count)
        {
            return None;
        }
        observer.event(Event::PageFree { pfn, order });
        state.set_on_cpu_list(order, mt);
        Some(())
    }

    /// Makes room where [`free_fast`](Self::free_fast) puts a block, and tries again with the zone and
    /// the type of the block.
    pub(crate) fn make_room_and_free(
        &mut self,
        at: ZoneIndex,
        pfn: Pfn,
        order: Order,
        observer: &mut impl Observer,
    ) -> bool {
        self.recent = at;
        let Some(zone) = self.zones.get_mut(at.index()) else { return false };
        zone.flushed();
        let map = &zone.map;
        let Some((offset, _)) = map.allocated(pfn, order) else { return false };
        let mt = map.block_type(offset as Index);
        if !zone.cache.make_room(map, order, mt) {
            return false;
        }
        let Some(list) = zone.cache.put_list(0, mt) else { return false };
        (zone.recent_type, zone.recent_list) = (mt, list);
        self.free_fast(pfn, order, observer)
    }
}
