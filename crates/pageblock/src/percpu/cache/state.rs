//! The tuning state of a cache.

use super::{CacheLimits, CpuCache};
use crate::policy::source::PolicySource;

/// The limits of a cache, and its tuning state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CacheState {
    /// The limits of batch and `high`.
    pub limits: CacheLimits,
    /// The number of pages that the cache may hold now.
    pub high: u32,
    /// The number that an allocation halves: pages freed in a row (`free_count`, 6.7 and later), or the exponent of
    /// the drain's size (`free_factor`, 5.13 to 6.6).
    pub free_count: u32,
    /// Exponent of the refill's size (6.7 and later).
    pub alloc_factor: u8,
    /// The last free was of a high order (`PCPF_PREV_FREE_HIGH_ORDER`).
    pub prev_free_high_order: bool,
    /// The CPU's share of the data cache holds more than three batches (`PCPF_FREE_HIGH_BATCH`).
    pub free_high_batch: bool,
}

impl<P: PolicySource> CpuCache<'_, P> {
    /// Returns the limits and the tuning state.
    #[must_use]
    pub fn state(&self) -> CacheState {
        CacheState {
            limits: self.limits,
            high: self.high,
            free_count: self.free_count(),
            alloc_factor: self.alloc_factor,
            prev_free_high_order: self.prev_free_high_order,
            free_high_batch: self.free_high_batch,
        }
    }

    /// Returns how often a list led to a block that this CPU does not own, because two CPUs had freed the block at
    /// the same instant; see [`sharing`](crate::sharing).
    #[must_use]
    pub fn strays(&self) -> u32 {
        self.strays
    }

    #[cfg(feature = "replay")]
    pub(crate) fn set_state(&mut self, state: CacheState) {
        let CacheState { limits, high, free_count, .. } = state;
        (self.limits, self.high, self.free_count) = (limits, high, free_count);
        self.alloc_factor = state.alloc_factor;
        self.prev_free_high_order = state.prev_free_high_order;
        self.free_high_batch = state.free_high_batch;
        self.forget_keep_rule();
    }

    /// Returns the cache's limits.
    #[must_use]
    pub fn limits(&self) -> CacheLimits {
        self.limits
    }

    /// Returns the number of pages that the cache may hold now.
    #[must_use]
    pub fn high(&self) -> u32 {
        self.high
    }
}
