//! A slow, obvious model of the allocator: what `docs/linux` says, on ordinary collections.
//! Nothing is counted twice: every number that can be derived from the lists is.

mod fallback;
mod packing;
mod pcp;
mod request;
mod zone;

use std::collections::BTreeSet;

use pageblock::alloc::Allocator;
use pageblock::event::Event;
use pageblock::frame::{Order, Pfn};
use pageblock::ids::{CpuId, NodeId, ZoneIndex};
use pageblock::layout::ZoneKind;
use pageblock::policy::Policy;
use pageblock::zone::Geometry;

pub(crate) use pcp::Cache;
pub(crate) use zone::{Block, ModelZone};

/// What the model reports.
#[derive(Default)]
pub(crate) struct Out {
    pub(crate) events: Vec<Event>,
    pub(crate) woken: Vec<(u8, ZoneKind, Order)>,
}

/// The whole machine.
pub(crate) struct Model {
    pub(crate) policy: Policy,
    pub(crate) geometry: Geometry,
    pub(crate) zones: Vec<ModelZone>,
    /// By zone and CPU.
    pub(crate) caches: Vec<Vec<Cache>>,
    pub(crate) cpu_nodes: Vec<u8>,
    pub(crate) kswapd_running: BTreeSet<u8>,
    pub(crate) mobility_off: bool,
    pub(crate) out: Out,
}

impl Model {
    /// The model of an allocator that nothing was released to. Watermarks, reserves and sizes of
    /// CPU lists are taken over; they are tested elsewhere.
    pub(crate) fn of(allocator: &Allocator<'_>, cpu_nodes: &[NodeId]) -> Self {
        let policy = *allocator.policy();
        let geometry = allocator.geometry();
        let total: u64 = allocator.zones().iter().map(pageblock::zone::Zone::managed).sum();
        let mobility_off = total < 4 << geometry.pageblock_order;
        let zone = |z| ModelZone::of(z, policy, geometry, mobility_off);
        let caches = (0..allocator.zones().len()).map(|at| {
            let of_cpu = |cpu| {
                Cache::new(policy, geometry, allocator.cache(ZoneIndex::new(at), cpu).unwrap())
            };
            CpuId::up_to(cpu_nodes.len()).map(of_cpu).collect()
        });
        Self {
            policy,
            geometry,
            zones: allocator.zones().iter().map(zone).collect(),
            caches: caches.collect(),
            cpu_nodes: cpu_nodes.iter().map(|node| node.0).collect(),
            kswapd_running: BTreeSet::new(),
            mobility_off,
            out: Out::default(),
        }
    }

    pub(crate) fn zone_of(&self, pfn: u64) -> usize {
        self.zones.iter().position(|z| (z.start..z.end).contains(&pfn)).unwrap()
    }

    /// Releases frames of one zone that lie in blocks of one type.
    pub(crate) fn release(&mut self, start: u64, end: u64) {
        let at = self.zone_of(start);
        let mut pfn = start;
        while pfn < end {
            let fits = |o: &Order| pfn % (1 << o) == 0 && pfn + (1 << o) <= end;
            let order = (0..=self.geometry.max_order).rev().find(fits).unwrap();
            let tail = self.policy.untouched_to == pageblock::policy::UntouchedTo::Tail;
            self.zones[at].free(pfn, order, tail, &mut self.out);
            pfn += 1 << order;
        }
    }

    pub(crate) fn free(&mut self, cpu: usize, pfn: u64, order: Order) {
        let at = self.zone_of(pfn);
        let zone = &mut self.zones[at];
        assert!(
            matches!(zone.blocks.remove(&pfn), Some(Block::Used { order: o, .. }) if o == order)
        );
        self.out.events.push(Event::PageFree { pfn: Pfn(pfn), order });
        let cache = &mut self.caches[at][cpu];
        let mt = zone.block_type(pfn);
        let listed = mt != pageblock::mobility::Migratetype::Isolate;
        match cache.index(order, mt).filter(|_| listed) {
            Some(_) if zone.is_emptying(pfn, order) => {
                cache.leave(zone, pfn, order, mt, &mut self.out);
            }
            Some(index) => cache.free(zone, pfn, order, mt, index, &mut self.out),
            None => zone.free(pfn, order, false, &mut self.out),
        }
    }

    /// The pages that a CPU has on lists, and those that it collected.
    pub(crate) fn held(&self, cpu: usize) -> i64 {
        let of_zone = |(zone, caches): (&ModelZone, &Vec<Cache>)| {
            caches[cpu].pages() + caches[cpu].leaving_pages(zone)
        };
        self.zones.iter().zip(&self.caches).map(of_zone).sum()
    }

    pub(crate) fn drain_cpu(&mut self, cpu: usize) {
        for (zone, caches) in self.zones.iter_mut().zip(&mut self.caches) {
            caches[cpu].drain_all(zone, &mut self.out);
        }
    }

    pub(crate) fn tick(&mut self, cpu: usize) {
        for (zone, caches) in self.zones.iter_mut().zip(&mut self.caches) {
            caches[cpu].tick(zone, &mut self.out);
        }
    }
}
