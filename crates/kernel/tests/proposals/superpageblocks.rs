//! Superpageblocks: which unit serves, and what the search costs.

use pageblock::alloc::Allocator;
use pageblock::decide::Evacuation;
use pageblock::frame::{FrameRange, Pfn};
use pageblock::ids::{CpuId, ZoneIndex};
use pageblock::request::{Gfp, Request};
use pageblock_kernel::proposals::{Form, Superpageblocks};

use crate::{MOVABLE, Under, in_zone};

/// Units of two pageblocks in a zone of 64 MiB.
const UNIT: u64 = 1024;

/// Takes all memory as movable blocks of order 4, frees what `free` says, and returns what the test does then.
fn with<R>(
    name: Option<&str>,
    free: &[(u64, u8)],
    test: impl FnOnce(&mut Allocator<'_>, &mut Under) -> R,
) -> R {
    in_zone("linux-7.3,watermark_boost_factor=0", |allocator| {
        // The proposal decides from then on: its first request looks at the units.
        let mut under = Under(None);
        let request = Request::new(4, MOVABLE);
        let mut held = Vec::new();
        while let Ok(pfn) = allocator.alloc(CpuId(0), &request, &mut under) {
            held.push(pfn.0);
        }
        for &(at, pieces) in free {
            for pfn in
                (at..at + u64::from(pieces) * 16).step_by(16).filter(|pfn| held.contains(pfn))
            {
                allocator.free(CpuId(0), Pfn(pfn), 4, &mut under).unwrap();
            }
        }
        under = Under::of(name);
        test(allocator, &mut under)
    })
}

/// Unit 3 has a free pageblock, unit 9 has none: a movable request goes to unit 9, whatever was freed last.
#[test]
fn movable_pages_go_to_the_fullest_clean_unit() {
    let freed = [(9 * UNIT, 1), (3 * UNIT + 16, 1), (3 * UNIT + 512, 32)];
    let served = |name| {
        with(name, &freed, |allocator, under| {
            allocator.alloc(CpuId(0), &Request::new(4, MOVABLE), under).unwrap().0 / UNIT
        })
    };
    assert_eq!(served(None), 3, "Linux takes the block that was freed last");
    assert_eq!(served(Some("superpageblocks")), 9);
    assert_eq!(served(Some("superpageblocks-bitmap")), 9);
}

/// Unmovable pages taint one unit; when its pageblock is used up, they take its other one before a clean unit's.
#[test]
fn unmovable_pages_stay_in_tainted_units() {
    let freed = [(2 * UNIT, 64), (5 * UNIT, 64), (7 * UNIT, 64)];
    let units = |name| {
        with(name, &freed, |allocator, under| {
            let kernel = Request::new(4, Gfp::GFP_KERNEL);
            let taken = (0..48).map_while(|_| allocator.alloc(CpuId(0), &kernel, under).ok());
            let mut units: Vec<_> = taken.map(|pfn| pfn.0 / UNIT).collect();
            assert!(units.len() == 48, "{units:?}");
            units.dedup();
            units.sort_unstable();
            units.dedup();
            units.len()
        })
    };
    assert_eq!(units(Some("superpageblocks")), 1);
    assert_eq!(units(Some("superpageblocks-bitmap")), 1);
}

/// The same choice costs a probe for each list of each unit passed, or the words of two bitmaps for each order.
#[test]
fn lists_cost_by_units_and_bitmaps_by_words() {
    let lists = |rank, units| Superpageblocks::probes(Form::Lists, rank, units, [0, 0, 10]);
    let words = |rank, units| Superpageblocks::probes(Form::Bitmaps, rank, units, [0, 0, 10]);
    assert_eq!((lists(0, 64), words(0, 64)), (1, 2));
    // The eighth unit: eleven lists of each of seven units, and one.
    assert_eq!((lists(7, 4096), words(7, 4096)), (78, 2));
    // Nothing but the largest order, 4 TiB: 64 words of two bitmaps for each order below.
    let largest = |form| Superpageblocks::probes(form, 0, 4096, [0, 10, 10]);
    assert_eq!((largest(Form::Lists), largest(Form::Bitmaps)), (11, 2 * (10 * 64 + 1)));
}

/// A tainted unit without a free pageblock is emptied: its emptiest movable pageblock first. A clean one is not.
#[test]
fn a_worker_empties_tainted_units() {
    // A free pageblock in unit 4, blocks of order 4 in its other one, and room elsewhere.
    let freed = [(4 * UNIT, 32), (4 * UNIT + 512, 8), (6 * UNIT, 31), (9 * UNIT, 31)];
    with(Some("superpageblocks"), &freed, |allocator, under| {
        let asked = |allocator: &mut Allocator<'_>, under: &mut Under| {
            let (zone, _) = allocator.zone_and_cache(ZoneIndex(0), CpuId(0)).unwrap();
            zone.evacuation(under)
        };
        assert_eq!(asked(allocator, under), None, "no unit is tainted");
        let kernel = Request::new(9, Gfp::GFP_ATOMIC);
        while allocator.alloc(CpuId(0), &kernel, under).unwrap().0 / UNIT != 4 {}
        let from = FrameRange::new(4 * UNIT + 512, 5 * UNIT);
        let due = Some(Evacuation { from, apart: FrameRange::new(4 * UNIT, 5 * UNIT) });
        assert_eq!(asked(allocator, under), due);
        // It did not become free: the unit rests for a round, which ends with this answer.
        assert_eq!(asked(allocator, under), None);
        assert_eq!(asked(allocator, under), due);
    });
}
