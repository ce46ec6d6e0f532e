//! The decisions of a CPU's cache that a custom policy may take.

use crate::base::decide::{CpuLists, Decide, Decision};
use crate::base::frame::{Order, pages};
use crate::percpu::cache::CpuCache;
use crate::policy::source::PolicySource;

/// The limit of a cache's pages under any answer, in multiples of `high_max`.
const HELD_AT_MOST: u32 = 2;

impl<P: PolicySource> CpuCache<'_, P> {
    fn shown(&self, order: Order) -> CpuLists {
        CpuLists { order, count: self.count, high: self.high, batch: self.limits.batch }
    }

    /// Asks how many blocks a refill takes.
    pub(crate) fn asked_refill(&self, order: Order, linux: u32, decider: &mut impl Decide) -> u32 {
        let answer = decider.refill(self.shown(order), linux);
        let blocks = u64::from(self.limits.high_max) >> order;
        let most = u32::try_from(blocks).unwrap_or(u32::MAX).max(linux);
        if answer == linux || (1..=most).contains(&answer) {
            return answer;
        }
        decider.refused(Decision::Refill);
        linux
    }

    /// Asks how many pages to drain before a block is put on its list.
    pub(crate) fn asked_drain(&self, order: Order, linux: u32, decider: &mut impl Decide) -> u32 {
        let answer = decider.drain(self.shown(order), linux);
        let held = self.count.saturating_add(pages(order) as u32);
        let full = held > self.limits.high_max.saturating_mul(HELD_AT_MOST);
        let least = if full { self.limits.batch.min(held).max(1) } else { 0 };
        if answer == linux || (least..=held).contains(&answer) {
            return answer;
        }
        decider.refused(Decision::Drain);
        linux
    }
}
