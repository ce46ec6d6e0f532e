//! The machine that a snapshot describes: its zones and CPUs, and an allocator in exactly its state.

use pageblock::alloc::Allocator;
use pageblock::cpu_cache::{CacheLimits, CacheState, CpuCache};
use pageblock::frame::{Order, Pfn};
use pageblock::ids::{CpuId, NodeId, ZoneIndex};
use pageblock::layout::{ZoneKind, ZoneSpec};
use pageblock::mobility::Migratetype;
use pageblock::policy::Policy;
use pageblock::preset::{self, Preset};
use pageblock::replay::ListEnd;
use pageblock::setup::Setup;
use pageblock::tuning::Watermarks;
use pageblock::zone::{Geometry, Zone};
use pageblock_kernel::Kernel;
use pageblock_recording::{KernelVersion, PageUse, PcpInfo, Recording, Snapshot, ZoneSnapshot};

use crate::error::Error;
use crate::holes;
use crate::settings::Settings;

/// Bytes per frame of the largest table of a replay: the destination of the last free.
const TABLE_BYTES: u64 = 24;
/// All tables together are as large as this many of the largest.
const TABLES: u64 = 4;

/// The fixed properties of a recorded machine.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Its zones, node by node, lowest first.
    pub zones: Vec<ZoneSpec>,
    /// The node of each CPU.
    pub cpu_nodes: Vec<NodeId>,
    /// The sizes that its kernel was built with.
    pub geometry: Geometry,
}

/// Memory for the tables of one allocator: zero pages. Those of holes stay untouched, except one byte per frame.
pub struct TableMemory(Vec<u8>);

impl Machine {
    /// Returns the machine of a recording.
    ///
    /// # Errors
    /// If its snapshot contradicts itself.
    pub fn of(recording: &Recording) -> Result<Self, Error> {
        Self::of_snapshot(&recording.start, recording.pageblock_order)
    }

    /// Returns the machine of a snapshot.
    ///
    /// # Errors
    /// If the snapshot contradicts itself.
    pub fn of_snapshot(snapshot: &Snapshot, pageblock_order: Order) -> Result<Self, Error> {
        let mut zones = Vec::new();
        for zone in &snapshot.zones {
            // A device's zone has no pages for the allocator either.
            if zone.managed > 0 {
                let kind = ZoneKind::from_name(&zone.name)
                    .ok_or_else(|| Error::UnknownZone(zone.name.clone()))?;
                let node = u8::try_from(zone.node).map_err(|_| Error::Node(zone.node))?;
                let (present, managed) = (zone.present, zone.managed);
                zones.push(ZoneSpec {
                    node: NodeId(node),
                    kind,
                    span: zone.span(),
                    present,
                    managed,
                });
            }
        }
        reserve_tables(snapshot.end_pfn().0)?;
        let cpus = snapshot.pcpinfo.iter().map(|p| usize::from(p.cpu) + 1).max().unwrap_or(1);
        let cpu_nodes = (0..cpus).map(|cpu| NodeId(home_node(snapshot, cpu))).collect();
        let geometry = Geometry { pageblock_order, ..Geometry::default() };
        Ok(Self { zones, cpu_nodes, geometry })
    }

    /// Returns the setup of an allocator for this machine.
    #[must_use]
    pub fn setup(&self, policy: Policy) -> Setup<'_> {
        Setup { geometry: self.geometry, ..Setup::new(policy, &self.zones, &self.cpu_nodes) }
    }

    /// Allocates memory for an allocator's tables.
    ///
    /// # Errors
    /// If no allocator can be made for the machine.
    pub fn table_memory(&self, policy: Policy) -> Result<TableMemory, Error> {
        let size = self.setup(policy).metadata_size()?;
        Ok(TableMemory(vec![0; size]))
    }

    /// Builds an allocator in the state of a snapshot of this machine.
    ///
    /// # Errors
    /// If the snapshot contradicts itself.
    pub fn allocator<'m>(
        &self,
        policy: Policy,
        snapshot: &Snapshot,
        memory: &'m mut TableMemory,
    ) -> Result<Allocator<'m>, Error> {
        let mut allocator = Allocator::new_in_bytes(&mut memory.0, &self.setup(policy))?;
        for at in 0..self.zones.len() {
            restore_zone(&mut allocator, at, snapshot)?;
        }
        restore_pages(&mut allocator, snapshot)?;
        restore_caches(&mut allocator, snapshot)?;
        holes::mark(&mut allocator, snapshot)?;
        Ok(allocator)
    }
}

/// Checks that there is address space for a replay's tables of all frames up to `end`. They consist of zero pages,
/// and only frames that the recording names take memory, but the address space is needed for all of them at once.
fn reserve_tables(end: u64) -> Result<(), Error> {
    let bytes = end.saturating_mul(TABLE_BYTES);
    let refused = || Error::AddressSpace { frames: end, gib: TABLES * (bytes >> 30) };
    let size = usize::try_from(bytes).map_err(|_| refused())?;
    let mut tables = [const { Vec::<u8>::new() }; TABLES as usize];
    tables.iter_mut().try_for_each(|table| table.try_reserve_exact(size)).map_err(|_| refused())
}

/// Returns the node of a CPU: the one whose zones most of its lists belong to. Only lists for other nodes expire.
fn home_node(snapshot: &Snapshot, cpu: usize) -> u8 {
    let node = |p: &PcpInfo| snapshot.zones[usize::from(p.zone)].node;
    let of_cpu = || snapshot.pcpinfo.iter().filter(|p| usize::from(p.cpu) == cpu);
    let expires = |n: u16| of_cpu().any(|p| node(p) == n && p.expire.unwrap_or(0) > 0);
    let busiest = of_cpu().max_by_key(|p| (!expires(node(p)), p.count, std::cmp::Reverse(p.zone)));
    busiest.map_or(0, |p| node(p) as u8)
}

/// Returns the preset of the kernel that made a recording: a distribution's own if there is one.
#[must_use]
pub fn recorded_preset(recording: &Recording) -> &'static Preset {
    preset_of(&recording.kernel)
}

/// Returns the kernel that made a recording, including the rules around the allocator, with the machine's settings.
#[must_use]
pub fn recorded_kernel(recording: &Recording) -> Kernel {
    let preset = recorded_preset(recording);
    let mut kernel = Kernel::from(preset);
    Settings::of(recording).apply(preset, &mut kernel);
    kernel
}

/// Returns the preset of a kernel: a distribution's own if there is one.
#[must_use]
pub fn preset_of(kernel: &KernelVersion) -> &'static Preset {
    preset::of_machine(kernel.row(), &kernel.text)
}

fn zone_snapshot(snapshot: &Snapshot, node: u8, kind: ZoneKind) -> Option<&ZoneSnapshot> {
    snapshot.zones.iter().find(|z| z.node == u16::from(node) && z.name == kind.name())
}

/// Restores a zone. Its watermarks are the recorded ones if the policy's sysctls equal the recording's; otherwise
/// they follow from the policy's sysctls.
fn restore_zone(
    allocator: &mut Allocator<'_>,
    at: usize,
    snapshot: &Snapshot,
) -> Result<(), Error> {
    let (node, kind) = (allocator.zones()[at].node(), allocator.zones()[at].kind());
    let recorded = zone_snapshot(snapshot, node.0, kind).ok_or(Error::Node(node.0.into()))?;
    let Some((zone, _)) = allocator.zone_and_cache(ZoneIndex::new(at), CpuId(0)) else {
        return Ok(());
    };
    let w = recorded.wmark;
    zone.impose_watermarks(Watermarks { min: w.min, low: w.low, high: w.high, promo: w.promo });
    zone.impose_boost(recorded.boost);
    // x86-64 has no HighMem: the fourth recorded value is Movable's.
    let recorded_reserve = |at: usize| recorded.lowmem_reserve.get(at).copied().unwrap_or(0);
    let mut reserve = [0, 1, 2, 2, 3].map(recorded_reserve);
    if snapshot.zones.iter().any(|z| z.name == ZoneKind::HighMem.name()) {
        reserve = std::array::from_fn(recorded_reserve);
    }
    zone.impose_lowmem_reserve(reserve);
    zone.impose_reserved_highatomic(recorded.nr_reserved_highatomic.unwrap_or(0));
    Ok(())
}

fn restore_pages(allocator: &mut Allocator<'_>, snapshot: &Snapshot) -> Result<(), Error> {
    for block in &snapshot.blocks {
        if let (Some(mt), Some(at)) = (block.mt, zone_at(allocator, snapshot, block.zone))
            && let Some((zone, _)) = allocator.zone_and_cache(ZoneIndex::new(at), CpuId(0))
        {
            // A zone's first frame need not be the first of its pageblock.
            zone.impose_block_type(block.pfn.max(zone.span().start), mt)?;
        }
    }
    for used in &snapshot.used {
        let movable = matches!(
            used.state,
            PageUse::File | PageUse::Anon | PageUse::Shmem | PageUse::OtherLru
        );
        if used.state == PageUse::Reserved {
            continue;
        }
        for pfn in (used.pfn.0..used.pfn.0 + used.count).map(Pfn) {
            // Zones without pages for the allocator are left out.
            let Some(at) = zone_of(allocator, pfn) else { continue };
            if let Some((zone, _)) = allocator.zone_and_cache(ZoneIndex::new(at), CpuId(0)) {
                zone.impose_allocated(pfn, 0, movable)?;
            }
        }
    }
    let strict = allocator.policy().list_type_strict();
    for block in &snapshot.free {
        with_zone(allocator, block.pfn, |zone, _| {
            // From 6.10 a block is on the list of its pageblock's type, whichever list it was on before.
            let own = zone.block_type(block.pfn).unwrap_or(Migratetype::Movable);
            let list = block.mt.filter(|_| !strict).unwrap_or(own);
            zone.impose_free_block(block.pfn, block.order, list)
        })?;
    }
    Ok(())
}

fn restore_caches(allocator: &mut Allocator<'_>, snapshot: &Snapshot) -> Result<(), Error> {
    for page in &snapshot.pcp {
        let cpu = usize::from(page.cpu);
        let (pfn, order) = (page.pfn, page.order);
        let at = zone_of(allocator, pfn).ok_or(Error::Frame(pfn))?;
        let Some((zone, cache)) = allocator.zone_and_cache(ZoneIndex::new(at), CpuId(cpu)) else {
            continue;
        };
        let block = zone.block_type(pfn).unwrap_or(Migratetype::Movable);
        let mt = cached_type(page.mt, block);
        zone.impose_allocated(pfn, order, false)?;
        // Up to 5.12 high orders have no CPU list, and under packed placement lists have less room than the
        // recorded ones.
        if cache.impose_put(zone, pfn, order, mt, ListEnd::Tail)?.is_none() {
            zone.impose_free(pfn, order, None)?;
        }
    }
    for info in &snapshot.pcpinfo {
        let Some(at) = zone_at(allocator, snapshot, info.zone) else { continue };
        let counts = allocator.policy().counts_frees();
        if let Some((_, cache)) =
            allocator.zone_and_cache(ZoneIndex::new(at), CpuId(usize::from(info.cpu)))
        {
            restore_tuning(cache, info, counts);
        }
    }
    Ok(())
}

/// Returns the remembered type of a page whose list is known: the list's type, unless several types share it.
fn cached_type(list: Option<Migratetype>, block: Migratetype) -> Migratetype {
    list.unwrap_or(block)
}

/// Restores the tuning state of a CPU cache. `counts` tells which of two numbers the policy keeps.
fn restore_tuning(cache: &mut CpuCache, info: &PcpInfo, counts: bool) {
    let pages = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    let high_min = info.high_min.unwrap_or(info.high);
    let limits = CacheLimits {
        batch: pages(info.batch),
        high_min: pages(high_min),
        high_max: pages(info.high_max.unwrap_or(high_min)),
    };
    let free_count = if counts { info.free_count } else { info.free_factor };
    let flags = info.flags.unwrap_or(0);
    cache.impose_state(CacheState {
        limits,
        high: pages(info.high),
        free_count: pages(free_count.unwrap_or(0)),
        alloc_factor: info.alloc_factor.unwrap_or(0) as u8,
        prev_free_high_order: flags & 1 != 0,
        free_high_batch: flags & 2 != 0,
    });
}

/// Returns the index of a snapshot's zone.
pub(crate) fn zone_at(allocator: &Allocator<'_>, snapshot: &Snapshot, zone: u16) -> Option<usize> {
    let zone = &snapshot.zones[usize::from(zone)];
    let same = |z: &Zone<'_>| u16::from(z.node().0) == zone.node && z.kind().name() == zone.name;
    allocator.zones().iter().position(same)
}

/// Returns the index of the zone that holds a frame.
pub(crate) fn zone_of(allocator: &Allocator<'_>, pfn: Pfn) -> Option<usize> {
    allocator.zone_of(pfn).map(ZoneIndex::index)
}

fn with_zone<T>(
    allocator: &mut Allocator<'_>,
    pfn: Pfn,
    act: impl FnOnce(&mut pageblock::zone::Zone<'_>, Order) -> Result<T, pageblock::zone::FrameError>,
) -> Result<T, Error> {
    let at = zone_of(allocator, pfn).ok_or(Error::Frame(pfn))?;
    let (zone, _) =
        allocator.zone_and_cache(ZoneIndex::new(at), CpuId(0)).ok_or(Error::Frame(pfn))?;
    Ok(act(zone, 0)?)
}
