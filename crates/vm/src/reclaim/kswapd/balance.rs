//! One run of kswapd over its node (`balance_pgdat`).

use pageblock::alloc_flags::Watermark;
use pageblock::event::Observer;
use pageblock::frame::Order;
use pageblock::ids::{CpuId, ZoneIndex};
use pageblock::layout::ZoneKind;
use pageblock_kernel::rules::kswapd::KswapdTarget;
use pageblock_kernel::rules::reclaim::LruLists;

use super::Phase;
use crate::reclaim::scan_control::{
    DEF_PRIORITY, ReclaimStat, SWAP_CLUSTER_MAX, ScanControl, Stepped,
};
use crate::reclaim::shrink_node::ShrinkNode;
use crate::vm::Vm;

/// One run of `balance_pgdat`.
#[derive(Clone, Debug)]
pub(super) struct Balancing {
    /// The order that kswapd was woken for.
    pub(super) requested: Order,
    /// The watermark boosts found at the start: zone and pages. They stay until the end.
    boosts: Vec<(usize, u64)>,
    pub(super) reclaimed: u64,
    /// What was reclaimed before this priority.
    before: u64,
    /// Pages left to reclaim for the boosts; 0 once the node itself needs them.
    boost_left: u64,
    /// This priority is the lowest at which a boost is served.
    at_limit: bool,
    pub(super) sc: ScanControl,
    shrink: Option<ShrinkNode>,
}

/// Whether a run of balancing goes on, waits for the disk, or is over.
pub(super) enum Progress {
    Continues,
    Waits,
    Over,
}

impl<O: Observer> Vm<'_, O> {
    /// Starts a run for the requests that woke kswapd.
    pub(super) fn start_balancing(&mut self, node: usize, cpu: usize) -> Phase {
        let kswapd = &mut self.nodes[node].kswapd;
        kswapd.woken = false;
        let requested = std::mem::take(&mut kswapd.order);
        let highest = kswapd.take_highest();
        let zones = self.allocator.zones();
        let boosts: Vec<(usize, u64)> = self
            .zones_of(node)
            .filter(|&z| zones[z].kind() <= highest && zones[z].boost() > 0)
            .map(|z| (z, zones[z].boost()))
            .collect();
        self.stat.pageoutrun += 1;
        let boost_left: u64 = boosts.iter().map(|b| b.1).sum();
        self.stat.pageoutrun_boosted += u64::from(boost_left > 0);
        let sc = ScanControl { kswapd: true, ..ScanControl::new(cpu, requested, highest, 0) };
        let shrink = None;
        Phase::Balancing(Box::new(Balancing {
            requested,
            boosts,
            reclaimed: 0,
            before: 0,
            boost_left,
            at_limit: false,
            sc,
            shrink,
        }))
    }

    /// Runs one step: starts a priority, or scans a few batches of the lists.
    pub(super) fn step_balancing(&mut self, node: usize, b: &mut Balancing) -> Progress {
        if let Some(shrink) = &mut b.shrink {
            if shrink.step(self, &mut b.sc) == Stepped::More {
                // Noted once: after the wait the same pages may be clean.
                if b.sc.waits_at_once(&self.kernel.kswapd) {
                    (b.sc.stat.immediate, b.sc.stat.all_dirty) = (0, false);
                    return Progress::Waits;
                }
                return Progress::Continues;
            }
            b.shrink = None;
            return self.after_priority(node, b);
        }
        let balanced = self.balanced(node, b.sc.order, b.sc.highest);
        if !balanced && b.boost_left > 0 {
            // Balancing the node is more urgent. The watermarks stay raised until the end.
            b.boost_left = 0;
            b.sc.priority = DEF_PRIORITY;
        }
        if balanced && b.boost_left == 0 {
            return self.end_balancing(node, b);
        }
        // For a boost nobody waits: it is served only with pages that cost no disk operation.
        b.sc.may_swap = b.boost_left == 0;
        b.sc.may_write = b.boost_left == 0;
        b.at_limit = b.boost_left > 0 && b.sc.priority == DEF_PRIORITY - 2;
        let zones = self.allocator.zones();
        let eligible = self.zones_of(node).filter(|&z| zones[z].kind() <= b.sc.highest);
        b.sc.nr_to_reclaim = eligible
            .map(|z| (zones[z].boost() + zones[z].watermarks().high).max(SWAP_CLUSTER_MAX))
            .sum();
        let unbounded = self.kernel.kswapd.kswapd_target == KswapdTarget::Unbounded;
        if unbounded {
            b.sc.nr_to_reclaim = u64::MAX;
        }
        debug_assert!(unbounded || b.sc.priority > 0, "a run goes on after its last priority");
        b.sc.enough_scanned = self.has_balanced_zone(node, &b.sc);
        b.sc.nr_scanned = 0;
        if !unbounded && !self.kernel.kswapd.hopeless_nodes {
            b.sc.nr_reclaimed = 0;
        }
        b.before = b.sc.nr_reclaimed;
        b.sc.stat = ReclaimStat::default();
        self.age_node(node, &mut b.sc);
        b.shrink = Some(ShrinkNode::new(self, node, &b.sc));
        Progress::Continues
    }

    /// Deactivates anonymous pages, so that they can be used again before they are reclaimed, even if a boost forbids
    /// swapping (`age_active_anon`, `kswapd_age_node`). With lists for each zone this goes from the highest zone down
    /// to the first that misses its watermark.
    fn age_node(&mut self, node: usize, sc: &mut ScanControl) {
        if self.kernel.reclaim.lru == LruLists::Mglru {
            let vec = self.zones_of(node).next().map_or(0, |zone| self.lru().of_zone(zone));
            return self.keep_young(vec, sc);
        }
        let zones: Vec<usize> = self.zones_of(node).collect();
        for zone in zones.into_iter().rev() {
            if self.allocator.zones()[zone].managed() == 0 {
                continue;
            }
            self.age_anon(self.lru().of_zone(zone), sc);
            if self.kernel.reclaim.lru == LruLists::Node
                || !self.zone_meets(zone, sc.order, Watermark::High, ZoneKind::Dma)
            {
                break;
            }
        }
    }

    /// Ends a priority: sets the next one, or ends the run.
    fn after_priority(&mut self, node: usize, b: &mut Balancing) -> Progress {
        let enough_scanned = match self.kernel.kswapd.kswapd_target {
            KswapdTarget::Unbounded => return self.after_priority_unbounded(node, b),
            KswapdTarget::ZoneHigh => b.sc.enough_scanned,
            KswapdTarget::NodeHigh => b.sc.nr_scanned >= b.sc.nr_to_reclaim,
        };
        // Enough is free for compaction, which makes the block from here on.
        if b.sc.order > 0 && b.sc.nr_reclaimed >= self.kernel.compaction.gap(b.sc.order) {
            b.sc.order = 0;
        }
        debug_assert!(b.sc.nr_reclaimed >= b.before, "reclaimed pages were lost");
        let reclaimed = b.sc.nr_reclaimed - b.before;
        b.reclaimed += reclaimed;
        let waits = b.sc.stat.immediate > 0;
        if b.boost_left > 0 {
            self.stat.pgsteal_boosted += reclaimed;
            b.boost_left = b.boost_left.saturating_sub(reclaimed);
            // What can be reclaimed without the disk is gone.
            if b.boost_left > 0 && reclaimed == 0 {
                return self.fail_balancing(node, b);
            }
        }
        if reclaimed == 0 || !(enough_scanned || b.at_limit) {
            b.sc.priority -= 1;
            if b.sc.priority < 1 {
                return self.fail_balancing(node, b);
            }
        }
        if waits { Progress::Waits } else { Progress::Continues }
    }

    /// Ends a priority of a kswapd without a target (3.10): the priority rises until something was reclaimed, and then
    /// starts over. The order is dropped only after a full scan reclaimed too little.
    fn after_priority_unbounded(&mut self, node: usize, b: &mut Balancing) -> Progress {
        let waits = b.sc.stat.immediate > 0;
        let little = b.sc.nr_reclaimed < SWAP_CLUSTER_MAX;
        if little && b.sc.priority > 0 {
            b.sc.priority -= 1;
        } else if little && b.sc.order == 0 {
            b.reclaimed += b.sc.nr_reclaimed;
            return self.fail_balancing(node, b);
        } else {
            if little {
                b.sc.order = 0;
            }
            b.reclaimed += std::mem::take(&mut b.sc.nr_reclaimed);
            b.sc.priority = DEF_PRIORITY;
            self.stat.pageoutrun += 1;
        }
        if waits { Progress::Waits } else { Progress::Continues }
    }

    /// Ends a run that did not balance the node; counts it as failed if it reclaimed nothing.
    fn fail_balancing(&mut self, node: usize, b: &mut Balancing) -> Progress {
        if b.reclaimed == 0 {
            self.nodes[node].kswapd.failures += 1;
        }
        self.end_balancing(node, b)
    }

    /// Ends a run, and the boosts that it found at its start; later ones stay. What was freed for them is compacted.
    fn end_balancing(&mut self, node: usize, b: &mut Balancing) -> Progress {
        let boosted = !b.boosts.is_empty();
        for (zone, boost) in b.boosts.drain(..) {
            if let Some((zone, _)) = self.allocator.zone_and_cache(ZoneIndex::new(zone), CpuId(0)) {
                zone.end_boost(boost);
            }
        }
        // The pages were reclaimed so that fewer pageblocks are polluted: compaction makes whole ones of them.
        if boosted {
            self.wake_kcompactd(node, self.allocator.geometry().pageblock_order, b.sc.highest);
        }
        Progress::Over
    }
}
