//! The state that all tasks share: the machine's memory, its CPUs, its disk, and the clock.

use pageblock::ids::NodeId;
use std::collections::BTreeMap;

use pageblock_measure::Counters;
use pageblock_measure::value::ended::Ended;
use pageblock_measure::value::mismatch::TypeMismatch;
use pageblock_vm::Vm;
use pageblock_vm::writeback::Run;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};

use super::Nanos;
use super::atomic_boost::AtomicBoosts;
use super::cost::{Costs, Cpu};
use super::disk::Disk;
use super::history::HistoryWatch;
use super::livelock::LivelockWatch;
use super::machine_file::Scale;
use super::observed::Observed;
use super::progress::PhaseProgress;
use super::sched::{Sched, TaskId};

/// A write in flight.
#[derive(Clone, Debug)]
enum Write {
    File(Run),
    Swap(Vec<u32>),
    Log,
}

/// How a task stops running.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pause {
    /// It used CPU time and continues.
    Charge(Nanos),
    /// It waits, with an optional timeout.
    Block(Option<Nanos>),
}

/// The shared state of a simulation.
pub struct World<'m> {
    /// Memory management.
    pub vm: Vm<'m, Observed>,
    /// What operations cost.
    pub costs: Costs,
    /// The disk.
    pub disk: Disk,
    pub(crate) sched: Sched,
    pub(crate) random: Random,
    /// CPU time that the running task has used but not yet charged.
    pub(crate) pending: Nanos,
    pub(crate) pause: Option<Pause>,
    writes: Vec<Option<Write>>,
    free_writes: Vec<usize>,
    /// For each zone the number of lock acquisitions at the last charge, and the CPU that was charged.
    zone_lockers: Vec<(u64, usize)>,
    /// Tasks that wait for a write to complete.
    pub(crate) write_waiters: Vec<TaskId>,
    /// Tasks that wait for the disk's congestion to end.
    pub(crate) congestion_waiters: Vec<TaskId>,
    /// For each node the number of written pages of the node for which its kswapd waits.
    pub(crate) throttled: Vec<Option<u64>>,
    /// The kswapd of each node.
    pub(crate) kswapds: Vec<TaskId>,
    pub(crate) kcompactds: Vec<TaskId>,
    pub(crate) flusher: Option<TaskId>,
    pub(crate) log: Option<TaskId>,
    /// The first task that is a program; those below it are the machine's own.
    pub(crate) first_program: TaskId,
    /// CPU time that programs spent in their own code.
    pub(crate) user: Nanos,
    /// The counters when the workload started.
    pub(crate) counted_before: Counters,
    /// Pages taken from a free list of another type than their pageblock's, if that is counted.
    pub(crate) list_mismatch: TypeMismatch,
    /// Samples of what a workload measures, by name; nanoseconds.
    pub samples: BTreeMap<String, Vec<u64>>,
    /// Whether something monitors memory pressure: stalls then begin and end after accrued time is charged, and
    /// their durations are sampled.
    pub watches_stalls: bool,
    /// Readers hold the page that they wait for, also where reclaim took it from its file.
    pub(crate) readers_hold: bool,
    looks: FallbackScans,
    /// Pages that tasks wrote, read or faulted.
    pub progress: u64,
    /// Completed steps of the workload, if it counts them.
    pub steps: u64,
    pub(crate) phase: PhaseProgress,
    /// Tasks that dirty pages: they share the disk's bandwidth.
    pub dirtiers: u64,
    /// The ratio of this machine to the one in the file.
    pub scale: Scale,
    /// Events since the start.
    pub task_steps: u64,
    /// Programs that were ended because memory was exhausted, and when.
    pub deaths: Vec<(Nanos, String)>,
    /// How the run ended if the workload was not completed.
    pub ended: Option<Ended>,
    /// The first fatal defect.
    pub failure: Option<String>,
    pub(crate) stopping: bool,
    pub(crate) watch: LivelockWatch,
    pub(crate) atomic_boosts: AtomicBoosts,
    /// The history of its memory, if it was asked for.
    pub(crate) history: Option<Box<HistoryWatch>>,
}

/// A zone's lock acquisitions, and the pages that fallbacks scanned under the lock.
#[derive(Clone, Copy, Default, Debug)]
struct ZoneScan {
    lock_taken: u64,
    looks: u64,
    held_until: Nanos,
}

/// The scans of all zones.
#[derive(Clone, Default, Debug)]
struct FallbackScans {
    zones: Vec<ZoneScan>,
    most: u64,
    waited: Nanos,
}

/// CPU time of programs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CpuTime {
    /// In their own code.
    pub user: Nanos,
    /// In the kernel.
    pub system: Nanos,
}

/// The only source of randomness: a seeded generator.
#[derive(Clone, Debug)]
pub struct Random(Pcg64Mcg);

impl Random {
    /// Makes an independent stream for each seed and purpose.
    #[must_use]
    pub fn new(seed: u64, purpose: u64) -> Self {
        let mut state = [0; 16];
        // The generator takes odd states only.
        let low = seed.wrapping_mul(2).wrapping_sub(1);
        let high = purpose.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ seed >> 63;
        state[..8].copy_from_slice(&low.to_le_bytes());
        state[8..].copy_from_slice(&high.to_le_bytes());
        let mut random = Pcg64Mcg::from_seed(state);
        // Seeds that differ in one bit start with similar output.
        for _ in 0..8 {
            random.next_u64();
        }
        Self(random)
    }

    /// Returns a number below `n`, which is at least 1.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * u128::from(n)) >> 64) as u64
    }
}

impl<'m> World<'m> {
    pub(crate) fn new(
        vm: Vm<'m, Observed>,
        cpu: Cpu,
        disk: Disk,
        cpu_nodes: &[NodeId],
        seed: u64,
    ) -> Self {
        let scheduler = vm.kernel().scheduler.scheduler;
        Self {
            vm,
            costs: cpu.costs(),
            disk,
            sched: Sched::new(cpu_nodes, cpu, scheduler),
            random: Random::new(seed, 0),
            pending: 0,
            pause: None,
            writes: Vec::new(),
            free_writes: Vec::new(),
            zone_lockers: Vec::new(),
            write_waiters: Vec::new(),
            congestion_waiters: Vec::new(),
            throttled: Vec::new(),
            kswapds: Vec::new(),
            kcompactds: Vec::new(),
            flusher: None,
            log: None,
            first_program: 0,
            user: 0,
            counted_before: Counters::new(),
            list_mismatch: TypeMismatch::new(),
            samples: BTreeMap::new(),
            watches_stalls: false,
            readers_hold: false,
            looks: FallbackScans::default(),
            progress: 0,
            steps: 0,
            phase: PhaseProgress::default(),
            dirtiers: 1,
            scale: Scale::WHOLE,
            task_steps: 0,
            deaths: Vec::new(),
            ended: None,
            failure: None,
            stopping: false,
            watch: LivelockWatch::default(),
            atomic_boosts: AtomicBoosts::default(),
            history: None,
        }
    }

    /// Returns the time.
    #[must_use]
    pub const fn now(&self) -> Nanos {
        self.sched.now + self.pending
    }

    /// Returns the CPU time that programs have used so far, in their own code and in the kernel, without the
    /// machine's own tasks.
    #[must_use]
    pub fn cpu_time(&self) -> CpuTime {
        let all = self.sched.used_from(self.first_program);
        CpuTime { user: self.user, system: all.saturating_sub(self.user) }
    }

    /// Charges the running task for the work of memory management.
    pub(crate) fn charge_work(&mut self) {
        // The lists are compared before a pageblock changes its type.
        self.count_list_mismatches();
        let work = self.vm.take_work();
        self.pending += self.costs.of(&work);
    }

    /// Returns how often the zones' locks have been taken.
    pub(crate) fn zone_locks(&self) -> u64 {
        self.vm.allocator().zones().iter().map(|zone| zone.counters().lock_acquired).sum()
    }

    /// Charges the running task, on this CPU, for the zone locks taken since the last call: more if another CPU
    /// held the lock last.
    pub(crate) fn charge_zone_locks(&mut self, cpu: usize) {
        let Costs { zone_lock, zone_bounce, .. } = self.costs;
        let zones = self.vm.allocator().zones();
        self.zone_lockers.resize(zones.len(), (0, cpu));
        for (zone, (before, last)) in zones.iter().zip(&mut self.zone_lockers) {
            let taken = zone.counters().lock_acquired;
            if taken > *before {
                self.pending += (taken - *before) * zone_lock;
                self.pending += if *last == cpu { 0 } else { zone_bounce };
                (*before, *last) = (taken, cpu);
            }
        }
    }

    /// Returns the time under memory pressure since the start: some, full.
    pub fn pressure(&mut self) -> (Nanos, Nanos) {
        let now = self.sched.now;
        self.sched.psi.totals(now)
    }

    /// Charges the running task for the pages that fallbacks scanned under a zone's lock since the last call.
    /// Before that, if it needed the lock, charges the wait until another task releases it.
    pub(crate) fn charge_looks(&mut self) {
        let cost = self.costs.block_look;
        if cost == 0 {
            return;
        }
        let mut now = self.now();
        let zones = self.vm.allocator().zones();
        self.looks.zones.resize(zones.len(), ZoneScan::default());
        let (mut all, mut waited) = (0, 0);
        for (zone, known) in zones.iter().zip(&mut self.looks.zones) {
            let taken = zone.counters().lock_acquired;
            let looks = zone.block_looks();
            if std::mem::replace(&mut known.lock_taken, taken) < taken {
                waited += known.held_until.saturating_sub(now);
                now = now.max(known.held_until);
            }
            let more = looks - std::mem::replace(&mut known.looks, looks);
            if more > 0 {
                now += more * cost;
                known.held_until = now;
                all += more;
            }
        }
        self.looks.most = self.looks.most.max(all);
        self.looks.waited += waited;
        self.pending += all * cost + waited;
    }

    /// Returns the most pages that fallbacks scanned for one request, and how long others meanwhile waited for
    /// a lock, since counting started.
    pub(crate) const fn looks(&self) -> (u64, Nanos) {
        (self.looks.most, self.looks.waited)
    }

    /// Resets these counts.
    pub(crate) fn start_counting_looks(&mut self) {
        (self.looks.most, self.looks.waited) = (0, 0);
    }

    /// Compares the free lists of the blocks taken since the last call with the types of their pageblocks.
    #[inline]
    pub(crate) fn count_list_mismatches(&mut self) {
        for taken in self.vm.observer.take_taken() {
            let allocator = self.vm.allocator();
            let zone = allocator.zone_of(taken.pfn).map(|at| &allocator.zones()[at.index()]);
            if let Some(block) = zone.and_then(|zone| zone.block_type(taken.pfn)) {
                self.list_mismatch.record(taken.list, block, taken.order);
            }
        }
    }

    /// Submits a write to the disk; returns its completion time.
    fn submit(&mut self, write: Write, pages: u64) -> Nanos {
        let done = self.disk.write(self.sched.now, pages);
        self.disk.note_congestion();
        let at = self.free_writes.pop().unwrap_or_else(|| {
            self.writes.push(None);
            self.writes.len() - 1
        });
        self.writes[at] = Some(write);
        self.sched.written_at(done, at);
        done
    }

    /// Submits a run of a file's pages to the disk.
    pub(crate) fn submit_run(&mut self, run: Run) {
        self.submit(Write::File(run), run.pages.into());
    }

    /// Submits a buffer of the file system's log to the disk; returns its completion time.
    pub(crate) fn submit_log(&mut self, pages: u64) -> Nanos {
        self.submit(Write::Log, pages)
    }

    /// Submits the writes of reclaim to the disk; returns their number.
    pub(crate) fn submit_reclaimed(&mut self) -> usize {
        let (files, swap) = (self.vm.take_file_writes(), self.vm.take_swap_writes());
        let any = files.len() + swap.len();
        for run in files {
            self.submit_run(run);
        }
        for pages in swap {
            let count = pages.len() as u64;
            self.submit(Write::Swap(pages), count);
        }
        any
    }

    /// Registers a task to be woken when the next write completes. A task whose earlier wait timed out is still
    /// listed.
    pub(crate) fn wait_for_write(&mut self, task: TaskId) {
        if !self.write_waiters.contains(&task) {
            self.write_waiters.push(task);
        }
    }

    /// Registers a task to be woken when the disk's congestion ends; likewise.
    pub(crate) fn wait_for_queue(&mut self, task: TaskId) {
        if !self.congestion_waiters.contains(&task) {
            self.congestion_waiters.push(task);
        }
    }

    /// Handles the completion of a write.
    pub(crate) fn written(&mut self, at: usize) {
        match self.writes[at].take() {
            Some(Write::File(run)) => self.vm.end_writes(run),
            Some(Write::Swap(pages)) => {
                for pfn in pages {
                    self.vm.end_write(pfn);
                }
            }
            Some(Write::Log) => {}
            None => return,
        }
        self.free_writes.push(at);
        self.disk.outstanding -= 1;
        if self.disk.note_congestion() {
            for task in std::mem::take(&mut self.congestion_waiters) {
                self.sched.wake(task);
            }
        }
        self.wake_throttled();
        for task in std::mem::take(&mut self.write_waiters) {
            self.sched.wake(task);
        }
    }

    /// Reports whether a task's next write would block after `batch` writes since it last waited.
    pub(crate) fn refuses_writes(&self, batch: usize) -> bool {
        if self.vm.kernel().writeback.multi_queue {
            self.disk.is_full()
        } else {
            self.disk.refuses(batch)
        }
    }

    /// Makes a node's kswapd wait until this many more of its pages are written.
    pub(crate) fn throttle(&mut self, node: usize, pages: u64) {
        self.throttled[node] = Some(self.vm.nodes()[node].written + pages);
    }

    fn wake_throttled(&mut self) {
        for (node, limit) in self.throttled.iter_mut().enumerate() {
            if limit.is_some_and(|limit| self.vm.nodes()[node].written > limit) {
                *limit = None;
                self.sched.wake(self.kswapds[node]);
            }
        }
    }

    /// Wakes the daemons with a pending wakeup. A kswapd that waits for the disk in the middle of its work
    /// ignores it.
    pub(crate) fn wake_daemons(&mut self) {
        for node in 0..self.kswapds.len() {
            let kswapd = &self.vm.nodes()[node].kswapd;
            if kswapd.woken && !kswapd.is_running() {
                self.sched.wake(self.kswapds[node]);
            }
            if self.vm.nodes()[node].kcompactd.woken {
                self.sched.wake(self.kcompactds[node]);
            }
        }
        if self.vm.take_flusher_wanted() {
            self.wake_flusher();
        }
    }

    pub(crate) fn wake_log(&mut self) {
        if let Some(task) = self.log {
            self.sched.wake(task);
        }
    }

    pub(crate) fn wake_flusher(&mut self) {
        if let Some(task) = self.flusher {
            self.sched.wake(task);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_seed_and_purpose_has_a_stream_of_its_own() {
        let seeds = (0..100).chain([1 << 63, (1 << 63) + 1, u64::MAX]);
        let first = |(seed, purpose)| Random::new(seed, purpose).0.next_u64();
        let streams: Vec<u64> =
            seeds.flat_map(|s| (0..8).map(move |p| (s, p))).map(first).collect();
        assert_eq!(streams.iter().collect::<BTreeSet<_>>().len(), streams.len());
    }
}
