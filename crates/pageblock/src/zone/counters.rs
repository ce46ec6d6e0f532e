//! Counters of a zone and its CPUs.

/// Totals since the allocator was created. Allocations and frees are counted per CPU
/// ([`CpuCache::counters`](crate::cpu_cache::CpuCache::counters)), everything else per zone;
/// [`Allocator::counters`](crate::alloc::Allocator::counters) adds them up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ZoneCounters {
    /// Pages allocated (`pgalloc_<zone>`).
    pub pgalloc: u64,
    /// Pages freed (its share of `pgfree`).
    pub pgfree: u64,
    /// The number of times that the zone lock would be taken.
    pub lock_acquired: u64,
    /// Free lists probed in searches for a block.
    pub list_probes: u64,
}

impl ZoneCounters {
    #[cfg(feature = "replay")]
    pub(crate) fn count_free(&mut self, order: crate::base::frame::Order) {
        self.pgfree += crate::base::frame::pages(order);
    }

    /// Returns the sum of two sets of counters.
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
