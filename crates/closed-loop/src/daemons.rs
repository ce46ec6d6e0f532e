//! kswapd and kcompactd, which run while the recording's clock goes on.

use pageblock_replay::watch::Watch;
use pageblock_vm::Vm;
use pageblock_vm::daemon::Daemon;

use crate::pace::Pace;

/// Both threads of a node, by the nanosecond up to which each has worked.
#[derive(Clone, Copy, Debug, Default)]
struct Threads {
    kswapd: u64,
    kcompactd: u64,
}

/// The threads of all nodes.
pub(crate) struct Daemons {
    threads: Vec<Threads>,
    pace: Pace,
    now: u64,
}

impl Daemons {
    pub(crate) fn new(nodes: usize, pace: Pace) -> Self {
        Self { threads: vec![Threads::default(); nodes], pace, now: 0 }
    }

    /// Lets them work for so many nanoseconds.
    pub(crate) fn wait(&mut self, vm: &mut Vm<'_, Watch>, ns: u64) {
        self.until(vm, self.now + ns);
    }

    /// Lets them work until a time in nanoseconds.
    pub(crate) fn until(&mut self, vm: &mut Vm<'_, Watch>, now: u64) {
        let before = self.now;
        self.now = self.now.max(now);
        vm.take_work();
        for node in 0..self.threads.len() {
            self.run_kswapd(vm, node, before);
            self.run_kcompactd(vm, node, before);
        }
    }

    fn run_kswapd(&mut self, vm: &mut Vm<'_, Watch>, node: usize, before: u64) {
        let at = &mut self.threads[node].kswapd;
        let kswapd = &vm.nodes()[node].kswapd;
        if kswapd.woken && !kswapd.is_running() {
            // A wake ends a nap.
            *at = (*at).min(before);
        }
        while *at <= self.now {
            let step = vm.step_kswapd(node, 0);
            if !goes_on(step, at, before, self.now, self.pace.cost(&vm.take_work())) {
                break;
            }
        }
    }

    fn run_kcompactd(&mut self, vm: &mut Vm<'_, Watch>, node: usize, before: u64) {
        let at = &mut self.threads[node].kcompactd;
        if vm.nodes()[node].kcompactd.woken {
            *at = (*at).min(before);
        }
        while *at <= self.now {
            let step = vm.step_kcompactd(node, 0);
            if !goes_on(step, at, before, self.now, self.pace.cost(&vm.take_work())) {
                break;
            }
        }
    }
}

/// Moves a thread's clock after a step that took `cost` nanoseconds; tells whether it is awake.
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
