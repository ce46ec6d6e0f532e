//! Counts the frames of a pageblock by use, fast.

use crate::base::sync::{AtomicU8, Relaxed};
use crate::table::map::FrameState;

/// The frames of a pageblock by their use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BlockUsage {
    /// Allocated, with content that can be moved.
    pub movable: u64,
    /// Allocated, with content that cannot be moved.
    pub unmovable: u64,
    /// On free lists and on CPU lists.
    pub free: u64,
    /// Never handed to the allocator.
    pub reserved: u64,
}

impl BlockUsage {
    /// What a frame with a state byte adds to a vector of four 16-bit sums: all pages of the block that starts
    /// there.
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

    /// The bits of the sum of unmovable pages.
    const UNMOVABLE: u64 = 0xffff << 16;

    /// Counts the frames of a pageblock by their state bytes, and calls `fixed` with the place and the order of
    /// each unmovable block. A larger block counts where it starts, with this pageblock's share.
    pub(crate) fn with_fixed(states: &[AtomicU8], fixed: &mut impl FnMut(usize, u8)) -> Self {
        let mut sum = 0u64;
        let mut at = 0;
        while at < states.len() {
            let part = &states[at..states.len().min(at + PART)];
            let first = part[0].load(Relaxed);
            let adds = Self::ADDS[usize::from(first)];
            let order = first & 0xf;
            if adds & !(0xffff << 48) != 0 && 1 << order >= PART {
                // A block of a part or more: the frames after it are its tail.
                sum += adds;
                if adds & Self::UNMOVABLE != 0 {
                    fixed(at, order);
                }
                at += 1 << order;
                continue;
            }
            let before = sum;
            for byte in part {
                sum += Self::ADDS[usize::from(byte.load(Relaxed))];
            }
            if (sum ^ before) & Self::UNMOVABLE != 0 {
                // Few parts have unmovable blocks, so a second pass is cheap.
                for (place, byte) in (at..).zip(part) {
                    let byte = byte.load(Relaxed);
                    if Self::ADDS[usize::from(byte)] & Self::UNMOVABLE != 0 {
                        fixed(place, byte & 0xf);
                    }
                }
            }
            at += PART;
        }
        let part = |at: u32| (sum >> (16 * at) & 0xffff).min(states.len() as u64);
        Self { movable: part(0), unmovable: part(1), free: part(2), reserved: part(3) }
    }
}

/// Frames that are added up in one step.
const PART: usize = 32;

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
        assert_eq!(BlockUsage::with_fixed(&states, &mut |_, _| {}), expect);
    }

    #[test]
    fn a_larger_block_fills_its_first_pageblock() {
        let mut states = [(); 8].map(|()| FrameState::Tail);
        states[0] = FrameState::Free { order: 4, list: Movable };
        let states = states.map(|state| AtomicU8::new(state.encode()));
        assert_eq!(
            BlockUsage::with_fixed(&states, &mut |_, _| {}),
            BlockUsage { free: 8, ..BlockUsage::default() }
        );
    }

    /// Blocks of less than a part, of one and of several; what lies under a larger block is not looked at.
    #[test]
    fn unmovable_blocks_are_named() {
        let mut states = [(); 4 * PART].map(|()| FrameState::Tail);
        states[0] = FrameState::Allocated { order: 0, movable: true };
        states[1] = FrameState::Allocated { order: 0, movable: false };
        states[2] = FrameState::Free { order: 1, list: Movable };
        states[4] = FrameState::Allocated { order: 2, movable: false };
        states[8] = FrameState::Reserved;
        states[PART] = FrameState::Allocated { order: 5, movable: false };
        states[2 * PART] = FrameState::Free { order: 6, list: Unmovable };
        let states = states.map(|state| AtomicU8::new(state.encode()));
        let mut seen = std::vec::Vec::new();
        let usage = BlockUsage::with_fixed(&states, &mut |at, order| seen.push((at, order)));
        assert_eq!(seen, [(1, 0), (4, 2), (PART, 5)]);
        let expect = BlockUsage { movable: 1, unmovable: 37, free: 66, reserved: 1 };
        assert_eq!(usage, expect);
    }
}
