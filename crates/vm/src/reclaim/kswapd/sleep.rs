//! How kswapd goes to sleep (`kswapd_try_to_sleep`, `prepare_kswapd_sleep`).

use pageblock::event::Observer;
use pageblock::frame::Order;
use pageblock::layout::ZoneKind;
use pageblock_kernel::rules::kcompactd::Background;
use pageblock_kernel::rules::kswapd::HintsForgotten;

use super::balance::Balancing;
use super::{Nap, Phase};
use crate::base::daemon::{Daemon, TENTH_SECOND_NS};
use crate::vm::Vm;

impl<O: Observer> Vm<'_, O> {
    /// Returns whether kswapd may sleep: the node is balanced or hopeless.
    fn may_sleep(&self, node: usize, order: Order, highest: ZoneKind) -> bool {
        let rules = &self.kernel.kswapd;
        let hopeless = rules.hopeless_nodes && self.nodes[node].kswapd.is_hopeless(rules);
        hopeless || self.balanced(node, order, highest)
    }

    /// Naps after a run if the node is balanced, and wakes kcompactd; runs again otherwise.
    pub(super) fn try_to_sleep(&mut self, node: usize, b: &Balancing) -> (Phase, Daemon) {
        let kswapd = &mut self.nodes[node].kswapd;
        kswapd.set_writeback_congested(false);
        let rules = &self.kernel.kswapd;
        let (mut requested, mut order, mut highest) = (b.requested, b.sc.order, b.sc.highest);
        if rules.same_wake_ignored {
            kswapd.forget_same_wakes(requested, order);
        }
        // A request came during the run: the nap would delay it.
        if kswapd.woken {
            return (self.start_balancing(node, b.sc.cpu), Daemon::Ran);
        }
        if rules.order_kept && order == requested {
            // It did what it was asked for, and turns to what was asked for meanwhile.
            (requested, order) = (kswapd.order, kswapd.order);
            highest = kswapd.highest.unwrap_or(highest);
        }
        if self.may_sleep(node, order, highest) {
            if rules.hints_forgotten == HintsForgotten::BeforeNap {
                self.reset_skip_hints(node);
            }
            if self.kernel.kcompactd.kcompactd == Background::On {
                self.wake_kcompactd(node, requested, highest);
            }
            return (Phase::Napping(Nap { order, highest }), Daemon::Nap(TENTH_SECOND_NS));
        }
        self.stat.kswapd_high_wmark_hit_quickly += 1;
        // If nothing was reclaimed at any priority, kernels without hopeless nodes set zones aside; here the next write
        // may change that. Others run again until the node is hopeless.
        let waits = b.reclaimed == 0 && !rules.hopeless_nodes;
        let next = self.start_balancing(node, b.sc.cpu);
        (next, if waits { Daemon::WaitWrites(TENTH_SECOND_NS) } else { Daemon::Ran })
    }

    /// Sleeps after a nap if the node is still balanced; runs again otherwise.
    pub(super) fn after_nap(&mut self, node: usize, cpu: usize, nap: Nap) -> (Phase, Daemon) {
        let rules = &self.kernel.kswapd;
        let kswapd = &mut self.nodes[node].kswapd;
        if kswapd.woken {
            if rules.order_kept {
                kswapd.order = kswapd.order.max(nap.order);
            }
            // The node was below its low watermark again before the nap was over.
            self.stat.kswapd_low_wmark_hit_quickly += 1;
            return (self.start_balancing(node, cpu), Daemon::Ran);
        }
        if self.may_sleep(node, nap.order, nap.highest) {
            if rules.hints_forgotten == HintsForgotten::AfterNap {
                self.reset_skip_hints(node);
            }
            return (Phase::Asleep, Daemon::Sleep);
        }
        self.stat.kswapd_high_wmark_hit_quickly += 1;
        (self.start_balancing(node, cpu), Daemon::Ran)
    }
}
