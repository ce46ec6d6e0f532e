//! The states of frames, and the bytes that encode them.

use crate::base::frame::{ORDER_LIMIT, Order};
use crate::base::mobility::Migratetype;

/// The state of a frame, as the first frame of a block or as part of one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameState {
    /// Not in the zone, or not memory.
    Hole,
    /// Memory that was never handed to the allocator.
    Reserved,
    /// Not the first frame of its block.
    Tail,
    /// The first frame of a free block on a buddy list.
    Free {
        /// The block's order.
        order: Order,
        /// The type of the list.
        list: Migratetype,
    },
    /// The first frame of a block on a CPU list.
    CpuList {
        /// The block's order.
        order: Order,
        /// The type that the block had when it was put on the list. Under packed placement its pageblock's type, if
        /// the policy keeps the two equal.
        cached: Migratetype,
    },
    /// The first frame of a block in use.
    Allocated {
        /// The block's order.
        order: Order,
        /// Whether the content can be moved.
        movable: bool,
    },
}

// The state byte: 0mmm oooo on a CPU list, 0111 oooo allocated, 1mmm oooo free,
// 1111 oooo allocated with movable content, for types m < 7 and orders o < 15; and with o = 15:
pub(super) const TAIL: u8 = 0xff;
pub(super) const HOLE: u8 = 0xef;
pub(super) const RESERVED: u8 = 0xdf;
/// Reserved, and known to be memory: the allocator had it, or it was declared so.
pub(super) const RETURNED: u8 = 0xcf;
pub(super) const ALLOCATED: u8 = 0x70;
pub(super) const FREE: u8 = 0x80;

impl FrameState {
    #[inline(always)]
    pub(crate) const fn encode(self) -> u8 {
        match self {
            Self::Hole => HOLE,
            Self::Reserved => RESERVED,
            Self::Tail => TAIL,
            Self::Free { order, list } => FREE | (list as u8) << 4 | order,
            Self::CpuList { order, cached } => (cached as u8) << 4 | order,
            Self::Allocated { order, movable } => ALLOCATED | (movable as u8) << 7 | order,
        }
    }

    pub(crate) const fn decode(byte: u8) -> Self {
        let order = byte & 0xf;
        match byte {
            TAIL => Self::Tail,
            HOLE => Self::Hole,
            RESERVED | RETURNED => Self::Reserved,
            _ => match (byte >= FREE, Migratetype::from_index((byte >> 4 & 7) as usize)) {
                (true, Some(list)) => Self::Free { order, list },
                (false, Some(cached)) => Self::CpuList { order, cached },
                (movable, None) => Self::Allocated { order, movable },
            },
        }
    }
}

/// Returns whether a state byte is that of an allocated block of exactly this order.
#[inline]
pub(super) fn is_allocated(byte: u8, order: Order) -> bool {
    order <= ORDER_LIMIT && (byte ^ order) & 0x7f == ALLOCATED
}

/// Returns whether a state byte is that of a block of exactly this order on a CPU list.
#[inline(always)]
pub(super) fn is_on_cpu_list(byte: u8, order: Order) -> bool {
    debug_assert!(order <= ORDER_LIMIT, "no list has blocks of this order");
    // Without the order and with its halves exchanged, the byte is the type, which is less than the code of
    // allocated blocks.
    (byte ^ order).rotate_left(4) < ALLOCATED >> 4
}

/// Returns the list type in a state byte, if that is the byte of a free block of exactly this order.
#[inline(always)]
pub(super) fn free_in(byte: u8, order: Order) -> Option<Migratetype> {
    if byte & (FREE | 0xf) != FREE | order {
        return None;
    }
    Migratetype::from_index((byte >> 4 & 7) as usize)
}

impl FrameState {
    /// Returns the order of the block, if this is the state of a block's first frame.
    #[must_use]
    pub const fn order(self) -> Option<Order> {
        match self {
            Self::Free { order, .. }
            | Self::CpuList { order, .. }
            | Self::Allocated { order, .. } => Some(order),
            Self::Hole | Self::Reserved | Self::Tail => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_survives_its_byte() {
        let orders = 0..=crate::base::frame::ORDER_LIMIT;
        let mut states = [FrameState::Hole, FrameState::Reserved, FrameState::Tail].to_vec();
        for order in orders {
            for mt in Migratetype::ALL {
                states.push(FrameState::Free { order, list: mt });
                states.push(FrameState::CpuList { order, cached: mt });
            }
            states.push(FrameState::Allocated { order, movable: false });
            states.push(FrameState::Allocated { order, movable: true });
        }
        let mut seen = [false; 256];
        for state in states {
            assert_eq!(FrameState::decode(state.encode()), state);
            assert!(!core::mem::replace(&mut seen[state.encode() as usize], true), "{state:?}");
        }
    }
}
