//! The allocator and the model side by side: the same calls, frame for frame and event for event.
//!
//! Every case switches whole kinds of calls off at random, so that states are reached which a fair
//! mix never comes to. `PROPTEST_CASES` sets the number of cases.

use std::collections::BTreeMap;

use pageblock::FrameState;
use pageblock::alloc::{AllocError, Allocator};
use pageblock::alloc_flags::AllocFlags;
use pageblock::capture::CaptureSlot;
use pageblock::frame::{FrameRange, Order, Pfn};
use pageblock::ids::{CpuId, ListIndex, NodeId, ZoneIndex};
use pageblock::layout::{ZoneKind, ZoneSpec};
use pageblock::mobility::Migratetype;
use pageblock::policy::{Fair, Placement, Policy, SWITCHES, Values};
use pageblock::preset::PRESETS;
use pageblock::request::{Gfp, Request};
use pageblock::reserve::Unreserve;
use pageblock::setup::Setup;
use pageblock::zone::{Geometry, Zone};
use proptest::prelude::*;

use crate::machine::{Log, lists, table_memory};
use crate::model::{Block, Model};

/// A machine, drawn at random.
#[derive(Clone, Debug)]
struct Layout {
    geometry: Geometry,
    /// Pages of DMA32 and Normal of node 0 and of Normal of node 1, in quarters of a pageblock; 0
    /// for a zone that does not exist. The machine starts after `offset` quarters.
    quarters: [u64; 3],
    offset: u64,
    /// Holes and CMA areas: (zone, place and length in a thousandth of the zone).
    hole: (usize, u64, u64),
    cma: Option<(usize, u64)>,
    /// How much larger the zones are said to be, for the tuning and the reserves of large zones.
    factor: u64,
}

impl Layout {
    fn zones(&self) -> Vec<ZoneSpec> {
        let quarter = (1u64 << self.geometry.pageblock_order).div_ceil(4);
        let mut start = self.offset * quarter;
        let kinds = [(0, ZoneKind::Dma32), (0, ZoneKind::Normal), (1, ZoneKind::Normal)];
        let mut zones = Vec::new();
        for ((node, kind), &quarters) in kinds.into_iter().zip(&self.quarters) {
            let end = start + quarters * quarter;
            if quarters > 0 {
                zones.push(crate::machine::zone_spec(node, kind, start, end));
            }
            start = end;
        }
        for (at, zone) in zones.iter_mut().enumerate() {
            zone.managed -= self.hole_of(at, zone.span).len();
            zone.managed *= self.factor;
        }
        zones
    }

    fn hole_of(&self, at: usize, span: FrameRange) -> FrameRange {
        let (zone, place, length) = self.hole;
        if zone != at {
            return FrameRange::new(span.start.0, span.start.0);
        }
        let start = span.start.0 + span.len() * place / 1000;
        FrameRange::new(start, (start + span.len() * length / 1000).min(span.end.0))
    }

    /// The pageblocks of the CMA area.
    fn cma_of(&self, at: usize, span: FrameRange) -> FrameRange {
        let order = self.geometry.pageblock_order;
        let (first, last) = (span.start.align_up(order), span.end.align_down(order));
        match self.cma {
            Some((zone, blocks)) if zone == at && first < last => {
                let end = (first.0 + (blocks << order)).min(last.0);
                FrameRange { start: first, end: Pfn(end) }
            }
            _ => FrameRange { start: first, end: first },
        }
    }

    /// The frames of a zone that are released, in runs of one type of pageblock.
    fn runs(&self, at: usize, span: FrameRange) -> Vec<FrameRange> {
        let (hole, cma) = (self.hole_of(at, span), self.cma_of(at, span));
        let step = 1 << self.geometry.pageblock_order;
        let mut cuts = vec![span.start.0, span.end.0, hole.start.0, hole.end.0];
        cuts.extend((cma.start.0..=cma.end.0).step_by(step));
        cuts.sort_unstable();
        cuts.dedup();
        let runs = cuts.windows(2).map(|w| FrameRange::new(w[0], w[1]));
        runs.filter(|r| !hole.contains(r.start) && span.contains(r.start)).collect()
    }
}

#[derive(Clone, Debug)]
enum Op {
    Alloc {
        cpu: usize,
        order: Order,
        gfp: u8,
        node: Option<u8>,
        flags: u8,
    },
    Free {
        cpu: usize,
        which: usize,
    },
    FreeMany {
        cpu: usize,
        which: usize,
        count: usize,
    },
    Drain {
        cpu: usize,
    },
    Tick {
        cpu: usize,
    },
    Isolate {
        frame: u64,
        on: bool,
        to: Option<Migratetype>,
    },
    Unreserve {
        zone: usize,
        to: Migratetype,
        all: bool,
    },
    Kswapd {
        node: u8,
        running: bool,
    },
    Movable {
        which: usize,
        movable: bool,
    },
    Capture {
        zone: usize,
        order: Order,
        mt: Migratetype,
    },
    ResetFair {
        cpu: usize,
        gfp: u8,
    },
    EndBoost {
        zone: usize,
    },
    AllocMany {
        cpu: usize,
        order: Order,
        gfp: u8,
        count: usize,
    },
    /// In the order of the frames.
    FreeRow {
        cpu: usize,
        which: usize,
        count: usize,
    },
}

const GFPS: [Gfp; 9] = [
    Gfp::GFP_KERNEL,
    Gfp(Gfp::GFP_KERNEL.0 | Gfp::RECLAIMABLE.0),
    Gfp::GFP_HIGHUSER_MOVABLE,
    Gfp(Gfp::GFP_HIGHUSER_MOVABLE.0 | Gfp::THISNODE.0),
    Gfp(Gfp::GFP_ATOMIC.0 | Gfp::ATOMIC.0),
    Gfp(Gfp::GFP_ATOMIC.0 | Gfp::ATOMIC.0 | Gfp::RECLAIMABLE.0),
    Gfp(Gfp::GFP_KERNEL.0 | Gfp::DMA32.0),
    Gfp(Gfp::IO.0 | Gfp::MOVABLE.0),
    Gfp::GFP_TRANSHUGE,
];

/// The flags of an attempt of the slow path; `None` for the fast path.
fn attempt(flags: u8, gfp: Gfp) -> Option<AllocFlags> {
    let min = AllocFlags::WMARK_MIN.with(AllocFlags::KSWAPD);
    let atomic = min.with(AllocFlags::NON_BLOCK).with(AllocFlags::MIN_RESERVE);
    let flags = match flags {
        0..=2 => return None,
        3 => min,
        4 => atomic,
        5 => atomic.with(AllocFlags::HIGHATOMIC),
        6 => AllocFlags::NO_WATERMARKS,
        7 => min.with(AllocFlags::OOM),
        8 => min.with(AllocFlags::NOFRAGMENT),
        9 => AllocFlags::WMARK_HIGH,
        10 => AllocFlags::WMARK_LOW.with(AllocFlags::HIGHATOMIC).with(AllocFlags::FAIR),
        _ => AllocFlags::NO_WATERMARKS.with(AllocFlags::KSWAPD).with(AllocFlags::NOFRAGMENT),
    };
    let cma = if gfp.has(Gfp::MOVABLE) { AllocFlags::CMA } else { AllocFlags(0) };
    Some(flags.with(cma))
}

fn layouts() -> impl Strategy<Value = Layout> {
    let geometry = prop_oneof![
        2 => Just((9, 10)),
        4 => Just((3, 4)),
        2 => Just((3, 6)),
        2 => Just((4, 4)),
        2 => Just((2, 5)),
        1 => Just((4, 3)),
    ];
    let quarters = (prop_oneof![Just(0u64), 1u64..40], 1u64..60, prop_oneof![Just(0u64), 1u64..40]);
    let hole = (0usize..6, 0u64..1000, 0u64..400);
    let cma = prop_oneof![3 => Just(None), 1 => (0usize..3, 1u64..6).prop_map(Some)];
    let factor = prop_oneof![3 => Just(1u64), 1 => Just(30), 1 => Just(200)];
    (geometry, quarters, 0u64..9, hole, cma, factor).prop_map(
        |((pageblock_order, max_order), (a, b, c), offset, hole, cma, factor)| {
            let geometry = Geometry { pageblock_order, max_order };
            Layout { geometry, quarters: [a, b, c], offset, hole, cma, factor }
        },
    )
}

/// A preset, often with one switch changed, and knobs that suit small zones.
fn policies() -> impl Strategy<Value = Policy> {
    let change = prop_oneof![Just(None), (0..SWITCHES.len(), 0usize..100).prop_map(Some)];
    let free = prop_oneof![Just(4u32), Just(16), Just(60), Just(300), Just(3000)];
    let fraction = prop_oneof![4 => Just(0), 1 => 8u32..20];
    let placement = prop_oneof![2 => Just(Placement::Linux), 1 => Just(Placement::Packed)];
    (0..PRESETS.len(), change, free, 0u32..3, fraction, placement).prop_map(
        |(preset, change, min_free_kbytes, scale, fraction, placement)| {
            let mut policy = PRESETS[preset].policy;
            policy.placement = placement;
            policy.min_free_kbytes = min_free_kbytes;
            policy.pcp_batch_scale_max = [1, 3, 5][scale as usize];
            policy.percpu_pagelist_high_fraction = fraction;
            if let Some((switch, value)) = change {
                set(&mut policy, switch, value);
            }
            policy
        },
    )
}

fn set(policy: &mut Policy, switch: usize, value: usize) {
    let switch = &SWITCHES[switch];
    let number;
    let text = match switch.values {
        Values::Names(names) => names[value % names.len()],
        Values::Number { min, max } => {
            number = [min, max, min + 1, (max - min) / 2 + min][value % 4].to_string();
            &number
        }
    };
    switch.set(policy, text).unwrap();
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let mt = || {
        let types = [Migratetype::Unmovable, Migratetype::Movable, Migratetype::Reclaimable];
        prop::sample::select(types.to_vec())
    };
    let cpu = || 0usize..2;
    let order = || prop_oneof![6 => Just(0u8), 4 => 0u8..4, 2 => 0u8..11];
    let gfp = || 0u8..GFPS.len() as u8;
    let node = prop_oneof![3 => Just(None), 1 => (0u8..2).prop_map(Some)];
    let op = prop_oneof![
        30 => (cpu(), order(), gfp(), node, 0u8..12)
            .prop_map(|(cpu, order, gfp, node, flags)| Op::Alloc { cpu, order, gfp, node, flags }),
        20 => (cpu(), any::<usize>()).prop_map(|(cpu, which)| Op::Free { cpu, which }),
        2 => (cpu(), any::<usize>(), 1usize..60)
            .prop_map(|(cpu, which, count)| Op::FreeMany { cpu, which, count }),
        1 => cpu().prop_map(|cpu| Op::Drain { cpu }),
        1 => cpu().prop_map(|cpu| Op::Tick { cpu }),
        2 => (0u64..1000, any::<bool>(), prop::option::of(mt()))
            .prop_map(|(frame, on, to)| Op::Isolate { frame, on, to }),
        1 => (0usize..3, mt(), any::<bool>())
            .prop_map(|(zone, to, all)| Op::Unreserve { zone, to, all }),
        1 => (0u8..2, any::<bool>()).prop_map(|(node, running)| Op::Kswapd { node, running }),
        3 => (any::<usize>(), any::<bool>())
            .prop_map(|(which, movable)| Op::Movable { which, movable }),
        1 => (0usize..3, order(), mt())
            .prop_map(|(zone, order, mt)| Op::Capture { zone, order, mt }),
        1 => (cpu(), gfp()).prop_map(|(cpu, gfp)| Op::ResetFair { cpu, gfp }),
        1 => (0usize..3).prop_map(|zone| Op::EndBoost { zone }),
        1 => (cpu(), order(), gfp(), 1usize..200)
            .prop_map(|(cpu, order, gfp, count)| Op::AllocMany { cpu, order, gfp, count }),
        1 => (cpu(), any::<usize>(), 1usize..200)
            .prop_map(|(cpu, which, count)| Op::FreeRow { cpu, which, count }),
    ];
    // The swarm: each kind of call but allocation is off in some cases.
    (prop::collection::vec(op, 1..250), any::<u16>(), any::<u16>()).prop_map(|(ops, a, b)| {
        let off = a & b & 0x3ffe;
        ops.into_iter().filter(|op| off & 1 << op.kind() == 0).collect()
    })
}

impl Op {
    fn kind(&self) -> u32 {
        match self {
            Self::Alloc { .. } => 0,
            Self::Free { .. } => 1,
            Self::FreeMany { .. } => 2,
            Self::Drain { .. } => 3,
            Self::Tick { .. } => 4,
            Self::Isolate { .. } => 5,
            Self::Unreserve { .. } => 6,
            Self::Kswapd { .. } => 7,
            Self::Movable { .. } => 8,
            Self::Capture { .. } => 9,
            Self::ResetFair { .. } => 10,
            Self::EndBoost { .. } => 11,
            Self::AllocMany { .. } => 12,
            Self::FreeRow { .. } => 13,
        }
    }
}

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
            Op::FreeRow { cpu, which, count } => self.free_row(cpu, which, count),
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

    fn free_row(&mut self, cpu: usize, which: usize, count: usize) {
        self.used.sort_unstable();
        let first = which % self.used.len().max(1);
        let end = (first + count).min(self.used.len());
        for (pfn, order) in self.used.drain(first..end) {
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
        let numbers =
            (real.high().into(), i64::from(real.count()), u32::from(real.state().alloc_factor));
        assert_eq!(numbers, (model.high, model.count(), model.alloc_factor));
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
    let mut blocks = BTreeMap::new();
    for pfn in model.start..model.end {
        assert_eq!(real.block_type(Pfn(pfn)), Some(model.block_type(pfn)), "{pfn}");
        let block = match real.state(Pfn(pfn)).unwrap() {
            FrameState::Free { order, list } => Block::Free { order, mt: list },
            FrameState::CpuList { order, cached } => Block::Cached { order, mt: cached },
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
    let setup = Setup {
        policy,
        geometry: layout.geometry,
        zones: &zones,
        cpu_nodes: &cpu_nodes,
        distances: &[],
    };
    let mut memory = table_memory(&setup);
    let mut allocator = Allocator::new(&mut memory, &setup).unwrap();
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

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn allocator_is_the_model(layout in layouts(), policy in policies(), ops in ops()) {
        run(&layout, policy, &ops);
    }
}
