//! LLFree's trees: which tree a CPU reserves, and what it takes there.

use std::collections::BTreeSet;

use pageblock::alloc::Allocator;
use pageblock::frame::Pfn;
use pageblock::ids::CpuId;
use pageblock::request::{Gfp, Request};

use crate::{FRAMES, MOVABLE, Under, in_zone};

/// A tree of four pageblocks; the zone has eight.
const TREE: u64 = 2048;
const _: () = assert!(FRAMES / TREE == 8);

/// Takes all memory as movable blocks of order 4, frees blocks of some trees, and returns what the test does then.
fn with<R>(
    freed: &[(u64, u64)],
    name: Option<&str>,
    test: impl FnOnce(&mut Allocator<'_>, &mut Under) -> R,
) -> R {
    in_zone("linux-7.3,watermark_boost_factor=0", |allocator| {
        let mut under = Under(None);
        let request = Request::new(4, MOVABLE);
        let mut held = BTreeSet::new();
        while let Ok(pfn) = allocator.alloc(CpuId(0), &request, &mut under) {
            held.insert(pfn.0);
        }
        for &(tree, blocks) in freed {
            // Every second block, so that none merges, then the others.
            let places = (0..TREE / 16).step_by(2).chain((1..TREE / 16).step_by(2));
            let of_tree = places.map(|place| tree * TREE + place * 16);
            for pfn in of_tree.filter(|pfn| held.contains(pfn)).take(blocks as usize) {
                allocator.free(CpuId(0), Pfn(pfn), 4, &mut under).unwrap();
            }
        }
        under = Under::of(name);
        test(allocator, &mut under)
    })
}

/// Trees 1 to 5 are nearly full, half full, wholly free, nearly full, and half full.
const FREED: [(u64, u64); 5] = [(1, 4), (5, 60), (4, 4), (2, 50), (3, TREE / 16)];

fn served(name: Option<&str>, count: usize) -> Vec<u64> {
    with(&FREED, name, |allocator, under| {
        let request = Request::new(4, MOVABLE);
        (0..count).map(|_| allocator.alloc(CpuId(0), &request, under).unwrap().0).collect()
    })
}

#[test]
fn a_half_full_tree_is_reserved_and_emptied_from_its_lowest_block() {
    let blocks = served(Some("trees"), 50);
    assert!(blocks.iter().all(|pfn| pfn / TREE == 2), "{blocks:?}");
    assert!(blocks.is_sorted(), "{blocks:?}");
    // The next one is half full too, as is what the watermarks kept of the last; then the free one, before the nearly full.
    let mut trees: Vec<u64> = served(Some("trees"), 200).iter().map(|pfn| pfn / TREE).collect();
    trees.dedup();
    assert_eq!(trees, [2, 5, 7, 3], "{trees:?}");
    let linux = served(None, 50);
    assert_ne!(blocks, linux, "Linux takes the block that was freed last");
}

#[test]
fn two_cpus_have_two_trees() {
    let trees = with(&FREED, Some("trees"), |allocator, under| {
        let request = Request::new(4, MOVABLE);
        let mut of_cpu = [BTreeSet::new(), BTreeSet::new()];
        for at in 0..60 {
            let pfn = allocator.alloc(CpuId(at % 2), &request, under).unwrap();
            of_cpu[at % 2].insert(pfn.0 / TREE);
        }
        of_cpu
    });
    assert_eq!(trees.each_ref().map(BTreeSet::len), [1, 1], "{trees:?}");
    assert!(trees[0].is_disjoint(&trees[1]), "{trees:?}");
}

#[test]
fn unmovable_pages_stay_in_one_tree() {
    let trees = |name| {
        let free = [2, 4, 6].map(|tree| (tree, TREE / 16));
        with(&free, name, |allocator, under| {
            let kernel = Request::new(4, Gfp::GFP_KERNEL);
            let taken = (0..TREE / 16).map(|_| allocator.alloc(CpuId(0), &kernel, under).unwrap());
            taken.map(|pfn| pfn.0 / TREE).collect::<BTreeSet<_>>().len()
        })
    };
    assert_eq!(trees(Some("trees")), 1);
}
