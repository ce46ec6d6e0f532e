//! What the formats read: the numbers of a zone, and those of CPUs' caches.

use crate::api::alloc::Allocator;
use crate::api::sharing::Shared;
use crate::base::frame::{FrameRange, ORDER_LIMIT, Order, Pfn};
use crate::base::geometry::Geometry;
use crate::base::ids::{CpuId, NodeId, ZoneIndex};
use crate::base::interrupts::Interrupts;
use crate::base::layout::{MAX_NR_ZONES, ZoneKind};
use crate::base::locks::Locks;
use crate::base::mobility::{MIGRATETYPES, Migratetype};
use crate::percpu::cache::CpuCache;
use crate::policy::source::PolicySource;
use crate::table::map::FrameState;
use crate::zone::tuning::Watermarks;
use crate::zone::{Zone, ZoneCounters};

/// An allocator whose state can be written: of one owner, or shared, while its CPUs work. Each zone of a shared one is
/// read at once, under its lock, and written after that; zones are read one after the other. What a taken handle owns
/// cannot be read: its lists and counters are left out.
pub trait State: sealed::Read {}

impl<P: PolicySource> State for Allocator<'_, P> {}

impl<L: Locks, I: Interrupts, P: PolicySource> State for Shared<'_, L, I, P> {}

pub(super) mod sealed {
    use super::{CpuId, CpuNumbers, Geometry, Numbers, PageblockTypes, ZoneIndex};

    pub trait Read {
        fn geometry(&self) -> Geometry;
        fn nr_zones(&self) -> usize;
        fn nr_cpus(&self) -> usize;
        /// Returns the numbers of a zone; `None` where there is no such zone.
        fn numbers(&self, zone: ZoneIndex) -> Option<Numbers>;
        /// Returns the pageblocks of each type in a zone.
        fn pageblock_types(&self, zone: ZoneIndex) -> PageblockTypes;
        /// Returns the numbers of a CPU's cache for a zone; `None` while its handle is taken.
        fn of_cpu(&self, zone: ZoneIndex, cpu: CpuId) -> Option<CpuNumbers>;
    }
}

impl<P: PolicySource> sealed::Read for Allocator<'_, P> {
    fn geometry(&self) -> Geometry {
        Allocator::geometry(self)
    }
    fn nr_zones(&self) -> usize {
        self.zones().len()
    }
    fn nr_cpus(&self) -> usize {
        self.cpus()
    }
    fn numbers(&self, zone: ZoneIndex) -> Option<Numbers> {
        self.zones().get(zone.index()).map(Numbers::of)
    }
    fn pageblock_types(&self, zone: ZoneIndex) -> PageblockTypes {
        self.zones().get(zone.index()).map(pageblock_types).unwrap_or_default()
    }
    fn of_cpu(&self, zone: ZoneIndex, cpu: CpuId) -> Option<CpuNumbers> {
        self.cache(zone, cpu).map(CpuNumbers::of)
    }
}

impl<L: Locks, I: Interrupts, P: PolicySource> sealed::Read for Shared<'_, L, I, P> {
    fn geometry(&self) -> Geometry {
        Shared::geometry(self)
    }
    fn nr_zones(&self) -> usize {
        self.zones()
    }
    fn nr_cpus(&self) -> usize {
        self.cpus()
    }
    fn numbers(&self, zone: ZoneIndex) -> Option<Numbers> {
        self.with_zone(zone, |zone| Numbers::of(zone))
    }
    fn pageblock_types(&self, zone: ZoneIndex) -> PageblockTypes {
        self.with_zone(zone, |zone| pageblock_types(zone)).unwrap_or_default()
    }
    fn of_cpu(&self, zone: ZoneIndex, cpu: CpuId) -> Option<CpuNumbers> {
        self.with_cache(zone, cpu, CpuNumbers::of)
    }
}

/// The pageblocks of each type.
pub(super) type PageblockTypes = [u64; MIGRATETYPES];

/// The numbers of a zone at one instant; see the methods of [`Zone`] that have the same names.
pub struct Numbers {
    pub(super) node: NodeId,
    pub(super) kind: ZoneKind,
    pub(super) span: FrameRange,
    pub(super) present: u64,
    pub(super) managed: u64,
    pub(super) free_pages: u64,
    pub(super) free_pages_in_blocks: u64,
    pub(super) free_pages_of: [u64; MIGRATETYPES],
    /// The free blocks by type and order.
    pub(super) nr_free_of: [[u64; ORDER_LIMIT as usize + 1]; MIGRATETYPES],
    pub(super) watermarks: Watermarks,
    pub(super) boost: u64,
    pub(super) lowmem_reserve: [u64; MAX_NR_ZONES],
    pub(super) reserved_highatomic: u64,
    pub(super) alloc_batch: i64,
    pub(super) counters: ZoneCounters,
}

impl Numbers {
    fn of(zone: &Zone<'_, impl PolicySource>) -> Self {
        let max_order = zone.geometry().max_order;
        let mut nr_free_of = [[0; ORDER_LIMIT as usize + 1]; MIGRATETYPES];
        let mut free_pages_of = [0; MIGRATETYPES];
        for mt in Migratetype::ALL {
            free_pages_of[mt as usize] = zone.free_pages_of(mt);
            for order in 0..=max_order {
                nr_free_of[mt as usize][usize::from(order)] = zone.nr_free_of(order, mt);
            }
        }
        Self {
            node: zone.node(),
            kind: zone.kind(),
            span: zone.span(),
            present: zone.present(),
            managed: zone.managed(),
            free_pages: zone.free_pages(),
            free_pages_in_blocks: zone.free_pages_in_blocks(),
            free_pages_of,
            nr_free_of,
            watermarks: zone.watermarks(),
            boost: zone.boost(),
            lowmem_reserve: *zone.lowmem_reserve(),
            reserved_highatomic: zone.reserved_highatomic(),
            alloc_batch: zone.alloc_batch(),
            counters: *zone.counters(),
        }
    }

    pub(super) fn nr_free(&self, order: Order) -> u64 {
        self.nr_free_of.iter().map(|of_type| of_type[usize::from(order)]).sum()
    }
}

/// The numbers of a CPU's cache for a zone.
pub struct CpuNumbers {
    /// The pages in it.
    pub(super) count: u32,
    pub(super) high: u32,
    pub(super) batch: u32,
    pub(super) high_min: u32,
    pub(super) high_max: u32,
    pub(super) counters: ZoneCounters,
}

impl CpuNumbers {
    fn of(cache: &CpuCache<'_, impl PolicySource>) -> Self {
        let limits = cache.limits();
        Self {
            count: cache.count(),
            high: cache.high(),
            batch: limits.batch,
            high_min: limits.high_min,
            high_max: limits.high_max,
            counters: cache.counters(),
        }
    }
}

/// Returns the pageblocks of each type, as the kernel walks them: in steps of a pageblock from the zone's
/// first frame, which need not be the first of its block.
fn pageblock_types(zone: &Zone<'_, impl PolicySource>) -> PageblockTypes {
    let mut counts = [0; MIGRATETYPES];
    let step = zone.geometry().pageblock_pages();
    let mut pfn = zone.span().start;
    while pfn < zone.span().end {
        if zone.state(pfn) != Some(FrameState::Hole) {
            if let Some(mt) = zone.block_type(pfn) {
                counts[mt as usize] += 1;
            }
        }
        pfn = Pfn(pfn.0 + step);
    }
    counts
}
