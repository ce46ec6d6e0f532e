//! The states of eight frames in four bytes.

use crate::base::frame::{ORDER_LIMIT, Order};
use crate::base::mobility::Migratetype;
use crate::base::sync::{self, AtomicU8, AtomicU16, Relaxed};
use crate::table::state::FrameState;

/// Frames that a cell covers.
pub(super) const CELL: usize = 8;
pub(super) const CELL_ORDER: Order = CELL.ilog2() as Order;

/// The frames of a cell that are at even places.
const EVEN: u8 = 0x55;
/// The frames of a cell at every fourth place.
const FOURTH: u8 = 0x11;

/// The bits of the page at each place in a cell's code.
pub(super) const PAGES: [u16; CELL] = [0x101, 0x202, 0x404, 0x808, 0x1010, 0x2020, 0x4040, 0x8080];

/// The byte that the pageblock's owner changes, the byte that other CPUs change, and the code: `lo` in its lower
/// byte, `hi` in its upper one.
#[repr(C)]
pub(crate) struct Cell {
    pub(super) own: AtomicU8,
    pub(super) others: AtomicU8,
    pub(super) code: AtomicU16,
}

/// The CPU that changes whether a page is in use.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Writer {
    /// The owner of its pageblock.
    Owner,
    /// Any other CPU.
    Other,
}

// A model checker's atomics are larger.
#[cfg(not(any(loom, shuttle)))]
const _: () = assert!(size_of::<Cell>() == CELL / 2);

impl Cell {
    pub(crate) fn new() -> Self {
        Self { own: AtomicU8::new(0), others: AtomicU8::new(0), code: AtomicU16::new(0) }
    }

    /// Returns the bits of the cell.
    #[inline(always)]
    pub(super) fn read(&self) -> Codes {
        let code = self.code.load(Relaxed);
        Codes { in_use: self.in_use(), lo: code as u8, hi: (code >> 8) as u8 }
    }

    #[inline(always)]
    pub(super) fn in_use(&self) -> u8 {
        self.own.load(Relaxed) ^ self.others.load(Relaxed)
    }

    /// Returns whether a page is held. `page` is one of [`PAGES`].
    #[inline(always)]
    pub(super) fn is_page(&self, page: u16) -> bool {
        (self.code.load(Relaxed) >> 8) as u8 & page as u8 != 0
    }

    /// Returns whether all frames are pages on CPU lists.
    #[inline(always)]
    pub(super) fn has_listed_pages(&self) -> bool {
        self.code.load(Relaxed) >> 8 == 0xff && self.in_use() == 0
    }

    /// Returns whether a page is held, and as movable as the pages of a [code](super::page_code).
    #[inline(always)]
    pub(super) fn is_held(&self, page: u16, code: u16) -> bool {
        (self.code.load(Relaxed) ^ code) & page == 0
    }

    /// Changes whether a page is in use to `in_use`, for the owner of its pageblock. Returns whether that was a
    /// change.
    #[inline(always)]
    pub(super) fn flip_own(&self, page: u16, in_use: bool) -> bool {
        let (own, bit) = (self.own.load(Relaxed), page as u8);
        let is = (own ^ self.others.load(Relaxed)) & bit != 0;
        if is != in_use {
            self.own.store(own ^ bit, Relaxed);
        }
        is != in_use
    }

    /// [`flip_own`](Self::flip_own) for either writer.
    #[inline(always)]
    pub(super) fn flip_by(&self, page: u16, in_use: bool, by: Writer) -> bool {
        if by == Writer::Owner {
            return self.flip_own(page, in_use);
        }
        let is = self.in_use() & page as u8 != 0;
        if is != in_use {
            sync::xor(&self.others, page as u8);
        }
        is != in_use
    }

    /// Returns whether the cell has this code, which is that of a whole cell.
    #[inline(always)]
    pub(super) fn is_wide(&self, code: u16) -> bool {
        self.code.load(Relaxed) == code && self.in_use() == 0
    }

    #[inline(always)]
    pub(super) fn put_code(&self, code: u16) {
        self.code.store(code, Relaxed);
    }

    /// Sets the frames of a mask to those of `new`. The caller holds the zone's lock.
    pub(super) fn put(&self, mask: u8, new: Codes) {
        let now = self.read_apart();
        let with = |now: u8, new: u8| now & !mask | new & mask;
        let (lo, hi) = (with(now.lo, new.lo), with(now.hi, new.hi));
        let flips = (now.in_use ^ new.in_use) & mask;
        let new = Codes { in_use: now.in_use ^ flips, lo, hi }.apart();
        if flips == 0 {
            return self.code.store(new.code(), Relaxed);
        }
        // A reader without the lock must not see a page in use that never was.
        let alike = now.hi & hi | !(now.hi | hi);
        let (lo, hi) = (lo | flips & !alike, hi & (alike | !flips));
        self.code.store(Codes { lo, hi, ..new }.code(), Relaxed);
        sync::xor(&self.others, flips);
        self.code.store(new.code(), Relaxed);
    }

    /// Gives each frame bits of its own, and returns them. The caller holds the zone's lock.
    fn read_apart(&self) -> Codes {
        let now = self.read();
        if !now.is_wide() {
            return now;
        }
        let (in_use, lo) = match now.code() {
            WIDE_RESERVED => (u8::MAX, u8::MAX),
            WIDE_HOLE => (u8::MAX, 0),
            _ => return Codes { lo: 0, ..now },
        };
        self.put_code(u16::from(lo));
        sync::xor(&self.others, in_use);
        Codes { in_use, lo, hi: 0 }
    }

    /// Gives the whole cell one code. The caller holds the zone's lock.
    pub(super) fn put_wide(&self, code: u16) {
        self.put_code(code);
        let in_use = self.in_use();
        if in_use != 0 {
            sync::xor(&self.others, in_use);
        }
    }
}

/// The code of a cell that is part of a block but not its first cell.
pub(super) const WIDE_TAIL: u16 = 0;
pub(super) const WIDE_RESERVED: u16 = 1 << KIND;
pub(super) const WIDE_HOLE: u16 = 2 << KIND;

/// The position of the kind in the code of a block. The order is below it, and the two lowest bits are clear.
const KIND: u16 = 6;
const ORDER: u16 = 2;
pub(super) const MOVABLE: u16 = 1 << KIND;
/// The difference between the code of a block on a CPU list and that of an allocated, unmovable one.
pub(super) const LISTED: u16 = 2 << KIND;

const _: () = assert!((ORDER_LIMIT as usize) < 1 << (KIND - ORDER));

/// Returns the order in the code of a block of at least a cell.
#[inline(always)]
pub(super) const fn order_of(code: u16) -> Order {
    (code >> ORDER & 0xf) as Order
}

/// Returns the code of an allocated block of at least a cell, without [`MOVABLE`].
#[inline(always)]
pub(super) const fn wide_allocated(order: Order) -> u16 {
    (order as u16) << ORDER
}

/// Returns the code of a block of at least a cell on a CPU list.
#[inline(always)]
pub(super) const fn wide_listed(order: Order) -> u16 {
    LISTED | (order as u16) << ORDER
}

/// Returns the code of a free block of at least a cell.
#[inline(always)]
pub(super) const fn wide_free(order: Order) -> u16 {
    3 << KIND | (order as u16) << ORDER
}

/// Returns the state of the first frame of a cell with this code.
pub(super) fn wide_state(code: u16, block_type: Migratetype) -> FrameState {
    let order = order_of(code);
    match (code, code >> KIND) {
        (WIDE_TAIL, _) => FrameState::Tail,
        (WIDE_RESERVED, _) => FrameState::Reserved,
        (WIDE_HOLE, _) => FrameState::Hole,
        (_, 3) => FrameState::Free { order, list: block_type },
        (_, 2) => FrameState::CpuList { order, cached: block_type },
        (_, kind) => FrameState::Allocated { order, movable: kind == 1 },
    }
}

/// The bits of a cell, one per frame.
#[derive(Clone, Copy)]
pub(super) struct Codes {
    pub(super) in_use: u8,
    pub(super) lo: u8,
    pub(super) hi: u8,
}

impl Codes {
    #[inline(always)]
    pub(super) fn code(self) -> u16 {
        u16::from(self.hi) << 8 | u16::from(self.lo)
    }

    /// Returns whether the whole cell has one code.
    #[inline(always)]
    pub(super) fn is_wide(self) -> bool {
        self.in_use == 0 && self.code() & 0xff03 == 0
    }

    /// Makes the code that of single frames. While a block is taken apart and its first two frames are set last,
    /// the bits look like the code of a whole cell; then those two frames are marked as held.
    #[inline(always)]
    pub(super) fn apart(self) -> Self {
        if self.is_wide() && self.lo != 0 { Self { hi: 3, ..self } } else { self }
    }

    /// Returns the frames whose bits are all clear: tails, or first frames that leave their bits to the second.
    #[inline(always)]
    pub(super) fn blank(self) -> u8 {
        !(self.in_use | self.lo | self.hi)
    }

    /// Returns the free frames.
    #[inline(always)]
    pub(super) fn free(self) -> u8 {
        // A free bit beside a blank frame belongs to a pair that is held.
        let blank = self.blank();
        let paired = blank << 1 & !EVEN | blank >> 1 & EVEN;
        self.lo & !(self.hi | self.in_use | paired)
    }

    /// Returns the first frames of held blocks of order 1 or more.
    #[inline(always)]
    pub(super) fn pairs(self) -> u8 {
        let blank = self.blank();
        (blank ^ blank >> 1) & EVEN
    }

    /// Returns whether the two frames after the pair at `place` belong to it.
    #[inline(always)]
    pub(super) fn is_quad(self, place: u32) -> bool {
        place & 2 == 0 && self.blank() >> (place + 2) & 3 == 3
    }

    /// Returns the state of a frame.
    pub(super) fn state(self, place: u32, block_type: Migratetype) -> FrameState {
        let is = |bits: u8, place: u32| bits >> place & 1 != 0;
        if is(self.hi, place) {
            return match is(self.in_use, place) {
                true => FrameState::Allocated { order: 0, movable: is(self.lo, place) },
                false => FrameState::CpuList { order: 0, cached: block_type },
            };
        }
        let first = place & !1;
        if is(self.pairs(), first) {
            if place != first {
                return FrameState::Tail;
            }
            let order = 1 + Order::from(self.is_quad(first));
            let movable = !is(self.blank(), first);
            return match self.in_use >> first & 3 {
                0 => FrameState::CpuList { order, cached: block_type },
                _ => FrameState::Allocated { order, movable },
            };
        }
        match (is(self.in_use, place), is(self.lo, place)) {
            (true, true) => FrameState::Reserved,
            (true, false) => FrameState::Hole,
            (false, false) => FrameState::Tail,
            (false, true) => (0..CELL_ORDER)
                .find(|&order| is(free_blocks(self.free(), order), place))
                .map_or(FrameState::Tail, |order| FrameState::Free { order, list: block_type }),
        }
    }

    /// Returns the bits of a block smaller than a cell at a place.
    pub(super) fn of(state: FrameState, order: Order, place: u32) -> Self {
        let of_order = |movable: bool| {
            let at = 1 << (place + u32::from(order > 0 && !movable));
            (at, if order > 0 || movable { at } else { 0 }, if order == 0 { at } else { 0 })
        };
        let (in_use, lo, hi) = match state {
            FrameState::Allocated { movable, .. } => of_order(movable),
            FrameState::CpuList { cached, .. } => {
                let (_, lo, hi) = of_order(cached == Migratetype::Movable);
                (0, lo, hi)
            }
            FrameState::Free { .. } => (0, mask_of(order, place), 0),
            FrameState::Tail => (0, 0, 0),
            FrameState::Reserved => (u8::MAX, u8::MAX, 0),
            FrameState::Hole => (u8::MAX, 0, 0),
        };
        Self { in_use, lo, hi }
    }
}

/// Returns the frames of a block smaller than a cell.
#[inline(always)]
pub(super) fn mask_of(order: Order, place: u32) -> u8 {
    debug_assert!(
        order < CELL_ORDER && place % (1 << order) == 0,
        "no block of order {order} at {place}"
    );
    (((1u32 << (1 << order)) - 1) << place) as u8
}

/// Returns the first frames of the free blocks of an order, less than a cell. Adjacent free blocks are one.
#[inline(always)]
pub(super) fn free_blocks(free: u8, order: Order) -> u8 {
    let pairs = free & free >> 1 & EVEN;
    let quads = pairs & pairs >> 2 & FOURTH;
    match order {
        0 => free & !(pairs | pairs << 1),
        1 => pairs & !(quads | quads << 2),
        _ => quads,
    }
}

/// For each set of free frames of a cell: the order of the free block that contains each frame, two bits per place.
/// A cell's order at most.
static FREE_ORDERS: [u16; 1 << CELL] = {
    let mut orders = [0; 1 << CELL];
    let mut at = 0;
    while at < orders.len() * CELL {
        let (free, place) = (at / CELL, at % CELL);
        let mut order = 0;
        while order < CELL_ORDER as usize && {
            let (larger, frames) = (order + 1, (1 << (2 << order)) - 1);
            free >> (place >> larger << larger) & frames == frames
        } {
            order += 1;
        }
        orders[free] |= (order as u16) << (2 * place);
        at += 1;
    }
    orders
};

/// Returns the order, a cell's at most, of the free block that contains the free frame at a place.
#[inline(always)]
pub(super) fn free_order(free: u8, place: u32) -> Order {
    (FREE_ORDERS[usize::from(free)] >> (2 * place) & 3) as Order
}
