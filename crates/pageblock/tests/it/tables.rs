//! The memory that tables are made in.

use pageblock::alloc::Allocator;
use pageblock::frame::{FrameRange, Pfn};
use pageblock::ids::{CpuId, NodeId, ZoneIndex};
use pageblock::layout::ZoneKind;
use pageblock::policy::Policy;
use pageblock::request::{Gfp, Request};
use pageblock::setup::{Setup, SetupError};
use pageblock::zone::Geometry;

use crate::machine::{Log, policy, table_memory, zone_spec};

/// Fills memory, frees it in another order, and gives every event.
fn events(mut allocator: Allocator<'_>) -> Log {
    let mut log = Log::default();
    allocator.release(FrameRange::new(0, 4096)).unwrap();
    allocator.retune();
    let mut taken = Vec::new();
    for order in [0, 3, 0, 9, 1, 0].into_iter().cycle().take(600) {
        if let Ok(pfn) = allocator.alloc(CpuId(0), &Request::new(order, Gfp::GFP_KERNEL), &mut log)
        {
            taken.push((pfn, order));
        }
    }
    taken.sort_by_key(|&(Pfn(pfn), _)| pfn.wrapping_mul(0x9e37_79b9) % 4096);
    for (pfn, order) in taken {
        allocator.free(CpuId(0), pfn, order, &mut log).unwrap();
    }
    allocator.check().unwrap();
    allocator.drain_all(&mut log);
    allocator.check().unwrap();
    log
}

#[test]
fn bytes_that_tables_are_made_on_mean_nothing() {
    for text in ["linux-6.12", "linux-4.4", "linux-6.12,placement=packed"] {
        let zones = [zone_spec(0, ZoneKind::Normal, 0, 4096)];
        let setup = Setup::new(policy(text), &zones, &[NodeId(0)]);
        let mut memory = table_memory(&setup);
        let expected = events(Allocator::new(&mut memory, &setup).unwrap());
        for byte in [0, 0xa5, 0xff] {
            let mut bytes = vec![byte; memory.len()];
            let made = Allocator::new_in_bytes(&mut bytes, &setup).unwrap();
            assert!(events(made).events == expected.events, "{text}, {byte:#x}");
        }
        let small = Allocator::new_in_bytes(&mut [0; 64], &setup).err();
        assert_eq!(small, Some(SetupError::Memory(setup.metadata_size().unwrap())));
    }
}

/// Blocks of many pageblocks need no larger tables.
#[test]
fn packed_tables_have_four_bits_a_frame_whatever_the_largest_block() {
    let zones = [zone_spec(0, ZoneKind::Normal, 0, 1 << 22)];
    let bytes = |policy, pageblock_order, max_order| {
        let geometry = Geometry { pageblock_order, max_order, ..Geometry::default() };
        let cpu_nodes = &[NodeId(0)];
        let setup = Setup { geometry, ..Setup::new(policy, &zones, cpu_nodes) };
        setup.metadata_size().unwrap() as f64 / (1 << 22) as f64
    };
    for (pageblock_order, max_order) in
        [(9, 3), (9, 10), (9, 11), (9, 13), (9, 14), (10, 10), (11, 11), (13, 13), (13, 14)]
    {
        let size = bytes(pageblock::policy::Policy::default(), pageblock_order, max_order);
        assert!(size < 0.6, "{pageblock_order} {max_order}: {size}");
    }
    assert!(bytes(policy("linux-6.12"), 9, 10) > 9.0);
}

/// The largest zone: with 2^32 frames the number of one would be no index. What is not used of its tables takes no memory.
#[test]
fn a_zone_holds_sixteen_tebibytes_less_a_block() {
    let top = (1 << 32) - (1 << 10);
    let zones = |end| [zone_spec(0, ZoneKind::Normal, 0, end)];
    let too_large = zones(1 << 32);
    let setup = Setup::new(Policy::default(), &too_large, &[NodeId(0)]);
    assert_eq!(setup.metadata_size(), Err(SetupError::TooLarge(ZoneIndex(0), 1 << 32)));
    let largest = zones(top);
    let setup = Setup::new(Policy::default(), &largest, &[NodeId(0)]);
    let mut bytes = vec![0; setup.metadata_size().unwrap()];
    let mut allocator = Allocator::new_in_bytes(&mut bytes, &setup).unwrap();
    // The two ends only.
    allocator.release(FrameRange::new(0, 1 << 10)).unwrap();
    allocator.release(FrameRange::new(top - (1 << 10), top)).unwrap();
    let mut taken = Vec::new();
    while let Ok(pfn) = allocator.alloc(CpuId(0), &Request::movable(9), &mut ()) {
        taken.push(pfn);
    }
    taken.sort();
    let blocks = [0, 1 << 9, top - (1 << 10), top - (1 << 9)];
    assert_eq!(taken, blocks.map(Pfn));
    for pfn in taken {
        allocator.free(CpuId(0), pfn, 9, &mut ()).unwrap();
    }
    allocator.drain_all(&mut ());
    assert_eq!(allocator.zones()[0].free_pages(), 4 << 9);
}

/// arm64 with pages of 4, 16 and 64 KiB: the watermarks of 4 GiB are the same bytes, every order is served up to the largest
/// block of 4, 32 and 512 MiB, and all of it becomes whole again.
#[test]
fn pages_of_16_and_64_kib_have_the_same_bytes_in_reserve() {
    // By itself khugepaged asks for eleven pageblocks: 22, 205 (a twentieth of memory) and 205 MiB.
    for text in
        ["linux-6.12", "linux-6.12,placement=packed"].map(|of| format!("{of},min_free_kbytes=8192"))
    {
        let text = &text;
        let mut reserves = Vec::new();
        for (page_shift, pageblock_order, max_order) in [(12, 9, 10), (14, 11, 11), (16, 13, 13)] {
            let frames = 1 << (32 - page_shift);
            let zones = [zone_spec(0, ZoneKind::Normal, 0, frames)];
            let geometry = Geometry { page_shift, pageblock_order, max_order };
            let setup = Setup { geometry, ..Setup::new(policy(text), &zones, &[NodeId(0)]) };
            let mut memory = table_memory(&setup);
            let mut allocator = Allocator::new(&mut memory, &setup).unwrap();
            allocator.release(FrameRange::new(0, frames)).unwrap();
            allocator.retune();
            let marks = allocator.zones()[0].watermarks();
            reserves.push([marks.min, marks.high].map(|pages| pages << page_shift));
            let mut taken = Vec::new();
            for order in (0..=max_order).cycle() {
                let request = Request::new(order, Gfp::GFP_HIGHUSER_MOVABLE);
                match allocator.alloc(CpuId(0), &request, &mut ()) {
                    Ok(pfn) => taken.push((pfn, order)),
                    Err(_) => break,
                }
            }
            assert!(taken.iter().any(|&(_, order)| order == max_order), "{text} {page_shift}");
            allocator.check().unwrap();
            taken.sort_by_key(|&(Pfn(pfn), _)| pfn.wrapping_mul(0x9e37_79b9) % frames);
            for (pfn, order) in taken {
                allocator.free(CpuId(0), pfn, order, &mut ()).unwrap();
            }
            allocator.drain_all(&mut ());
            allocator.check().unwrap();
            assert_eq!(allocator.zones()[0].free_pages(), frames);
            let largest = allocator.zones()[0].nr_free(max_order);
            assert_eq!(largest, frames >> max_order, "{text} {page_shift}");
        }
        assert!(reserves.iter().all(|of| of[0] == 8 << 20), "{text}: {reserves:?}");
        assert!(reserves.iter().all(|of| of[1].abs_diff(reserves[0][1]) < 1 << 17), "{reserves:?}");
    }
}
