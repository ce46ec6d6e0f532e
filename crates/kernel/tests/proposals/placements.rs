//! Lifetimes and a movable boundary: which pageblocks requests come from. The requests have order 4, for which CPUs
//! have no lists.

use pageblock::alloc::Allocator;
use pageblock::frame::Pfn;
use pageblock::ids::CpuId;
use pageblock::request::{Gfp, Request};

use crate::{FRAMES, MOVABLE, Under, in_zone};

const POLICY: &str = "linux-7.3,watermark_boost_factor=0";
const BLOCK: u64 = 512;
const ORDER: u8 = 4;

fn take(allocator: &mut Allocator<'_>, under: &mut Under, cpu: usize, gfp: Gfp) -> Option<Pfn> {
    allocator.alloc(CpuId(cpu), &Request::new(ORDER, gfp), under).ok()
}

fn free(allocator: &mut Allocator<'_>, under: &mut Under, pages: impl IntoIterator<Item = Pfn>) {
    pages.into_iter().for_each(|pfn| allocator.free(CpuId(0), pfn, ORDER, under).unwrap());
}

/// The parts of `frames` frames that pages lie in.
fn parts(pages: &[Pfn], frames: u64) -> Vec<u64> {
    let mut parts: Vec<u64> = pages.iter().map(|pfn| pfn.0 / frames).collect();
    parts.sort_unstable();
    parts.dedup();
    parts
}

/// Under Linux what ends first leaves holes between the others; by lifetimes, whole pageblocks.
#[test]
fn each_lifetime_has_pageblocks_of_its_own() {
    let in_flight = Gfp::KSWAPD_RECLAIM;
    let of_process = Gfp::GFP_KERNEL | Gfp::ZERO;
    let shared = |name| {
        in_zone(POLICY, |allocator| {
            let mut under = Under::of(name);
            let mut taken = [const { Vec::new() }; 3];
            for _ in 0..80 {
                for (of, gfp) in taken.iter_mut().zip([in_flight, of_process, Gfp::GFP_KERNEL]) {
                    of.push(take(allocator, &mut under, 0, gfp).unwrap());
                }
            }
            let [first, second, kept] = taken.map(|pages| (parts(&pages, BLOCK), pages));
            let of_two = |a: &[u64], b: &[u64]| a.iter().filter(|part| b.contains(part)).count();
            let shared = of_two(&first.0, &second.0) + of_two(&second.0, &kept.0);
            free(allocator, &mut under, second.1);
            // A class ends with its pageblocks: others open them.
            let again: Vec<Pfn> =
                (0..80).map(|_| take(allocator, &mut under, 0, Gfp::GFP_KERNEL).unwrap()).collect();
            (shared, of_two(&second.0, &parts(&again, BLOCK)) > 0)
        })
    };
    assert!(shared(None).0 > 4);
    assert_eq!(shared(Some("lifetimes")), (0, true));
}

/// Anonymous memory and files share no pageblock, nor does the kernel take from an unmapped one unless it is wholly free.
#[test]
fn unmapped_memory_has_pageblocks_of_its_own() {
    let anonymous = MOVABLE | Gfp::ZERO;
    let shared = |name| {
        in_zone(POLICY, |allocator| {
            let mut under = Under::of(name);
            let mut taken = [const { Vec::new() }; 2];
            // The kernel holds what is above the watermarks, so that no pageblock is wholly free at last.
            let kernel = |allocator: &mut Allocator<'_>, under: &mut Under| {
                take(allocator, under, 0, Gfp::GFP_KERNEL).unwrap().0 / BLOCK
            };
            for _ in 0..40 {
                kernel(allocator, &mut under);
            }
            for at in [0, 1].into_iter().cycle() {
                match take(allocator, &mut under, 0, [anonymous, MOVABLE][at]) {
                    Some(pfn) => taken[at].push(pfn),
                    None => break,
                }
            }
            let [unmapped, files] = taken.map(|pages| (parts(&pages, BLOCK), pages));
            let both = unmapped.0.iter().filter(|part| files.0.contains(part)).count();
            // All but one page of each pageblock: none is wholly free.
            let mut left: Vec<Pfn> = Vec::new();
            for pfn in unmapped.1 {
                if left.last().is_none_or(|last| last.0 / BLOCK != pfn.0 / BLOCK) {
                    left.push(pfn);
                } else {
                    free(allocator, &mut under, vec![pfn]);
                }
            }
            free(allocator, &mut under, files.1.into_iter().step_by(2));
            let mut fallbacks = std::iter::repeat_with(|| kernel(allocator, &mut under));
            let other =
                fallbacks.find(|of| unmapped.0.contains(of) || files.0.contains(of)).unwrap();
            let splits = unmapped.0.contains(&other);
            free(allocator, &mut under, left);
            let whole = (0..350).map(|_| take(allocator, &mut under, 0, MOVABLE).unwrap());
            let whole: Vec<Pfn> = whole.collect();
            (both > 1, splits, parts(&whole, BLOCK).iter().any(|part| unmapped.0.contains(part)))
        })
    };
    assert_eq!(shared(None), (true, true, true));
    assert_eq!(shared(Some("unmapped")), (false, false, true));
}

/// Movable memory lies above all other; when that ends, the boundary falls, and all memory can be movable.
#[test]
fn a_boundary_rises_and_falls() {
    let overlap = |name| {
        in_zone(POLICY, |allocator| {
            let mut under = Under::of(name);
            let [mut fixed, mut movable] = [const { Vec::<Pfn>::new() }; 2];
            for _ in 0..200 {
                fixed.push(take(allocator, &mut under, 0, Gfp::GFP_KERNEL).unwrap());
                movable.push(take(allocator, &mut under, 0, MOVABLE).unwrap());
            }
            let lowest = movable.iter().min().copied().unwrap();
            let overlap = fixed.iter().filter(|pfn| **pfn > lowest).count();
            let highest = fixed.iter().max().copied().unwrap();
            free(allocator, &mut under, fixed);
            while let Some(pfn) = take(allocator, &mut under, 0, MOVABLE) {
                movable.push(pfn);
            }
            let below = movable.iter().filter(|pfn| **pfn < highest).count();
            assert!(movable.len() as u64 > FRAMES / 16 * 9 / 10, "{}", movable.len());
            (overlap, below > 0)
        })
    };
    assert!(overlap(None).0 > 0);
    assert_eq!(overlap(Some("boundary")), (0, true));
}

/// The region is used from its lower end: what is freed first is taken first, whatever was freed last.
#[test]
fn the_region_empties_from_the_boundary_on() {
    let served = |name| {
        in_zone(POLICY, |allocator| {
            let mut under = Under(None);
            let fixed: Vec<Pfn> =
                (0..96).map(|_| take(allocator, &mut under, 0, Gfp::GFP_KERNEL).unwrap()).collect();
            let mut ordered = fixed.clone();
            ordered.sort_unstable();
            free(allocator, &mut under, [ordered[4], ordered[80]]);
            under = Under::of(name);
            take(allocator, &mut under, 0, Gfp::GFP_KERNEL) == Some(ordered[4])
        })
    };
    assert!(!served(None));
    assert!(served(Some("boundary")));
}
