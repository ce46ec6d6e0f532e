//! zram: swap space in memory. A page is compressed, and kept by [`zsmalloc`](crate::swap::zsmalloc).
//!
//! Reads and writes are done by whoever asks, at once: reclaim frees the page that it writes in the same
//! step, and a place is free again as soon as its page is read (`SWP_SYNCHRONOUS_IO`). Source:
//! drivers/block/zram/zram_drv.c, `do_swap_page` (mm/memory.c).

use pageblock::alloc_flags::AllocFlags;
use pageblock::event::Observer;
use pageblock::frame::Pfn;
use pageblock::request::{Gfp, Request};
use pageblock_kernel::rules::memory::Memory;

use crate::base::list::NIL;
use crate::page::space::{Slot, SpaceId};
use crate::page::table::{Owner, PageFlags};
use crate::swap::zsmalloc::{Zsmalloc, ZspageId};
use crate::vm::Vm;

/// Pages of a thousand that hold one value all over, which is kept without memory. (K)
const SAME_FILLED: u64 = 80;
/// Pages of a thousand that cannot be compressed. (K)
const INCOMPRESSIBLE: u64 = 20;
/// The bytes that other pages are compressed to: from the least, twice half of the range at random. With
/// those that cannot be compressed 1,459 on average, 2.8 to 1 (docs/experiments/sources.md#apps: 2.5 to 3).
const SMALLEST: u64 = 200;
const RANGE: u64 = 2400;

/// A page that is filled with one value.
const SAME: ZspageId = NIL - 1;

/// What is kept at a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Entry {
    zspage: ZspageId,
    /// The trace of its eviction ([`Slot::Shadow`]), or [`NIL`].
    shadow: u32,
}

const NOTHING: Entry = Entry { zspage: NIL, shadow: NIL };

/// The device.
#[derive(Clone, Debug)]
pub struct Zram {
    pub(crate) pool: Zsmalloc,
    /// Its pages can be moved.
    pub(crate) movable: bool,
    entries: Vec<Entry>,
}

impl Zram {
    pub(crate) fn new(memory: &Memory, swap_pages: u32) -> Self {
        Self {
            pool: Zsmalloc::new(memory.zsmalloc_chain),
            movable: memory.zsmalloc_movable,
            entries: vec![NOTHING; swap_pages as usize],
        }
    }

    /// The pool.
    #[must_use]
    pub const fn pool(&self) -> &Zsmalloc {
        &self.pool
    }

    /// Pages that are kept, those without memory too.
    pub(crate) fn kept(&self) -> (u64, u64) {
        let of = |which: fn(&Entry) -> bool| self.entries.iter().filter(|e| which(e)).count();
        (of(|e| e.zspage != NIL && e.zspage != SAME) as u64, of(|e| e.zspage == SAME) as u64)
    }

    /// zsmalloc's pages: unmovable before 4.8.
    fn request(&self) -> Request {
        let gfp = Gfp::KSWAPD_RECLAIM | Gfp::NOWARN | Gfp::HIGHMEM;
        Request::new(0, if self.movable { gfp | Gfp::MOVABLE } else { gfp })
    }
}

/// The bytes that a page of a mapping is compressed to; `None` where it is filled with one value.
fn compressed_bytes(space: SpaceId, index: u32) -> Option<u32> {
    // A page has one content here, as long as it lives.
    let mut x = u64::from(space) << 32 | u64::from(index);
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^= x >> 31;
    let kind = x % 1000;
    if kind < SAME_FILLED {
        return None;
    }
    if kind < SAME_FILLED + INCOMPRESSIBLE {
        return Some(4096);
    }
    let half = |bits: u64| ((bits & 0xffff) * (RANGE / 2)) >> 16;
    Some((SMALLEST + half(x >> 16) + half(x >> 32)) as u32)
}

impl<O: Observer> Vm<'_, O> {
    /// The device, where swap is one.
    #[must_use]
    pub const fn zram(&self) -> Option<&Zram> {
        self.zram.as_ref()
    }

    /// Places of swap that are free, and all.
    #[must_use]
    pub fn swap_places(&self) -> (u64, u64) {
        (self.swap.free_places(), self.swap.places().into())
    }

    /// Writes an anonymous page that is off its list to a place, and frees it. Where there is no memory
    /// for it, it is kept: `false`.
    pub(crate) fn page_to_zram(&mut self, cpu: usize, pfn: u32) -> bool {
        let Some(place) = self.swap.take() else { return false };
        let (space, index) = (self.pages[pfn].owner, self.pages[pfn].index);
        self.work.compressed += 1;
        let zspage = match compressed_bytes(space, index) {
            None => Some(SAME),
            Some(bytes) => self.store_object(cpu, bytes),
        };
        let Some(zspage) = zspage else {
            self.swap.put(place);
            self.stat.zram_refused += 1;
            return false;
        };
        let shadow = match self.leave_shadow(pfn) {
            Slot::Shadow(trace) => trace,
            _ => NIL,
        };
        if let Some(zram) = &mut self.zram {
            zram.entries[place as usize] = Entry { zspage, shadow };
        }
        self.swap.own(place, space, index);
        self.pages[pfn].clear(PageFlags::DIRTY);
        self.note_reclaimed(pfn, 1);
        self.drop_page(cpu, pfn, Slot::Swap(place));
        self.stat.nr_vmscan_write += 1;
        self.stat.pswpout += 1;
        true
    }

    fn store_object(&mut self, cpu: usize, bytes: u32) -> Option<ZspageId> {
        let zram = self.zram.as_mut()?;
        let class = zram.pool.class_of(bytes);
        if let Some(id) = zram.pool.store(class) {
            return Some(id);
        }
        let (wanted, request) = (zram.pool.chain(class), zram.request());
        let mut pages = Vec::with_capacity(wanted);
        for at in 0..wanted as u32 {
            let Some(page) = self.zsmalloc_page(cpu, &request) else {
                pages.into_iter().for_each(|page| self.free_block(cpu, page, 0));
                return None;
            };
            let id = self.zram.as_ref().map_or(NIL, |zram| zram.pool.next_id());
            self.pages[page].give(Owner::Zsmalloc, 0, id, at);
            pages.push(page);
        }
        self.zram.as_mut().map(|zram| zram.pool.add(class, &pages))
    }

    /// A page for the pool. Whoever reclaims may use every reserve (`PF_MEMALLOC`).
    fn zsmalloc_page(&mut self, cpu: usize, request: &Request) -> Option<u32> {
        let page = self.try_alloc(cpu, request).or_else(|| {
            for node in self.nodes_for(cpu, request) {
                self.wake_kswapd(node, 0, request.gfp.highest_zone(), true);
            }
            let flags = AllocFlags::NO_WATERMARKS.with(AllocFlags::KSWAPD);
            let movable = request.gfp.has(Gfp::MOVABLE);
            self.try_alloc_with(
                cpu,
                request,
                if movable { flags.with(AllocFlags::CMA) } else { flags },
            )
        });
        page.map(|Pfn(pfn)| pfn as u32)
    }

    /// A place is given up: what is kept there goes. Gives the trace of its eviction.
    pub(crate) fn free_swap(&mut self, cpu: usize, place: u32) -> Option<u32> {
        self.swap.put(place);
        let zram = self.zram.as_mut()?;
        let entry = std::mem::replace(&mut zram.entries[place as usize], NOTHING);
        if entry.zspage != SAME && entry.zspage != NIL {
            for page in zram.pool.free(entry.zspage) {
                self.free_block(cpu, page, 0);
            }
        }
        (entry.shadow != NIL).then_some(entry.shadow)
    }

    /// A page of a mapping is read back from its place, which is given up; its trace is left in its
    /// stead until the page is there.
    pub(crate) fn page_from_zram(&mut self, cpu: usize, space: SpaceId, index: u32) {
        let Slot::Swap(place) = self.spaces.slot(space, index) else { return };
        let trace = self.free_swap(cpu, place);
        self.spaces.set(space, index, trace.map_or(Slot::Empty, Slot::Shadow));
        self.work.decompressed += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_compressed_as_documented() {
        let sizes: Vec<Option<u32>> =
            (0..100_000).map(|index| compressed_bytes(index / 1000, index)).collect();
        let kept: Vec<u64> = sizes.iter().flatten().map(|&bytes| bytes.into()).collect();
        let same = 1000 * (sizes.len() - kept.len()) / sizes.len();
        assert!((75..85).contains(&same), "{same}");
        let mean = kept.iter().sum::<u64>() / kept.len() as u64;
        assert!((1440..1480).contains(&mean), "{mean}");
        assert!(kept.iter().all(|bytes| (200..2600).contains(bytes) || *bytes == 4096));
    }
}
