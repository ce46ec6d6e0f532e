//! What a CPU owns: a cache for each zone, and where it looks first.

use crate::cpu_cache::CpuCache;
use crate::layout::MAX_NR_ZONES;
use crate::levels::Front;
use crate::map::PageMap;
use crate::mobility::Migratetype;

/// What a CPU owns.
#[derive(Default)]
pub(crate) struct Row<'m> {
    /// One a zone.
    pub(crate) zones: &'m mut [CpuZone<'m>],
    /// The first zone of its node's list, by the highest zone of a request.
    pub(crate) first: [u16; MAX_NR_ZONES],
    /// The zone of the block that it freed last.
    pub(crate) recent: u16,
    /// Its node.
    pub(crate) node: u8,
    /// What it was told of, where it shares the allocator; see [`News`](crate::news::News).
    pub(crate) seen: u32,
}

/// What a CPU has of one zone. No other CPU writes to the same cache lines.
#[repr(align(128))]
pub(crate) struct CpuZone<'m> {
    pub(crate) front: &'m Front<'m>,
    /// The front's.
    pub(crate) map: PageMap<'m>,
    /// To be [settled](CpuZone::settled) before anything but a short way changes it.
    pub(crate) cache: CpuCache,
    /// The type of the pageblock that the CPU freed to last in this zone.
    pub(crate) recent_type: Migratetype,
    /// The list of such pages; see [`CpuCache::put_list`].
    pub(crate) recent_list: u8,
    /// Which of the zone's [`CacheTuning`](crate::retune::CacheTuning)s the cache has.
    pub(crate) tuned: u32,
}

impl CpuZone<'_> {
    /// The cache, with the page that it holds on its list.
    #[inline]
    pub(crate) fn settled(&mut self) -> &mut CpuCache {
        self.cache.settle(&self.map);
        &mut self.cache
    }
}
