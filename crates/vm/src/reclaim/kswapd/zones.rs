//! Which zones are balanced, and which of them kswapd scans.
//!
//! Source: `pgdat_balanced`, `zone_balanced`, `kswapd_shrink_zone` (mm/vmscan.c).

use pageblock::alloc_flags::{AllocFlags, Watermark};
use pageblock::event::Observer;
use pageblock::frame::Order;
use pageblock::layout::ZoneKind;
use pageblock::policy::Nofragment;
use pageblock_kernel::rules::kswapd::{KswapdOrder, NodeBalanced};
use pageblock_kernel::rules::reclaim::LruLists;

use crate::compact::suitable::Suitable;
use crate::reclaim::scan_control::ScanControl;
use crate::vm::Vm;

impl<O: Observer> Vm<'_, O> {
    /// Returns whether a zone meets its watermark for an order, as kswapd tests it. `highest` is the highest zone of the
    /// request: the lowmem reserve of a lower zone does not count as free.
    pub(super) fn zone_meets(
        &self,
        zone: usize,
        order: Order,
        mark: Watermark,
        highest: ZoneKind,
    ) -> bool {
        let zone = &self.allocator.zones()[zone];
        if zone.managed() == 0 {
            return false;
        }
        let free = match self.kernel.allocator.nofragment {
            Nofragment::DefragMode if order > 0 => zone.free_pages_in_blocks(),
            _ => zone.free_pages(),
        };
        zone.watermark_ok_if(free, order, zone.watermark(mark), highest, AllocFlags(0))
    }

    /// Returns whether a node has enough free memory (`pgdat_balanced`).
    pub(super) fn balanced(&self, node: usize, order: Order, highest: ZoneKind) -> bool {
        let zones = self.allocator.zones();
        let mut eligible = self
            .zones_of(node)
            .filter(|&z| zones[z].kind() <= highest && zones[z].managed() > 0)
            .peekable();
        // Without memory there is nothing to balance.
        if eligible.peek().is_none() {
            return true;
        }
        match self.kernel.kswapd.node_balanced {
            NodeBalanced::AnyZone => {
                eligible.any(|z| self.zone_meets(z, order, Watermark::High, highest))
            }
            NodeBalanced::Quarter if order == 0 => {
                eligible.all(|z| self.zone_meets(z, 0, Watermark::High, ZoneKind::Dma))
            }
            NodeBalanced::Quarter => {
                let (mut balanced, mut managed) = (0, 0);
                for zone in eligible {
                    managed += zones[zone].managed();
                    if self.zone_meets(zone, order, Watermark::High, ZoneKind::Dma)
                        && !self.waits_for_compaction(zone, order)
                    {
                        balanced += zones[zone].managed();
                    }
                }
                balanced >= managed / 4
            }
        }
    }

    /// Returns whether a zone is not balanced for an order because compaction could not run (`zone_balanced`).
    fn waits_for_compaction(&self, zone: usize, order: Order) -> bool {
        order > 0
            && self.kernel.kswapd.balanced_if_compactable
            && self.compaction_suitable(zone, order, ZoneKind::Dma) == Suitable::Skipped
    }

    /// Ends a zone at one priority (kswapd of 3.11 to 4.7, `kswapd_shrink_zone`).
    pub(in crate::reclaim) fn end_kswapd_zone(
        &mut self,
        node: usize,
        zone: usize,
        sc: &ScanControl,
    ) {
        self.nodes[node].kswapd.set_writeback_congested(false);
        if self.zone_meets(zone, sc.order, Watermark::High, ZoneKind::Dma) {
            self.pagecache.lruvec(zone).set_tail_dirty(false);
        }
    }

    /// Returns the lruvecs that kswapd scans, to be popped from the end. With lists for each zone these are only the
    /// lists of zones that are not balanced.
    pub(in crate::reclaim) fn kswapd_lruvecs(&self, node: usize, sc: &ScanControl) -> Vec<usize> {
        if self.kernel.reclaim.lru != LruLists::Zone {
            return self.lruvecs_of(node, sc.highest);
        }
        let short = self.zones_to_balance(node, sc).filter(|&(_, short)| short);
        let mut vecs: Vec<usize> = short.map(|(zone, _)| self.lru().of_zone(zone)).collect();
        // The lowest zone is scanned first.
        vecs.reverse();
        vecs
    }

    /// Returns whether some zone that kswapd comes to is balanced.
    pub(super) fn has_balanced_zone(&self, node: usize, sc: &ScanControl) -> bool {
        self.zones_to_balance(node, sc).any(|(_, short)| !short)
    }

    /// Returns the zones of a node up to the highest that misses its high watermark, and whether each is short: a zone
    /// is reclaimed to a little above that watermark (`balance_gap`).
    fn zones_to_balance(
        &self,
        node: usize,
        sc: &ScanControl,
    ) -> impl Iterator<Item = (usize, bool)> {
        let zones = self.allocator.zones();
        let has = move |zone: usize, order: Order, pages: u64| {
            zones[zone].watermark_ok(order, pages, ZoneKind::Dma, AllocFlags(0))
                && !self.waits_for_compaction(zone, order)
        };
        let order = sc.order;
        let highest = sc.highest;
        let eligible = move || {
            self.zones_of(node)
                .filter(move |&z| zones[z].kind() <= highest && zones[z].managed() > 0)
        };
        let end = eligible().filter(|&z| !has(z, order, zones[z].watermarks().high)).last();
        eligible().take_while(move |&z| end.is_some_and(|end| z <= end)).map(move |z| {
            let marks = zones[z].watermarks();
            let gap = marks.low.min(zones[z].managed().div_ceil(100));
            (z, !has(z, self.order_to_reclaim(z, order), marks.high + gap))
        })
    }

    /// Returns the order for which kswapd reclaims from a zone (`testorder`).
    fn order_to_reclaim(&self, zone: usize, order: Order) -> Order {
        let single = self.kernel.kswapd.kswapd_order == KswapdOrder::SinglePages;
        if single && !self.waits_for_compaction(zone, order) { 0 } else { order }
    }
}
