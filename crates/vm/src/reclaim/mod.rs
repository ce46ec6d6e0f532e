//! Reclaim: from the lists of a node to free pages, in steps.
//!
//! Source: `shrink_node`, `shrink_lruvec` (mm/vmscan.c).

mod amounts;
pub(crate) mod direct;
pub mod kswapd;
mod lists;
pub mod node_reclaim;
mod oom;
mod page_out;

use pageblock::alloc_flags::{AllocFlags, Watermark};
use pageblock::event::Observer;
use pageblock::frame::Order;
use pageblock::layout::ZoneKind;
use pageblock_kernel::rules::kswapd::{
    CongestionBy, Kswapd as KswapdRules, KswapdOrder, KswapdTarget,
};
use pageblock_kernel::rules::reclaim::LruLists;
use pageblock_kernel::rules::shrinkers::ShrinkPressure;

use crate::base::shrink::{Pressure, ShrinkControl};
use crate::compact::suitable::Suitable;
use crate::pagecache::lru::LruList;
use crate::vm::Vm;
use pageblock::slowpath::PAGE_ALLOC_COSTLY_ORDER;

/// Where reclaim starts: the 4096th part of each list.
pub(crate) const DEF_PRIORITY: u32 = 12;
/// Pages taken off a list at a time, and what a task reclaims (`SWAP_CLUSTER_MAX`).
pub(crate) const SWAP_CLUSTER_MAX: u64 = 32;
/// Rounds of batches in one step, so that others run in between.
const BATCHES_A_STEP: u32 = 4;

/// Free pages beyond the block itself that compaction needs (`compact_gap`).
pub(crate) const fn compact_gap(order: Order) -> u64 {
    2 << order
}

/// What a reclaimer wants and has found (`struct scan_control`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScanControl {
    pub(crate) cpu: usize,
    pub(crate) order: Order,
    pub(crate) priority: u32,
    pub(crate) nr_to_reclaim: u64,
    /// The highest zone that helps the request.
    pub(crate) highest: ZoneKind,
    pub(crate) kswapd: bool,
    pub(crate) may_swap: bool,
    pub(crate) fs: bool,
    pub(crate) nr_scanned: u64,
    pub(crate) nr_reclaimed: u64,
    /// In some zone enough was scanned at this priority (kswapd of 3.11 to 4.7).
    pub(crate) enough: bool,
    pub(crate) seen: Seen,
}

/// What inactive pages were found to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) taken: u64,
    pub(crate) unqueued_dirty: u64,
    pub(crate) writeback: u64,
    /// Met again although marked for reclaim as soon as they are written.
    pub(crate) immediate: u64,
    /// A batch was nothing but dirty pages (3.11 to 4.7).
    pub(crate) all_dirty: bool,
}

impl ScanControl {
    /// Whether kswapd waits after the batch in which it meets a page again that it waits for, or nothing but dirty
    /// ones, not after the node.
    pub(crate) fn waits_at_once(&self, rules: &KswapdRules) -> bool {
        let waits = self.seen.immediate > 0 || self.seen.all_dirty;
        self.kswapd && waits && rules.congestion_by == CongestionBy::Batch
    }

    /// Whether what kswapd reclaims has a bound for each zone.
    fn is_bounded_by_zone(&self, rules: &KswapdRules) -> bool {
        self.kswapd && rules.kswapd_target == KswapdTarget::ZoneHigh
    }

    pub(crate) fn by(&self) -> ShrinkControl {
        ShrinkControl { cpu: self.cpu, kswapd: self.kswapd, fs: self.fs }
    }

    /// Compaction could go on where this much is reclaimed (`in_reclaim_compaction`).
    fn for_compaction(&self) -> bool {
        self.order > 0 && (self.order > PAGE_ALLOC_COSTLY_ORDER || self.priority < DEF_PRIORITY - 2)
    }
}

/// Whether a stepwise job is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stepped {
    More,
    Done,
}

/// One node being scanned at one priority.
#[derive(Clone, Debug)]
pub(crate) struct ShrinkNode {
    node: usize,
    /// Its lruvecs still to do: one, or up to 4.7 one for each zone.
    vecs: Vec<usize>,
    scan: Option<LruvecScan>,
    /// Reclaimed and scanned before this round of the node.
    reclaimed_before: u64,
    scanned_before: u64,
}

/// One lruvec being scanned (`shrink_lruvec`).
#[derive(Clone, Copy, Debug)]
struct LruvecScan {
    vec: usize,
    left: [u64; 4],
    targets: [u64; 4],
    reclaimed: u64,
    scanned_before: u64,
    adjusted: bool,
}

impl ShrinkNode {
    pub(crate) fn new<O: Observer>(vm: &Vm<'_, O>, node: usize, sc: &ScanControl) -> Self {
        Self {
            node,
            vecs: if sc.kswapd {
                vm.kswapd_lruvecs(node, sc)
            } else {
                vm.lruvecs_of(node, sc.highest)
            },
            scan: None,
            reclaimed_before: sc.nr_reclaimed,
            scanned_before: sc.nr_scanned,
        }
    }

    /// Scans a little further.
    pub(crate) fn step<O: Observer>(
        &mut self,
        vm: &mut Vm<'_, O>,
        sc: &mut ScanControl,
    ) -> Stepped {
        if self.scan.is_none() {
            let Some(vec) = self.vecs.pop() else { return self.end_round(vm, sc) };
            if sc.is_bounded_by_zone(&vm.kernel.kswapd) {
                let high = vm.allocator.zones()[vec].watermarks().high;
                sc.nr_to_reclaim = high.max(SWAP_CLUSTER_MAX);
            }
            let left = vm.scan_amounts(self.node, vec, sc);
            // A task at first scans all that it was told to, whatever it finds.
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
                if sc.is_bounded_by_zone(&vm.kernel.kswapd) {
                    sc.enough |= sc.nr_scanned - scan.scanned_before >= sc.nr_to_reclaim;
                    vm.end_zone(self.node, scan.vec, sc);
                }
                self.scan = None;
            }
            if sc.waits_at_once(&vm.kernel.kswapd) {
                break;
            }
        }
        Stepped::More
    }

    /// The node was scanned once: slab objects follow, and perhaps another round for compaction.
    fn end_round<O: Observer>(&mut self, vm: &mut Vm<'_, O>, sc: &mut ScanControl) -> Stepped {
        let scanned = sc.nr_scanned - self.scanned_before;
        let reclaimed = sc.nr_reclaimed - self.reclaimed_before;
        if reclaimed > 0 {
            vm.nodes[self.node].kswapd.failures = 0;
        }
        let pressure = if vm.kernel.shrinkers.shrink_pressure == ShrinkPressure::Priority {
            Pressure::Priority(sc.priority)
        } else {
            let eligible = vm.zones_of(self.node).map(|z| vm.lru.zone_reclaimable(z, true)).sum();
            Pressure::Scanned { scanned, eligible }
        };
        vm.shrink_slab(self.node, pressure, sc.by());
        vm.note_congestion(self.node, sc);
        if !vm.should_continue_reclaim(self.node, reclaimed, scanned, sc) {
            return Stepped::Done;
        }
        *self = Self::new(vm, self.node, sc);
        Stepped::More
    }
}

impl LruvecScan {
    /// Scans up to 32 pages of each list.
    fn batch<O: Observer>(&mut self, vm: &mut Vm<'_, O>, sc: &mut ScanControl) -> Stepped {
        let inactive_left = self.left[0] + self.left[2] + self.left[3];
        if inactive_left == 0 {
            vm.age_anon(self.vec, sc);
            vm.note_activations(self.vec);
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
        if self.reclaimed >= sc.nr_to_reclaim && !self.adjusted {
            if sc.is_bounded_by_zone(&vm.kernel.kswapd) {
                self.keep_proportion();
            } else {
                self.stop_smaller_pair();
            }
        }
        Stepped::More
    }

    /// The target is reached: the smaller pair of lists stops, the other goes on to the same share of
    /// what it was told to. Where only one pair was told to scan, nothing goes on.
    fn stop_smaller_pair(&mut self) {
        if self.left[0] + self.left[1] == 0 || self.left[2] + self.left[3] == 0 {
            self.left = [0; 4];
        } else {
            self.keep_proportion();
        }
    }

    /// The same up to 3.15 for kswapd: where only one pair was told to scan, it goes on to the end.
    fn keep_proportion(&mut self) {
        let (anon, file) = (self.left[0] + self.left[1], self.left[2] + self.left[3]);
        let (stopped, other) = if file > anon { (0, 2) } else { (2, 0) };
        let target = self.targets[stopped] + self.targets[stopped + 1] + 1;
        let percent = (self.left[stopped] + self.left[stopped + 1]) * 100 / target;
        self.left[stopped] = 0;
        self.left[stopped + 1] = 0;
        for list in other..other + 2 {
            let scanned = self.targets[list] - self.left[list];
            let wanted = self.targets[list] * (100 - percent.min(100)) / 100;
            self.left[list] = wanted.saturating_sub(scanned);
        }
        self.adjusted = true;
    }
}

impl<O: Observer> Vm<'_, O> {
    /// The lruvecs of a node that hold pages of zones up to one kind; the highest is last, as the
    /// first to be popped.
    fn lruvecs_of(&self, node: usize, highest: ZoneKind) -> Vec<usize> {
        let zones = self.allocator.zones();
        let eligible =
            self.zones_of(node).filter(|&z| zones[z].kind() <= highest && zones[z].managed() > 0);
        let mut vecs: Vec<usize> = eligible.map(|z| self.lru.of_zone(z)).collect();
        vecs.dedup();
        vecs
    }

    /// kswapd of 3.11 to 4.7 is through with a zone at one priority (`kswapd_shrink_zone`).
    fn end_zone(&mut self, node: usize, zone: usize, sc: &ScanControl) {
        self.nodes[node].writeback_congested = false;
        if self.zone_meets(zone, sc.order, Watermark::High, ZoneKind::Dma) {
            self.lru.vec(zone).tail_dirty = false;
        }
    }

    /// The lruvecs that kswapd scans, the first to be scanned last. With lists for each zone these are only
    /// the ones of zones that are short.
    fn kswapd_lruvecs(&self, node: usize, sc: &ScanControl) -> Vec<usize> {
        if self.kernel.reclaim.lru == LruLists::Node {
            return self.lruvecs_of(node, sc.highest);
        }
        let short = self.zones_to_balance(node, sc).filter(|&(_, short)| short);
        let mut vecs: Vec<usize> = short.map(|(zone, _)| self.lru.of_zone(zone)).collect();
        // The lowest zone is scanned first.
        vecs.reverse();
        vecs
    }

    /// Whether a zone that kswapd comes to needs no reclaim.
    pub(crate) fn has_balanced_zone(&self, node: usize, sc: &ScanControl) -> bool {
        self.zones_to_balance(node, sc).any(|(_, short)| !short)
    }

    /// The zones of a node up to the highest that has not its high watermark, and whether each is short: a
    /// zone gets a little more than that mark (`balance_gap`).
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

    /// The order for which kswapd reclaims (`testorder`).
    fn order_to_reclaim(&self, zone: usize, order: Order) -> Order {
        let single = self.kernel.kswapd.kswapd_order == KswapdOrder::SinglePages;
        if single && !self.waits_for_compaction(zone, order) { 0 } else { order }
    }

    /// Remembers what kswapd met, and has the flusher woken where all it met was dirty.
    fn note_congestion(&mut self, node: usize, sc: &ScanControl) {
        let Seen { taken, unqueued_dirty, writeback, .. } = sc.seen;
        if taken > 0 && unqueued_dirty == taken {
            // kswapd of 3.11 writes them itself.
            self.flusher_wanted |= !sc.is_bounded_by_zone(&self.kernel.kswapd);
            self.nodes[node].dirty_congested |= sc.kswapd;
        }
        if sc.kswapd && taken > 0 && writeback == taken {
            self.nodes[node].writeback_congested = true;
        }
    }

    /// Whether a node is scanned again so that compaction has enough free pages.
    fn should_continue_reclaim(
        &self,
        node: usize,
        reclaimed: u64,
        scanned: u64,
        sc: &ScanControl,
    ) -> bool {
        if !sc.for_compaction() || reclaimed == 0 || scanned == 0 {
            return false;
        }
        let mut inactive = 0;
        for vec in self.lruvecs_of(node, sc.highest) {
            let vec = &self.lru.vecs()[vec];
            inactive += vec.size(LruList::InactiveFile);
            if self.swap.free_places() > 0 {
                inactive += vec.size(LruList::InactiveAnon);
            }
        }
        let gap = compact_gap(sc.order);
        if sc.nr_reclaimed < gap && inactive > gap {
            return true;
        }
        let zones = self.allocator.zones();
        let settled = self.zones_of(node).filter(|&z| zones[z].kind() <= sc.highest).any(|zone| {
            !matches!(self.compaction_suitable(zone, sc.order, sc.highest), Suitable::Skipped)
        });
        !settled && inactive > gap
    }
}
