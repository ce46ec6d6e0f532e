//! Lists and pageblocks of different types: reachable up to 6.9, never from 6.10.

use pageblock::frame::{FrameRange, Pfn};
use pageblock::ids::{CpuId, NodeId};
use pageblock::layout::ZoneKind;
use pageblock::mobility::Migratetype;
use pageblock::request::{Gfp, Request};
use pageblock::setup::Setup;
use pageblock::zone::Zone;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::machine::{policy, table_memory, zone_spec};
use crate::scenarios::versions;

/// Free pages whose list is not of their pageblock's type.
fn mismatched(zone: &Zone<'_>) -> u64 {
    let mut pages = 0;
    for mt in Migratetype::ALL {
        for order in 0..=zone.geometry().max_order {
            let frames = zone.free_list(order, mt).flat_map(|pfn| pfn.0..pfn.0 + (1 << order));
            pages += frames.filter(|&pfn| zone.block_type(Pfn(pfn)) != Some(mt)).count() as u64;
        }
    }
    pages
}

/// The most mismatched pages that are seen while kernel and user pages come and go.
fn most_mismatched(preset: &str, choices: &[u16]) -> u64 {
    let zones = [zone_spec(0, ZoneKind::Normal, 3, 8192)];
    let setup = Setup::new(policy(&format!("{preset},min_free_kbytes=128")), &zones, &[NodeId(0)]);
    let mut memory = table_memory(&setup);
    let mut allocator = pageblock::alloc::Allocator::new(&mut memory, &setup).unwrap();
    allocator.release(FrameRange::new(3, 8192)).unwrap();
    let mut used = Vec::new();
    let mut most = 0;
    for &choice in choices {
        let gfps = [Gfp::GFP_KERNEL, Gfp::GFP_HIGHUSER_MOVABLE, Gfp::GFP_KERNEL | Gfp::RECLAIMABLE];
        let request = Request::new((choice >> 2) as u8 % 6, gfps[usize::from(choice) % 3]);
        for _ in 0..40 {
            match allocator.alloc(CpuId(0), &request, &mut ()) {
                Ok(pfn) => used.push((pfn, request.order)),
                Err(_) => break,
            }
        }
        for _ in 0..choice % 53 {
            if !used.is_empty() {
                let (pfn, order) = used.swap_remove(usize::from(choice) % used.len());
                allocator.free(CpuId(0), pfn, order, &mut ()).unwrap();
            }
        }
        allocator.check().unwrap();
        most = most.max(mismatched(&allocator.zones()[0]));
    }
    most
}

#[test]
fn types_of_lists_and_blocks_differ_up_to_6_9() {
    let choices: Vec<u16> = (0..300u32).map(|n| ((n * 40_503) >> 3) as u16).collect();
    for preset in versions((4, 12), (6, 9)) {
        assert!(most_mismatched(preset, &choices) > 0, "{preset}");
    }
}

#[test]
fn types_of_lists_and_blocks_agree_from_6_10() {
    // A case takes as long as twenty of the other properties.
    let config = Config::default();
    let cases = (config.cases / 20).max(4);
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..config });
    let choices = prop::collection::vec(any::<u16>(), 1..120);
    let result = runner.run(&choices, |choices| {
        let recent = versions((6, 10), (9, 0)).chain(["debian-6.12", "debian-7.2"]);
        for preset in recent {
            prop_assert_eq!(most_mismatched(preset, &choices), 0, "{}", preset);
        }
        Ok(())
    });
    result.unwrap_or_else(|failure| panic!("{failure}"));
}
