//! What a case is drawn from: machines, policies and calls.

use pageblock::alloc_flags::AllocFlags;
use pageblock::frame::{FrameRange, Order, Pfn};
use pageblock::layout::{ZoneKind, ZoneSpec};
use pageblock::mobility::Migratetype;
use pageblock::policy::{Placement, Policy, SWITCHES, Values};
use pageblock::preset::PRESETS;
use pageblock::request::Gfp;
use pageblock::zone::Geometry;
use proptest::prelude::*;

/// A machine, drawn at random.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) geometry: Geometry,
    /// Pages of DMA32 and Normal of node 0 and of Normal of node 1, in quarters of a pageblock; 0
    /// for a zone that does not exist. The machine starts after `offset` quarters.
    pub(super) quarters: [u64; 3],
    pub(super) offset: u64,
    /// Holes and CMA areas: (zone, place and length in a thousandth of the zone).
    pub(super) hole: (usize, u64, u64),
    pub(super) cma: Option<(usize, u64)>,
    /// How much larger the zones are said to be, for the tuning and the reserves of large zones.
    pub(super) factor: u64,
}

impl Layout {
    pub(super) fn zones(&self) -> Vec<ZoneSpec> {
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
        }
        zones
    }

    pub(super) fn hole_of(&self, at: usize, span: FrameRange) -> FrameRange {
        let (zone, place, length) = self.hole;
        if zone != at {
            return FrameRange::new(span.start.0, span.start.0);
        }
        let start = span.start.0 + span.len() * place / 1000;
        FrameRange::new(start, (start + span.len() * length / 1000).min(span.end.0))
    }

    /// The pageblocks of the CMA area.
    pub(super) fn cma_of(&self, at: usize, span: FrameRange) -> FrameRange {
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
    pub(super) fn runs(&self, at: usize, span: FrameRange) -> Vec<FrameRange> {
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
pub(super) enum Op {
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
    /// In the order of the frames, or with `down` backwards.
    FreeRow {
        cpu: usize,
        which: usize,
        count: usize,
        down: bool,
    },
}

pub(super) const GFPS: [Gfp; 9] = [
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
pub(super) fn attempt(flags: u8, gfp: Gfp) -> Option<AllocFlags> {
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

pub(super) fn layouts() -> impl Strategy<Value = Layout> {
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
            let geometry = Geometry { pageblock_order, max_order, ..Geometry::default() };
            Layout { geometry, quarters: [a, b, c], offset, hole, cma, factor }
        },
    )
}

/// A preset, often with one switch changed, and knobs that suit small zones.
pub(super) fn policies() -> impl Strategy<Value = Policy> {
    let change = prop_oneof![Just(None), (0..SWITCHES.len(), 0usize..100).prop_map(Some)];
    let free = prop_oneof![Just(4u32), Just(16), Just(60), Just(300), Just(3000)];
    let fraction = prop_oneof![4 => Just(0), 1 => 8u32..20];
    let placement = prop_oneof![2 => Just(Placement::Linux), 1 => Just(Placement::Packed)];
    (0..PRESETS.len(), change, free, 0u32..3, fraction, placement).prop_map(
        |(preset, change, min_free_kbytes, scale, fraction, placement)| {
            let open = PRESETS
                .iter()
                .filter(|p| placement == Placement::Linux || p.policy.allows_packed());
            let open: Vec<_> = open.collect();
            let mut policy = open[preset % open.len()].policy;
            policy.placement = placement;
            policy.min_free_kbytes = min_free_kbytes;
            policy.pcp_batch_scale_max = [1, 3, 5][scale as usize];
            policy.percpu_pagelist_high_fraction = fraction;
            if let Some((switch, value)) = change {
                set(&mut policy, switch, value);
            }
            if !policy.allows_packed() {
                policy.placement = Placement::Linux;
            }
            policy
        },
    )
}

fn set(policy: &mut Policy, switch: usize, value: usize) {
    let switch = &SWITCHES[switch];
    let number;
    let text = match switch.values() {
        Values::Choices(choices) => choices[value % choices.len()].name,
        Values::Number { min, max } => {
            number = [min, max, min + 1, (max - min) / 2 + min][value % 4].to_string();
            &number
        }
    };
    switch.set(policy, text).unwrap();
}

pub(super) fn ops() -> impl Strategy<Value = Vec<Op>> {
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
        1 => (cpu(), any::<usize>(), 1usize..200, any::<bool>())
            .prop_map(|(cpu, which, count, down)| Op::FreeRow { cpu, which, count, down }),
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
