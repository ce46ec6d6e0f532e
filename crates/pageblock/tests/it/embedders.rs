//! What embedders get: every page, requests in plain words, one zone in a line, ranges, and the state of an allocator
//! whose CPUs work.

use std::mem::MaybeUninit;
use std::sync::OnceLock;

use pageblock::contig::ContigError;
use pageblock::event::{Event, Observer};
use pageblock::mobility::Migratetype;
use pageblock::prelude::*;
use pageblock::proc::{BuddyInfo, KernelFormat, PageTypeInfo, VmStat, ZoneInfo};
use pageblock::setup::SetupError;

use crate::machine::ParkingLot;
use crate::sharing::share;

const FRAMES: u64 = 1 << 14;

fn with(zone: OneZone, test: impl FnOnce(Allocator<'_>)) {
    let mut memory = vec![MaybeUninit::uninit(); zone.metadata_size().unwrap()];
    test(zone.build(&mut memory).unwrap());
}

fn zone() -> OneZone {
    OneZone::new(FrameRange::new(0, FRAMES))
}

/// Allocates until a request fails, and returns the pages.
fn exhaust(allocator: &mut Allocator<'_>, request: Request) -> u64 {
    let mut pages = 0;
    while allocator.alloc(CpuId(0), &request, &mut ()).is_ok() {
        pages += 1 << request.order;
    }
    allocator.check().unwrap();
    pages
}

#[test]
fn every_page_can_be_had() {
    for order in [0, 3, 9, 10] {
        with(zone(), |mut allocator| {
            assert_eq!(exhaust(&mut allocator, Request::movable(order)), FRAMES, "order {order}");
        });
    }
    // Of every type, one after the other, also where fallbacks would have raised the watermarks.
    with(zone(), |mut allocator| {
        let mut pages = 0;
        for request in [Request::unmovable(0), Request::reclaimable(2), Request::movable(1)] {
            for _ in 0..600 {
                allocator.alloc(CpuId(0), &request, &mut ()).unwrap();
                pages += 1 << request.order;
            }
        }
        assert_eq!(pages + exhaust(&mut allocator, Request::unmovable(0)), FRAMES);
    });
}

/// Requests for huge blocks that try their luck do not empty the lists of a CPU.
#[test]
fn a_huge_block_that_is_not_there_costs_no_drain() {
    with(zone(), |mut allocator| {
        let mut small = Vec::new();
        while let Ok(pfn) = allocator.alloc(CpuId(0), &Request::movable(5), &mut ()) {
            small.push(pfn);
        }
        // Half of a pageblock, and pages for the lists.
        for pfn in small.drain(..8) {
            allocator.free(CpuId(0), pfn, 5, &mut ()).unwrap();
        }
        let page = allocator.alloc(CpuId(0), &Request::movable(0), &mut ()).unwrap();
        let count =
            |allocator: &Allocator<'_>| allocator.cache(ZoneIndex(0), CpuId(0)).unwrap().count();
        let held = count(&allocator);
        assert!(held > 0 && held < 512, "{held}");
        assert!(allocator.alloc(CpuId(0), &Request::movable(9), &mut ()).is_err());
        assert_eq!(count(&allocator), held);
        allocator.free(CpuId(0), page, 0, &mut ()).unwrap();
    });
}

#[test]
fn what_the_caller_reserves_is_kept_for_those_who_cannot_wait() {
    let mut policy = Policy::default();
    policy.min_free_kbytes = 256;
    with(zone().policy(policy), |mut allocator| {
        assert_eq!(exhaust(&mut allocator, Request::unmovable(0)), FRAMES - 64);
        assert_eq!(exhaust(&mut allocator, Request::unmovable(0).atomic()), 32);
    });
}

#[test]
fn linux_keeps_its_watermarks() {
    let policy = Policy::parse("linux-6.12,placement=packed").unwrap();
    with(zone().policy(policy), |mut allocator| {
        assert!(exhaust(&mut allocator, Request::unmovable(0)) < FRAMES / 100 * 95);
    });
}

#[test]
fn one_zone_says_what_is_wrong() {
    assert_eq!(zone().cpus(1 << 20).metadata_size(), Err(SetupError::CpuCount(1 << 20)));
    assert_eq!(zone().cpus(0).metadata_size(), Err(SetupError::CpuCount(0)));
    let span = FrameRange::new(9, 3);
    assert_eq!(OneZone::new(span).metadata_size(), Err(SetupError::Span(ZoneIndex(0), span)));
}

#[test]
fn extents_are_one_range_or_the_largest_blocks() {
    with(zone(), |mut allocator| {
        let request = Request::movable(0);
        let mut extents = [FrameRange::new(0, 0); 64];
        // What is beyond the pages is free.
        for pages in [1, 2, 3, 5, 300, 511, 513, 1000, 1024] {
            let n = allocator.alloc_extents(CpuId(0), pages, &request, &mut extents, &mut ());
            assert_eq!((n, extents[0].len()), (Ok(1), pages));
            allocator.check().unwrap();
            allocator.free_contig(CpuId(0), extents[0], &mut ()).unwrap();
        }
        // No block is as large.
        let n = allocator.alloc_extents(CpuId(0), 5000, &request, &mut extents, &mut ()).unwrap();
        let lengths: Vec<_> = extents[..n].iter().map(|extent| extent.len()).collect();
        assert_eq!(lengths, [1024, 1024, 1024, 1024, 512, 256, 128, 8]);
        for &extent in &extents[..n] {
            allocator.free_contig(CpuId(0), extent, &mut ()).unwrap();
        }
        allocator.drain_all(&mut ());
        assert_eq!(allocator.zones()[0].free_pages(), FRAMES);
    });
}

#[test]
fn extents_that_fail_take_nothing() {
    with(zone(), |mut allocator| {
        let request = Request::movable(0);
        // Every second pair is in use.
        let pairs: Vec<_> = (0..FRAMES / 2)
            .map(|_| allocator.alloc(CpuId(0), &Request::movable(1), &mut ()).unwrap())
            .collect();
        for pfn in pairs.iter().filter(|pfn| pfn.0 % 4 == 0) {
            allocator.free(CpuId(0), *pfn, 1, &mut ()).unwrap();
        }
        allocator.drain_all(&mut ());
        let free = allocator.zones()[0].free_pages();
        let mut few = [FrameRange::new(0, 0); 8];
        let mut ask = |pages, room| {
            allocator.alloc_extents(CpuId(0), pages, &request, &mut few[..room], &mut ())
        };
        assert_eq!(ask(17, 8), Err(ContigError::Extents(8)));
        assert_eq!(ask(1, 0), Err(ContigError::Extents(0)));
        assert_eq!(ask(0, 8), Err(ContigError::Empty));
        assert_eq!(ask(16, 8), Ok(8));
        for extent in few {
            allocator.free_contig(CpuId(0), extent, &mut ()).unwrap();
        }
        let mut many = vec![FrameRange::new(0, 0); FRAMES as usize];
        let more = allocator.alloc_extents(CpuId(0), free + 1, &request, &mut many, &mut ());
        assert_eq!(more, Err(ContigError::NotFound));
        allocator.drain_all(&mut ());
        allocator.check().unwrap();
        assert_eq!(allocator.zones()[0].free_pages(), free);
    });
}

#[test]
fn a_cpu_takes_extents_and_blocks_below_a_limit() {
    share("linux-6.12,placement=packed", FRAMES, |shared| {
        let mut cpu = shared.cpu(CpuId(1)).unwrap();
        let mut extents = [FrameRange::new(0, 0); 2];
        let n = cpu.alloc_extents(700, &Request::movable(0), &mut extents, &mut ()).unwrap();
        assert_eq!((n, extents[0].len()), (1, 700));
        cpu.free_contig(extents[0], &mut ()).unwrap();
        let pfn = cpu.alloc_below(Pfn(100), &Request::unmovable(4), &mut ()).unwrap();
        assert!(pfn.0 + 16 <= 100, "{pfn}");
        cpu.free(pfn, 4, &mut ()).unwrap();
    });
}

#[test]
fn the_state_can_be_read_while_cpus_work() {
    let kernel = KernelFormat::new(6, 12);
    share("linux-6.12", FRAMES, |shared| {
        let mut cpu = shared.cpu(CpuId(2)).unwrap();
        let pfn = cpu.alloc(&Request::unmovable(3), &mut ()).unwrap();
        let taken = ZoneInfo { allocator: shared, kernel }.to_string();
        assert!(taken.contains("cpu: 1\n") && !taken.contains("cpu: 2\n"), "{taken}");
        let vmstat = VmStat { allocator: shared, kernel }.to_string();
        assert!(vmstat.contains("nr_free_pages ") && !vmstat.contains("pgfree"), "{vmstat}");
        let lists = BuddyInfo(shared).to_string();
        assert_eq!(lists.lines().count(), 2, "{lists}");
        assert!(
            PageTypeInfo { allocator: shared, kernel }.to_string().contains("Number of blocks")
        );
        cpu.free(pfn, 3, &mut ()).unwrap();
        drop(cpu);
        let given = ZoneInfo { allocator: shared, kernel }.to_string();
        assert!(given.contains("cpu: 2\n"), "{given}");
        let vmstat = VmStat { allocator: shared, kernel }.to_string();
        assert!(vmstat.contains("\npgfree 8\n"), "{vmstat}");
    });
}

/// An owner that lives as long as the program is shared by threads that no scope holds.
#[test]
fn a_shared_allocator_can_be_static() {
    static SHARED: OnceLock<Shared<'static, ParkingLot>> = OnceLock::new();
    let zone = zone().cpus(2);
    let memory = vec![MaybeUninit::uninit(); zone.metadata_size().unwrap()].leak();
    let allocator = zone.build(memory).unwrap();
    let locks = vec![MaybeUninit::uninit(); allocator.sharing_size::<ParkingLot>()].leak();
    assert!(SHARED.set(allocator.share(locks).unwrap()).is_ok());
    let threads = [0, 1].map(|cpu| {
        std::thread::spawn(move || {
            let mut cpu = SHARED.get().unwrap().cpu(CpuId(cpu)).unwrap();
            let pfn = cpu.alloc(&Request::movable(9), &mut ()).unwrap();
            cpu.free(pfn, 9, &mut ()).unwrap();
        })
    });
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    SHARED.get().unwrap().check_zones().unwrap();
}

#[test]
fn tables_of_many_cpus_on_little_memory_are_small() {
    let bytes = |gib: u64, cpus| {
        let frames = gib << 18;
        let size = OneZone::new(FrameRange::new(0, frames)).cpus(cpus).metadata_size().unwrap();
        size as f64 / frames as f64
    };
    assert!(bytes(1, 128) <= 2.0, "{}", bytes(1, 128));
    assert!(bytes(16, 512) <= 1.0, "{}", bytes(16, 512));
    assert!(bytes(1, 8) <= 1.0, "{}", bytes(1, 8));
}

/// The smallest caches, of 32 pages, that each of 128 CPUs fills and empties.
#[test]
fn small_caches_lose_nothing() {
    let frames = 1 << 16;
    with(OneZone::new(FrameRange::new(0, frames)).cpus(128), |mut allocator| {
        let mut random = 1u64;
        let mut held = Vec::new();
        for step in 0..60_000 {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            let cpu = CpuId((random >> 40) as usize % 128);
            let order = [0, 0, 0, 0, 1, 2, 3, 3, 5, 9][(random >> 50) as usize % 10];
            let request = match random >> 60 {
                0..=9 => Request::movable(order),
                10..=13 => Request::unmovable(order),
                _ => Request::reclaimable(order),
            };
            let allocates = (random >> 33) % 100 < if step / 6_000 % 2 == 0 { 70 } else { 35 };
            if allocates {
                held.extend(allocator.alloc(cpu, &request, &mut ()).map(|pfn| (pfn, order)));
            } else if !held.is_empty() {
                let (pfn, order) = held.swap_remove((random >> 20) as usize % held.len());
                allocator.free(cpu, pfn, order, &mut ()).unwrap();
            }
            if step % 6_000 == 0 {
                allocator.check().unwrap();
            }
        }
        for (pfn, order) in held {
            allocator.free(CpuId(pfn.0 as usize % 128), pfn, order, &mut ()).unwrap();
        }
        allocator.drain_all(&mut ());
        allocator.check().unwrap();
        assert_eq!(allocator.zones()[0].nr_free(10), frames >> 10);
    });
}

/// Which pageblocks were reported as wholly free.
#[derive(Default)]
struct Emptied(Vec<FrameRange>);

impl Observer for Emptied {
    fn event(&mut self, _: Event) {}
    fn emptied(&mut self, pageblocks: FrameRange) {
        self.0.push(pageblocks);
    }
}

/// Every pageblock that becomes wholly free is reported, and what is reported is free.
#[test]
fn pageblocks_that_become_free_are_reported() {
    let pageblocks = FRAMES / 512;
    let free = |allocator: &Allocator<'_>| {
        let zone = &allocator.zones()[0];
        let mut free = vec![false; pageblocks as usize];
        for (order, mt) in [9, 10].into_iter().flat_map(|o| Migratetype::ALL.map(|mt| (o, mt))) {
            for pfn in zone.free_list(order, mt) {
                let first = pfn.0 as usize / 512;
                free[first..first + (1 << (order - 9))].fill(true);
            }
        }
        free
    };
    for policy in [Policy::DEFAULT, "linux-6.12", "linux-4.4"] {
        with(zone().policy(Policy::parse(policy).unwrap()), |mut allocator| {
            let (mut random, mut held, mut reports) = (7u64, Vec::new(), 0);
            for step in 0..6000 {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                let (before, mut emptied) = (free(&allocator), Emptied::default());
                let order = [0, 1, 3, 6, 9, 10][random as usize % 6];
                let allocates = (random >> 20) % 100 < if step / 500 % 2 == 0 { 70 } else { 25 };
                if allocates {
                    let request = Request::movable(order);
                    let taken = allocator.alloc(CpuId(0), &request, &mut emptied);
                    held.extend(taken.map(|pfn| (pfn, order)));
                } else if !held.is_empty() {
                    let (pfn, order) = held.swap_remove((random >> 30) as usize % held.len());
                    allocator.free(CpuId(0), pfn, order, &mut emptied).unwrap();
                }
                if step % 50 == 0 {
                    allocator.drain_all(&mut emptied);
                }
                let after = free(&allocator);
                let reported =
                    |block: u64| emptied.0.iter().any(|range| range.contains(Pfn(block * 512)));
                for block in 0..pageblocks {
                    let (was, is) = (before[block as usize], after[block as usize]);
                    assert!(was || !is || reported(block), "{policy}: {block} was not reported");
                    // An allocation that drains may take the block itself.
                    assert!(is || allocates || !reported(block), "{policy}: {block} is not free");
                }
                reports += emptied.0.len();
            }
            assert!(reports > 100, "{policy}: {reports}");
        });
    }
}
