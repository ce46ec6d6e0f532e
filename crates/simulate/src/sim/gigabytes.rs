//! Blocks of 1 GiB at the end of a run: what of them could be one page.

use std::collections::BTreeMap;

use pageblock::alloc::Allocator;
use pageblock::alloc_flags::Watermark;
use pageblock::frame::{Order, Pfn};
use pageblock::zone::Zone;
use pageblock_measure::Counters;
use pageblock_measure::value::names;

/// The order of 1 GiB in pages of 4 KiB.
const GIB: Order = 18;

/// Whether something in a pageblock cannot be moved, whatever it was requested as: a device may pin a movable page.
type Stays<'a> = &'a dyn Fn(&Zone<'_>, Pfn) -> bool;

/// The pageblocks of a gigabyte.
#[derive(Default)]
struct Gigabyte {
    pageblocks: u64,
    /// Some page is allocated, or was never handed to the allocator.
    used: bool,
    /// Some of these pages cannot be moved.
    fixed: bool,
}

/// Counts the whole gigabytes of the zones, if there are any, by use. `order` is that of a gigabyte.
fn count_blocks(allocator: &Allocator<'_>, stays: Stays<'_>, order: Order) -> Option<[u64; 4]> {
    let mut counts = [0; 4];
    for zone in allocator.zones() {
        let mut gigabytes: BTreeMap<u64, Gigabyte> = BTreeMap::new();
        for (first, ..) in zone.pageblocks() {
            let of = gigabytes.entry(first.0 >> order).or_default();
            of.pageblocks += 1;
            if let Some(usage) = zone.block_usage(first) {
                of.fixed |= usage.unmovable + usage.reserved > 0 || stays(zone, first);
                of.used |= usage.unmovable + usage.reserved + usage.movable > 0;
            }
        }
        let all =
            1u64.checked_shl(u32::from(order.checked_sub(zone.geometry().pageblock_order)?))?;
        let whole = || gigabytes.values().filter(|of| of.pageblocks == all);
        let movable = whole().filter(|of| !of.fixed).count() as u64;
        let free = whole().filter(|of| !of.used).count() as u64;
        // What is moved out of the others needs as much room elsewhere.
        let kept = zone.watermark(Watermark::Min) + (free << order);
        let spare = zone.free_pages().saturating_sub(kept) >> order;
        counts[0] += whole().count() as u64;
        counts[1] += movable;
        counts[2] += free;
        counts[3] += free + spare.min(movable - free);
    }
    (counts[0] > 0).then_some(counts)
}

/// Adds the counts of gigabytes to those of a run; nothing where no zone has a whole one.
pub(crate) fn count(allocator: &Allocator<'_>, stays: Stays<'_>, counters: &mut Counters) {
    if let Some(counts) = count_blocks(allocator, stays, GIB) {
        let names = [
            names::GIGABYTES,
            names::GIGABYTES_MOVABLE,
            names::GIGABYTES_FREE,
            names::GIGABYTES_SERVED,
        ];
        names.into_iter().zip(counts).for_each(|(name, count)| counters.set(name, count));
    }
}

#[cfg(test)]
mod tests {
    use std::mem::MaybeUninit;

    use pageblock::frame::FrameRange;
    use pageblock::ids::{CpuId, NodeId};
    use pageblock::layout::{ZoneKind, ZoneSpec};
    use pageblock::policy::Policy;
    use pageblock::request::{Gfp, Request};
    use pageblock::setup::Setup;

    use super::*;

    /// Blocks of eight pageblocks stand for gigabytes: four whole ones and a part.
    #[test]
    fn whole_gigabytes_count_by_use() {
        let span = FrameRange::new(0, 4096 * 4 + 512);
        let zones = [ZoneSpec::full(NodeId(0), ZoneKind::Normal, span)];
        let setup = Setup::new(Policy::parse("linux-7.3").unwrap(), &zones, &[NodeId(0)]);
        let mut memory = vec![MaybeUninit::uninit(); setup.metadata_size().unwrap()];
        let mut allocator = Allocator::new(&mut memory, &setup).unwrap();
        allocator.release(span).unwrap();
        allocator.retune();
        assert_eq!(count_blocks(&allocator, &|_, _| false, 12), Some([4, 4, 4, 4]));
        assert_eq!(count_blocks(&allocator, &|_, _| false, GIB), None);
        let mut take = |gfp| {
            let pfn = allocator.alloc(CpuId(0), &Request::new(10, gfp), &mut ()).unwrap();
            (pfn.0 >> 12, pfn)
        };
        let (movable, _) = take(Gfp::GFP_HIGHUSER_MOVABLE);
        let (fixed, pfn) = take(Gfp::GFP_KERNEL);
        let used = if movable == fixed { 1 } else { 2 };
        assert_eq!(count_blocks(&allocator, &|_, _| false, 12), Some([4, 3, 4 - used, 3]));
        let pinned = |_: &Zone<'_>, block: Pfn| block == pfn;
        allocator.free(CpuId(0), pfn, 10, &mut ()).unwrap();
        assert_eq!(count_blocks(&allocator, &pinned, 12).unwrap()[1], 3);
        assert_eq!(count_blocks(&allocator, &|_, _| false, 12), Some([4, 4, 3, 3]));
    }
}
