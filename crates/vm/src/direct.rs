//! Direct reclaim: what a task does itself for its block, in steps.
//!
//! Source: `try_to_free_pages`, `throttle_direct_reclaim`, `do_try_to_free_pages` (mm/vmscan.c).

use pageblock::alloc_flags::AllocFlags;
use pageblock::event::Observer;
use pageblock::frame::Order;
use pageblock::ids::CpuId;
use pageblock::layout::ZoneKind;
use pageblock::request::{Gfp, Request};

use crate::compact::suitable::Suitable;
use crate::reclaim::{DEF_PRIORITY, SWAP_CLUSTER_MAX, ScanControl, Seen, ShrinkNode, Stepped};
use crate::slowpath_orders::PAGE_ALLOC_COSTLY_ORDER;
use crate::vm::Vm;

/// How long a throttled task waits before it looks again, in nanoseconds.
// Linux: it is woken by kswapd.
const THROTTLE_NS: u64 = 1_000_000;
/// How often a task without FS looks: a second in all (HZ).
const THROTTLE_MAX: u32 = 1000;

/// What became of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reclaimed {
    /// More to do.
    More,
    /// The task waits, in nanoseconds, or until a write ends.
    Waits(u64),
    /// Over: so many pages.
    Done(u64),
}

/// One direct reclaim.
#[derive(Clone, Debug)]
pub(crate) struct DirectReclaim {
    sc: ScanControl,
    /// The nodes that the request may use, nearest first.
    nodes: Vec<usize>,
    /// The node being scanned, as a place in `nodes`.
    at: usize,
    shrink: Option<ShrinkNode>,
    throttled: u32,
    /// Reclaimed at all priorities.
    total: u64,
    started: bool,
}

impl DirectReclaim {
    pub(crate) fn new<O: Observer>(
        vm: &Vm<'_, O>,
        cpu: usize,
        request: &Request,
        order: Order,
    ) -> Self {
        let mut nodes: Vec<usize> = Vec::new();
        if let Ok(zones) = vm.allocator.zones_for(CpuId(cpu), request) {
            for zone in zones {
                let node = usize::from(vm.node_of_zone[zone.index()]);
                if !nodes.contains(&node) {
                    nodes.push(node);
                }
            }
        }
        let sc = ScanControl {
            cpu,
            order,
            priority: DEF_PRIORITY,
            nr_to_reclaim: SWAP_CLUSTER_MAX,
            highest: request.gfp.highest_zone(),
            kswapd: false,
            may_swap: request.gfp.has(Gfp::IO),
            fs: request.gfp.has(Gfp::FS),
            nr_scanned: 0,
            nr_reclaimed: 0,
            enough: false,
            seen: Seen::default(),
        };
        Self { sc, nodes, at: 0, shrink: None, throttled: 0, total: 0, started: false }
    }

    pub(crate) fn step<O: Observer>(&mut self, vm: &mut Vm<'_, O>) -> Reclaimed {
        if !self.started {
            if self.must_wait(vm) {
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
            self.at += 1;
        }
        if let Some(&node) = self.nodes.get(self.at) {
            if self.sc.nr_reclaimed >= self.sc.nr_to_reclaim {
                self.at = self.nodes.len();
            } else if self.ready_zones(vm, node).1 {
                self.at += 1;
            } else {
                self.shrink = Some(ShrinkNode::new(vm, node, &self.sc));
            }
            return Reclaimed::More;
        }
        self.end_priority(vm)
    }

    /// All nodes were scanned at one priority.
    fn end_priority<O: Observer>(&mut self, vm: &mut Vm<'_, O>) -> Reclaimed {
        self.total = self.sc.nr_reclaimed;
        let ready = self.nodes.iter().any(|&node| self.ready_zones(vm, node).0);
        if self.total >= self.sc.nr_to_reclaim || self.sc.priority == 0 || ready {
            // Compaction may do what is left: that counts as progress.
            return Reclaimed::Done(self.total.max(u64::from(ready)));
        }
        let waits = self.sc.seen.immediate > 0
            || (self.sc.seen.taken > 0 && self.sc.seen.writeback == self.sc.seen.taken);
        self.sc.priority -= 1;
        self.sc.seen = Seen::default();
        self.at = 0;
        if waits {
            return Reclaimed::Waits(crate::kswapd::TENTH_SECOND_NS);
        }
        Reclaimed::More
    }

    /// Whether compaction could serve a costly request already in some zone of a node, and in all of
    /// them (`compaction_ready`): as long as it cannot in one, the node is reclaimed from.
    fn ready_zones<O: Observer>(&self, vm: &Vm<'_, O>, node: usize) -> (bool, bool) {
        let ScanControl { order, highest, .. } = self.sc;
        if order <= PAGE_ALLOC_COSTLY_ORDER {
            return (false, false);
        }
        let zones = vm.allocator.zones();
        let ready = vm
            .zones_of(node)
            .filter(|&z| zones[z].kind() <= highest && zones[z].managed() > 0)
            .map(|z| vm.compaction_ready(z, order, highest));
        ready.fold((false, true), |(any, all), ready| (any || ready, all && ready))
    }

    /// The reserves are half used up: kswapd must catch up first.
    fn must_wait<O: Observer>(&mut self, vm: &mut Vm<'_, O>) -> bool {
        let Some(&node) = self.nodes.first() else { return false };
        let zones = vm.allocator.zones();
        let (mut free, mut reserve) = (0, 0);
        for zone in vm.zones_of(node).filter(|&z| zones[z].kind() <= ZoneKind::Normal) {
            // A zone without anything to reclaim would never get better.
            if vm.lru.zone_reclaimable(zone, true) > 0 {
                free += zones[zone].free_pages();
                reserve += zones[zone].watermarks().min;
            }
        }
        let short = reserve > 0 && free <= reserve / 2;
        let hopeless = vm.nodes[node].kswapd.is_hopeless();
        if !short || hopeless || self.throttled >= THROTTLE_MAX {
            return false;
        }
        if self.throttled == 0 {
            vm.stat.pgscan_direct_throttle += 1;
        }
        vm.nodes[node].kswapd.woken = true;
        true
    }
}

impl<O: Observer> Vm<'_, O> {
    /// Whether a zone needs no more reclaim for a costly order: it has the block, or compaction could
    /// run with pages to spare.
    pub(crate) fn compaction_ready(&self, zone: usize, order: Order, highest: ZoneKind) -> bool {
        match self.compaction_suitable(zone, order, highest) {
            Suitable::Success => true,
            Suitable::Skipped => false,
            Suitable::Continue => {
                let zone = &self.allocator.zones()[zone];
                let mark =
                    zone.boost() + zone.watermarks().high + crate::reclaim::compact_gap(order);
                zone.watermark_ok(0, mark, highest, AllocFlags(0))
            }
        }
    }
}
