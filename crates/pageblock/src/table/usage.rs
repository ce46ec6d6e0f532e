//! How a pageblock's frames are used, counted fast.

use crate::base::sync::{AtomicU8, Relaxed};
use crate::table::map::FrameState;

/// The frames of a pageblock by their use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BlockUsage {
    /// In use, with content that can be moved.
    pub movable: u64,
    /// In use, with content that cannot.
    pub unmovable: u64,
    /// On free lists and on CPU lists.
    pub free: u64,
    /// Never handed to the allocator.
    pub reserved: u64,
}

impl BlockUsage {
    /// What a frame adds to a sum of four numbers of 16 bits, by its state byte: all pages of the block that starts
    /// at it.
    const ADDS: [u64; 256] = {
        let mut adds = [0; 256];
        let mut byte = 0;
        while byte < 256 {
            adds[byte] = match FrameState::decode(byte as u8) {
                FrameState::Hole | FrameState::Tail => 0,
                FrameState::Allocated { order, movable: true } => 1 << order,
                FrameState::Allocated { order, movable: false } => 1 << (16 + order),
                FrameState::Free { order, .. } | FrameState::CpuList { order, .. } => {
                    1 << (32 + order)
                }
                FrameState::Reserved => 1 << 48,
            };
            byte += 1;
        }
        adds
    };

    /// Counts the frames of a pageblock by their state bytes. A block that is larger counts where it starts, with this
    /// pageblock's share.
    pub(crate) fn of(states: &[AtomicU8]) -> Self {
        let mut sum = 0u64;
        for byte in states {
            sum += Self::ADDS[usize::from(byte.load(Relaxed))];
        }
        let part = |at: u32| (sum >> (16 * at) & 0xffff).min(states.len() as u64);
        Self { movable: part(0), unmovable: part(1), free: part(2), reserved: part(3) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::mobility::Migratetype::{Movable, Unmovable};

    #[test]
    fn every_frame_of_a_block_is_counted_once() {
        let used = [
            FrameState::Allocated { order: 0, movable: true },
            FrameState::Allocated { order: 1, movable: false },
            FrameState::Tail,
            FrameState::CpuList { order: 0, cached: Unmovable },
            FrameState::Free { order: 1, list: Movable },
            FrameState::Tail,
            FrameState::Reserved,
            FrameState::Hole,
        ];
        let states = used.map(|state| AtomicU8::new(state.encode()));
        let expect = BlockUsage { movable: 1, unmovable: 2, free: 3, reserved: 1 };
        assert_eq!(BlockUsage::of(&states), expect);
    }

    #[test]
    fn a_larger_block_fills_its_first_pageblock() {
        let mut states = [(); 8].map(|()| FrameState::Tail);
        states[0] = FrameState::Free { order: 4, list: Movable };
        let states = states.map(|state| AtomicU8::new(state.encode()));
        assert_eq!(BlockUsage::of(&states), BlockUsage { free: 8, ..BlockUsage::default() });
    }
}
