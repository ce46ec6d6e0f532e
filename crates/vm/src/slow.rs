//! The slow path performed: each step that the allocator says, done by this machine.

use pageblock::alloc_flags::AllocFlags;
use pageblock::alloc_flags::Watermark;
use pageblock::event::Observer;
use pageblock::frame::{Order, Pfn};
use pageblock::mobility::Migratetype;
use pageblock::request::{Gfp, Request};
use pageblock::reserve::Unreserve;
use pageblock::slowpath::{
    Caller, CompactPriority, CompactResult, Demand, Nodes, Outcome, SlowPath, Step, Wait,
};
use pageblock_kernel::rules::compaction::{Deferral, DrainLists, StallCount};

use crate::compact::direct::{CompactStep, DirectCompact};
use crate::direct::{DirectReclaim, Reclaimed};
use crate::vm::Vm;

/// Nanoseconds of a clock tick at 250 a second.
const TICK_NS: u64 = 4_000_000;
/// The longest wait for a congested device, in nanoseconds (HZ/50).
const CONGESTED_NS: u64 = 20_000_000;

/// Rounds of reclaim after which the next ones will most likely fail too: from there on each stands for all that a
/// tick has time for. They are so many that no run of the published experiments gets there: they only let time pass
/// for a request that circles for ever.
const ROUNDS: u32 = 1 << 20;

/// What a task that waits for memory does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Slow {
    /// It worked: charge what [`Vm::take_work`] says, and step again.
    Ran,
    /// It circles in the slow path for so long, in nanoseconds, on its CPU.
    Spins(u64),
    /// It waits so long, in nanoseconds, or until a write ends.
    WaitWrites(u64),
    /// It waits so long, in nanoseconds.
    Wait(u64),
    /// It has its block.
    Page(Pfn),
    /// It gets none.
    Failed,
}

/// A task on its way through the slow path.
#[derive(Clone, Debug)]
pub struct SlowAlloc<'m> {
    path: SlowPath<'m>,
    cpu: usize,
    request: Request,
    doing: Doing,
    /// The next attempt shows whether compaction helped.
    compacted: Option<Compacted>,
    /// Rounds of reclaim so far.
    rounds: u32,
}

/// A compaction that was not skipped.
#[derive(Clone, Copy, Debug)]
struct Compacted {
    priority: CompactPriority,
    preferred: Option<usize>,
}

#[derive(Clone, Debug)]
enum Doing {
    Next(Outcome),
    Reclaim(Box<DirectReclaim>),
    Compact(Box<DirectCompact>),
}

impl<'m> SlowAlloc<'m> {
    /// A task whose request the fast path did not serve.
    #[must_use]
    pub fn new<O: Observer>(vm: &Vm<'m, O>, cpu: usize, request: Request, caller: Caller) -> Self {
        let geometry = vm.allocator.geometry();
        let demand = Demand {
            gfp: request.gfp,
            order: request.order,
            migratetype: request.gfp.migratetype().unwrap_or(Migratetype::Unmovable),
            max_order: geometry.max_order,
            pageblock_order: geometry.pageblock_order,
        };
        let path = SlowPath::new(&vm.kernel.allocator, demand, caller);
        let doing = Doing::Next(Outcome::Start);
        Self { path, cpu, request, doing, compacted: None, rounds: 0 }
    }

    /// Tells whether the task reclaims or compacts for itself, which is a stall for memory.
    #[must_use]
    pub const fn is_stalled(&self) -> bool {
        matches!(self.doing, Doing::Reclaim(_) | Doing::Compact(_))
    }

    /// Goes a step further on a CPU.
    pub fn step<O: Observer>(&mut self, vm: &mut Vm<'m, O>, cpu: usize) -> Slow {
        self.cpu = cpu;
        match &mut self.doing {
            Doing::Next(outcome) => {
                let outcome = *outcome;
                let step = self.path.next(outcome);
                self.perform(vm, step)
            }
            Doing::Reclaim(reclaim) => match reclaim.step(vm) {
                Reclaimed::More => Slow::Ran,
                Reclaimed::Waits(ns) => Slow::WaitWrites(ns),
                Reclaimed::Done(pages) => self.end_reclaim(pages),
            },
            Doing::Compact(compact) => match compact.step(vm, cpu) {
                CompactStep::More => Slow::Ran,
                CompactStep::Done(result, contention) => {
                    let tried = !matches!(result, CompactResult::Skipped | CompactResult::Deferred);
                    self.compacted = tried.then_some(Compacted {
                        priority: compact.priority(),
                        preferred: compact.preferred(),
                    });
                    if tried {
                        self.end_compaction(vm);
                    }
                    self.report(Outcome::Compacted(result, contention))
                }
                CompactStep::Captured(pfn) => {
                    vm.count_placed(&self.request, pfn);
                    self.served(pfn)
                }
            },
        }
    }

    /// A round of reclaim is over. A kernel's task would go round again at once, for ever if it may not fail:
    /// what it cannot change is not simulated at that grain.
    fn end_reclaim(&mut self, pages: u64) -> Slow {
        self.rounds = self.rounds.saturating_add(1);
        self.doing = Doing::Next(Outcome::Reclaimed { pages });
        if self.rounds > ROUNDS {
            return Slow::Spins(TICK_NS);
        }
        Slow::Ran
    }

    fn report(&mut self, outcome: Outcome) -> Slow {
        self.doing = Doing::Next(outcome);
        Slow::Ran
    }

    fn served(&mut self, pfn: Pfn) -> Slow {
        self.path.next(Outcome::Page);
        Slow::Page(pfn)
    }

    fn perform<O: Observer>(&mut self, vm: &mut Vm<'m, O>, step: Step) -> Slow {
        let yes_no = |yes| if yes { Outcome::Yes } else { Outcome::No };
        match step {
            Step::WakeKswapd { order } => {
                self.wake_kswapds(vm, order);
                self.report(Outcome::Done)
            }
            Step::TryAlloc { flags, nodes } => self.attempt(vm, flags, nodes),
            Step::DirectCompact { order, priority } => {
                let compact = DirectCompact::new(
                    vm,
                    self.cpu,
                    &self.request,
                    order,
                    priority,
                    self.path.flags(),
                );
                self.doing = Doing::Compact(Box::new(compact));
                Slow::Ran
            }
            Step::DirectReclaim { order } => {
                let reclaim = DirectReclaim::new(vm, self.cpu, &self.request, order);
                self.doing = Doing::Reclaim(Box::new(reclaim));
                Slow::Ran
            }
            Step::DrainAll => {
                vm.drain_all();
                self.report(Outcome::Done)
            }
            Step::UnreserveHighatomic { force } => {
                let done = self.unreserve(vm, force);
                self.report(yes_no(done))
            }
            Step::ReclaimRetry { flags, .. } => {
                let some = vm.any_zone_reachable(self.cpu, &self.request, flags);
                self.report(yes_no(some))
            }
            Step::CompactRetry { .. } => {
                let some = vm.compaction_zonelist_suitable(self.cpu, &self.request);
                self.report(yes_no(some))
            }
            Step::DropNofragment => self.report(Outcome::Done),
            Step::Wait(wait) => {
                self.doing = Doing::Next(Outcome::Done);
                match wait {
                    Wait::IffCongested => Slow::WaitWrites(CONGESTED_NS),
                    Wait::Tick => Slow::Wait(TICK_NS),
                }
            }
            Step::Oom => {
                let result = vm.oom_kill(self.cpu);
                self.report(Outcome::Oom(result))
            }
            Step::Served | Step::Fail => {
                if !self.request.gfp.has(Gfp::NOWARN) {
                    vm.report_failure(self.cpu, &self.request);
                }
                Slow::Failed
            }
        }
    }

    fn attempt<O: Observer>(
        &mut self,
        vm: &mut Vm<'m, O>,
        flags: AllocFlags,
        nodes: Nodes,
    ) -> Slow {
        let mut request = self.request;
        if nodes == Nodes::Any {
            request.nodemask = u64::MAX;
        }
        let page = vm.try_alloc_with(self.cpu, &request, flags);
        if let Some(compacted) = self.compacted.take() {
            note_attempt(vm, compacted, request.order, page);
        }
        match page {
            Some(pfn) => self.served(pfn),
            None => self.report(Outcome::NoPage),
        }
    }

    fn end_compaction<O: Observer>(&self, vm: &mut Vm<'m, O>) {
        if vm.kernel.compaction.drain_lists == DrainLists::AtEnd {
            // What was moved away lies on the CPU's lists until here.
            vm.drain_cpu(self.cpu);
        }
        if vm.kernel.compaction.stall_count == StallCount::WhenTried {
            vm.stat.compact_stall += 1;
            vm.stalls.note_compaction(self.request.order);
        }
    }

    fn wake_kswapds<O: Observer>(&self, vm: &mut Vm<'m, O>, order: Order) {
        // 3.12 and 3.13 start a new round of fair batches here.
        let _ = vm.allocator.reset_fair_batches(self.cpu, &self.request);
        let direct = self.request.gfp.has(Gfp::DIRECT_RECLAIM);
        for node in vm.nodes_for(self.cpu, &self.request) {
            vm.wake_kswapd(node, order, self.request.gfp.highest_zone(), direct);
        }
    }

    fn unreserve<O: Observer>(&self, vm: &mut Vm<'m, O>, force: bool) -> bool {
        let mt = self.request.gfp.migratetype().unwrap_or(Migratetype::Unmovable);
        let how = if force { Unreserve::All } else { Unreserve::KeepOne };
        let Ok(zones) = vm.allocator.zones_for(self.cpu, &self.request) else { return false };
        let zones: Vec<usize> = zones.collect();
        zones.into_iter().any(|zone| {
            let zone = vm.allocator.zone_and_cache(zone, 0);
            zone.is_some_and(|(zone, _)| zone.unreserve_highatomic(mt, how))
        })
    }
}

/// What an attempt says of the compaction before it.
fn note_attempt<O: Observer>(
    vm: &mut Vm<'_, O>,
    Compacted { priority, preferred }: Compacted,
    order: Order,
    page: Option<Pfn>,
) {
    vm.stat.compact_success += u64::from(page.is_some());
    vm.stat.compact_fail += u64::from(page.is_none());
    if page.is_some() {
        vm.stalls.note_compacted(order);
    }
    if vm.kernel.compaction.deferral == Deferral::PreferredZone {
        if let Some(zone) = preferred {
            vm.remember_compaction(zone, order, priority, page.is_some());
        }
    } else if let Some(pfn) = page
        && let Some(zone) = vm.allocator.zone_of(pfn)
    {
        vm.compact[zone].deferral.succeed(order, true);
    }
}

impl<O: Observer> Vm<'_, O> {
    /// The nodes that a request may use, nearest first.
    pub(crate) fn nodes_for(&self, cpu: usize, request: &Request) -> Vec<usize> {
        let mut nodes = Vec::new();
        if let Ok(zones) = self.allocator.zones_for(cpu, request) {
            for zone in zones {
                let node = usize::from(self.node_of_zone[zone]);
                if !nodes.contains(&node) {
                    nodes.push(node);
                }
            }
        }
        nodes
    }

    /// Gives the pages of every CPU's lists back (`drain_all_pages`).
    pub fn drain_all(&mut self) {
        self.work.drains += 1;
        crate::vm::with_hook!(self, allocator, hook => allocator.drain_all(hook));
    }

    /// One second's tick of a CPU: the limits of its lists decay (6.7 and later).
    pub fn vmstat_tick(&mut self, cpu: usize) {
        let ticked =
            crate::vm::with_hook!(self, allocator, hook => allocator.vmstat_tick(cpu, hook));
        debug_assert!(ticked.is_ok(), "{ticked:?}");
    }

    /// Gives the pages of a CPU's lists back.
    pub(crate) fn drain_cpu(&mut self, cpu: usize) {
        self.work.drains += 1;
        let drained =
            crate::vm::with_hook!(self, allocator, hook => allocator.drain_cpu(cpu, hook));
        debug_assert!(drained.is_ok(), "{drained:?}");
    }

    /// Whether some zone would meet its minimum with all that can be reclaimed
    /// (`should_reclaim_retry`).
    fn any_zone_reachable(&self, cpu: usize, request: &Request, flags: AllocFlags) -> bool {
        let Ok(mut zones) = self.allocator.zones_for(cpu, request) else { return false };
        let swap = self.swap.free_places() > 0;
        zones.any(|at| {
            let zone = &self.allocator.zones()[at];
            let available = zone.free_pages() + self.lru.zone_reclaimable(at, swap);
            let mark = zone.watermark(Watermark::Min);
            let highest = request.gfp.highest_zone();
            zone.watermark_ok_if(available, request.order, mark, highest, flags)
        })
    }
}
