//! Reclaim of the local node before another node's memory is used (`vm.zone_reclaim_mode`).
//!
//! A walk over zones cannot wait, so this comes before it: [`NodeReclaim::before`] returns the reclaim that the walk
//! would call for, which the caller steps to its end first.
//!
//! Source: `node_reclaim`, `__node_reclaim` (mm/vmscan.c; `zone_reclaim` up to 4.7).

use pageblock::alloc_flags::{AllocFlags, Watermark};
use pageblock::event::Observer;
use pageblock::frame::pages;
use pageblock::ids::{CpuId, ZoneIndex};
use pageblock::request::{Gfp, Request};

use super::scan_control::{SWAP_CLUSTER_MAX, ScanControl, Stepped};
use super::shrink_node::ShrinkNode;
use crate::vm::Vm;

/// Reclaim is on.
pub const RECLAIM_ZONE: u32 = 1;
/// It writes dirty pages.
pub const RECLAIM_WRITE: u32 = 2;
/// It unmaps pages, and so may swap.
pub const RECLAIM_UNMAP: u32 = 4;

/// The priority at which it starts (`NODE_RECLAIM_PRIORITY`): the sixteenth part of each list.
const PRIORITY: u32 = 4;

/// One reclaim of a node.
#[derive(Clone, Debug)]
pub struct NodeReclaim {
    node: usize,
    sc: ScanControl,
    wanted: u64,
    shrink: Option<ShrinkNode>,
}

impl NodeReclaim {
    /// Returns the reclaim that a request's walk would do on the CPU's own node: `None` unless the node is below the
    /// low watermark and has enough reclaimable pages.
    // Linux: also on nodes without a CPU, and again in each walk of the slow path.
    #[must_use]
    pub fn before<O: Observer>(vm: &Vm<'_, O>, cpu: usize, request: &Request) -> Option<Self> {
        let mode = vm.kernel.allocator.zone_reclaim_mode;
        if mode == 0 || vm.nodes.len() < 2 || !request.gfp.has(Gfp::DIRECT_RECLAIM) {
            return None;
        }
        let highest = request.gfp.highest_zone();
        let zones = vm.allocator.zones();
        let mut walk = vm.allocator.zones_for(CpuId(cpu), request).ok()?.map(ZoneIndex::index);
        let first = walk.next()?;
        let node = vm.nodes.of_zone(first);
        let local = |zone: &usize| vm.nodes.of_zone(*zone) == node;
        let is_ok = |zone: usize| {
            let mark = zones[zone].watermark(Watermark::Low);
            zones[zone].watermark_ok(request.order, mark, highest, AllocFlags(0))
        };
        let served = std::iter::once(first).chain(walk.filter(local)).any(is_ok);
        // A walk that succeeds on this node does not reclaim from it.
        if served || !vm.is_worth_reclaiming(node, mode) {
            return None;
        }
        let wanted = pages(request.order);
        let sc = ScanControl {
            priority: PRIORITY,
            may_swap: mode & RECLAIM_UNMAP != 0 && request.gfp.has(Gfp::IO),
            may_write: mode & RECLAIM_WRITE != 0 && mode & RECLAIM_UNMAP != 0,
            fs: request.gfp.has(Gfp::FS),
            ..ScanControl::new(cpu, request.order, highest, wanted.max(SWAP_CLUSTER_MAX))
        };
        Some(Self { node, sc, wanted, shrink: None })
    }

    /// Runs one step. Returns whether there is more to do.
    pub fn step<O: Observer>(&mut self, vm: &mut Vm<'_, O>) -> bool {
        let shrink = self.shrink.get_or_insert_with(|| ShrinkNode::new(vm, self.node, &self.sc));
        if shrink.step(vm, &mut self.sc) == Stepped::More {
            return true;
        }
        self.shrink = None;
        let enough = self.sc.nr_reclaimed >= self.wanted;
        if enough || self.sc.priority == 0 {
            if enough {
                vm.stat.zone_reclaim_success += 1;
            } else {
                vm.stat.zone_reclaim_failed += 1;
            }
            return false;
        }
        self.sc.priority -= 1;
        true
    }
}

impl<O: Observer> Vm<'_, O> {
    /// Returns whether more than `min_unmapped_ratio` (1 %) of a node is reclaimable page cache
    /// (`node_pagecache_reclaimable`).
    // Linux: or more than `min_slab_ratio` (5 %) is reclaimable slab.
    fn is_worth_reclaiming(&self, node: usize, mode: u32) -> bool {
        let zones = self.allocator.zones();
        let managed: u64 = self.zones_of(node).map(|zone| zones[zone].managed()).sum();
        let reclaimable = |zone: usize| self.lru().zone_reclaimable(zone, false);
        let mut cache: u64 = self.zones_of(node).map(reclaimable).sum();
        if mode & RECLAIM_WRITE == 0 {
            cache = cache.saturating_sub(self.pagecache.nr_dirty(node));
        }
        cache > managed / 100
    }
}
