//! Making an allocator in memory that the caller supplies.
//!
//! ```
//! use std::mem::MaybeUninit;
//! use pageblock::alloc::Allocator;
//! use pageblock::frame::FrameRange;
//! use pageblock::ids::NodeId;
//! use pageblock::layout::{ZoneKind, ZoneSpec};
//! use pageblock::policy::Policy;
//! use pageblock::setup::Setup;
//!
//! let span = FrameRange::new(0x10_0000, 0x14_0000);
//! let zones = [ZoneSpec::full(NodeId(0), ZoneKind::Normal, span)];
//! let setup = Setup::new(Policy::default(), &zones, &[NodeId(0), NodeId(0)]);
//! // 1 GiB of memory needs tables of less than two bytes a frame; with the links of "linux-6.12" nine.
//! let size = setup.metadata_size()?;
//! assert!((size as u64) < 2 * span.len());
//! let mut memory = vec![MaybeUninit::uninit(); size];
//! let mut allocator = Allocator::new(&mut memory, &setup)?;
//! allocator.release(span).unwrap();
//! allocator.retune();
//! assert_eq!(allocator.zones()[0].free_pages(), span.len());
//! # Ok::<(), pageblock::setup::SetupError>(())
//! ```

mod check;
mod one_zone;

pub use check::{MAX_CPUS, SetupError};
pub use one_zone::OneZone;

use crate::policy::source::PolicySource;
use core::mem::MaybeUninit;

use crate::api::alloc::Allocator;
use crate::base::alloc_flags::AllocFlags;
use crate::base::error::FrameError;
use crate::base::frame::FrameRange;
use crate::base::geometry::Geometry;
use crate::base::ids::{CpuId, ListIndex, NodeId, ZoneIndex};
use crate::base::layout::{
    MAX_NR_ZONES, MAX_NUMNODES, MemoryMap, NodeSpec, ZoneKind, ZoneLimits, ZoneSpec,
};
use crate::base::mobility::Migratetype;
use crate::base::sync::AtomicBool;
use crate::base::zonelist::{LoadStep, ZonelistBuilder};
use crate::percpu::cache::CpuCache;
use crate::percpu::cache::rings::Rings;
use crate::percpu::caches::{CpuCaches, CpuZone};
use crate::percpu::machine::{Machine, NO_NODE, NO_ZONE, Sections};
use crate::percpu::snapshot::ZoneSnapshot;
use crate::policy::{Chosen, Fair, Nofragment, Placement, Policy, WmarkGap};
use crate::table::memory::{Tables, TablesLayout};
use crate::zone::Zone;
use crate::zone::retune::{CacheLimits, frugal_ring_pages, ring_pages};

/// What an allocator is made for. Each field is checked, and [`SetupError`] names the first that is wrong.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'a> {
    /// Its policy; [`Policy::default`] for those who need no particular Linux.
    pub policy: Policy,
    /// Its pageblock order and largest order.
    pub geometry: Geometry,
    /// The zones, node by node, lowest first. Their spans share no frame.
    pub zones: &'a [ZoneSpec],
    /// The node of each CPU, at most [`MAX_CPUS`]; every node has a zone.
    pub cpu_nodes: &'a [NodeId],
    /// The distances between nodes, row by row in the order of their numbers: 10 within a node, 11 to 255 between
    /// nodes. Empty for 10 and 20.
    pub distances: &'a [u8],
}

impl<'a> Setup<'a> {
    /// Returns a setup with the default geometry and distances; `Setup { geometry, ..Setup::new(..) }` for others.
    #[must_use]
    pub fn new(policy: Policy, zones: &'a [ZoneSpec], cpu_nodes: &'a [NodeId]) -> Self {
        Self { policy, geometry: Geometry::default(), zones, cpu_nodes, distances: &[] }
    }

    /// Returns the nodes that have a zone, one bit each.
    fn nodes(&self) -> u64 {
        self.zones.iter().fold(0, |nodes, z| nodes | z.node.bit())
    }

    fn layout(&self) -> Option<TablesLayout> {
        // In the order in which `build` takes them, as what alignment costs depends on it.
        let nodes = self.nodes().count_ones() as usize;
        let mut layout = TablesLayout::default().and::<Zone<'_>>(self.zones.len())?;
        for zone in self.zones {
            layout = Zone::<Chosen>::layout(layout, zone.span, self.geometry, &self.policy)?;
        }
        layout = layout
            .and::<ZoneSnapshot<'_>>(self.zones.len())?
            .and::<ZoneIndex>(self.zones.len() * nodes)?
            .and::<CpuCaches<'_>>(self.cpu_nodes.len())?;
        for _ in self.cpu_nodes {
            layout = layout.and::<CpuZone<'_>>(self.zones.len())?;
            for zone in self.zones {
                layout = layout.and::<u32>(Rings::places(self.ring_pages(zone)?))?;
            }
        }
        Some(layout)
    }

    /// Returns the pages that each CPU's lists have places for in a zone; none where frames have links.
    fn ring_pages(&self, zone: &ZoneSpec) -> Option<usize> {
        match self.policy.placement {
            Placement::Linux => Some(0),
            Placement::Packed => {
                let frames = Zone::<Chosen>::table_frames(zone.span, self.geometry)?;
                let (cpus, fixed) = (self.cpu_nodes.len(), size_of::<CpuZone<'_>>());
                Some(match self.policy.wmark_gap {
                    WmarkGap::None => frugal_ring_pages(frames, cpus, fixed, Rings::bytes_a_page()),
                    WmarkGap::Quarter | WmarkGap::Scale => ring_pages(frames, cpus),
                })
            }
        }
    }

    /// Returns the memory that the allocator needs for its tables, in bytes: nine for each frame of the
    /// zones' spans, two for each pageblock, and the fixed parts; under packed placement half a byte for each frame,
    /// and places for each CPU's lists. It is enough for memory of any
    /// alignment.
    ///
    /// # Errors
    /// Those of [`Allocator::new`].
    pub fn metadata_size(&self) -> Result<usize, SetupError> {
        self.validate()?;
        self.layout().map(TablesLayout::size).ok_or(SetupError::AddressSpace)
    }

    /// Returns the same as a layout: for callers that take the memory from an allocator, or carve it out of
    /// the range that is to be managed (whose frames they then leave out of
    /// [`release`](Allocator::release)).
    ///
    /// # Errors
    /// Those of [`Allocator::new`].
    pub fn metadata_layout(&self) -> Result<core::alloc::Layout, SetupError> {
        self.validate()?;
        self.layout().map(TablesLayout::layout).ok_or(SetupError::AddressSpace)
    }
}

impl<'m> Allocator<'m> {
    /// Makes an allocator whose memory is all reserved. Hand memory to it with
    /// [`release`](Self::release).
    ///
    /// # Errors
    /// [`SetupError`], for a setup that contradicts itself or memory that is too small.
    pub fn new(memory: &'m mut [MaybeUninit<u8>], setup: &Setup<'_>) -> Result<Self, SetupError> {
        Self::new_fixed(memory, setup)
    }

    /// Makes an allocator in memory whose bytes have any value, such as zero pages of an operating system. Of the nine
    /// bytes of a frame eight, its links, are not touched before the frame is on a list; under packed placement it has
    /// none.
    ///
    /// # Errors
    /// Those of [`new`](Self::new).
    pub fn new_in_bytes(memory: &'m mut [u8], setup: &Setup<'_>) -> Result<Self, SetupError> {
        Self::new_fixed_in_bytes(memory, setup)
    }
}

impl<'m, P: PolicySource> Allocator<'m, P> {
    /// [`new`](Allocator::new) for a policy that the compiler may know ([`Fixed`](crate::policy::Fixed)), which must be
    /// the setup's.
    ///
    /// # Errors
    /// Those of [`new`](Allocator::new), and [`SetupError::NotFixed`].
    pub fn new_fixed(
        memory: &'m mut [MaybeUninit<u8>],
        setup: &Setup<'_>,
    ) -> Result<Self, SetupError> {
        let policy = source_of(memory.len(), setup)?;
        Self::build(&mut Tables::new(memory), setup, policy).ok_or(SetupError::AddressSpace)
    }

    /// [`new_in_bytes`](Allocator::new_in_bytes) for a policy that the compiler may know.
    ///
    /// # Errors
    /// Those of [`new_fixed`](Self::new_fixed).
    pub fn new_fixed_in_bytes(memory: &'m mut [u8], setup: &Setup<'_>) -> Result<Self, SetupError> {
        let policy = source_of(memory.len(), setup)?;
        Self::build(&mut Tables::in_bytes(memory), setup, policy).ok_or(SetupError::AddressSpace)
    }

    fn build(tables: &mut Tables<'m>, setup: &Setup<'_>, policy: P) -> Option<Self> {
        let Setup { geometry, zones: specs, cpu_nodes, .. } = *setup;
        let zones = tables.take(specs.len(), |at| Zone::new(&specs[at], policy, geometry))?;
        let nodes = setup.nodes();
        for (zone, spec) in zones.iter_mut().zip(specs) {
            zone.attach_map(tables, setup.ring_pages(spec)? as u32)?;
        }
        let snapshots = &*tables.take(specs.len(), |at| {
            let zone = &zones[at];
            ZoneSnapshot::of(zone, policy, fast_flags(setup, zone))
        })?;
        let zonelists =
            tables.take(specs.len() * nodes.count_ones() as usize, |_| ZoneIndex::default())?;
        fill_zonelists(zonelists, setup);
        let first_zones = first_zones(zonelists, specs);
        let empty = CacheLimits::default();
        let caches = tables.take(cpu_nodes.len(), |_| CpuCaches::default())?;
        for (cpu, caches) in caches.iter_mut().enumerate() {
            caches.zones = tables.take(specs.len(), |at| CpuZone {
                snapshot: &snapshots[at],
                cache: CpuCache::of_cpu(CpuId(cpu), &policy, geometry, empty),
                map: zones[at].map().of_cpu(cpu as u32 + 1),
                tuned: 0,
                recent_type: Migratetype::Unmovable,
                recent_list: ListIndex(0),
                recent_key: 0,
                recent_code: 0,
            })?;
            for (zone, spec) in caches.zones.iter_mut().zip(specs) {
                zone.set_recent(Migratetype::Unmovable, ListIndex(0));
                let pages = setup.ring_pages(spec)?;
                let places = tables.take(Rings::places(pages), |_| 0)?;
                if !places.is_empty() {
                    zone.add_rings(Rings::new(places, pages));
                }
            }
            caches.node = cpu_nodes[cpu];
            caches.set_first(first_zones[caches.node.index()]);
        }
        let machine = Machine {
            policy,
            geometry,
            snapshots,
            zonelists,
            node_places: node_places(nodes),
            nr_nodes: nodes.count_ones() as u8,
            node_cpus: core::array::from_fn(|node| {
                cpu_nodes.iter().filter(|&&of| of.index() == node).count() as u16
            }),
            sections: Sections::of(specs.iter().map(|zone| zone.span)),
            mobility_off: AtomicBool::new(false),
            kswapd_running: core::array::from_fn(|_| AtomicBool::new(false)),
        };
        let mut allocator = Self { machine, zones, caches };
        allocator.retune();
        Some(allocator)
    }

    /// Hands a range of reserved frames to the allocator, as the kernel does at boot. Release all memory from
    /// low to high for the kernel's list order.
    ///
    /// # Errors
    /// For frames that are in no zone, or not reserved; those of zones before it are released.
    pub fn release(&mut self, range: FrameRange) -> Result<(), crate::zone::FrameError> {
        let mut done = 0;
        self.forget();
        for zone in self.zones.iter_mut() {
            let start = range.start.max(zone.span().start);
            let end = range.end.min(zone.span().end);
            if start < end {
                zone.release(FrameRange { start, end })?;
                done += end.0 - start.0;
            }
        }
        if done == range.len() {
            Ok(())
        } else {
            Err(crate::zone::FrameError::Foreign(range.start))
        }
    }

    /// Assigns whole pageblocks of reserved memory to CMA, before they are released
    /// (`init_cma_reserved_pageblock`). Release them apart from memory of other types.
    ///
    /// # Errors
    /// [`FrameError::Misaligned`] where the range does not consist of whole pageblocks, [`FrameError::Foreign`] for
    /// frames in no zone, [`FrameError::NotReserved`] for those that were released; nothing changes then.
    pub fn reserve_cma(&mut self, range: FrameRange) -> Result<(), FrameError> {
        let order = self.machine.geometry.pageblock_order;
        if range.is_empty() {
            return Ok(());
        }
        for end in [range.start, range.end] {
            if !end.is_aligned(order) {
                return Err(FrameError::Misaligned(end, order));
            }
        }
        let block = |pfn| FrameRange::new(pfn, pfn + self.machine.geometry.pageblock_pages());
        let blocks = (range.start.0..range.end.0).step_by(1 << order).map(block);
        for block in blocks.clone() {
            let at = self.zone_of(block.start).ok_or(FrameError::Foreign(block.start))?;
            self.zones[at.index()].check_reserved(block)?;
        }
        for block in blocks {
            if let Some(at) = self.zone_of(block.start) {
                self.zones[at.index()].set_cma(block.start);
            }
        }
        Ok(())
    }

    /// Invalidates the snapshots of all zones.
    fn forget(&self) {
        self.machine.snapshots.iter().for_each(ZoneSnapshot::invalidate);
    }
}

/// Returns the policy of a setup that is valid and whose tables fit into `bytes`.
fn source_of<P: PolicySource>(bytes: usize, setup: &Setup<'_>) -> Result<P, SetupError> {
    let size = setup.metadata_size()?;
    if bytes < size {
        return Err(SetupError::Memory(size));
    }
    P::of(&setup.policy).ok_or(SetupError::NotFixed)
}

/// Returns the flags of every request that prefers a zone. NOFRAGMENT is set where it may spread instead: to
/// a lower zone of the node, or as there is no other node to go to (`alloc_flags_nofragment`).
fn fast_flags(setup: &Setup<'_>, zone: &Zone<'_, impl PolicySource>) -> AllocFlags {
    let dma32 = |z: &ZoneSpec| z.node == zone.node() && z.kind == ZoneKind::Dma32;
    let nofragment = match setup.policy.nofragment {
        Nofragment::Off => false,
        Nofragment::On => {
            zone.kind() == ZoneKind::Normal
                && (setup.nodes().count_ones() == 1 || setup.zones.iter().any(dma32))
        }
        Nofragment::DefragMode => true,
    };
    let fair = matches!(setup.policy.fair, Fair::FairPass | Fair::SpentFlag);
    let mut flags = AllocFlags::WMARK_LOW.with(AllocFlags::CPUSET);
    if nofragment {
        flags = flags.with(AllocFlags::NOFRAGMENT);
    }
    if fair {
        flags = flags.with(AllocFlags::FAIR);
    }
    flags
}

/// Returns the rank of each node among those that exist.
fn node_places(nodes: u64) -> [u8; MAX_NUMNODES] {
    let mut places = [NO_NODE; MAX_NUMNODES];
    let existing = places.iter_mut().enumerate().filter(|(id, _)| nodes & 1 << id != 0);
    for (rank, (_, place)) in existing.enumerate() {
        *place = rank as u8;
    }
    places
}

/// Returns the first zone of each node's list under each highest kind of zone.
fn first_zones(
    lists: &[ZoneIndex],
    zones: &[ZoneSpec],
) -> [[ZoneIndex; MAX_NR_ZONES]; MAX_NUMNODES] {
    let mut first = [[NO_ZONE; MAX_NR_ZONES]; MAX_NUMNODES];
    let nodes = zones.chunk_by(|a, b| a.node == b.node).map(|of_node| of_node[0].node);
    for (list, node) in lists.chunks(zones.len()).zip(nodes) {
        for (kind, slot) in ZoneKind::ALL.into_iter().zip(&mut first[node.index()]) {
            let found = list.iter().find(|&&z| zones[z.index()].kind <= kind);
            *slot = found.copied().unwrap_or(NO_ZONE);
        }
    }
    first
}

fn fill_zonelists(lists: &mut [ZoneIndex], setup: &Setup<'_>) {
    let nodes = setup.nodes();
    let ids = NodeId::up_to(MAX_NUMNODES).filter(|id| nodes & id.bit() != 0);
    const SOME: &[FrameRange] = &[FrameRange::new(0, 1)];
    let blank =
        NodeSpec { id: NodeId(0), memory: SOME, reserved: &[], cpus: 0, movable_start: None };
    let mut specs = [blank; MAX_NUMNODES];
    let mut count = 0;
    for (spec, id) in specs.iter_mut().zip(ids) {
        spec.id = id;
        spec.cpus = setup.cpu_nodes.iter().filter(|&&n| n == id).count() as u16;
        count += 1;
    }
    let map =
        MemoryMap { nodes: &specs[..count], distances: setup.distances, limits: ZoneLimits::NONE };
    let mut builder = ZonelistBuilder::new(&map, LoadStep::One);
    for (local, list) in lists.chunks_mut(setup.zones.len()).enumerate() {
        let mut order = [0; MAX_NUMNODES];
        let found = builder.node_order(local, &mut order);
        let zones = order[..found].iter().flat_map(|&node| {
            let id = specs[node].id;
            ZoneIndex::up_to(setup.zones.len())
                .rev()
                .filter(move |&z| setup.zones[z.index()].node == id)
        });
        for (slot, zone) in list.iter_mut().zip(zones) {
            *slot = zone;
        }
    }
}
