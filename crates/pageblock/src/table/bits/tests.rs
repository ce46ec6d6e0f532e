use super::*;
use crate::base::frame::ORDER_LIMIT;
use crate::table::usage::BlockUsage;
use core::mem::MaybeUninit;
use std::vec::Vec;

const TYPE: Migratetype = Migratetype::Unmovable;

fn with_bits(frames: usize, pageblock_order: Order, test: impl FnOnce(&FrameBits<'_>)) {
    let mut memory = std::vec![MaybeUninit::new(0xa5); frames * 2 + 4096];
    let mut tables = Tables::new(&mut memory);
    let blocks: Vec<_> = (0..frames >> pageblock_order).map(|_| AtomicU16::new(0)).collect();
    test(&FrameBits::new(&mut tables, frames, pageblock_order, &blocks).unwrap());
}

/// Returns blocks that tile the frames, by a simple generator of numbers.
fn tiles(frames: Index, largest: Order, mut seed: u64) -> Vec<(Index, FrameState)> {
    let (mut at, mut blocks) = (0, Vec::new());
    while at < frames {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let random = seed >> 33;
        let fits = at.trailing_zeros().min(largest.into()) as Order;
        let order = (random >> 8) as Order % (fits + 1);
        let state = match random % 7 {
            0 => FrameState::Free { order, list: TYPE },
            1 => FrameState::CpuList { order, cached: TYPE },
            2 | 3 => FrameState::Allocated { order, movable: random & 16 != 0 },
            4 => FrameState::Reserved,
            5 => FrameState::Hole,
            _ => FrameState::Free { order: fits, list: TYPE },
        };
        let beside = at.wrapping_sub(1 << state.order().unwrap_or(0));
        let state = match state {
            // Free blocks beside each other would have merged.
            FrameState::Free { order, .. } if blocks.last() == Some(&(beside, state)) => {
                FrameState::Allocated { order, movable: true }
            }
            state => state,
        };
        blocks.push((at, state));
        at += 1 << state.order().unwrap_or(0);
    }
    blocks
}

/// Every frame reads as it was set, whatever was there before; what is searched is found.
#[test]
fn frames_read_as_they_were_set() {
    for (pageblock_order, seed) in [(9, 1), (7, 2), (6, 3), (4, 4), (3, 5), (9, 6)] {
        let frames: Index = 2048;
        with_bits(frames as usize, pageblock_order, |bits| {
            for round in 0..8 {
                let blocks = tiles(frames, pageblock_order + 1, seed * 1000 + round);
                bits.fill(3, frames, FrameState::Tail);
                bits.fill(0, 3, FrameState::Tail);
                for &(i, state) in &blocks {
                    bits.set(i, state);
                }
                let mut expect = std::vec![FrameState::Tail; frames as usize];
                blocks.iter().for_each(|&(i, state)| expect[i as usize] = state);
                for i in 0..frames {
                    assert_eq!(bits.state(i, TYPE), expect[i as usize], "frame {i}");
                    for order in 0..=ORDER_LIMIT {
                        let is = |state| expect[i as usize] == state;
                        let free = is(FrameState::Free { order, list: TYPE });
                        assert_eq!(bits.free_list(i, order, || TYPE).is_some(), free);
                        let allocated = is(FrameState::Allocated { order, movable: true })
                            || is(FrameState::Allocated { order, movable: false });
                        assert_eq!(bits.is_allocated(i, order), allocated, "{i} {order}");
                        let listed = is(FrameState::CpuList { order, cached: TYPE });
                        // It is asked of frames that were on a list.
                        if order >= pageblock_order || bits.is_mixed(i) {
                            assert_eq!(bits.is_on_cpu_list(i, order), listed);
                        }
                    }
                }
                check_blocks(bits, &expect, pageblock_order);
            }
        });
    }
}

fn check_blocks(bits: &FrameBits<'_>, expect: &[FrameState], pageblock_order: Order) {
    let pages = 1 << pageblock_order;
    for start in (0..expect.len()).step_by(pages) {
        let states = &expect[start..start + pages];
        for order in 0..pageblock_order {
            let free = FrameState::Free { order, list: TYPE };
            let lowest = states.iter().position(|&state| state == free);
            let lowest = lowest.map(|at| (start + at) as Index);
            assert_eq!(bits.lowest_free(start as Index, order), lowest, "{start} {order}");
        }
        let bytes: Vec<_> = states.iter().map(|state| AtomicU8::new(state.encode())).collect();
        let mut fixed = Vec::new();
        let usage = BlockUsage::with_fixed(&bytes, &mut |at, order| {
            fixed.push(((start + at) as Index, order));
        });
        let mut found = Vec::new();
        let by_bits = bits.usage(start as Index, &mut |i, order| found.push((i, order)));
        assert_eq!((by_bits, found), (usage, fixed), "{start}");
    }
}

#[test]
fn owner_and_others_change_neighbours() {
    let (seven, eight) = (owner(7), owner(8));
    with_bits(512, 9, |bits| {
        bits.fill(0, 512, FrameState::Tail);
        let list = FrameState::CpuList { order: 0, cached: Migratetype::Movable };
        bits.mix(0);
        (0..64).for_each(|i| bits.set(i, list));
        bits.own(0, seven);
        for i in 0..64 {
            let by = if i % 3 == 0 { seven } else { eight };
            assert!(!bits.take(i, 0, false, by), "its kind needs the lock");
            assert!(bits.take(i, 0, true, by));
            assert!(!bits.take(i, 0, true, by), "it is taken already");
        }
        let mut aside = 0;
        for i in (0..64).filter(|i| i % 2 == 0) {
            assert!(!bits.put_own_page(i, page_code(false), &mut aside), "it is movable");
            assert!(if i % 5 == 0 {
                bits.put_own_page(i, page_code(true), &mut aside)
            } else {
                bits.put_page(i, bits.word_of(0).load(Acquire), &eight)
            });
        }
        assert_eq!(aside, 0x101 << (62 % 8), "these are the bits of the last that was tried");
        for i in 0..64 {
            let page = 0x101 << (i % 8);
            let word = bits.word_of(i as Index).load(Acquire);
            assert!(
                !bits.put_page(i, word, &seven)
                    || i % 2 != 0 && bits.take_own_page(i as Index, page)
            );
            assert_eq!(bits.is_allocated(i as Index, 0), i % 2 != 0);
            assert_eq!(bits.is_on_cpu_list(i as Index, 0), i % 2 == 0);
        }
    });
}
