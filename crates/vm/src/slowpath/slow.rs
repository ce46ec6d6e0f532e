//! The slow path of a task: each step that the allocator's slow path decides on, done by this machine.

use pageblock::alloc_flags::{AllocFlags, Watermark};
use pageblock::event::Observer;
use pageblock::frame::{Order, Pfn};
use pageblock::ids::{CpuId, ZoneIndex};
use pageblock::mobility::Migratetype;
use pageblock::request::{Gfp, Request};
use pageblock::reserve::Unreserve;
use pageblock::slowpath::{Caller, Demand, Nodes, Outcome, SlowPath, Step, Wait};
use pageblock_kernel::rules::compaction::{DrainLists, StallCount};

use crate::compact::direct::{CompactStep, Compacted, DirectCompact};
use crate::reclaim::direct::{DirectReclaim, Reclaimed};
use crate::vm::Vm;

/// Nanoseconds of a clock tick at 250 a second.
const TICK_NS: u64 = 4_000_000;
/// The longest wait for a congested device, in nanoseconds (HZ/50).
const CONGESTED_NS: u64 = 20_000_000;

/// Rounds of reclaim after which each further round stands for all that a tick has time for. No run of the published
/// experiments gets there: it only lets time pass for a request that loops forever.
const ROUNDS: u32 = 1 << 20;

/// What a task in the slow path does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Slow {
    /// It worked: charge what [`Vm::take_work`] returns, and step again.
    Ran,
    /// It loops in the slow path for this many nanoseconds of CPU time.
    Spins(u64),
    /// It waits for at most this many nanoseconds, or until a write ends.
    WaitWrites(u64),
    /// It waits for this many nanoseconds.
    Wait(u64),
    /// It has its block.
    Page(Pfn),
    /// Its request failed.
    Failed,
}

/// A task in the slow path.
#[derive(Clone, Debug)]
pub struct SlowAlloc<'m> {
    path: SlowPath<'m>,
    cpu: usize,
    request: Request,
    job: Job,
    /// The compaction whose success the next attempt shows.
    compacted: Option<Compacted>,
    /// Rounds of reclaim so far.
    rounds: u32,
}

/// The job that the task is at.
#[derive(Clone, Debug)]
enum Job {
    /// None: the outcome of the last step decides on the next.
    Decide(Outcome),
    Reclaim(Box<DirectReclaim>),
    Compact(Box<DirectCompact>),
}

impl<'m> SlowAlloc<'m> {
    /// Returns a task whose request the fast path did not serve.
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
        let job = Job::Decide(Outcome::Start);
        Self { path, cpu, request, job, compacted: None, rounds: 0 }
    }

    /// Returns whether the task is in direct reclaim or direct compaction, which is a stall for memory.
    #[must_use]
    pub const fn is_stalled(&self) -> bool {
        matches!(self.job, Job::Reclaim(_) | Job::Compact(_))
    }

    /// Runs one step on a CPU.
    pub fn step<O: Observer>(&mut self, vm: &mut Vm<'m, O>, cpu: usize) -> Slow {
        self.cpu = cpu;
        match &mut self.job {
            Job::Decide(outcome) => {
                let outcome = *outcome;
                let step = self.path.next(outcome);
                self.perform(vm, step)
            }
            Job::Reclaim(reclaim) => match reclaim.step(vm) {
                Reclaimed::More => Slow::Ran,
                Reclaimed::Waits(ns) => Slow::WaitWrites(ns),
                Reclaimed::Done(pages) => self.end_reclaim(pages),
            },
            Job::Compact(compact) => match compact.step(vm, cpu) {
                CompactStep::More => Slow::Ran,
                CompactStep::Done(result, contention) => {
                    let tried = self.path.tries_after(result);
                    self.compacted = tried.then_some(compact.outcome());
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

    /// Ends a round of reclaim. A real task would start another at once, forever if its request must not fail; rounds
    /// that change nothing are not simulated one by one.
    fn end_reclaim(&mut self, pages: u64) -> Slow {
        self.rounds = self.rounds.saturating_add(1);
        self.job = Job::Decide(Outcome::Reclaimed { pages });
        if self.rounds > ROUNDS {
            return Slow::Spins(TICK_NS);
        }
        Slow::Ran
    }

    /// Hands the outcome of a step to the allocator's slow path.
    fn report(&mut self, outcome: Outcome) -> Slow {
        self.job = Job::Decide(outcome);
        Slow::Ran
    }

    /// Ends with a block.
    fn served(&mut self, pfn: Pfn) -> Slow {
        self.path.next(Outcome::Page);
        Slow::Page(pfn)
    }

    /// Performs a step of the allocator's slow path, or starts the job for it.
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
                self.job = Job::Compact(Box::new(compact));
                Slow::Ran
            }
            Step::DirectReclaim { order } => {
                let reclaim = DirectReclaim::new(vm, self.cpu, &self.request, order);
                self.job = Job::Reclaim(Box::new(reclaim));
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
                self.job = Job::Decide(Outcome::Done);
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

    /// Tries to allocate.
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
            let zone = page.and_then(|pfn| vm.allocator.zone_of(pfn)).map(ZoneIndex::index);
            vm.note_attempt(compacted, request.order, zone);
        }
        match page {
            Some(pfn) => self.served(pfn),
            None => self.report(Outcome::NoPage),
        }
    }

    /// Ends a compaction after which the request tries again.
    fn end_compaction<O: Observer>(&self, vm: &mut Vm<'m, O>) {
        if vm.kernel.compaction.drain_lists == DrainLists::AtEnd {
            // Pages that the move freed are on the CPU's lists until here.
            vm.drain_cpu(self.cpu);
        }
        if vm.kernel.compaction.stall_count == StallCount::WhenTried {
            vm.stat.compact_stall += 1;
            vm.stalls.note_compaction(self.request.order);
        }
    }

    /// Wakes the kswapd of every node that the request may use (`wake_all_kswapds`).
    fn wake_kswapds<O: Observer>(&self, vm: &mut Vm<'m, O>, order: Order) {
        // 3.12 and 3.13 start a new round of fair batches here.
        let _ = vm.allocator.reset_fair_batches(CpuId(self.cpu), &self.request);
        let direct = self.request.gfp.has(Gfp::DIRECT_RECLAIM);
        for node in vm.nodes_for(self.cpu, &self.request) {
            vm.wake_kswapd(node, order, self.request.gfp.highest_zone(), direct);
        }
    }

    /// Frees a reserved highatomic pageblock. Returns whether there was one.
    fn unreserve<O: Observer>(&self, vm: &mut Vm<'m, O>, force: bool) -> bool {
        let mt = self.request.gfp.migratetype().unwrap_or(Migratetype::Unmovable);
        let how = if force { Unreserve::All } else { Unreserve::KeepOne };
        let Ok(zones) = vm.allocator.zones_for(CpuId(self.cpu), &self.request) else {
            return false;
        };
        let zones: Vec<ZoneIndex> = zones.collect();
        zones.into_iter().any(|zone| {
            let zone = vm.allocator.zone_and_cache(zone, CpuId(0));
            zone.is_some_and(|(zone, _)| zone.unreserve_highatomic(mt, how))
        })
    }
}

impl<O: Observer> Vm<'_, O> {
    /// Returns whether some zone would meet its min watermark if all reclaimable pages were free
    /// (`should_reclaim_retry`).
    fn any_zone_reachable(&self, cpu: usize, request: &Request, flags: AllocFlags) -> bool {
        let Ok(mut zones) = self.allocator.zones_for(CpuId(cpu), request) else { return false };
        let swap = self.has_free_swap();
        zones.any(|at| {
            let at = at.index();
            let zone = &self.allocator.zones()[at];
            let available = zone.free_pages() + self.lru().zone_reclaimable(at, swap);
            let mark = zone.watermark(Watermark::Min);
            let highest = request.gfp.highest_zone();
            zone.watermark_ok_if(available, request.order, mark, highest, flags)
        })
    }
}
