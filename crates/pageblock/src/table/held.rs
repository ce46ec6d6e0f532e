//! The page map's state of blocks that are held: allocated, or on a CPU list. These functions need no zone lock,
//! because such a block belongs to its holder.

use crate::base::frame::{Order, Pfn};
use crate::base::mobility::Migratetype;
use crate::base::sync::{AtomicU8, Relaxed};
use crate::policy::source::PolicySource;
use crate::table::bits::owner;
#[cfg(doc)]
use crate::table::bits::{self, FrameBits};
use crate::table::chain::Tag;
use crate::table::map::{FrameState, Index, PageMap};
use crate::table::state::{ALLOCATED, is_allocated, is_on_cpu_list};

impl<P: PolicySource> PageMap<'_, P> {
    /// Marks a block that was taken off a CPU list as allocated. Returns whether that was possible without the
    /// zone's lock.
    #[inline(always)]
    pub(crate) fn hand_out(&self, i: Index, order: Order, movable: bool) -> bool {
        let state = FrameState::Allocated { order, movable };
        match self.byte(i as usize) {
            Some(byte) => byte.store(state.encode(), Relaxed),
            None => return self.bits.hand_out(i, order, movable, self.owner),
        }
        true
    }

    pub(crate) fn is_allocated(&self, i: Index, order: Order) -> bool {
        match self.byte(i as usize) {
            Some(byte) => is_allocated(byte.load(Relaxed), order),
            None => self.bits.is_allocated(i, order),
        }
    }

    /// Returns whether a block of exactly this order starts at `i` and is on a CPU list.
    #[inline(always)]
    pub(crate) fn is_on_cpu_list(&self, i: Index, order: Order) -> bool {
        match self.byte(i as usize) {
            Some(byte) => is_on_cpu_list(byte.load(Relaxed), order),
            None => self.bits.is_on_cpu_list(i, order),
        }
    }

    /// [`is_on_cpu_list`](Self::is_on_cpu_list) for frames that have bytes.
    #[inline(always)]
    pub(crate) fn is_byte_on_cpu_list(&self, i: Index, order: Order) -> bool {
        self.states.get(i as usize).is_some_and(|byte| is_on_cpu_list(byte.load(Relaxed), order))
    }

    /// Puts an allocated page on a CPU list. [`is_kept`](super::block::is_kept) must hold: its pageblock is `cached`, and
    /// by the `code` the page is [as movable](bits::page_code) as the list. Returns whether it was such a page.
    /// `aside` is an argument for [`take_own_page`](Self::take_own_page).
    #[inline(always)]
    pub(crate) fn put_own_page(
        &self,
        offset: usize,
        cached: Migratetype,
        code: u16,
        aside: &mut u16,
    ) -> bool {
        match self.byte(offset) {
            Some(byte) => {
                let is = is_allocated(byte.load(Relaxed), 0);
                if is {
                    byte.store(FrameState::CpuList { order: 0, cached }.encode(), Relaxed);
                }
                is
            }
            None => self.bits.put_own_page(offset, code, aside),
        }
    }

    /// Marks the page that [`put_own_page`](Self::put_own_page) put on a list last as allocated. Returns whether it
    /// was still there.
    #[inline(always)]
    pub(crate) fn take_own_page(&self, i: Index, movable: bool, aside: u16) -> bool {
        match self.byte(i as usize) {
            Some(byte) => Self::take_byte(byte, 0, movable),
            None => self.bits.take_own_page(i, aside),
        }
    }

    #[inline(always)]
    fn take_byte(byte: &AtomicU8, order: Order, movable: bool) -> bool {
        let listed = byte.load(Relaxed) < ALLOCATED;
        if listed {
            byte.store(ALLOCATED | (movable as u8) << 7 | order, Relaxed);
        }
        listed
    }

    /// Puts an allocated block on a CPU list; its pageblock's type is `cached`.
    #[inline(always)]
    pub(crate) fn put_on_cpu_list(&self, i: Index, order: Order, cached: Migratetype) {
        match self.byte(i as usize) {
            Some(byte) => byte.store(FrameState::CpuList { order, cached }.encode(), Relaxed),
            None => self.bits.put_on_cpu_list(i, order, cached, self.owner),
        }
    }

    /// Marks a block on a CPU list as allocated, if that needs no lock. Returns whether it did; not if frames have bits and
    /// the block is one for [`take_pair`](Self::take_pair).
    #[inline(always)]
    pub(crate) fn take(&self, i: Index, order: Order, movable: bool) -> bool {
        if order > 0 && self.has_cells(order) {
            return self.bits.take_cells(i, order, movable);
        }
        match self.byte(i as usize) {
            Some(byte) => Self::take_byte(byte, order, movable),
            None => self.bits.take(i, order, movable, self.owner),
        }
    }

    /// [`take`](Self::take) for a block of order 1 or more that is smaller than a cell, if frames have bits.
    pub(crate) fn take_pair(&self, i: Index, order: Order, movable: bool) -> bool {
        self.has_bits() && self.bits.take_pair(i, order, movable, self.owner)
    }

    /// Puts an allocated block on a CPU list, for frames that have bytes. Its pageblock must be `cached`
    /// ([`is_of`](super::block::is_of)). Returns whether a block of exactly this order started at the offset.
    #[inline(always)]
    pub(crate) fn put_in_bytes(&self, offset: usize, order: Order, cached: Migratetype) -> bool {
        let Some(byte) = self.states.get(offset) else { return false };
        let is = is_allocated(byte.load(Relaxed), order);
        if is {
            byte.store(FrameState::CpuList { order, cached }.encode(), Relaxed);
        }
        is
    }

    /// [`put_in_bytes`](Self::put_in_bytes) for a page, or a block that [has pairs](Self::has_pairs), whichever frames
    /// have. `word` is that of the pageblock.
    #[inline(always)]
    pub(crate) fn put_small(
        &self,
        offset: usize,
        order: Order,
        cached: Migratetype,
        word: u16,
    ) -> bool {
        if !self.has_bits() {
            self.put_in_bytes(offset, order, cached)
        } else if order == 0 {
            self.bits.put_page(offset, word, &self.owner)
        } else {
            self.bits.put_pair(offset, order, word, self.owner)
        }
    }

    /// Puts consecutive blocks, from free lists of a type, on a list of the CPU with a tag, for frames that have
    /// bits.
    pub(crate) fn set_listed_run(
        &self,
        i: Index,
        order: Order,
        n: u32,
        cached: Migratetype,
        tag: Tag,
    ) {
        if order < self.pageblock_order {
            let movable = cached == Migratetype::Movable;
            self.bits.set_listed_run(i, order, n, movable, owner(tag));
        } else {
            self.bits.set_whole_run(i, order, n, FrameState::CpuList { order, cached });
        }
    }

    /// Returns the order of the block that starts at `i`, if it is on a CPU list.
    #[inline(always)]
    pub(crate) fn listed_order(&self, i: Index) -> Option<Order> {
        if self.has_bits() {
            if let Some(order) = self.bits.listed_order(i) {
                return Some(order);
            }
        }
        match self.state(i) {
            FrameState::CpuList { order, .. } => Some(order),
            _ => None,
        }
    }

    /// Puts an allocated page on a CPU list, for frames that have bits. Returns whether it was such a page. `word`
    /// is that of the pageblock.
    #[inline(always)]
    pub(crate) fn put_page(&self, offset: usize, word: u16) -> bool {
        self.bits.put_page(offset, word, &self.owner)
    }

    /// Returns the state byte of a block on a CPU list, if frames have bytes. Blocks on CPU lists that share this
    /// byte have the same order and type.
    #[inline(always)]
    pub(crate) fn listed_byte(&self, i: Index) -> Option<u8> {
        self.byte(i as usize).map(|byte| byte.load(Relaxed))
    }

    /// Returns whether a block is on a CPU list and has this [state byte](Self::listed_byte).
    #[inline(always)]
    pub(crate) fn is_listed_as(&self, i: Index, byte: u8) -> bool {
        byte < ALLOCATED && self.states[i as usize].load(Relaxed) == byte
    }

    /// Returns the index of a frame, if an allocated block of exactly this order starts there. `None` for a hole.
    pub(crate) fn allocated_at(&self, pfn: Pfn, order: Order) -> Option<Index> {
        let offset = self.offset(pfn);
        let is = match self.states.get(offset) {
            Some(byte) => is_allocated(byte.load(Relaxed), order),
            None => self.has_bits() && self.bits.is_allocated_at(offset, order),
        };
        is.then_some(offset as Index)
    }
}
