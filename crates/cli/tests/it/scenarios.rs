//! Sequences of calls on the allocator, for switches that no workload reaches: CMA, isolation, contiguous ranges,
//! memory hotplug, reserves, requests that may not fail, zones too large for a small machine. Programs
//! are in programs.rs.

use std::collections::HashMap;
use std::mem::MaybeUninit;

use pageblock::alloc::Allocator;
use pageblock::capture::CaptureSlot;
use pageblock::contig::Migrate;
use pageblock::frame::{FrameRange, Order, Pfn};
use pageblock::ids::{CpuId, NodeId, ZoneIndex};
use pageblock::layout::{ZoneKind, ZoneSpec};
use pageblock::mobility::Migratetype;
use pageblock::policy::Policy;
use pageblock::request::{Gfp, Request};
use pageblock::reserve::Unreserve;
use pageblock::setup::Setup;
use pageblock::slowpath::{
    Caller, CompactResult, Contention, Demand, OomResult, Outcome, SlowPath, Step,
};
use pageblock::zone::Geometry;
use pageblock_kernel::Named;
use pageblock_measure::Tally;

use crate::{programs, steps};

/// Returns the event hash of a scenario under a kernel.
pub(crate) fn hash(scenario: &str, kernel: &str) -> String {
    if let Some(hash) = programs::hash(scenario, kernel) {
        return hash;
    }
    match scenario {
        "steps" => return steps::hash(kernel),
        "retries" => return steps::retries(kernel),
        _ => {}
    }
    let policy = Named::parse(kernel).unwrap_or_else(|error| panic!("{error}")).kernel.allocator;
    match scenario {
        "random-calls" => on_machine(&policy, &SMALL, |machine| {
            // Memory fills up, and is given back, so that pageblocks of all types meet.
            for _ in 0..2 {
                (0..9000).for_each(|_| machine.random_call());
                let blocks = machine.used.len() as u64 * 9 / 10;
                machine.give_back(blocks);
            }
        }),
        "large-zones" => on_machine(&policy, &LARGE, |machine| {
            machine.fill();
        }),
        _ => panic!("there is no scenario {scenario}"),
    }
}

/// What a scenario's machine is made of.
struct Layout {
    geometry: Geometry,
    /// Node, kind and end of each zone, which starts where the one before it ends.
    zones: &'static [(u8, ZoneKind, u64)],
    /// The part that is for contiguous buffers.
    cma: FrameRange,
    cpu_nodes: &'static [NodeId],
}

/// Two nodes of small zones, with blocks of four pageblocks.
const SMALL: Layout = Layout {
    geometry: Geometry { pageblock_order: 6, max_order: 8, page_shift: 12 },
    zones: &[
        (0, ZoneKind::Dma32, 4096),
        (0, ZoneKind::Normal, 12_288),
        (0, ZoneKind::Movable, 16_384),
        (1, ZoneKind::Normal, 24_576),
    ],
    cma: FrameRange { start: Pfn(11_264), end: Pfn(12_288) },
    cpu_nodes: &[NodeId(0), NodeId(0), NodeId(1)],
};

/// 2 GiB in a zone, and 256 MiB of movable memory. Pageblocks are small, so that they do not decide min_free_kbytes.
const LARGE: Layout = Layout {
    geometry: Geometry { pageblock_order: 4, max_order: 10, page_shift: 12 },
    zones: &[(0, ZoneKind::Normal, 1 << 19), (0, ZoneKind::Movable, (1 << 19) + (1 << 16))],
    cma: FrameRange { start: Pfn(0), end: Pfn(0) },
    cpu_nodes: &[NodeId(0)],
};

/// Runs calls on a machine; returns the hash of the events.
fn on_machine(policy: &Policy, layout: &Layout, calls: impl FnOnce(&mut Machine<'_>)) -> String {
    let mut start = 0;
    let zone = |&(node, kind, end): &(u8, ZoneKind, u64)| {
        let span = FrameRange::new(std::mem::replace(&mut start, end), end);
        ZoneSpec { node: NodeId(node), kind, span, present: span.len(), managed: span.len() }
    };
    let zones: Vec<_> = layout.zones.iter().map(zone).collect();
    let setup = Setup {
        policy: *policy,
        geometry: layout.geometry,
        zones: &zones,
        cpu_nodes: layout.cpu_nodes,
        distances: &[],
    };
    let mut memory = vec![MaybeUninit::uninit(); setup.metadata_size().expect("it is valid")];
    let mut allocator = Allocator::new(&mut memory, &setup).expect("it is valid");
    allocator.reserve_cma(layout.cma).expect("whole pageblocks");
    for zone in &zones {
        let (span, cma) = (zone.span, layout.cma);
        let in_zone = span.start <= cma.start && cma.end <= span.end && !cma.is_empty();
        let cut = if in_zone { cma.start } else { span.end };
        for part in [FrameRange { end: cut, ..span }, FrameRange { start: cut, ..span }] {
            if !part.is_empty() {
                allocator.release(part).expect("it is reserved");
            }
        }
    }
    allocator.retune();
    let mut machine = Machine {
        allocator,
        policy: *policy,
        tally: Tally::new(),
        used: Vec::new(),
        ranges: Vec::new(),
        isolated: Vec::new(),
        offline: Vec::new(),
        random: 0x2545_f491_4f6c_dd1d,
    };
    calls(&mut machine);
    machine.tally.event_hash()
}

/// A block in use.
#[derive(Clone, Copy)]
struct Block {
    pfn: Pfn,
    order: Order,
    movable: bool,
}

/// An allocator, and what was done with its memory.
struct Machine<'m> {
    allocator: Allocator<'m>,
    policy: Policy,
    tally: Tally,
    used: Vec<Block>,
    /// Contiguous ranges in use.
    ranges: Vec<FrameRange>,
    isolated: Vec<Pfn>,
    offline: Vec<FrameRange>,
    random: u64,
}

/// Moves contents.
struct Mover<'a> {
    used: &'a mut [Block],
    /// Where each block is in `used`.
    at: HashMap<Pfn, usize>,
}

impl<'a> Mover<'a> {
    fn new(used: &'a mut [Block]) -> Self {
        let at = used.iter().enumerate().map(|(at, block)| (block.pfn, at)).collect();
        Self { used, at }
    }
}

impl Migrate for Mover<'_> {
    fn is_movable(&mut self, block: Pfn, _: Order) -> bool {
        self.at.get(&block).is_some_and(|at| self.used[*at].movable)
    }

    fn migrate(&mut self, from: Pfn, to: Pfn, _: Order) -> bool {
        let Some(at) = self.at.remove(&from) else { return false };
        self.used[at].pfn = to;
        self.at.insert(to, at);
        true
    }
}

/// Requests with the largest order in which they come.
const REQUESTS: &[(Gfp, u64)] = &[
    (Gfp::GFP_KERNEL, 4),
    (Gfp::GFP_KERNEL, 1),
    (Gfp::GFP_HIGHUSER_MOVABLE, 1),
    (Gfp::GFP_HIGHUSER_MOVABLE, 1),
    (Gfp::GFP_HIGHUSER_MOVABLE, 4),
    (Gfp(Gfp::GFP_KERNEL.0 | Gfp::RECLAIMABLE.0), 2),
    (Gfp::GFP_ATOMIC, 4),
    (Gfp(Gfp::GFP_ATOMIC.0 | Gfp::ATOMIC.0), 4),
    (Gfp::GFP_NOWAIT, 4),
    (Gfp::DMA32, 2),
    (Gfp::GFP_NOFS, 2),
    (Gfp(Gfp::GFP_NOFS.0 | Gfp::NOFAIL.0), 2),
    (Gfp(Gfp::GFP_KERNEL.0 | Gfp::NOFAIL.0), 2),
    (Gfp(Gfp::GFP_KERNEL.0 | Gfp::NOFAIL.0 | Gfp::THISNODE.0), 2),
    (Gfp(Gfp::GFP_KERNEL.0 | Gfp::RETRY_MAYFAIL.0), 7),
    (Gfp(Gfp::GFP_KERNEL.0 | Gfp::NORETRY.0), 7),
];
/// Requests for a whole pageblock.
const HUGE: &[Gfp] = &[Gfp::GFP_TRANSHUGE, Gfp::GFP_TRANSHUGE_LIGHT, Gfp::GFP_KERNEL];

impl Machine<'_> {
    /// A number below `below`.
    fn random(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 32) % below
    }

    fn cpu(&mut self) -> CpuId {
        let cpus = self.allocator.cpus() as u64;
        CpuId(self.random(cpus) as usize)
    }

    fn random_call(&mut self) {
        match self.random(64) {
            0..=37 => self.take(),
            38..=43 => self.take_huge(),
            44..=48 => self.give_back(1),
            49 | 50 => self.drain(),
            51..=54 => self.isolate(),
            55 | 56 => self.take_range(),
            57 => self.plug(),
            58..=60 => self.capture(),
            _ => {
                let (node, runs) = (NodeId(self.random(2) as u8), self.random(2) == 0);
                self.allocator.set_kswapd_running(node, runs);
            }
        }
    }

    fn take(&mut self) {
        let (gfp, orders) = REQUESTS[self.random(REQUESTS.len() as u64) as usize];
        let order = self.random(orders) as Order;
        self.request(&Request::new(order, gfp));
    }

    fn take_huge(&mut self) {
        let gfp = HUGE[self.random(HUGE.len() as u64) as usize];
        let order = self.allocator.geometry().pageblock_order + self.random(2) as Order;
        self.request(&Request::new(order, gfp));
    }

    fn hold(&mut self, request: &Request, pfn: Pfn) {
        let movable = request.gfp.migratetype() == Some(Migratetype::Movable);
        self.used.push(Block { pfn, order: request.order, movable });
    }

    /// Serves a request, by the slow path if need be.
    fn request(&mut self, request: &Request) {
        let cpu = self.cpu();
        match self.allocator.alloc(cpu, request, &mut self.tally) {
            Ok(pfn) => self.hold(request, pfn),
            Err(_) => self.slow_path(cpu, request),
        }
    }

    fn slow_path(&mut self, cpu: CpuId, request: &Request) {
        let geometry = self.allocator.geometry();
        let demand = Demand {
            gfp: request.gfp,
            order: request.order,
            migratetype: request.gfp.migratetype().expect("one mobility bit at most"),
            max_order: geometry.max_order,
            pageblock_order: geometry.pageblock_order,
        };
        let caller = Caller { oom_victim: self.random(8) == 0, ..Caller::default() };
        let policy = self.policy;
        let mut path = SlowPath::new(&policy, demand, caller);
        let mut outcome = Outcome::Start;
        // What may not fail goes on for ever.
        for _ in 0..100 {
            let step = path.next(outcome);
            match self.step(cpu, request, step) {
                Some(next) => outcome = next,
                None => return,
            }
        }
    }

    /// Does a step; `None` after the last.
    fn step(&mut self, cpu: CpuId, request: &Request, step: Step) -> Option<Outcome> {
        Some(match step {
            Step::WakeKswapd { .. } => {
                self.allocator.reset_fair_batches(cpu, request).expect("it is valid");
                let pages = self.random(3);
                self.give_back(pages);
                Outcome::Done
            }
            Step::TryAlloc { flags, .. } => {
                match self.allocator.alloc_with(cpu, request, flags, &mut self.tally) {
                    Ok(pfn) => {
                        self.hold(request, pfn);
                        Outcome::Page
                    }
                    Err(_) => Outcome::NoPage,
                }
            }
            Step::DirectCompact { .. } => self.compact(),
            Step::DirectReclaim { .. } => {
                let blocks = self.random(4);
                self.give_back(blocks);
                Outcome::Reclaimed { pages: blocks }
            }
            Step::DrainAll => {
                self.allocator.drain_all(&mut self.tally);
                Outcome::Done
            }
            Step::UnreserveHighatomic { force } => self.unreserve(force),
            Step::ReclaimRetry { .. } | Step::CompactRetry { .. } => {
                if self.random(4) > 0 {
                    Outcome::Yes
                } else {
                    Outcome::No
                }
            }
            Step::DropNofragment | Step::Wait(_) => Outcome::Done,
            Step::Oom => self.oom(),
            Step::Served => return None,
            Step::Fail => {
                let failed = self.allocator.report_failure(cpu, request, &mut self.tally);
                failed.expect("it is valid");
                return None;
            }
        })
    }

    fn compact(&mut self) -> Outcome {
        let results = [
            CompactResult::Skipped,
            CompactResult::Deferred,
            CompactResult::Complete,
            CompactResult::PartialSkipped,
            CompactResult::Contended,
            CompactResult::Success,
        ];
        let contentions = [Contention::None, Contention::Lock, Contention::Resched];
        let result = results[self.random(6) as usize];
        Outcome::Compacted(result, contentions[self.random(3) as usize])
    }

    fn unreserve(&mut self, force: bool) -> Outcome {
        let force = if force { Unreserve::All } else { Unreserve::KeepOne };
        let zones = 0..self.allocator.zones().len();
        let found = zones.into_iter().any(|at| {
            let (zone, _) = self
                .allocator
                .zone_and_cache(ZoneIndex::new(at), CpuId(0))
                .expect("there is such a zone");
            zone.unreserve_highatomic(Migratetype::Movable, force)
        });
        if found { Outcome::Yes } else { Outcome::No }
    }

    fn oom(&mut self) -> Outcome {
        match self.random(3) {
            0 => Outcome::Oom(OomResult::Nothing),
            1 => Outcome::Oom(OomResult::Busy),
            _ => {
                self.give_back(20);
                Outcome::Oom(OomResult::Killed)
            }
        }
    }

    /// Frees so many blocks.
    fn give_back(&mut self, blocks: u64) {
        for _ in 0..blocks.min(self.used.len() as u64) {
            let at = self.random(self.used.len() as u64) as usize;
            let Block { pfn, order, .. } = self.used.swap_remove(at);
            let cpu = self.cpu();
            self.allocator.free(cpu, pfn, order, &mut self.tally).expect("it is in use");
        }
    }

    fn drain(&mut self) {
        let cpu = self.cpu();
        let done = if self.random(2) == 0 {
            self.allocator.drain_cpu(cpu, &mut self.tally)
        } else {
            self.allocator.vmstat_tick(cpu, &mut self.tally)
        };
        done.expect("there is such a CPU");
    }

    /// Isolates a pageblock, or ends the isolation of one.
    fn isolate(&mut self) {
        let block = self.allocator.geometry().pageblock_pages();
        let last = self.allocator.zones().iter().map(|zone| zone.span().end.0).max();
        let pfn = match self.isolated.pop() {
            Some(pfn) if self.random(2) == 0 => pfn,
            kept => {
                self.isolated.extend(kept);
                Pfn(self.random(last.expect("there are zones") / block) * block)
            }
        };
        let at = self.allocator.zone_of(pfn).expect("it is memory");
        let (zone, _) = self.allocator.zone_and_cache(at, CpuId(0)).expect("there is such a zone");
        if zone.unisolate_block(pfn, None, &mut self.tally).is_err()
            && zone.isolate_block(pfn, &mut self.tally).is_ok()
        {
            self.isolated.push(pfn);
        }
    }

    /// Takes contiguous frames, or frees some.
    fn take_range(&mut self) {
        let cpu = self.cpu();
        if self.random(2) == 0
            && let Some(range) = self.ranges.pop()
        {
            self.allocator.free_contig(cpu, range, &mut self.tally).expect("it is in use");
            return;
        }
        let request = Request::new(0, Gfp::GFP_KERNEL);
        let (pages, mut mover) = (20 + self.random(200), Mover::new(&mut self.used));
        let got =
            self.allocator.alloc_contig(cpu, pages, 16, &request, &mut mover, &mut self.tally);
        self.ranges.extend(got);
    }

    /// Takes a few pageblocks away, or brings the last ones back.
    fn plug(&mut self) {
        if let Some(range) = self.offline.pop() {
            return self.allocator.online(range).expect("it is offline");
        }
        let (cpu, block) = (self.cpu(), self.allocator.geometry().pageblock_pages());
        let start = self.random(300) * block;
        let range = FrameRange::new(start, start + 2 * block);
        let mut mover = Mover::new(&mut self.used);
        if self.allocator.offline(cpu, range, &mut mover, &mut self.tally).is_ok() {
            self.offline.push(range);
        }
    }

    /// Frees blocks while a task compacts, which may keep one.
    fn capture(&mut self) {
        let at = self.random(self.allocator.zones().len() as u64) as usize;
        let types = [Migratetype::Unmovable, Migratetype::Movable, Migratetype::Reclaimable];
        let (order, mt) = (1 + self.random(6) as Order, types[self.random(3) as usize]);
        let (zone, _) = self
            .allocator
            .zone_and_cache(ZoneIndex::new(at), CpuId(0))
            .expect("there is such a zone");
        zone.start_capture(CaptureSlot::new(order, mt));
        self.give_back(3);
        let cpu = self.cpu();
        self.allocator.drain_cpu(cpu, &mut self.tally).expect("there is such a CPU");
        let (zone, _) = self
            .allocator
            .zone_and_cache(ZoneIndex::new(at), CpuId(0))
            .expect("there is such a zone");
        if let Some(CaptureSlot { pfn: Some(pfn), .. }) = zone.end_capture() {
            self.used.push(Block { pfn, order, movable: mt == Migratetype::Movable });
        }
    }

    /// Takes pages one by one, then all memory that requests without a slow path may have.
    fn fill(&mut self) {
        let requests = [Gfp::GFP_KERNEL, Gfp::GFP_HIGHUSER_MOVABLE].map(|gfp| Request::new(0, gfp));
        for request in requests.iter().cycle().take(600) {
            self.request(request);
        }
        self.give_back(400);
        for order in [10, 6, 2, 0] {
            for gfp in [Gfp::GFP_KERNEL, Gfp::GFP_HIGHUSER_MOVABLE] {
                let request = Request::new(order, gfp);
                while let Ok(pfn) = self.allocator.alloc(CpuId(0), &request, &mut self.tally) {
                    self.hold(&request, pfn);
                }
            }
        }
    }
}
