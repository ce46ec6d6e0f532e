//! What a zone and its CPUs count.

/// What was counted since the allocator was made. Allocations and frees are counted by CPU
/// ([`CpuCache::counters`](crate::cpu_cache::CpuCache::counters)), all else by zone;
/// [`Allocator::counters`](crate::alloc::Allocator::counters) sums up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ZoneCounters {
    /// Pages allocated (`pgalloc_<zone>`).
    pub pgalloc: u64,
    /// Pages freed (its share of `pgfree`).
    pub pgfree: u64,
    /// How often the zone lock would be taken.
    pub lock_acquired: u64,
    /// Free lists looked at in the search for a block.
    pub list_probes: u64,
}

impl ZoneCounters {
    #[inline(always)]
    #[cfg(feature = "replay")]
    pub(crate) fn count_free(&mut self, order: crate::base::frame::Order) {
        self.pgfree += crate::base::frame::pages(order);
    }

    /// Returns the sum of both.
    #[must_use]
    pub const fn and(self, other: &Self) -> Self {
        Self {
            pgalloc: self.pgalloc + other.pgalloc,
            pgfree: self.pgfree + other.pgfree,
            lock_acquired: self.lock_acquired + other.lock_acquired,
            list_probes: self.list_probes + other.list_probes,
        }
    }
}
