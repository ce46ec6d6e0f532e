//! The allocator and the model side by side: the same calls, frame for frame and event for event.
//!
//! Every case switches whole kinds of calls off at random, so that states are reached which a fair
//! mix never comes to. `PROPTEST_CASES` sets the number of cases.

use std::collections::BTreeMap;

use pageblock::FrameState;
use pageblock::alloc::{AllocError, Allocator};
use pageblock::capture::CaptureSlot;
use pageblock::frame::{Order, Pfn};
use pageblock::ids::{CpuId, ListIndex, NodeId, ZoneIndex};
use pageblock::mobility::Migratetype;
use pageblock::policy::{Fair, Placement, Policy};
use pageblock::preset::find;
use pageblock::request::{Gfp, Request};
use pageblock::reserve::Unreserve;
use pageblock::setup::Setup;
use pageblock::zone::{Geometry, Zone};
use proptest::prelude::*;

mod cases;

use cases::{GFPS, Layout, Op, attempt, layouts, ops, policies};

use crate::machine::{Log, lists, table_memory};
use crate::model::{Block, Model};

/// Both, and the blocks in use.
struct Pair<'a, 'm> {
    allocator: &'a mut Allocator<'m>,
    model: Model,
    log: Log,
    used: Vec<(u64, Order)>,
}

impl Pair<'_, '_> {
    fn step(&mut self, op: &Op) {
        let zones = self.model.zones.len();
        match *op {
            Op::Alloc { cpu, order, gfp, node, flags } => {
                self.alloc(cpu, order, GFPS[usize::from(gfp)], node, flags);
            }
            Op::Free { cpu, which } => self.free(cpu, which),
            Op::FreeMany { cpu, which, count } => (0..count).for_each(|_| self.free(cpu, which)),
            Op::AllocMany { cpu, order, gfp, count } => {
                let gfp = GFPS[usize::from(gfp)];
                let before = self.used.len();
                for n in 1..=count {
                    self.alloc(cpu, order, gfp, None, 0);
                    if self.used.len() < before + n {
                        break;
                    }
                }
            }
            Op::FreeRow { cpu, which, count, down } => self.free_row(cpu, which, (count, down)),
            Op::Drain { cpu } => {
                self.allocator.drain_cpu(CpuId(cpu), &mut self.log).unwrap();
                self.model.drain_cpu(cpu);
            }
            Op::Tick { cpu } => {
                self.allocator.vmstat_tick(CpuId(cpu), &mut self.log).unwrap();
                self.model.tick(cpu);
            }
            Op::Isolate { frame, on, to } => self.isolate(frame, on, to),
            Op::Unreserve { zone, to, all } if zone < zones => {
                let force = if all { Unreserve::All } else { Unreserve::KeepOne };
                let (real, _) =
                    self.allocator.zone_and_cache(ZoneIndex::new(zone), CpuId(0)).unwrap();
                let did = real.unreserve_highatomic(to, force);
                assert_eq!(did, self.model.zones[zone].unreserve_highatomic(to, all));
            }
            Op::Kswapd { node, running } => {
                self.allocator.set_kswapd_running(NodeId(node), running);
                let nodes = &mut self.model.kswapd_running;
                let _ = if running { nodes.insert(node) } else { nodes.remove(&node) };
                for zone in self.model.zones.iter_mut().filter(|z| z.node == node) {
                    zone.reclaim_active = running;
                }
            }
            Op::Movable { which, movable } if !self.used.is_empty() => {
                let (pfn, order) = self.used[which % self.used.len()];
                self.allocator.set_movable(Pfn(pfn), movable).unwrap();
                let at = self.model.zone_of(pfn);
                self.model.zones[at].blocks.insert(pfn, Block::Used { order, movable });
            }
            Op::Capture { zone, order, mt } if zone < zones => self.capture(zone, order, mt),
            Op::ResetFair { cpu, gfp } => {
                let request = Request::new(0, GFPS[usize::from(gfp)]);
                self.allocator.reset_fair_batches(CpuId(cpu), &request).unwrap();
                self.model.reset_fair_batches(cpu, &request);
            }
            Op::EndBoost { zone } if zone < zones => {
                self.allocator
                    .zone_and_cache(ZoneIndex::new(zone), CpuId(0))
                    .unwrap()
                    .0
                    .end_boost(u64::MAX);
                self.model.zones[zone].boost = 0;
            }
            _ => {}
        }
    }

    fn alloc(&mut self, cpu: usize, order: Order, gfp: Gfp, node: Option<u8>, flags: u8) {
        let order = order.min(self.model.geometry.max_order);
        let node = node.filter(|&n| self.model.zones.iter().any(|z| z.node == n));
        let request = Request { node: node.map(NodeId), ..Request::new(order, gfp) };
        let flags = attempt(flags, gfp);
        let real = match flags {
            None => self.allocator.alloc(CpuId(cpu), &request, &mut self.log),
            Some(flags) => self.allocator.alloc_with(CpuId(cpu), &request, flags, &mut self.log),
        };
        let model = self.model.alloc(cpu, &request, flags);
        assert_eq!(real, model.map(Pfn).ok_or(AllocError::NoMemory));
        self.used.extend(model.map(|pfn| (pfn, order)));
    }

    fn free(&mut self, cpu: usize, which: usize) {
        if !self.used.is_empty() {
            let (pfn, order) = self.used.swap_remove(which % self.used.len());
            self.allocator.free(CpuId(cpu), Pfn(pfn), order, &mut self.log).unwrap();
            self.model.free(cpu, pfn, order);
        }
    }

    fn free_row(&mut self, cpu: usize, which: usize, (count, down): (usize, bool)) {
        self.used.sort_unstable();
        let first = which % self.used.len().max(1);
        let end = (first + count).min(self.used.len());
        let mut row: Vec<_> = self.used.drain(first..end).collect();
        if down {
            row.reverse();
        }
        for (pfn, order) in row {
            self.allocator.free(CpuId(cpu), Pfn(pfn), order, &mut self.log).unwrap();
            self.model.free(cpu, pfn, order);
        }
    }

    /// Starts to wait for a block, or takes what was captured.
    fn capture(&mut self, zone: usize, order: Order, mt: Migratetype) {
        let (real, _) = self.allocator.zone_and_cache(ZoneIndex::new(zone), CpuId(0)).unwrap();
        let slot = match real.capture() {
            None => Some(CaptureSlot::new(order, mt)),
            Some(slot) => {
                self.used.extend(slot.pfn.map(|pfn| (pfn.0, slot.order)));
                None
            }
        };
        assert_eq!(real.capture(), self.model.zones[zone].capture);
        match slot {
            Some(slot) => real.start_capture(slot),
            None => drop(real.end_capture()),
        }
        self.model.zones[zone].capture = slot;
    }

    fn isolate(&mut self, thousandth: u64, on: bool, to: Option<Migratetype>) {
        let at = thousandth as usize % self.model.zones.len();
        let (start, end) = (self.model.zones[at].start, self.model.zones[at].end);
        let pfn = start + (end - start) * thousandth / 1000;
        let (real, _) = self.allocator.zone_and_cache(ZoneIndex::new(at), CpuId(0)).unwrap();
        let result = if on {
            real.isolate_block(Pfn(pfn), &mut self.log)
        } else {
            real.unisolate_block(Pfn(pfn), to, &mut self.log)
        };
        let model = self.model.zones[at].isolate(pfn, on, to, &mut self.model.out);
        assert_eq!(result.is_ok(), model, "{result:?}");
    }

    fn compare(&mut self) {
        assert_eq!(self.log.events, self.model.out.events);
        assert_eq!(self.log.woken, self.model.out.woken);
        self.log = Log::default();
        self.model.out = Default::default();
        self.allocator.check().unwrap_or_else(|violation| {
            let zones: String = self.allocator.zones().iter().map(lists).collect();
            panic!("{violation}\n{zones}")
        });
        for (at, model) in self.model.zones.iter().enumerate() {
            compare_zone(&self.allocator.zones()[at], model);
            for (cpu, cache) in self.model.caches[at].iter().enumerate() {
                self.compare_cache(at, cpu, cache);
            }
        }
    }

    fn compare_cache(&self, at: usize, cpu: usize, model: &crate::model::Cache) {
        let real = self.allocator.cache(ZoneIndex::new(at), CpuId(cpu)).unwrap();
        let zone = &self.allocator.zones()[at];
        let blocks = |list| real.blocks(zone, list).map(|pfn| pfn.0).collect();
        let lists: Vec<Vec<u64>> = ListIndex::up_to(real.nr_lists()).map(blocks).collect();
        assert_eq!(lists, model.lists);
        let zone = &self.model.zones[at];
        let leaving = model.leaving_pages(zone);
        let numbers =
            (real.high().into(), i64::from(real.count()), u32::from(real.state().alloc_factor));
        assert_eq!(numbers, (model.high, model.pages() + leaving, model.alloc_factor));
        // One of the two, by policy.
        let halved = model.free_count + i64::from(model.free_factor);
        assert_eq!(i64::from(real.free_count()), halved);
        assert_eq!(real.state().prev_free_high_order, model.prev_high_order);
    }
}

fn compare_zone(real: &Zone<'_>, model: &crate::model::ModelZone) {
    for order in 0..=model.geometry.max_order {
        for mt in Migratetype::ALL {
            let list: Vec<u64> = real.free_list(order, mt).map(|pfn| pfn.0).collect();
            assert_eq!(list, model.list(order, mt), "{order} {mt}\n{}", lists(real));
        }
    }
    let asks_again = model.is_packed() && real.policy().list_type_strict();
    let mut blocks = BTreeMap::new();
    for pfn in model.start..model.end {
        assert_eq!(real.block_type(Pfn(pfn)), Some(model.block_type(pfn)), "{pfn}");
        let block = match real.state(Pfn(pfn)).unwrap() {
            FrameState::Free { order, list } => Block::Free { order, mt: list },
            FrameState::CpuList { order, cached } => match model.blocks.get(&pfn) {
                // Four bits a frame do not hold a type that nothing asks for.
                Some(&Block::Cached { mt, .. }) if asks_again => Block::Cached { order, mt },
                _ => Block::Cached { order, mt: cached },
            },
            FrameState::Allocated { order, movable } => Block::Used { order, movable },
            _ => continue,
        };
        blocks.insert(pfn, block);
    }
    assert_eq!(blocks, model.blocks);
    let flags = (real.boosted(), real.below_high(), real.reclaim_active());
    let expect = (model.boosted, model.below_high, model.reclaim_active);
    assert_eq!(flags, expect, "boosted, below high, reclaim active");
    let numbers = (real.boost(), real.reserved_highatomic(), real.free_pages());
    let expect = (model.boost, model.reserved_highatomic, model.free_pages());
    assert_eq!(numbers, expect, "boost, highatomic, free");
    if real.policy().fair != Fair::Off {
        let fair = (real.alloc_batch(), real.fair_depleted());
        assert_eq!(fair, (model.alloc_batch, model.fair_depleted), "fair batch");
    }
    let whole = |order: &Order| *order >= model.geometry.pageblock_order;
    let in_blocks = (0..=model.geometry.max_order).filter(whole).map(|order| {
        let types = Migratetype::ALL.into_iter().filter(|&mt| mt != Migratetype::Isolate);
        types.map(|mt| (model.list(order, mt).len() as u64) << order).sum::<u64>()
    });
    assert_eq!(real.free_pages_in_blocks(), in_blocks.sum::<u64>());
    assert_eq!(real.capture(), model.capture);
}

fn run(layout: &Layout, policy: Policy, ops: &[Op]) {
    let zones = layout.zones();
    let cpu_nodes = [zones[0].node, zones[zones.len() - 1].node];
    let setup = Setup { geometry: layout.geometry, ..Setup::new(policy, &zones, &cpu_nodes) };
    let mut memory = table_memory(&setup);
    let mut allocator = Allocator::new(&mut memory, &setup).unwrap();
    // Watermarks of a machine that is larger.
    for (at, spec) in zones.iter().enumerate() {
        let (zone, _) = allocator.zone_and_cache(ZoneIndex::new(at), CpuId(0)).unwrap();
        zone.adjust_managed((spec.managed * (layout.factor - 1)) as i64);
    }
    allocator.retune();
    let mut model = Model::of(&allocator, &cpu_nodes);
    for (at, spec) in zones.iter().enumerate() {
        let cma = layout.cma_of(at, spec.span);
        allocator.reserve_cma(cma).unwrap();
        for block in (cma.start.0..cma.end.0).step_by(1 << layout.geometry.pageblock_order) {
            model.zones[at].set_type(block, Migratetype::Cma);
        }
        for run in layout.runs(at, spec.span) {
            allocator.release(run).unwrap();
            model.release(run.start.0, run.end.0);
        }
    }
    allocator.retune();
    if policy.reserve == pageblock::policy::Reserve::MigrateReserve {
        for (at, spec) in zones.iter().enumerate() {
            let hole = layout.hole_of(at, spec.span);
            model.zones[at].setup_migrate_reserve(|pfn| !hole.contains(Pfn(pfn)));
        }
    }
    let mut pair = Pair { allocator: &mut allocator, model, log: Log::default(), used: Vec::new() };
    pair.compare();
    for op in ops {
        pair.step(op);
        pair.compare();
    }
}

#[test]
fn long_runs_of_an_order_upwards_and_downwards_are_the_model() {
    let layout = Layout {
        geometry: Geometry::default(),
        quarters: [0, 64, 0],
        offset: 0,
        hole: (0, 0, 0),
        cma: None,
        factor: 8,
    };
    for preset in ["linux-6.12", "linux-6.15", "linux-6.18", "linux-7.3"] {
        let mut policy = find(preset).unwrap().policy;
        policy.placement = Placement::Packed;
        for (order, down) in (0..=3).flat_map(|order| [(order, false), (order, true)]) {
            let row = |count| Op::FreeRow { cpu: 0, which: 0, count, down };
            let fill = |order, count| Op::AllocMany { cpu: 0, order, gfp: 0, count };
            let ops = [
                fill(order, 700),
                row(400),
                Op::Alloc { cpu: 0, order, gfp: 0, node: None, flags: 0 },
                row(90),
                Op::Tick { cpu: 0 },
                row(90),
                fill(0, 200),
                row(5000),
            ];
            run(&layout, policy, &ops);
        }
    }
}

/// A second pass would halve what a CPU freed in a row once more.
#[test]
fn the_flag_of_fairness_means_nothing_to_a_kernel_without_it() {
    let layout = Layout {
        geometry: Geometry::default(),
        quarters: [0, 1, 16],
        offset: 0,
        hole: (0, 0, 0),
        cma: None,
        factor: 1,
    };
    let text = "linux-7.3,placement=packed,reserve=highatomic_first,pcp_empty=fails,min_free_kbytes=4,pcp_batch_scale_max=1";
    let policy = Policy::parse(text).unwrap();
    let alloc = |cpu, order, gfp, flags| Op::Alloc { cpu, order, gfp, node: None, flags };
    let page = |gfp| alloc(0, 0, gfp, 0);
    let free = || Op::Free { cpu: 1, which: 0 };
    let fair = alloc(1, 1, 0, 10);
    run(
        &layout,
        policy,
        &[page(0), page(0), page(0), page(0), page(2), page(0), free(), free(), fair],
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn allocator_is_the_model(layout in layouts(), mut policy in policies(), ops in ops()) {
        if layout.geometry.pageblock_order < 3 {
            policy.placement = Placement::Linux;
        }
        run(&layout, policy, &ops);
    }
}
