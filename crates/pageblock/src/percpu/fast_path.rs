//! The fast paths: each does what the full path would do at once, or nothing. They are the same for every policy: their
//! preconditions are stricter than any version's ([`ZoneSnapshot::serves_at_once`], [`ZoneSnapshot::only_size_drains`],
//! `KeepRule`). The first that serves ends a call.
//!
//! An allocation tries, in this order:
//!
//! 1. [`alloc_fast`](CpuCaches::alloc_fast), inlined into the caller: the head of the list in the first zone, if that has
//!    plenty of free memory: the page freed last, else the top of the list's stack
//! 2. [`refuses`](CpuCaches::refuses): an error, if no zone has enough
//! 3. [`alloc_again`](CpuCaches::alloc_again): the same after the stack is filled from the rest of the list; also blocks of
//!    2 and 4 pages under packed placement, for which the first would need more registers
//! 4. the full path ([`walk`](crate::access::walk))
//!
//! A free tries, in this order:
//!
//! 1. [`free_page_fast`](CpuCaches::free_page_fast), inlined into the caller, pages only: the page is kept aside, if its
//!    pageblock has the zone, type and owner that this CPU freed to last; a page of another pageblock goes to
//!    [`free_other_page`](CpuCaches::free_other_page): on the stack of that list, or collected
//! 2. [`free_again`](CpuCaches::free_again): a page for which there was no room, or a larger block, in the zone and of the type
//!    that this CPU freed to last
//! 3. [`free_by_its_type`](CpuCaches::free_by_its_type): the same in its own zone and of its own type
//! 4. the full path ([`free`](crate::access::free))

use crate::base::event::{Event, Observer};
use crate::base::frame::{ORDER_LIMIT, Order, Pfn, pages};
use crate::base::ids::{ListIndex, ZoneIndex};
use crate::base::mobility::Migratetype;
use crate::base::request::{Gfp, Request};
use crate::percpu::caches::{CpuCaches, CpuZone};
use crate::percpu::machine::Machine;
use crate::policy::source::PolicySource;
use crate::table::block::{empties, is_kept, is_mixed, is_of};
use crate::table::map::Index;

#[cfg(doc)]
use crate::percpu::snapshot::ZoneSnapshot;

impl<'m, P: PolicySource> CpuCaches<'m, P> {
    /// Takes a block from a list of the first zone, if the full path would take the same one at once.
    #[inline(always)]
    pub(crate) fn alloc_fast(
        &mut self,
        request: &Request,
        observer: &mut impl Observer,
    ) -> Option<Pfn> {
        // Most requests are for pages: with a constant order the compiler drops the code of the others.
        match request.order {
            0 => self.take_head(&Request { order: 0, ..*request }, observer),
            _ => self.take_head(request, observer),
        }
    }

    #[inline(always)]
    fn take_head(&mut self, request: &Request, observer: &mut impl Observer) -> Option<Pfn> {
        let (zone, list, mt) = self.serving(request, observer)?;
        let CpuZone { cache, map, .. } = zone;
        let i = cache.take_hot(map, list, request.order, request.gfp.has(Gfp::MOVABLE))?;
        Some(handed_out(map.pfn(i), request, mt, observer))
    }

    /// Returns the first zone, if it serves the request at once, the list that may do so, and the request's type.
    #[inline(always)]
    fn serving<'a>(
        &'a mut self,
        request: &Request,
        observer: &mut impl Observer,
    ) -> Option<(&'a mut CpuZone<'m, P>, ListIndex, Migratetype)> {
        let Request { order, gfp, node, nodemask } = *request;
        // The full path excludes nodes, or may use reserves.
        if gfp.has(Gfp::THISNODE)
            || nodemask != u64::MAX
            || node.is_some_and(|node| node != self.node)
            || (order > 0 && gfp.has(Gfp::HIGH))
        {
            return None;
        }
        let (mt, highest) = (gfp.migratetype()?, gfp.highest_zone());
        let zone = self.zones.get_mut(self.first[highest as usize].index())?;
        let list = zone.cache.take_list(order, mt)?;
        let serves = zone.snapshot.serves_at_once(order, highest)
            && (!gfp.has(Gfp::WRITE) || observer.node_dirty_ok(zone.snapshot.node));
        serves.then_some((zone, list, mt))
    }

    /// [`alloc_fast`](Self::alloc_fast) for a request for which that found nothing on the stack of its list: moves blocks
    /// of the list there first.
    #[inline]
    pub(crate) fn alloc_again(
        &mut self,
        request: &Request,
        observer: &mut impl Observer,
    ) -> Option<Pfn> {
        let (zone, list, mt) = self.serving(request, observer)?;
        let CpuZone { cache, map, .. } = zone;
        // The page freed last is the head: it reaches the stack before older blocks do.
        cache.flush_last_freed(map);
        if !cache.warm(map, list, request.order) {
            return None;
        }
        let (order, movable) = (request.order, request.gfp.has(Gfp::MOVABLE));
        let i = cache.top(list)?;
        if !map.take(i, order, movable) && !map.take_pair(i, order, movable) {
            return None;
        }
        cache.took_top(list, order);
        Some(handed_out(map.pfn(i), request, mt, observer))
    }

    /// Returns whether the full path would refuse the request, and do nothing else. The answer "yes" may be stale
    /// while another CPU changes a zone; it is never wrong otherwise.
    #[inline(always)]
    pub(crate) fn refuses(&self, machine: &Machine<'_, P>, request: &Request) -> bool {
        let Request { order, gfp, node, nodemask } = *request;
        let highest = gfp.highest_zone();
        let first = self.zones.get(self.first[highest as usize].index());
        first.is_some_and(|zone| zone.snapshot.refuses(order, highest))
            && order <= ORDER_LIMIT
            // The full path excludes nodes, may use reserves, or asks the observer about dirty pages.
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
            && !(machine.spends_all() && (gfp.has(Gfp::HIGH) || self.hold_enough_for(order)))
    }

    /// Returns whether as many pages lie on lists as a block of an order has. Fewer are not worth a drain: requests for
    /// huge blocks that try their luck would empty the lists each time.
    pub(crate) fn hold_enough_for(&self, order: Order) -> bool {
        let held: u64 = self.zones.iter().map(|zone| u64::from(zone.cache.count())).sum();
        held >= pages(order)
    }

    /// Keeps an allocated page aside, if its pageblock has the zone and type that were freed to last, the page is
    /// as movable as the list, and the list keeps it.
    #[inline(always)]
    pub(crate) fn free_page_fast(&mut self, pfn: Pfn, observer: &mut impl Observer) -> PageFree {
        let Some(zone) = self.zones.get_mut(self.recent.index()) else { return PageFree::No };
        let CpuZone { map, cache, .. } = zone;
        let offset = map.offset(pfn);
        let Some(word) = map.word_at(offset) else { return PageFree::No };
        // The list is found from the last type, not from this one, so that the processor need not
        // wait for the type to know where the page goes.
        if !is_kept(word, zone.recent_key) {
            return PageFree::Other(Page { offset, word });
        }
        // `put_own_page` comes last: it changes the page's state, which no later check may undo.
        if !cache.flush_hot()
            || cache.count_if_kept(0).is_none()
            || !zone.snapshot.only_size_drains()
            || !cache.put_own_page(map, offset, zone.recent_type, zone.recent_code)
        {
            return PageFree::No;
        }
        cache.keep_last_freed(offset as Index, zone.recent_list);
        observer.event(Event::PageFree { pfn, order: 0 });
        PageFree::Done
    }

    /// Frees a page that [`free_page_fast`](Self::free_page_fast) left over ([`PageFree::Other`]): collects it or
    /// puts it on a list. Returns whether it did.
    #[inline(always)]
    pub(crate) fn free_other_page(&mut self, page: Page, observer: &mut impl Observer) -> bool {
        let zone = self.zones.get_mut(self.recent.index());
        zone.is_some_and(|zone| match empties(page.word) {
            true => zone.leave_page(page, observer),
            false => zone.list_small(page, 0, observer),
        })
    }

    /// Frees a block, or a page for which [`free_page_fast`](Self::free_page_fast) found no room, if its pageblock has the
    /// zone and type that were freed to last: to its CPU list, if the list keeps it; collects it if its pageblock is being
    /// emptied. Returns whether it did.
    #[inline(always)]
    pub(crate) fn free_again(
        &mut self,
        pfn: Pfn,
        order: Order,
        observer: &mut impl Observer,
    ) -> bool {
        self.zones.get_mut(self.recent.index()).is_some_and(|zone| zone.free(pfn, order, observer))
    }

    /// Tries the fast paths again with the zone and the type of the block itself. `i` is the index of its first
    /// frame in the zone.
    pub(crate) fn free_by_its_type(
        &mut self,
        (at, i): (ZoneIndex, Index),
        pfn: Pfn,
        order: Order,
        observer: &mut impl Observer,
    ) -> bool {
        self.recent = at;
        let Some(zone) = self.zones.get_mut(at.index()) else { return false };
        let mt = zone.map.block_type(i);
        // The full path frees isolated blocks to the zone, and orders without lists too.
        if mt == Migratetype::Isolate || !zone.cache.has_lists(order) {
            return false;
        }
        let Some(list) = zone.cache.put_list(0, mt) else { return false };
        zone.set_recent(mt, list);
        zone.free(pfn, order, observer)
    }
}

/// Reports a block that was taken for a request.
#[inline(always)]
fn handed_out(
    pfn: Pfn,
    request: &Request,
    migratetype: Migratetype,
    observer: &mut impl Observer,
) -> Pfn {
    let Request { order, gfp, .. } = *request;
    observer.event(Event::PageAlloc { pfn: Some(pfn), order, migratetype, gfp });
    pfn
}

// Where the state of a freed block is stored: in bytes, or in bits, those of a whole pageblock or of whole cells.
const BYTES: u8 = 0;
const WHOLE: u8 = 1;
const CELLS: u8 = 2;

/// The outcome of the fast path for a freed page.
pub(crate) enum PageFree {
    /// It is on a list, or kept aside.
    Done,
    /// Another path must free it: its pageblock is being emptied, belongs to another CPU, or has another type.
    Other(Page),
    /// The fast path cannot free it.
    No,
}

/// A page of the zone that was freed to last: its offset from the zone's first frame, and the word of its
/// pageblock.
#[derive(Clone, Copy)]
pub(crate) struct Page {
    offset: usize,
    word: u16,
}

impl<P: PolicySource> CpuZone<'_, P> {
    /// See [`CpuCaches::free_again`].
    #[inline(always)]
    fn free(&mut self, pfn: Pfn, order: Order, observer: &mut impl Observer) -> bool {
        // Functions of their own, so that each saves only the registers that it needs.
        if order == 0 || self.map.has_pairs(order) {
            let offset = self.map.offset(pfn);
            self.map
                .word_at(offset)
                .is_some_and(|word| self.list_small(Page { offset, word }, order, observer))
        } else if self.map.has_cells(order) {
            self.free_block::<CELLS>(pfn, order, observer)
        } else if self.map.has_bits() {
            self.free_block::<WHOLE>(pfn, order, observer)
        } else {
            self.free_block::<BYTES>(pfn, order, observer)
        }
    }

    /// Collects a page whose pageblock is being emptied (only if frames have bits). Returns whether it did.
    #[inline(never)]
    fn leave_page(&mut self, page: Page, observer: &mut impl Observer) -> bool {
        let Self { map, cache, .. } = self;
        let Page { offset, word } = page;
        if !cache.has_place_to_leave(0) || !map.put_page(offset, word) {
            return false;
        }
        cache.leave_at_place(offset as Index, 0);
        observer.event(Event::PageFree { pfn: map.pfn(offset as Index), order: 0 });
        true
    }

    /// Frees a page to a list whose stack was full; if frames have bits, also a page in another CPU's
    /// pageblock, one that is not as movable as its list, and a block smaller than a cell. Returns whether it did.
    #[inline(never)]
    fn list_small(&mut self, page: Page, order: Order, observer: &mut impl Observer) -> bool {
        let Page { offset, word } = page;
        let mt = self.recent_type;
        if !is_of(word, mt) || !self.snapshot.only_size_drains() {
            return false;
        }
        let Some(list) = self.cache.put_list(order, mt) else { return false };
        let is_full = !self.cache.flush_hot() || self.cache.free_place(list).is_none();
        if is_full && !self.makes_room(list) {
            return false;
        }
        let Self { map, cache, .. } = self;
        let Some(place) = cache.free_place(list) else { return false };
        // The place is asked for again: the flush above may have used it.
        let Some(count) = cache.count_if_kept(order) else { return false };
        if !map.put_small(offset, order, mt, word) {
            return false;
        }
        cache.put_hot(offset as Index, (list, place), order, count);
        observer.event(Event::PageFree { pfn: map.pfn(offset as Index), order });
        true
    }

    /// Makes room on the stack of a list, and puts the page freed last on its list. Returns whether there is room.
    #[inline(never)]
    fn makes_room(&mut self, list: ListIndex) -> bool {
        self.flushed();
        self.cache.flush_hot() && self.cache.make_place(&self.map, list).is_some()
    }

    /// Frees a block of order 1 or more, of a kind that its caller knows, to a list whose stack has room; collects it if its
    /// pageblock is being emptied. Returns whether it did.
    #[inline(never)]
    fn free_block<const KIND: u8>(
        &mut self,
        pfn: Pfn,
        order: Order,
        observer: &mut impl Observer,
    ) -> bool {
        let Self { map, cache, .. } = self;
        let (mt, offset) = (self.recent_type, map.offset(pfn));
        let Some(word) = map.word_at(offset) else { return false };
        if !is_of(word, mt) {
            return KIND == CELLS && empties(word) && self.leave_block(pfn, order, word, observer);
        }
        // A pageblock in one state holds no smaller block: the full path reports the mistake.
        if KIND == CELLS && !is_mixed(word) {
            return false;
        }
        if !self.snapshot.only_size_drains() {
            return false;
        }
        let Some(list) = cache.put_list(order, mt) else { return false };
        let Some(place) = cache.flush_hot().then(|| cache.free_place(list)).flatten() else {
            return self.free_with_room(pfn, order, list, observer);
        };
        let Some(count) = cache.count_if_kept(order) else {
            return KIND == CELLS && self.leave_block(pfn, order, word, observer);
        };
        let put = match KIND {
            BYTES => map.put_in_bytes(offset, order, mt),
            WHOLE => map.bits().put_whole(offset, order, mt),
            _ => map.bits().put_cells(offset, order),
        };
        if !put {
            return false;
        }
        cache.put_hot(offset as Index, (list, place), order, count);
        observer.event(Event::PageFree { pfn, order });
        true
    }

    /// Makes room on the stack of a list, and frees a block there.
    #[inline(never)]
    fn free_with_room(
        &mut self,
        pfn: Pfn,
        order: Order,
        list: ListIndex,
        observer: &mut impl Observer,
    ) -> bool {
        self.makes_room(list) && self.free(pfn, order, observer)
    }

    /// Collects a block of whole cells that is to go back to the zone: its pageblock is being emptied, or it continues a run of
    /// frees that would drain the empty lists at once. Returns whether it did.
    #[inline(never)]
    fn leave_block(
        &mut self,
        pfn: Pfn,
        order: Order,
        word: u16,
        observer: &mut impl Observer,
    ) -> bool {
        let Self { map, cache, .. } = self;
        let leaves = if empties(word) {
            is_mixed(word) && cache.has_lists(order)
        } else {
            cache.collects_alone(order) && cache.continues_run(order)
        };
        if !leaves || !cache.has_place_to_leave(order) {
            return false;
        }
        let offset = map.offset(pfn);
        let put = map.bits().put_cells(offset, order);
        if put {
            cache.leave_at_place(offset as Index, order);
            observer.event(Event::PageFree { pfn, order });
        }
        put
    }
}
