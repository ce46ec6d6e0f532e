//! The caches of a CPU, one per zone, and the zones that it tries first.

use crate::base::ids::{CpuId, ListIndex, NodeId, ZoneIndex};
use crate::base::layout::MAX_NR_ZONES;
use crate::base::mobility::Migratetype;
use crate::percpu::cache::CpuCache;
use crate::percpu::cache::rings::Rings;
use crate::percpu::snapshot::ZoneSnapshot;
use crate::policy::source::{Chosen, PolicySource};
use crate::table::bits::page_code;
use crate::table::map::PageMap;
use crate::zone::retune::CacheTuning;

/// The data of a CPU.
pub(crate) struct CpuCaches<'m, P: PolicySource = Chosen> {
    /// One per zone.
    pub(crate) zones: &'m mut [CpuZone<'m, P>],
    /// The first zone of the node's zonelist, by the highest zone of a request.
    pub(crate) first: [ZoneIndex; MAX_NR_ZONES],
    /// The zone of the block that the CPU freed last.
    pub(crate) recent: ZoneIndex,
    /// The CPU's node.
    pub(crate) node: NodeId,
    /// The number of mailbox requests received so far, if the CPU shares the allocator; see
    /// [`Mailbox`](crate::percpu::mailbox::Mailbox).
    pub(crate) seen: u32,
}

/// A CPU's data for one zone. No other CPU writes to the same cache lines.
#[repr(align(128))]
pub(crate) struct CpuZone<'m, P: PolicySource = Chosen> {
    pub(crate) snapshot: &'m ZoneSnapshot<'m, P>,
    /// A copy of the snapshot's map.
    pub(crate) map: PageMap<'m, P>,
    /// Must be [flushed](CpuZone::flushed) before anything but a fast path changes it.
    pub(crate) cache: CpuCache<'m, P>,
    /// The type of the pageblock that the CPU freed to last in this zone.
    pub(crate) recent_type: Migratetype,
    /// The list that pages of that type are freed to; see [`CpuCache::put_list`].
    pub(crate) recent_list: ListIndex,
    /// See [`is_kept`](crate::table::block::is_kept).
    pub(crate) recent_key: u16,
    /// The code of a page that is as movable as the list; see [`page_code`].
    pub(crate) recent_code: u16,
    /// The [`CacheTuning::times`] at which the cache's limits were set.
    pub(crate) tuned: u32,
}

impl<P: PolicySource> Default for CpuCaches<'_, P> {
    fn default() -> Self {
        Self {
            zones: &mut [],
            first: Default::default(),
            recent: ZoneIndex::default(),
            node: NodeId::default(),
            seen: 0,
        }
    }
}

impl<'m, P: PolicySource> CpuZone<'m, P> {
    /// Puts the page freed last on its list, and returns the cache.
    #[inline]
    pub(crate) fn flushed(&mut self) -> &mut CpuCache<'m, P> {
        self.cache.flush_last_freed(&self.map);
        &mut self.cache
    }

    /// Notes the type of the pageblock that was freed to last, and the list for its pages.
    pub(crate) fn set_recent(&mut self, mt: Migratetype, list: ListIndex) {
        (self.recent_type, self.recent_list) = (mt, list);
        self.recent_key = self.map.key(mt);
        self.recent_code = page_code(list.index() == Migratetype::Movable as usize);
    }

    /// Gives the empty cache rings for its lists.
    pub(crate) fn add_rings(&mut self, rings: Rings<'m>) {
        self.cache.set_rings(rings);
    }
}

impl<P: PolicySource> CpuZone<'_, P> {
    /// Adopts new limits, if they were set since the last call.
    fn adopt(&mut self, tuning: CacheTuning) {
        if self.tuned != tuning.times {
            self.tuned = tuning.times;
            // The page freed last counts under the limits that it was freed under.
            let cache = self.flushed();
            cache.set_weight_order(tuning.weight_order);
            cache.set_limits(tuning.limits);
        }
    }
}

impl<P: PolicySource> CpuCaches<'_, P> {
    /// Returns the CPU's number.
    pub(crate) fn cpu(&self) -> CpuId {
        CpuId::new(self.zones.first().map_or(0, |zone| (zone.cache.tag() - 1) as usize))
    }

    /// Sets the first zones, by the highest zone of a request.
    pub(crate) fn set_first(&mut self, first: [ZoneIndex; MAX_NR_ZONES]) {
        self.first = first;
    }

    /// Makes every cache adopt the limits of its zone, as `tuning` returns them.
    pub(crate) fn adopt(&mut self, mut tuning: impl FnMut(ZoneIndex) -> CacheTuning) {
        for (at, zone) in ZoneIndex::up_to(self.zones.len()).zip(self.zones.iter_mut()) {
            zone.adopt(tuning(at));
        }
    }
}
