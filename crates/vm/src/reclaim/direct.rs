//! Direct reclaim: a task reclaims for its own request, in steps.
//!
//! Source: `try_to_free_pages`, `throttle_direct_reclaim`, `do_try_to_free_pages` (mm/vmscan.c).

use pageblock::alloc_flags::AllocFlags;
use pageblock::event::Observer;
use pageblock::frame::Order;
use pageblock::layout::ZoneKind;
use pageblock::request::{Gfp, Request};
use pageblock::slowpath::PAGE_ALLOC_COSTLY_ORDER;
use pageblock_kernel::rules::compaction::ReadyMark;

use super::scan_control::{ReclaimStat, SWAP_CLUSTER_MAX, ScanControl, Stepped};
use super::shrink_node::ShrinkNode;
use crate::base::daemon::TENTH_SECOND_NS;
use crate::compact::suitable::Suitable;
use crate::vm::Vm;

/// Nanoseconds that a throttled task waits before it checks again.
// Linux: kswapd wakes it.
const THROTTLE_NS: u64 = 1_000_000;
/// Nanoseconds that a task waits which reclaimed nothing while pages are written (a tick of HZ=250).
const JIFFY_NS: u64 = 4_000_000;
/// The most checks of a throttled task: a second in all (HZ).
const THROTTLE_MAX: u32 = 1000;

/// The result of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reclaimed {
    /// There is more to do.
    More,
    /// The task waits for at most this many nanoseconds, or until a write ends.
    Waits(u64),
    /// It is over; the number of pages reclaimed.
    Done(u64),
}

/// One direct reclaim.
#[derive(Clone, Debug)]
pub(crate) struct DirectReclaim {
    sc: ScanControl,
    /// The nodes that the request may use, nearest first.
    nodes: Vec<usize>,
    /// The index in `nodes` of the node that is scanned.
    at: usize,
    shrink: Option<ShrinkNode>,
    /// Zones of the node that is scanned which were asked before whether compaction could serve the request.
    asked: usize,
    /// Compaction could serve the request in some zone (`compaction_ready`).
    ready: bool,
    /// Times that the task was throttled.
    throttled: u32,
    /// Pages reclaimed at all priorities.
    total: u64,
    started: bool,
}

impl DirectReclaim {
    /// Returns a reclaim that has not started.
    pub(crate) fn new<O: Observer>(
        vm: &Vm<'_, O>,
        cpu: usize,
        request: &Request,
        order: Order,
    ) -> Self {
        let nodes = vm.nodes_for(cpu, request);
        let sc = ScanControl {
            may_swap: request.gfp.has(Gfp::IO),
            fs: request.gfp.has(Gfp::FS),
            ..ScanControl::new(cpu, order, request.gfp.highest_zone(), SWAP_CLUSTER_MAX)
        };
        let (asked, ready, throttled, total) = (0, false, 0, 0);
        Self { sc, nodes, at: 0, shrink: None, asked, ready, throttled, total, started: false }
    }

    /// Reclaims a little further.
    pub(crate) fn step<O: Observer>(&mut self, vm: &mut Vm<'_, O>) -> Reclaimed {
        if !self.started {
            // A throttled task does not count as a stall yet (`throttle_direct_reclaim` comes first).
            if self.is_throttled(vm) {
                self.throttled += 1;
                return Reclaimed::Waits(THROTTLE_NS);
            }
            self.started = true;
            vm.stat.allocstall += 1;
            vm.stalls.note_reclaim(self.sc.order, self.sc.highest);
        }
        if let Some(shrink) = &mut self.shrink {
            if shrink.step(vm, &mut self.sc) == Stepped::More {
                return Reclaimed::More;
            }
            self.shrink = None;
            let node = self.nodes[self.at];
            // The node was scanned for the first zone that was not ready; those below it may have become so.
            self.ready |= self.ready_zones(vm, node).iter().skip(self.asked).any(|&ready| ready);
            self.at += 1;
        }
        if let Some(&node) = self.nodes.get(self.at) {
            // Enough was reclaimed: the other nodes are not scanned.
            if self.sc.nr_reclaimed >= self.sc.nr_to_reclaim {
                self.at = self.nodes.len();
                return Reclaimed::More;
            }
            // The first zone that is not ready has the node scanned; those below it are asked after that.
            let zones = self.ready_zones(vm, node);
            let ready = zones.iter().take_while(|&&ready| ready).count();
            self.asked = ready + 1;
            self.ready |= ready > 0;
            if ready == zones.len() {
                self.at += 1;
            } else {
                self.shrink = Some(ShrinkNode::new(vm, node, &self.sc));
            }
            return Reclaimed::More;
        }
        self.end_priority(vm)
    }

    /// Ends a priority: sets the next one, or ends the reclaim.
    fn end_priority<O: Observer>(&mut self, vm: &Vm<'_, O>) -> Reclaimed {
        debug_assert!(self.sc.nr_reclaimed >= self.total, "reclaimed pages were lost");
        self.total = self.sc.nr_reclaimed;
        if self.total >= self.sc.nr_to_reclaim || self.sc.priority == 0 || self.ready {
            // Compaction can do the rest: that counts as progress.
            return Reclaimed::Done(self.total.max(u64::from(self.ready)));
        }
        let waits = self.sc.stat.immediate > 0
            || (self.sc.stat.taken > 0 && self.sc.stat.writeback == self.sc.stat.taken);
        debug_assert!(self.sc.priority > 0 && self.at == self.nodes.len());
        let stuck = self.sc.priority == 1
            && self.total == 0
            && vm.lru().has_generations()
            && self.nodes.last().is_some_and(|&node| vm.waits_for_writes(node));
        self.sc.priority -= 1;
        self.sc.stat = ReclaimStat::default();
        self.at = 0;
        // Pages under writeback would be met again at once.
        if waits {
            return Reclaimed::Waits(TENTH_SECOND_NS);
        }
        // Before the last priority a task without progress waits a tick for writes.
        if stuck {
            return Reclaimed::Waits(JIFFY_NS);
        }
        Reclaimed::More
    }

    /// Returns for each zone of a node, from the highest down, whether compaction could already serve a costly request
    /// there.
    // Up to 4.7 a zone's lists are scanned before the next zone is asked; here the node's are.
    fn ready_zones<O: Observer>(&self, vm: &Vm<'_, O>, node: usize) -> Vec<bool> {
        let ScanControl { order, highest, .. } = self.sc;
        let zones = vm.allocator.zones();
        let costly = order > PAGE_ALLOC_COSTLY_ORDER;
        let mut ready: Vec<bool> = vm
            .zones_of(node)
            .filter(|&z| zones[z].kind() <= highest && zones[z].managed() > 0)
            .map(|z| costly && vm.compaction_ready(z, order, highest))
            .collect();
        ready.reverse();
        ready
    }

    /// Returns whether half of the reserves are used up, so that the task waits for kswapd (`throttle_direct_reclaim`).
    fn is_throttled<O: Observer>(&mut self, vm: &mut Vm<'_, O>) -> bool {
        let Some(&node) = self.nodes.first() else { return false };
        let zones = vm.allocator.zones();
        let (mut free, mut reserve) = (0, 0);
        for zone in vm.zones_of(node).filter(|&z| zones[z].kind() <= ZoneKind::Normal) {
            // A zone without reclaimable pages would throttle the task forever.
            if vm.lru().zone_reclaimable(zone, true) > 0 {
                free += zones[zone].free_pages();
                reserve += zones[zone].watermarks().min;
            }
        }
        let short = reserve > 0 && free <= reserve / 2;
        let hopeless = vm.nodes[node].kswapd.is_hopeless(&vm.kernel.kswapd);
        // A hopeless kswapd would never end the wait.
        if !short || hopeless || self.throttled >= THROTTLE_MAX {
            return false;
        }
        if self.throttled == 0 {
            vm.stat.pgscan_direct_throttle += 1;
        }
        let kswapd = &mut vm.nodes[node].kswapd;
        kswapd.woken |= !kswapd.is_running();
        true
    }
}

impl<O: Observer> Vm<'_, O> {
    /// Returns whether more than half of the pages of a node that could be reclaimed are dirty or being written
    /// (`skip_throttle_noprogress`). Lists of active and inactive pages say more of what they met.
    fn waits_for_writes(&self, node: usize) -> bool {
        let reclaimable: u64 =
            self.zones_of(node).map(|zone| self.lru().zone_reclaimable(zone, true)).sum();
        2 * self.pagecache.pending_writes(node) > reclaimable
            && !self.nodes[node].kswapd.is_hopeless(&self.kernel.kswapd)
    }

    /// Returns whether a zone needs no more reclaim for a costly order: it has a block, or compaction could run with
    /// pages to spare.
    fn compaction_ready(&self, zone: usize, order: Order, highest: ZoneKind) -> bool {
        match self.compaction_suitable(zone, order, highest) {
            Suitable::Success => true,
            Suitable::Skipped => false,
            Suitable::Continue => {
                let entry = &self.allocator.zones()[zone];
                let high = entry.boost() + entry.watermarks().high;
                match self.kernel.compaction.ready_mark {
                    ReadyMark::High => {
                        let mark = high + self.kernel.compaction.gap(order);
                        entry.watermark_ok(0, mark, highest, AllocFlags(0))
                    }
                    ReadyMark::HighAndDistance => {
                        self.compaction_suitable_above(zone, order, high, highest)
                            == Suitable::Continue
                    }
                }
            }
        }
    }
}
