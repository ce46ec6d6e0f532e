//! Waking kswapd (`wakeup_kswapd`).

use pageblock::alloc_flags::Watermark;
use pageblock::event::Observer;
use pageblock::frame::Order;
use pageblock::layout::ZoneKind;
use pageblock_kernel::rules::kswapd::KswapdWake;

use crate::compact::suitable::Suitable;
use crate::vm::Vm;

impl<O: Observer> Vm<'_, O> {
    /// Wakes the kswapd of a node unless the node is balanced (`wakeup_kswapd`). `direct`: the caller reclaims itself
    /// too.
    pub(crate) fn wake_kswapd(
        &mut self,
        node: usize,
        order: Order,
        highest: ZoneKind,
        direct: bool,
    ) {
        self.nodes[node].kswapd.request(highest, order);
        // It reads the request when its run ends.
        if self.kernel.kswapd.order_kept && self.nodes[node].kswapd.is_running() {
            return;
        }
        let balanced = self.is_balanced_for_wake(node, order, highest);
        let zones = self.allocator.zones();
        let boosted =
            self.zones_of(node).any(|z| zones[z].kind() <= highest && zones[z].boost() > 0);
        let rules = &self.kernel.kswapd;
        let hopeless = rules.hopeless_nodes && self.nodes[node].kswapd.is_hopeless(rules);
        if hopeless || (balanced && !boosted) {
            // The cause is fragmentation, not lack of memory.
            if self.kernel.kcompactd.kcompactd_wake_if_balanced && !direct {
                self.wake_kcompactd(node, order, highest);
            }
            return;
        }
        self.nodes[node].kswapd.woken = true;
    }

    /// Returns whether a node is balanced enough not to wake its kswapd.
    fn is_balanced_for_wake(&self, node: usize, order: Order, highest: ZoneKind) -> bool {
        let mut zones =
            self.zones_of(node).filter(|&z| self.allocator.zones()[z].kind() <= highest);
        match self.kernel.kswapd.kswapd_wake {
            KswapdWake::ZoneLow => {
                zones.all(|z| self.zone_meets(z, order, Watermark::Low, ZoneKind::Dma))
            }
            KswapdWake::ZoneBalanced => zones.all(|z| {
                self.zone_meets(z, order, Watermark::High, ZoneKind::Dma)
                    && (order == 0
                        || self.compaction_suitable(z, order, ZoneKind::Dma) != Suitable::Skipped)
            }),
            KswapdWake::AnyZone => {
                zones.any(|z| self.zone_meets(z, order, Watermark::High, highest))
            }
        }
    }
}
