//! kswapd and kcompactd, which run while the recording's clock goes on.

use pageblock_replay::watch::Watch;
use pageblock_vm::Vm;
use pageblock_vm::compact::kcompactd::PROACTIVE_NS;
use pageblock_vm::daemon::Daemon;

use crate::pace::Pace;

/// The nanosecond up to which each thread of a node has worked.
#[derive(Clone, Copy, Debug, Default)]
struct Threads {
    kswapd: u64,
    kcompactd: u64,
}

/// The number of times in a whole replay that kswapd may wait without progress, and proactive compaction may improve
/// nothing: 27 minutes and 18 hours if they follow each other. A clock that jumps by years must not lead to more.
const IDLE_WAITS: u32 = 1 << 14;
const IDLE_ROUNDS: u32 = 1 << 11;
/// The limit between two demands: nothing else changes memory in between, so a repetition gives the same result. A node's
/// kswapd itself gives up after 16 such rounds (`MAX_RECLAIM_RETRIES`).
const IDLE_IN_A_ROW: u32 = 16;

/// The threads of all nodes.
pub(crate) struct Daemons {
    threads: Vec<Threads>,
    pace: Pace,
    /// `None` before the first demand: what the machine did since it was booted is in the state at the start.
    now: Option<u64>,
    /// The remaining numbers of both.
    idle_waits: u32,
    idle_rounds: u32,
}

impl Daemons {
    pub(crate) fn new(nodes: usize, pace: Pace) -> Self {
        let threads = vec![Threads::default(); nodes];
        Self { threads, pace, now: None, idle_waits: IDLE_WAITS, idle_rounds: IDLE_ROUNDS }
    }

    /// Lets them work for a time in nanoseconds.
    pub(crate) fn wait(&mut self, vm: &mut Vm<'_, Watch>, ns: u64) {
        self.until(vm, self.now.unwrap_or(0) + ns);
    }

    /// Lets them work until a time in nanoseconds.
    pub(crate) fn until(&mut self, vm: &mut Vm<'_, Watch>, now: u64) {
        let before = self.now.unwrap_or(now);
        let now = before.max(now);
        self.now = Some(now);
        vm.take_work();
        for node in 0..self.threads.len() {
            self.run_kswapd(vm, node, (before, now));
            self.run_kcompactd(vm, node, (before, now));
        }
    }

    fn run_kswapd(&mut self, vm: &mut Vm<'_, Watch>, node: usize, (before, now): (u64, u64)) {
        let at = &mut self.threads[node].kswapd;
        let kswapd = &vm.nodes()[node].kswapd;
        if kswapd.woken && !kswapd.is_running() {
            // A wake ends a nap.
            *at = (*at).min(before);
        }
        let (mut reclaimed, mut idle) = (0, 0);
        while *at <= now {
            let step = vm.step_kswapd(node, 0);
            let work = vm.take_work();
            if !goes_on(step, at, before, now, self.pace.cost(&work)) {
                break;
            }
            reclaimed += work.reclaimed;
            if reclaimed > 0 {
                idle = 0;
            }
            if step != Daemon::Ran && std::mem::take(&mut reclaimed) == 0 {
                *at = after_idling(*at, now, &mut self.idle_waits, &mut idle);
            }
        }
    }

    fn run_kcompactd(&mut self, vm: &mut Vm<'_, Watch>, node: usize, (before, now): (u64, u64)) {
        let at = &mut self.threads[node].kcompactd;
        if vm.nodes()[node].kcompactd.woken {
            *at = (*at).min(before);
        }
        let (mut napped, mut idle) = (false, 0);
        while *at <= now {
            let step = vm.step_kcompactd(node, 0);
            if !goes_on(step, at, before, now, self.pace.cost(&vm.take_work())) {
                break;
            }
            let Daemon::Nap(ns) = step else {
                napped = false;
                continue;
            };
            if std::mem::replace(&mut napped, true) {
                // The check between two naps found nothing to do, and finds the same until something else runs.
                *at += now.saturating_sub(*at) / ns * ns;
            } else if ns > PROACTIVE_NS {
                *at = after_idling(*at, now, &mut self.idle_rounds, &mut idle);
            } else {
                idle = 0;
            }
        }
    }
}

/// Returns the time at which a thread continues that has again done nothing: the end of the gap, if it has done nothing
/// too often.
fn after_idling(at: u64, now: u64, left: &mut u32, in_a_row: &mut u32) -> u64 {
    *left = left.saturating_sub(1);
    *in_a_row += 1;
    if *left == 0 || *in_a_row >= IDLE_IN_A_ROW { at.max(now) } else { at }
}

/// Advances a thread's clock after a step of `cost` nanoseconds. Returns whether the thread is awake.
fn goes_on(step: Daemon, at: &mut u64, before: u64, now: u64, cost: u64) -> bool {
    let from = (*at).max(before);
    *at = match step {
        Daemon::Ran => from + cost,
        Daemon::Nap(ns)
        | Daemon::WaitWrites(ns)
        | Daemon::WaitCongestion(ns)
        | Daemon::WaitIfCongested(ns)
        | Daemon::WaitPages(ns) => from + ns.max(cost),
        Daemon::Sleep => now,
    };
    step != Daemon::Sleep
}
