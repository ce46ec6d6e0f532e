//! One scan of a node's lists at one priority, in steps.
//!
//! Source: `shrink_node`, `shrink_lruvec` (mm/vmscan.c).

use pageblock::event::Observer;
use pageblock::layout::ZoneKind;
use pageblock_kernel::rules::reclaim::ReclaimUntil;
use pageblock_kernel::rules::shrinkers::ShrinkPressure;

use super::mglru::ShrinkGenerations;
use super::scan_control::{DEF_PRIORITY, ReclaimStat, SWAP_CLUSTER_MAX, ScanControl, Stepped};
use crate::base::shrink::Pressure;
use crate::compact::suitable::Suitable;
use crate::pagecache::lru::LruList;
use crate::vm::Vm;

/// Rounds of batches in one step, so that others run in between.
const BATCHES_A_STEP: u32 = 4;

/// A scan of a node at one priority.
#[derive(Clone, Debug)]
pub(super) struct ShrinkNode {
    node: usize,
    /// The lruvecs left to scan: one, or up to 4.7 one for each zone.
    vecs: Vec<usize>,
    scan: Option<LruvecScan>,
    /// The scan of generations, where the kernel has them.
    generations: Option<ShrinkGenerations>,
    /// Pages reclaimed before this round of the node.
    reclaimed_before: u64,
    /// Pages scanned before this round of the node.
    scanned_before: u64,
}

/// A scan of a lruvec (`shrink_lruvec`).
#[derive(Clone, Copy, Debug)]
struct LruvecScan {
    vec: usize,
    /// Pages of each list left to scan.
    left: [u64; 4],
    /// Pages of each list to scan in all.
    targets: [u64; 4],
    reclaimed: u64,
    scanned_before: u64,
    /// The amounts were adjusted when the target was reached, or are not to be.
    adjusted: bool,
}

impl ShrinkNode {
    pub(super) fn new<O: Observer>(vm: &Vm<'_, O>, node: usize, sc: &ScanControl) -> Self {
        Self {
            node,
            vecs: if sc.kswapd {
                vm.kswapd_lruvecs(node, sc)
            } else {
                vm.lruvecs_of(node, sc.highest)
            },
            scan: None,
            generations: None,
            reclaimed_before: sc.nr_reclaimed,
            scanned_before: sc.nr_scanned,
        }
    }

    /// Scans a few batches of the lists.
    pub(super) fn step<O: Observer>(
        &mut self,
        vm: &mut Vm<'_, O>,
        sc: &mut ScanControl,
    ) -> Stepped {
        if vm.lru().has_generations() {
            return self.step_generations(vm, sc);
        }
        if self.scan.is_none() {
            let Some(vec) = self.vecs.pop() else { return self.end_round(vm, sc) };
            if sc.has_zone_target(&vm.kernel.kswapd) {
                let high = vm.allocator.zones()[vec].watermarks().high;
                sc.nr_to_reclaim = high.max(SWAP_CLUSTER_MAX);
            }
            let left = vm.scan_amounts(self.node, vec, sc);
            // At the first priority a task scans the whole amount, however much it reclaims.
            let adjusted = !sc.kswapd && sc.priority == DEF_PRIORITY;
            let scanned_before = sc.nr_scanned;
            self.scan = Some(LruvecScan {
                vec,
                left,
                targets: left,
                reclaimed: 0,
                scanned_before,
                adjusted,
            });
        }
        for _ in 0..BATCHES_A_STEP {
            let Some(scan) = &mut self.scan else { break };
            if scan.batch(vm, sc) == Stepped::Done {
                if sc.has_zone_target(&vm.kernel.kswapd) {
                    sc.enough_scanned |= sc.nr_scanned - scan.scanned_before >= sc.nr_to_reclaim;
                    vm.end_kswapd_zone(self.node, scan.vec, sc);
                }
                self.scan = None;
            }
            // Before the next batch, which would meet the same pages.
            if sc.waits_at_once(&vm.kernel.kswapd) {
                break;
            }
        }
        Stepped::More
    }

    /// Evicts a few batches of the oldest generations; then runs the shrinkers. Who may not write or unmap pages does nothing
    /// (`lru_gen_shrink_node`).
    #[inline(never)]
    fn step_generations<O: Observer>(
        &mut self,
        vm: &mut Vm<'_, O>,
        sc: &mut ScanControl,
    ) -> Stepped {
        if let Some(scan) = &mut self.generations {
            if scan.step(vm, sc) == Stepped::More {
                return Stepped::More;
            }
            self.generations = None;
            vm.shrink_slab(self.node, self.pressure(vm, sc), sc.shrink_control());
            if sc.nr_reclaimed > self.reclaimed_before {
                vm.nodes[self.node].kswapd.reset_failures();
            }
            return Stepped::More;
        }
        match self.vecs.pop() {
            Some(vec) if sc.may_write => {
                self.generations = Some(ShrinkGenerations::new(vm, vec, sc));
                Stepped::More
            }
            _ => Stepped::Done,
        }
    }

    /// Returns how hard the shrinkers are asked.
    fn pressure<O: Observer>(&self, vm: &Vm<'_, O>, sc: &ScanControl) -> Pressure {
        if vm.kernel.shrinkers.shrink_pressure == ShrinkPressure::Priority {
            return Pressure::Priority(sc.priority);
        }
        let scanned = sc.nr_scanned - self.scanned_before;
        let eligible = vm.zones_of(self.node).map(|z| vm.lru().zone_reclaimable(z, true)).sum();
        Pressure::Scanned { scanned, eligible }
    }

    /// Ends a round of the node: runs the shrinkers, and starts another round if compaction needs more pages.
    fn end_round<O: Observer>(&mut self, vm: &mut Vm<'_, O>, sc: &mut ScanControl) -> Stepped {
        let scanned = sc.nr_scanned - self.scanned_before;
        let reclaimed = sc.nr_reclaimed - self.reclaimed_before;
        // Progress by anybody shows that the node is not hopeless.
        if reclaimed > 0 {
            vm.nodes[self.node].kswapd.reset_failures();
        }
        vm.shrink_slab(self.node, self.pressure(vm, sc), sc.shrink_control());
        vm.note_congestion(self.node, sc);
        if !vm.should_continue_reclaim(self.node, reclaimed, scanned, sc) {
            return Stepped::Done;
        }
        // The amounts are computed again, as the lists are shorter now.
        *self = Self::new(vm, self.node, sc);
        Stepped::More
    }
}

impl LruvecScan {
    /// Scans up to 32 pages of each list.
    fn batch<O: Observer>(&mut self, vm: &mut Vm<'_, O>, sc: &mut ScanControl) -> Stepped {
        let inactive_left = self.left[0] + self.left[2] + self.left[3];
        // As in `shrink_lruvec`, the active anonymous list alone does not keep the scan going.
        if inactive_left == 0 {
            vm.age_anon(self.vec, sc);
            vm.pagecache.lruvec(self.vec).snapshot_refaults();
            return Stepped::Done;
        }
        for list in LruList::EVICTABLE {
            let n = self.left[list as usize].min(SWAP_CLUSTER_MAX);
            if n > 0 {
                self.left[list as usize] -= n;
                let freed = vm.shrink_list(self.vec, list, n, sc);
                self.reclaimed += freed;
                sc.nr_reclaimed += freed;
            }
        }
        // Scanning on would reclaim more than is needed; stopping both would leave the lists out of proportion.
        if self.reclaimed >= sc.nr_to_reclaim && !self.adjusted {
            if sc.has_zone_target(&vm.kernel.kswapd) {
                self.keep_proportion();
            } else {
                self.stop_smaller_pair();
            }
        }
        Stepped::More
    }

    /// The target is reached: stops the smaller pair of lists, and lets the other go on to the same share of its
    /// amount. If only one pair was to be scanned, it stops.
    fn stop_smaller_pair(&mut self) {
        if self.left[0] + self.left[1] == 0 || self.left[2] + self.left[3] == 0 {
            self.left = [0; 4];
        } else {
            self.keep_proportion();
        }
    }

    /// The same for kswapd up to 3.15: if only one pair was to be scanned, it goes on to the end.
    fn keep_proportion(&mut self) {
        let (anon, file) = (self.left[0] + self.left[1], self.left[2] + self.left[3]);
        let (stopped, other) = if file > anon { (0, 2) } else { (2, 0) };
        let target = self.targets[stopped] + self.targets[stopped + 1] + 1;
        let percent = (self.left[stopped] + self.left[stopped + 1]) * 100 / target;
        self.left[stopped] = 0;
        self.left[stopped + 1] = 0;
        debug_assert!(!self.adjusted, "the amounts were adjusted before");
        for list in other..other + 2 {
            let scanned = self.targets[list] - self.left[list];
            let wanted = self.targets[list] * (100 - percent.min(100)) / 100;
            self.left[list] = wanted.saturating_sub(scanned);
        }
        self.adjusted = true;
    }
}

impl<O: Observer> Vm<'_, O> {
    /// Returns the lruvecs of a node with pages of zones up to `highest`, to be popped from the end: the highest comes
    /// first.
    pub(super) fn lruvecs_of(&self, node: usize, highest: ZoneKind) -> Vec<usize> {
        let zones = self.allocator.zones();
        let eligible =
            self.zones_of(node).filter(|&z| zones[z].kind() <= highest && zones[z].managed() > 0);
        let mut vecs: Vec<usize> = eligible.map(|z| self.lru().of_zone(z)).collect();
        vecs.dedup();
        vecs
    }

    /// Notes what kswapd met, and wakes the flusher if all pages were dirty.
    fn note_congestion(&mut self, node: usize, sc: &ScanControl) {
        let ReclaimStat { taken, unqueued_dirty, writeback, .. } = sc.stat;
        // kswapd of 3.11 writes them itself.
        let writes = sc.has_zone_target(&self.kernel.kswapd);
        if taken > 0 && unqueued_dirty == taken && !writes {
            self.pagecache.want_flusher();
        }
        if sc.kswapd && taken > 0 && writeback == taken {
            self.nodes[node].kswapd.set_writeback_congested(true);
        }
    }

    /// Returns whether a node is scanned again so that compaction has enough free pages.
    fn should_continue_reclaim(
        &self,
        node: usize,
        reclaimed: u64,
        scanned: u64,
        sc: &ScanControl,
    ) -> bool {
        // Another round would find no more than this one did.
        if !sc.for_compaction() || reclaimed == 0 || scanned == 0 {
            return false;
        }
        let mut inactive = 0;
        for vec in self.lruvecs_of(node, sc.highest) {
            let vec = &self.lru().vecs()[vec];
            inactive += vec.size(LruList::InactiveFile);
            if self.has_free_swap() {
                inactive += vec.size(LruList::InactiveAnon);
            }
        }
        let gap = self.kernel.compaction.gap(sc.order);
        let zones = self.allocator.zones();
        let suitable = self.zones_of(node).filter(|&z| zones[z].kind() <= sc.highest).any(|zone| {
            !matches!(self.compaction_suitable(zone, sc.order, sc.highest), Suitable::Skipped)
        });
        match self.kernel.reclaim.reclaim_until {
            ReclaimUntil::Gap => !suitable || (sc.nr_reclaimed < gap && inactive > gap),
            ReclaimUntil::Suitable => !suitable && inactive > gap,
        }
    }
}
