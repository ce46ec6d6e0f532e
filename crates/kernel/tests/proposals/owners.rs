//! CPUs own pageblocks: where refills come from, where frees go, and what becomes of CMA.

use std::mem::MaybeUninit;

use pageblock::alloc::Allocator;
use pageblock::frame::{FrameRange, Pfn};
use pageblock::ids::{CpuId, NodeId, ZoneIndex};
use pageblock::layout::{ZoneKind, ZoneSpec};
use pageblock::policy::Policy;
use pageblock::request::Request;
use pageblock::setup::Setup;

use crate::{FRAMES, MOVABLE, Under, in_zone};

const POLICY: &str = "linux-7.3";
const BLOCK: u64 = 512;
const CPUS: [CpuId; 2] = [CpuId(0), CpuId(1)];

/// Allocates pages of order 0 on both CPUs in turn, and returns those of each.
fn in_turn(allocator: &mut Allocator<'_>, under: &mut Under, pages: usize) -> [Vec<Pfn>; 2] {
    let request = Request::new(0, MOVABLE);
    let mut taken = [const { Vec::new() }; 2];
    for _ in 0..pages {
        for cpu in CPUS {
            taken[cpu.index()].push(allocator.alloc(cpu, &request, under).unwrap());
        }
    }
    taken
}

fn blocks(pages: &[Pfn]) -> Vec<u64> {
    let mut blocks: Vec<u64> = pages.iter().map(|pfn| pfn.0 / BLOCK).collect();
    blocks.sort_unstable();
    blocks.dedup();
    blocks
}

/// Under Linux both CPUs refill from one pageblock.
#[test]
fn each_cpu_refills_from_pageblocks_of_its_own() {
    let shared = |name| {
        in_zone(POLICY, |allocator| {
            let [a, b] = in_turn(allocator, &mut Under::of(name), 1200).map(|pages| blocks(&pages));
            assert!(a.len() < 6 && b.len() < 6, "{a:?} {b:?}");
            a.iter().filter(|block| b.contains(block)).count()
        })
    };
    assert!(shared(None) > 1);
    assert_eq!(shared(Some("owners")), 0);
}

/// CPU 0 frees what CPU 1 took: CPU 1 takes the same pages again, under fewer locks.
#[test]
fn frees_go_to_the_owner() {
    let again = |name| {
        in_zone(POLICY, |allocator| {
            let mut under = Under::of(name);
            let request = Request::new(0, MOVABLE);
            let take = |allocator: &mut Allocator<'_>, under: &mut Under| {
                let taken = (0..40).map(|_| allocator.alloc(CpuId(1), &request, under).unwrap());
                taken.collect::<Vec<_>>()
            };
            let before = take(allocator, &mut under);
            let locks = allocator.counters(ZoneIndex(0)).unwrap().lock_acquired;
            for _ in 0..20 {
                let taken = take(allocator, &mut under);
                for pfn in taken {
                    allocator.free(CpuId(0), pfn, 0, &mut under).unwrap();
                }
            }
            let locks = allocator.counters(ZoneIndex(0)).unwrap().lock_acquired - locks;
            for &pfn in &before {
                allocator.free(CpuId(0), pfn, 0, &mut under).unwrap();
            }
            let mut after = take(allocator, &mut under);
            let mut before = before;
            before.sort_unstable();
            after.sort_unstable();
            (before == after, locks)
        })
    };
    let (same, locks) = again(None);
    assert!(!same && locks > 10, "{locks}");
    let (same, locks) = again(Some("owners"));
    assert!(same && locks < 5, "{locks}");
}

/// What was drained to the zone is recovered by its owner before that opens another pageblock; another CPU opens one.
#[test]
fn an_owner_recovers_its_fragments() {
    in_zone(POLICY, |allocator| {
        let mut under = Under::of(Some("owners"));
        let [mine, _] = in_turn(allocator, &mut under, 100);
        // Every second page goes back, so that no large block is free in the pageblock.
        for pfn in mine.iter().step_by(2) {
            allocator.free(CpuId(1), *pfn, 0, &mut under).unwrap();
        }
        allocator.drain_all(&mut under);
        let [again, others] = in_turn(allocator, &mut under, 440);
        assert_eq!(blocks(&again), blocks(&mine));
        assert!(!blocks(&others).contains(&blocks(&mine)[0]));
        assert!(again.iter().any(|pfn| mine.contains(pfn)));
    });
}

/// A pageblock that is wholly free again has no owner: frees of its next user stay with the CPU that frees.
#[test]
fn a_free_pageblock_has_no_owner() {
    in_zone(POLICY, |allocator| {
        let mut under = Under::of(Some("owners"));
        let [mine, others] = in_turn(allocator, &mut under, 10);
        for pfn in mine.iter().chain(&others) {
            allocator.free(CpuId(1), *pfn, 0, &mut under).unwrap();
        }
        allocator.drain_all(&mut under);
        let mut whole = Vec::new();
        while let Ok(pfn) = allocator.alloc(CpuId(1), &Request::new(10, MOVABLE), &mut under) {
            whole.push(pfn);
        }
        assert!(whole.len() > 12, "{}", whole.len());
        let pfn = *whole.iter().find(|pfn| mine[0].align_down(10) == **pfn).unwrap();
        allocator.split_allocated(pfn, 10, 0).unwrap();
        allocator.free(CpuId(1), pfn, 0, &mut under).unwrap();
        let count = |cpu| allocator.cache(ZoneIndex(0), cpu).unwrap().count();
        assert_eq!(CPUS.map(count), [0, 1]);
    });
}

/// Linux takes CMA pages while they are more than half of what is free; a CPU that owns pageblocks takes them last.
#[test]
fn cma_comes_last() {
    let cma = FrameRange::new(FRAMES / 4, FRAMES);
    let in_cma = |name| {
        let span = FrameRange::new(0, FRAMES);
        let zones = [ZoneSpec::full(NodeId(0), ZoneKind::Normal, span)];
        let setup = Setup::new(Policy::parse(POLICY).unwrap(), &zones, &[NodeId(0)]);
        let mut memory = vec![MaybeUninit::uninit(); setup.metadata_size().unwrap()];
        let mut allocator = Allocator::new(&mut memory, &setup).unwrap();
        allocator.reserve_cma(cma).unwrap();
        allocator.release(FrameRange::new(0, FRAMES / 4)).unwrap();
        allocator.release(cma).unwrap();
        allocator.retune();
        let mut under = Under::of(name);
        let request = Request::new(0, MOVABLE);
        let mut taken = || allocator.alloc(CpuId(0), &request, &mut under).unwrap();
        let pages: Vec<Pfn> = (0..FRAMES / 2).map(|_| taken()).collect();
        let in_cma = |pages: &[Pfn]| pages.iter().filter(|pfn| cma.contains(**pfn)).count();
        let (early, late) = pages.split_at(FRAMES as usize / 8);
        allocator.check().unwrap();
        (in_cma(early), in_cma(late) > 0)
    };
    let (early, late) = in_cma(None);
    assert!(early > 1000 && late, "{early}");
    assert_eq!(in_cma(Some("owners")), (0, true));
}
