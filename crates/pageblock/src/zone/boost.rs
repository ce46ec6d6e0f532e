//! The watermark boost (5.0 and later): early reclaim after a fallback that fragments memory.
//!
//! Source: `boost_watermark` (mm/page_alloc.c).

use crate::base::alloc_flags::AllocFlags;
use crate::base::event::Observer;
use crate::base::mobility::Migratetype;
use crate::policy::source::PolicySource;
use crate::zone::asked::BOOST_SHARE;
use crate::zone::{Zone, tuning};

impl<P: PolicySource> Zone<'_, P> {
    /// Lowers the boost by a number of pages that kswapd has reclaimed, at most to 0.
    pub fn end_boost(&mut self, pages: u64) {
        self.boost = self.boost.saturating_sub(pages);
    }

    /// Raises the boost by a number of pages, in all at most to an eighth of the zone, under its lock.
    pub fn raise_boost(&mut self, pages: u64) {
        self.counters.lock_acquired += 1;
        let most = self.managed / BOOST_SHARE;
        self.boost = self.boost.saturating_add(pages).min(most.max(self.boost));
    }

    /// Raises the watermarks after a fallback below the pageblock order (`boost_watermark`).
    pub(crate) fn boost_watermark(
        &mut self,
        start: Migratetype,
        flags: AllocFlags,
        observer: &mut impl Observer,
    ) {
        use crate::policy::Boost;
        let mut boost = tuning::boost_watermark(
            &self.policy,
            start,
            self.watermarks.high,
            self.boost,
            self.managed,
            self.geometry.pageblock_order,
        );
        if let Some(mut decider) = observer.decider() {
            boost = self.asked_boost(start, boost, &mut decider);
        }
        if let Some(boost) = boost {
            debug_assert!(boost >= self.boost, "a fallback lowers the boost");
            self.boost = boost;
        }
        let unconditional = matches!(self.policy.boost, Boost::EveryZone | Boost::LargeZones);
        let unconditional = unconditional && tuning::boost_blocks(&self.policy, start) > 0;
        let marks = self.policy.boost != Boost::Off && (unconditional || boost.is_some());
        if marks && flags.has(AllocFlags::KSWAPD) {
            self.boosted = true;
        }
    }

    /// Wakes kswapd if the watermarks were boosted since the last wakeup.
    pub(crate) fn wake_for_boost(&mut self, observer: &mut impl Observer) {
        if core::mem::take(&mut self.boosted) {
            observer.wake_kswapd(self.node, self.kind, 0);
        }
    }
}
