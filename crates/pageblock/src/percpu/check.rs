//! The invariants of CPU caches, verified against the page map.

use crate::base::frame::pages;
use crate::base::ids::CpuId;
use crate::percpu::cache::CpuCache;
use crate::percpu::list::RestRef;
use crate::policy::source::PolicySource;
use crate::table::map::FrameState;
use crate::zone::Zone;
use crate::zone::check::{Violation, walk};

impl<P: PolicySource> Zone<'_, P> {
    /// Verifies one cache. Returns the pages on its lists.
    pub(crate) fn check_cache(
        &self,
        cpu: CpuId,
        cache: &CpuCache<'_, P>,
    ) -> Result<u64, Violation> {
        let mut count = 0;
        for index in cache.lists() {
            let order = cache.list_order(index);
            let listed = |i| match self.map().state(i) {
                FrameState::CpuList { order: is, cached }
                    if is == order
                        && (cache.list_index(is, cached) == Some(index)
                            || !self.policy().remembers_list()
                            || !cached.is_mergeable()
                            // The cached type is the pageblock's, which may have changed since.
                            || self.map().has_bits()) =>
                {
                    Ok(())
                }
                state => Err(Violation::ListedOtherwise(self.map().pfn(i), state)),
            };
            let (mut near, list) = cache.parts(index);
            let blocks = match cache.rest(self.map(), index) {
                RestRef::Linked(map) => walk(map, map, list.chain(), cache.tag(), listed)?,
                RestRef::Ring(ring) => {
                    list.chain().ring_iter(ring).try_fold(0, |n, i| listed(i).map(|()| n + 1))?
                }
            };
            let blocks = blocks + near.try_fold(0, |n, i| listed(i).map(|()| n + 1))?;
            count += u64::from(blocks) * pages(order);
        }
        for i in cache.leaving() {
            match self.map().state(i) {
                FrameState::CpuList { order, .. } => count += pages(order),
                state => return Err(Violation::ListedOtherwise(self.map().pfn(i), state)),
            }
        }
        if count == u64::from(cache.count()) { Ok(count) } else { Err(Violation::CacheCount(cpu)) }
    }

    /// Verifies the caches of a zone, and that every block on a CPU list is on one of their lists.
    pub(crate) fn check_caches<'c>(
        &self,
        caches: impl Iterator<Item = &'c CpuCache<'c, P>>,
    ) -> Result<(), Violation> {
        let mut listed = 0;
        for (cpu, cache) in caches.enumerate() {
            listed += self.check_cache(CpuId(cpu), cache)?;
        }
        let mapped: u64 = (0..self.map().frames())
            .map(|i| match self.map().state(i) {
                FrameState::CpuList { order, .. } => pages(order),
                _ => 0,
            })
            .sum();
        if mapped == listed {
            Ok(())
        } else {
            Err(Violation::Counter { name: "free_pcp", counted: listed, listed: mapped })
        }
    }
}
