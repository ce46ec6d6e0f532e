//! zram: swap space in memory. Pages are compressed and stored in [`zsmalloc`](super::zsmalloc).
//!
//! Reads and writes are synchronous: reclaim frees the page that it writes in the same step, and a slot is free
//! again as soon as its page is read (`SWP_SYNCHRONOUS_IO`). Source: drivers/block/zram/zram_drv.c, `do_swap_page`
//! (mm/memory.c).

use pageblock::alloc_flags::AllocFlags;
use pageblock::event::Observer;
use pageblock::frame::Pfn;
use pageblock::request::{Gfp, Request};
use pageblock_kernel::rules::memory::Memory;

use super::zsmalloc::{Zsmalloc, ZspageId};
use crate::base::list::NIL;
use crate::page::{Owner, PageFlags};
use crate::pagecache::space::{Slot, SpaceId};
use crate::vm::Vm;

/// Pages of a thousand that are filled with one value, which takes no memory. (K)
const SAME_FILLED: u64 = 80;
/// Pages of a thousand that cannot be compressed. (K)
const INCOMPRESSIBLE: u64 = 20;
/// The bytes that other pages are compressed to: the smallest size plus two random halves of the range. With the
/// incompressible pages 1,459 on average, 2.8 to 1 (docs/experiments/sources.md#apps: 2.5 to 3).
const SMALLEST: u64 = 200;
/// See [`SMALLEST`].
const RANGE: u64 = 2400;

/// Stands for the zspage of a page that is filled with one value.
const SAME: ZspageId = NIL - 1;

/// The content of a swap slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Entry {
    zspage: ZspageId,
    /// Its shadow entry ([`Slot::Shadow`]), or [`NIL`].
    shadow: u32,
}

const EMPTY: Entry = Entry { zspage: NIL, shadow: NIL };

/// The device.
#[derive(Clone, Debug)]
pub struct Zram {
    pool: Zsmalloc,
    /// Its pages can be migrated.
    movable: bool,
    entries: Vec<Entry>,
}

impl Zram {
    pub(super) fn new(memory: &Memory, swap_pages: u32) -> Self {
        Self {
            pool: Zsmalloc::new(memory.zsmalloc_chain),
            movable: memory.zsmalloc_movable,
            entries: vec![EMPTY; swap_pages as usize],
        }
    }

    /// Returns the pool.
    #[must_use]
    pub const fn pool(&self) -> &Zsmalloc {
        &self.pool
    }

    /// Returns the number of stored pages with an object, and of those filled with one value.
    pub(crate) fn stored(&self) -> (u64, u64) {
        let of = |which: fn(&Entry) -> bool| self.entries.iter().filter(|e| which(e)).count();
        (of(|e| e.zspage != NIL && e.zspage != SAME) as u64, of(|e| e.zspage == SAME) as u64)
    }

    /// Returns whether the pages of the pool can be migrated.
    pub(super) const fn is_movable(&self) -> bool {
        self.movable
    }

    /// Notes that a page of a zspage was migrated.
    pub(super) fn move_page(&mut self, id: ZspageId, at: u32, to: u32) {
        self.pool.move_page(id, at, to);
    }

    /// Returns the request for a page of zsmalloc: unmovable before 4.8.
    fn request(&self) -> Request {
        let gfp = Gfp::KSWAPD_RECLAIM | Gfp::NOWARN | Gfp::HIGHMEM;
        Request::new(0, if self.movable { gfp | Gfp::MOVABLE } else { gfp })
    }
}

/// Returns the bytes that a page of a mapping is compressed to; `None` if it is filled with one value.
fn compressed_bytes(space: SpaceId, index: u32) -> Option<u32> {
    // A page keeps its content.
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
    /// Returns the device if swap is in memory.
    #[must_use]
    pub const fn zram(&self) -> Option<&Zram> {
        self.swap.zram.as_ref()
    }

    /// Compresses and frees an anonymous page that is off its list. Returns `false` and keeps the page if there is no
    /// memory for its object.
    pub(crate) fn page_to_zram(&mut self, cpu: usize, pfn: u32) -> bool {
        let Some(slot) = self.swap.map.take() else { return false };
        let (space, index) = (self.pages[pfn].owner, self.pages[pfn].index);
        self.work.compressed += 1;
        let zspage = match compressed_bytes(space, index) {
            None => Some(SAME),
            Some(bytes) => self.store_object(cpu, bytes),
        };
        let Some(zspage) = zspage else {
            self.swap.map.put(slot);
            self.stat.zram_refused += 1;
            return false;
        };
        let shadow = match self.leave_shadow(pfn) {
            Slot::Shadow(shadow) => shadow,
            _ => NIL,
        };
        if let Some(zram) = &mut self.swap.zram {
            zram.entries[slot as usize] = Entry { zspage, shadow };
        }
        self.swap.map.set_owner(slot, space, index);
        self.pages[pfn].clear(PageFlags::DIRTY);
        self.pages.note_reclaimed(pfn, 1);
        self.drop_page(cpu, pfn, Slot::Swap(slot));
        self.stat.nr_vmscan_write += 1;
        self.stat.pswpout += 1;
        true
    }

    /// Stores an object; `None` if there is no memory for it.
    fn store_object(&mut self, cpu: usize, bytes: u32) -> Option<ZspageId> {
        let zram = self.swap.zram.as_mut()?;
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
            let id = self.swap.zram.as_ref().map_or(NIL, |zram| zram.pool.next_id());
            self.pages[page].own(Owner::Zsmalloc, 0, id, at);
            pages.push(page);
        }
        self.swap.zram.as_mut().map(|zram| zram.pool.add(class, &pages))
    }

    /// Allocates a page for the pool. Reclaim may use all reserves (`PF_MEMALLOC`).
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

    /// Frees a swap slot and its object. Returns the shadow entry of its page.
    pub(crate) fn free_swap(&mut self, cpu: usize, slot: u32) -> Option<u32> {
        self.swap.map.put(slot);
        let zram = self.swap.zram.as_mut()?;
        let entry = std::mem::replace(&mut zram.entries[slot as usize], EMPTY);
        if entry.zspage != SAME && entry.zspage != NIL {
            for page in zram.pool.free(entry.zspage) {
                self.free_block(cpu, page, 0);
            }
        }
        (entry.shadow != NIL).then_some(entry.shadow)
    }

    /// Reads a page of a mapping back and frees its swap slot. The shadow entry takes its index until the page is
    /// added.
    pub(crate) fn page_from_zram(&mut self, cpu: usize, space: SpaceId, index: u32) {
        let Slot::Swap(slot) = self.spaces().slot(space, index) else { return };
        let shadow = self.free_swap(cpu, slot);
        self.pagecache.set_slot(space, index, shadow.map_or(Slot::Empty, Slot::Shadow));
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
