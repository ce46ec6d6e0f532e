//! Whether compaction is suitable: enough pages are free as migration targets, and the cause is fragmentation.
//!
//! Source: `compaction_suitable`, `fragmentation_index` (mm/compaction.c, mm/vmstat.c).

use pageblock::alloc_flags::AllocFlags;
use pageblock::event::Observer;
use pageblock::frame::{Order, pages};
use pageblock::ids::CpuId;
use pageblock::layout::ZoneKind;
use pageblock::policy::Nofragment;
use pageblock::request::Request;
use pageblock::zone::Zone;
use pageblock_kernel::rules::compaction::{Compaction, ExtfragIndex, Suitability};

use crate::vm::Vm;
use pageblock::slowpath::PAGE_ALLOC_COSTLY_ORDER;

/// Whether a zone should be compacted for an order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Suitable {
    /// No: there is a free block.
    Success,
    /// No: too few pages are free, or fragmentation is not the cause.
    Skipped,
    /// Yes.
    Continue,
}

/// Returns why a request of an order would fail, in thousandths: towards 0 for lack of memory, towards 1000 for
/// fragmentation; -1000 if it would not fail.
#[must_use]
pub fn fragmentation_index(zone: &Zone<'_>, order: Order) -> i64 {
    let (mut blocks, mut free, mut suitable) = (0, 0, false);
    for at in 0..=zone.geometry().max_order {
        let n = zone.nr_free(at);
        blocks += n;
        free += n << at;
        suitable |= n > 0 && at >= order;
    }
    match (blocks, suitable) {
        (0, _) => 0,
        (_, true) => -1000,
        (blocks, false) => 1000 - ((1000 + free * 1000 / pages(order)) / blocks) as i64,
    }
}

/// Returns the share of free memory in blocks too small for an order, in percent (`extfrag_for_order`).
#[must_use]
pub fn extfrag_for_order(zone: &Zone<'_>, order: Order) -> u64 {
    let (mut free, mut usable) = (0, 0);
    for at in 0..=zone.geometry().max_order {
        let n = zone.nr_free(at) << at;
        free += n;
        usable += if at >= order { n } else { 0 };
    }
    ((free - usable) * 100).checked_div(free).unwrap_or(0)
}

/// Returns whether a zone should be compacted (`compaction_suitable`). `mark` and `flags` are the request's.
#[must_use]
pub fn suitable(
    zone: &Zone<'_>,
    order: Order,
    (mark, flags): (u64, AllocFlags),
    highest: ZoneKind,
    extfrag_threshold: i64,
    rules: &Compaction,
) -> Suitable {
    let first = match rules.suitability {
        Suitability::Zone => return suitable_zone(zone, order, extfrag_threshold, rules),
        Suitability::IndexFirst => false,
        Suitability::RequestFirst | Suitability::MinForCheap => true,
    };
    // A request that would be served needs no room for a move.
    if first && zone.watermark_ok(order, mark, highest, flags) {
        return Suitable::Success;
    }
    let marks = zone.watermarks();
    let costly = order > PAGE_ALLOC_COSTLY_ORDER;
    let always_low = rules.suitability != Suitability::MinForCheap;
    let needed = zone.boost() + if costly || always_low { marks.low } else { marks.min };
    if !zone.watermark_ok(0, needed + rules.gap(order), highest, AllocFlags::CMA) {
        return Suitable::Skipped;
    }
    let index = fragmentation_index(zone, order);
    if always_low && index == -1000 && zone.watermark_ok(order, mark, highest, flags) {
        return Suitable::Success;
    }
    let decides = costly || rules.extfrag_index == ExtfragIndex::AllOrders;
    if decides && (0..=extfrag_threshold).contains(&index) {
        return Suitable::Skipped;
    }
    Suitable::Continue
}

/// Returns whether a zone should be compacted, without the request's watermark: the pages for the move must be free
/// even if there is a block.
fn suitable_zone(
    zone: &Zone<'_>,
    order: Order,
    extfrag_threshold: i64,
    rules: &Compaction,
) -> Suitable {
    let mark = zone.watermarks().low + rules.gap(order);
    if !zone.watermark_ok(0, mark, ZoneKind::Dma, AllocFlags(0)) {
        return Suitable::Skipped;
    }
    match fragmentation_index(zone, order) {
        -1000 if zone.watermark_ok(order, mark, ZoneKind::Dma, AllocFlags(0)) => Suitable::Success,
        index if (0..=extfrag_threshold).contains(&index) => Suitable::Skipped,
        _ => Suitable::Continue,
    }
}

impl<O: Observer> Vm<'_, O> {
    /// Returns whether a zone should be compacted for an order, by its min watermark.
    pub(crate) fn compaction_suitable(
        &self,
        zone: usize,
        order: Order,
        highest: ZoneKind,
    ) -> Suitable {
        let zone = &self.allocator.zones()[zone];
        let mark = zone.boost() + zone.watermarks().min;
        suitable(
            zone,
            order,
            (mark, AllocFlags(0)),
            highest,
            self.kernel.sysctl.extfrag_threshold.into(),
            &self.kernel.compaction,
        )
    }

    /// Returns whether compaction would be suitable in some zone if part of the reclaimable pages were free
    /// (`compaction_zonelist_suitable`).
    pub(crate) fn compaction_zonelist_suitable(&self, cpu: usize, request: &Request) -> bool {
        let Ok(mut zones) = self.allocator.zones_for(CpuId(cpu), request) else { return false };
        let (order, highest) = (request.order, request.gfp.highest_zone());
        zones.any(|at| {
            let at = at.index();
            let zone = &self.allocator.zones()[at];
            let swap = self.has_free_swap();
            let part = self.lru().zone_reclaimable(at, swap) / u64::from(order.max(1));
            let marks = zone.watermarks();
            let mark = if order > PAGE_ALLOC_COSTLY_ORDER { marks.low } else { marks.min };
            let needed = zone.boost() + mark + self.kernel.compaction.gap(order);
            zone.watermark_ok_if(zone.free_pages() + part, 0, needed, highest, AllocFlags::CMA)
        })
    }

    /// Returns whether kcompactd should compact a zone; under `defrag_mode` only whole blocks count.
    pub(crate) fn kcompactd_suitable(
        &self,
        zone: usize,
        order: Order,
        highest: ZoneKind,
    ) -> Suitable {
        let entry = &self.allocator.zones()[zone];
        if self.kernel.allocator.nofragment != Nofragment::DefragMode {
            return self.compaction_suitable(zone, order, highest);
        }
        let high = entry.boost() + entry.watermarks().high;
        let blocks = entry.free_pages_in_blocks();
        if entry.watermark_ok_if(blocks, order, high, highest, AllocFlags(0)) {
            return Suitable::Success;
        }
        self.compaction_suitable_above(zone, order, high, highest)
    }

    /// Returns whether a zone without a free block should be compacted, if a mark that includes the boost has to hold
    /// (`compaction_suitable` from 6.15).
    pub(crate) fn compaction_suitable_above(
        &self,
        zone: usize,
        order: Order,
        mark: u64,
        highest: ZoneKind,
    ) -> Suitable {
        let zone = &self.allocator.zones()[zone];
        let marks = zone.watermarks();
        let costly = order > PAGE_ALLOC_COSTLY_ORDER;
        let distance = if costly { marks.low - marks.min } else { 0 };
        let needed = mark + self.kernel.compaction.gap(order) + distance;
        let threshold = i64::from(self.kernel.sysctl.extfrag_threshold);
        let scarce = costly && (0..=threshold).contains(&fragmentation_index(zone, order));
        if scarce || !zone.watermark_ok(0, needed, highest, AllocFlags::CMA) {
            return Suitable::Skipped;
        }
        Suitable::Continue
    }
}
