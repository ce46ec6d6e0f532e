//! kswapd: reclaim in the background, one thread a node, run in steps.
//!
//! Source: `kswapd` (mm/vmscan.c).

mod balance;
mod sleep;
mod wake;
mod zones;

use pageblock::event::Observer;
use pageblock::frame::Order;
use pageblock::ids::NodeId;
use pageblock::layout::ZoneKind;
use pageblock_kernel::rules::kswapd::{Kswapd as Rules, KswapdWaits};

use self::balance::{Balancing, Progress};
pub use crate::base::daemon::{Daemon, TENTH_SECOND_NS, THROTTLE_PAGES};
use crate::vm::Vm;

/// The state of a node's kswapd.
#[derive(Clone, Debug)]
pub struct Kswapd {
    /// It was woken since it last ran.
    pub woken: bool,
    /// The order that it was woken for.
    order: Order,
    /// The highest zone of the requests since it last ran, if there were any.
    highest: Option<ZoneKind>,
    /// The highest zone that it last ran for.
    last_highest: ZoneKind,
    /// Runs in a row that reclaimed nothing (`kswapd_failures`).
    failures: u32,
    /// It met pages under writeback at the end of a list again and again (`PGDAT_WRITEBACK`).
    writeback_congested: bool,
    phase: Phase,
}

/// What kswapd is doing.
#[derive(Clone, Debug)]
enum Phase {
    Asleep,
    /// In the middle of a step.
    Stepping,
    Balancing(Box<Balancing>),
    Napping(Nap),
}

/// A nap before kswapd sleeps.
#[derive(Clone, Copy, Debug)]
struct Nap {
    /// The order for which the node was balanced.
    order: Order,
    highest: ZoneKind,
}

impl Default for Kswapd {
    fn default() -> Self {
        Self {
            woken: false,
            order: 0,
            highest: None,
            last_highest: ZoneKind::Movable,
            failures: 0,
            writeback_congested: false,
            phase: Phase::Asleep,
        }
    }
}

impl Kswapd {
    /// Returns whether it is reclaiming.
    #[must_use]
    pub fn is_running(&self) -> bool {
        matches!(self.phase, Phase::Balancing(_) | Phase::Stepping)
    }

    /// Returns whether too many of its runs reclaimed nothing, so that it is not woken until a task reclaims something on
    /// the node.
    #[must_use]
    pub const fn is_hopeless(&self, rules: &Rules) -> bool {
        self.failures >= rules.kswapd_retries
    }

    /// Notes that something was reclaimed on the node.
    pub(super) const fn reset_failures(&mut self) {
        self.failures = 0;
    }

    /// Returns whether it waits for pages under writeback that it meets again.
    pub(super) const fn is_writeback_congested(&self) -> bool {
        self.writeback_congested
    }

    /// Sets whether it waits for pages under writeback that it meets again.
    pub(super) const fn set_writeback_congested(&mut self, congested: bool) {
        self.writeback_congested = congested;
    }

    /// Raises the order and the highest zone that it balances for.
    fn request(&mut self, highest: ZoneKind, order: Order) {
        self.order = self.order.max(order);
        self.highest = self.highest.max(Some(highest));
    }

    /// Takes the highest zone of the requests; without requests the one that it last ran for.
    fn take_highest(&mut self) -> ZoneKind {
        self.last_highest = self.highest.take().unwrap_or(self.last_highest);
        self.last_highest
    }

    /// Ignores wakes during the run before a nap, unless they are for a larger order (up to 4.0). A wake is also lost
    /// if the run reclaimed for a lower order than requested.
    fn forget_same_wakes(&mut self, requested: Order, reclaimed: Order) {
        let kept = requested == reclaimed;
        self.woken = kept && self.order > requested;
        if kept && !self.woken {
            self.order = 0;
        }
    }

    /// Wakes it because a watermark was boosted while a block was allocated.
    pub(crate) fn wake_for_boost(&mut self, zone: ZoneKind, order: Order) {
        self.request(zone, order);
        self.woken |= !self.is_running();
    }
}

impl<O: Observer> Vm<'_, O> {
    /// Runs one step of a node's kswapd on a CPU.
    pub fn step_kswapd(&mut self, node: usize, cpu: usize) -> Daemon {
        // Whoever asks during the step finds it running.
        let phase = std::mem::replace(&mut self.nodes[node].kswapd.phase, Phase::Stepping);
        let (next, daemon) = match phase {
            Phase::Asleep | Phase::Stepping => {
                if std::mem::take(&mut self.nodes[node].kswapd.woken) {
                    (self.start_balancing(node, cpu), Daemon::Ran)
                } else {
                    (Phase::Asleep, Daemon::Sleep)
                }
            }
            Phase::Balancing(mut balancing) => {
                balancing.sc.cpu = cpu;
                match self.step_balancing(node, &mut balancing) {
                    Progress::Continues => (Phase::Balancing(balancing), Daemon::Ran),
                    Progress::Waits => (Phase::Balancing(balancing), self.wait_for_disk()),
                    Progress::Over => self.try_to_sleep(node, &balancing),
                }
            }
            Phase::Napping(nap) => self.after_nap(node, cpu, nap),
        };
        self.nodes[node].kswapd.phase = next;
        let running = self.nodes[node].kswapd.is_running();
        let id = self.nodes[node].id;
        self.allocator.set_kswapd_running(NodeId(id), running);
        daemon
    }

    /// Returns how kswapd waits for the disk. Requests for memory do not end the wait.
    const fn wait_for_disk(&self) -> Daemon {
        match self.kernel.kswapd.kswapd_waits {
            KswapdWaits::Pages => Daemon::WaitPages(TENTH_SECOND_NS),
            KswapdWaits::IfCongested => Daemon::WaitIfCongested(TENTH_SECOND_NS),
            KswapdWaits::Congestion => Daemon::WaitCongestion(TENTH_SECOND_NS),
        }
    }
}
