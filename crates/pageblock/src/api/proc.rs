//! The allocator's state in the formats of `/proc`: `buddyinfo`, `pagetypeinfo`, `zoneinfo` and the
//! lines of `vmstat` that an allocator can fill.
//!
//! They are written of an [`Allocator`](crate::alloc::Allocator) or, while its CPUs work, of a
//! [`Shared`](crate::sharing::Shared) one ([`State`]).
//!
//! Tools that read these files of a real kernel can read those of a modelled one. Lines about what
//! the allocator does not know (page cache, slab, NUMA hits) are omitted.
//!
//! Source: mm/vmstat.c (`frag_show`, `pagetypeinfo_show`, `zoneinfo_show_print`, `vmstat_show`).
//!
//! ```
//! # use pageblock::{alloc::Allocator, frame::FrameRange, ids::*, layout::{ZoneKind, ZoneSpec}};
//! # use pageblock::{policy::Policy, request::{Gfp, Request}, setup::Setup, zone::Geometry};
//! # let span = FrameRange::new(0, 1 << 15);
//! # let zones = [ZoneSpec::full(NodeId(0), ZoneKind::Normal, span)];
//! # let policy = Policy::parse("linux-6.12").unwrap();
//! # let setup = Setup::new(policy, &zones, &[NodeId(0)]);
//! # let mut memory = vec![std::mem::MaybeUninit::uninit(); setup.metadata_size().unwrap()];
//! # let mut allocator = Allocator::new(&mut memory, &setup).unwrap();
//! # allocator.release(span).unwrap();
//! # allocator.retune();
//! use pageblock::proc::{BuddyInfo, KernelFormat, VmStat};
//!
//! // 128 MiB, all of it in blocks of 4 MiB.
//! assert_eq!(
//!     BuddyInfo(&allocator).to_string(),
//!     "Node 0, zone   Normal      0      0      0      0      0      0      0      0      0      0     32 \n",
//! );
//! let _block = allocator.alloc(CpuId(0), &Request::new(9, Gfp::GFP_KERNEL), &mut ()).unwrap();
//! let vmstat = VmStat { allocator: &allocator, kernel: KernelFormat::new(6, 12) }.to_string();
//! assert!(vmstat.lines().any(|line| line == "pgalloc_normal 512"));
//! ```

mod state;

pub use state::State;

use core::fmt;

use crate::api::proc::state::{CpuNumbers, Numbers};
use crate::base::frame::Order;
use crate::base::ids::{CpuId, NodeId, ZoneIndex};
use crate::base::layout::{MAX_NR_ZONES, ZoneKind};
use crate::base::mobility::{MIGRATETYPES, Migratetype, Numbering};

/// From 5.4 on counting a list stops here, as it is walked with interrupts off.
const COUNT_LIMIT: u64 = 100_000;

/// The kernel whose format is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KernelFormat {
    /// The major and minor version.
    pub version: (u32, u32),
    /// Whether it was built with `CONFIG_CMA`, which adds a migratetype.
    pub cma: bool,
}

impl KernelFormat {
    /// Returns the format of a version built without `CONFIG_CMA`.
    #[must_use]
    pub const fn new(major: u32, minor: u32) -> Self {
        Self { version: (major, minor), cma: false }
    }

    fn from(self, major: u32, minor: u32) -> bool {
        self.version >= (major, minor)
    }

    /// Returns the kernel's types in the order of their numbers.
    fn types(self) -> impl Iterator<Item = Migratetype> {
        let numbering = if self.from(4, 4) { Numbering::Modern } else { Numbering::Legacy };
        let count = MIGRATETYPES as u8 - 2 + u8::from(self.cma);
        (0..count).filter_map(move |number| numbering.migratetype(number, self.cma))
    }
}

/// `/proc/buddyinfo`: the free blocks of each order.
#[derive(Clone, Copy)]
pub struct BuddyInfo<'a, S>(pub &'a S);

impl<S: State> fmt::Display for BuddyInfo<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (_, zone) in populated(self.0) {
            write!(f, "Node {}, zone {:>8} ", zone.node, zone.kind.name())?;
            for order in orders(self.0) {
                write!(f, "{:6} ", zone.nr_free(order))?;
            }
            f.write_str("\n")?;
        }
        Ok(())
    }
}

/// `/proc/pagetypeinfo`: the free blocks of each order and type, and the pageblocks of each type.
#[derive(Clone, Copy)]
pub struct PageTypeInfo<'a, S> {
    /// The state.
    pub allocator: &'a S,
    /// The kernel.
    pub kernel: KernelFormat,
}

impl<S: State> fmt::Display for PageTypeInfo<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let geometry = self.allocator.geometry();
        let mut shown = None;
        for node in populated(self.allocator).map(|(_, zone)| zone.node) {
            if shown.replace(node) == Some(node) {
                continue;
            }
            writeln!(f, "Page block order: {}", geometry.pageblock_order)?;
            writeln!(f, "Pages per block:  {}\n", geometry.pageblock_pages())?;
            self.free_blocks(f, node)?;
            self.blocks(f, node)?;
        }
        Ok(())
    }
}

impl<S: State> PageTypeInfo<'_, S> {
    fn zones(&self, node: NodeId) -> impl Iterator<Item = (ZoneIndex, Numbers)> {
        populated(self.allocator).filter(move |(_, zone)| zone.node == node)
    }

    fn free_blocks(&self, f: &mut fmt::Formatter<'_>, node: NodeId) -> fmt::Result {
        write!(f, "{:<43} ", "Free pages count per migrate type at order")?;
        for order in 0..=self.allocator.geometry().max_order {
            write!(f, "{order:6} ")?;
        }
        f.write_str("\n")?;
        for (_, zone) in self.zones(node) {
            for mt in self.kernel.types() {
                let (kind, mt_name) = (zone.kind.name(), mt.name());
                write!(f, "Node {node:4}, zone {kind:>8}, type {mt_name:>12} ")?;
                for order in orders(self.allocator) {
                    let count = zone.nr_free_of[mt as usize][usize::from(order)];
                    if self.kernel.from(5, 4) && count >= COUNT_LIMIT {
                        write!(f, ">{COUNT_LIMIT:6} ")?;
                    } else {
                        write!(f, "{count:6} ")?;
                    }
                }
                f.write_str("\n")?;
            }
        }
        Ok(())
    }

    fn blocks(&self, f: &mut fmt::Formatter<'_>, node: NodeId) -> fmt::Result {
        write!(f, "\n{:<23}", "Number of blocks type")?;
        for mt in self.kernel.types() {
            write!(f, "{:>12} ", mt.name())?;
        }
        f.write_str("\n")?;
        for (at, zone) in self.zones(node) {
            let counts = self.allocator.pageblock_types(at);
            write!(f, "Node {node}, zone {:>8} ", zone.kind.name())?;
            for mt in self.kernel.types() {
                write!(f, "{:12} ", counts[mt as usize])?;
            }
            f.write_str("\n")?;
        }
        Ok(())
    }
}

/// `/proc/zoneinfo`, without the lines that the allocator cannot know.
#[derive(Clone, Copy)]
pub struct ZoneInfo<'a, S> {
    /// The state.
    pub allocator: &'a S,
    /// The kernel.
    pub kernel: KernelFormat,
}

impl<S: State> fmt::Display for ZoneInfo<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has_highmem = zones(self.allocator).any(|(_, zone)| zone.kind == ZoneKind::HighMem);
        for (at, zone) in zones(self.allocator) {
            self.zone(f, at, &zone, has_highmem)?;
        }
        Ok(())
    }
}

impl<S: State> ZoneInfo<'_, S> {
    fn zone(
        &self,
        f: &mut fmt::Formatter<'_>,
        at: ZoneIndex,
        zone: &Numbers,
        has_highmem: bool,
    ) -> fmt::Result {
        let kernel = self.kernel;
        writeln!(f, "Node {}, zone {:>8}", zone.node, zone.kind.name())?;
        writeln!(f, "  pages free     {}", zone.free_pages)?;
        let (boost, marks) = (zone.boost, zone.watermarks);
        let mut line = |since, name, pages: u64| match kernel.version >= since {
            true => writeln!(f, "        {name:<8} {pages}"),
            false => Ok(()),
        };
        line((5, 17), "boost", boost)?;
        line((0, 0), "min", marks.min + boost)?;
        line((0, 0), "low", marks.low + boost)?;
        line((0, 0), "high", marks.high + boost)?;
        line((6, 12), "promo", marks.promo + boost)?;
        line((0, 0), "spanned", zone.span.len())?;
        line((0, 0), "present", zone.present)?;
        line((0, 0), "managed", zone.managed)?;
        let cma = self.allocator.pageblock_types(at)[Migratetype::Cma as usize];
        line((5, 14), "cma", cma * self.allocator.geometry().pageblock_pages())?;
        self.protection(f, zone, has_highmem)?;
        if zone.present == 0 {
            return Ok(());
        }
        zone_counters(kernel, zone, |name, value| writeln!(f, "      {name:<12} {value}"))?;
        f.write_str("  pagesets\n")?;
        for cpu in CpuId::up_to(self.allocator.nr_cpus()) {
            let Some(cache) = self.allocator.of_cpu(at, cpu) else { continue };
            writeln!(f, "    cpu: {cpu}")?;
            self.pageset(f, &cache)?;
            writeln!(f, "  vm stats threshold: {}", self.threshold(zone))?;
        }
        let start = zone.span.start;
        if kernel.from(4, 8) {
            writeln!(f, "  node_unreclaimable:  0\n  start_pfn:           {start}")?;
        } else {
            writeln!(f, "  all_unreclaimable: 0\n  start_pfn:         {start}")?;
        }
        if kernel.from(6, 19) {
            writeln!(f, "  reserved_highatomic: {}", zone.reserved_highatomic)?;
            let free = zone.free_pages_of[Migratetype::HighAtomic as usize];
            writeln!(f, "  free_highatomic:     {free}")?;
        }
        Ok(())
    }

    /// Writes the columns, one for each zone that the kernel was built with: `HighMem` is missing in 64-bit
    /// ones, `Device` (nothing is kept back for it) is present from 4.5 on.
    fn protection(
        &self,
        f: &mut fmt::Formatter<'_>,
        zone: &Numbers,
        has_highmem: bool,
    ) -> fmt::Result {
        let mut separator = "        protection: (";
        for (kind, pages) in ZoneKind::ALL.into_iter().zip(zone.lowmem_reserve) {
            if kind == ZoneKind::HighMem && !has_highmem {
                continue;
            }
            write!(f, "{separator}{pages}")?;
            separator = ", ";
        }
        if self.kernel.from(4, 5) {
            write!(f, ", {}", zone.lowmem_reserve[ZoneKind::Movable as usize])?;
        }
        f.write_str(")\n")
    }

    fn pageset(&self, f: &mut fmt::Formatter<'_>, cache: &CpuNumbers) -> fmt::Result {
        let width = if self.kernel.from(6, 13) { 9 } else { 6 };
        let mut line = |name, pages: u32| writeln!(f, "              {name:<width$} {pages}");
        line("count:", cache.count)?;
        line("high:", cache.high)?;
        line("batch:", cache.batch)?;
        if self.kernel.from(6, 13) {
            line("high_min:", cache.high_min)?;
            line("high_max:", cache.high_max)?;
        }
        Ok(())
    }

    /// Returns how far a CPU's own counters may deviate (`calculate_normal_threshold`).
    fn threshold(&self, zone: &Numbers) -> u32 {
        let fls = |n: u64| u64::BITS - n.leading_zeros();
        let units_of_128_mib =
            zone.managed >> 27u8.saturating_sub(self.allocator.geometry().page_shift);
        (2 * fls(self.allocator.nr_cpus() as u64) * (1 + fls(units_of_128_mib))).min(125)
    }
}

/// The most lines of [`zone_counters`].
const ZONE_COUNTERS: usize = 4;

/// Gives the zone counters (`enum zone_stat_item`) that an allocator has, the same ones for each zone.
fn zone_counters(
    kernel: KernelFormat,
    zone: &Numbers,
    mut line: impl FnMut(&'static str, u64) -> fmt::Result,
) -> fmt::Result {
    line("nr_free_pages", zone.free_pages)?;
    if kernel.from(6, 17) {
        line("nr_free_pages_blocks", zone.free_pages_in_blocks)?;
    }
    if kernel.from(3, 12) && !kernel.from(4, 8) {
        // The counter is read as unsigned, negative rounds show as 0.
        line("nr_alloc_batch", zone.alloc_batch.max(0) as u64)?;
    }
    line("nr_free_cma", zone.free_pages_of[Migratetype::Cma as usize])
}

/// The lines of `/proc/vmstat` that an allocator can fill, in their order.
#[derive(Clone, Copy)]
pub struct VmStat<'a, S> {
    /// The state.
    pub allocator: &'a S,
    /// The kernel.
    pub kernel: KernelFormat,
}

impl<S: State> fmt::Display for VmStat<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = [("", 0); ZONE_COUNTERS];
        let mut pgalloc = [None; MAX_NR_ZONES];
        let mut pgfree = 0;
        // What was allocated and freed is not known while a CPU keeps its count to itself.
        let mut is_known = true;
        // Each zone is read once, so that all lines are of the same instant.
        for (at, zone) in zones(self.allocator) {
            let mut places = lines.iter_mut();
            zone_counters(self.kernel, &zone, |name, value| {
                places.next().into_iter().for_each(|line| *line = (name, line.1 + value));
                Ok(())
            })?;
            let mut counters = zone.counters;
            for cpu in CpuId::up_to(self.allocator.nr_cpus()) {
                match self.allocator.of_cpu(at, cpu) {
                    Some(of_cpu) => counters = counters.and(&of_cpu.counters),
                    None => is_known = false,
                }
            }
            *pgalloc[zone.kind as usize].get_or_insert(0) += counters.pgalloc;
            pgfree += counters.pgfree;
        }
        for (name, value) in lines.iter().filter(|(name, _)| !name.is_empty()) {
            writeln!(f, "{name} {value}")?;
        }
        if !is_known {
            return Ok(());
        }
        for (kind, name) in PGALLOC {
            match (kind, pgalloc[kind as usize]) {
                (ZoneKind::HighMem, None) => {}
                (_, pages) => writeln!(f, "{name} {}", pages.unwrap_or(0u64))?,
            }
        }
        writeln!(f, "pgfree {pgfree}")
    }
}

const PGALLOC: [(ZoneKind, &str); 5] = [
    (ZoneKind::Dma, "pgalloc_dma"),
    (ZoneKind::Dma32, "pgalloc_dma32"),
    (ZoneKind::Normal, "pgalloc_normal"),
    (ZoneKind::HighMem, "pgalloc_high"),
    (ZoneKind::Movable, "pgalloc_movable"),
];

/// Returns the zones, node by node.
fn zones<S: State>(state: &S) -> impl Iterator<Item = (ZoneIndex, Numbers)> {
    ZoneIndex::up_to(state.nr_zones()).filter_map(|at| Some((at, state.numbers(at)?)))
}

/// Returns the zones with memory, node by node.
fn populated<S: State>(state: &S) -> impl Iterator<Item = (ZoneIndex, Numbers)> {
    zones(state).filter(|(_, zone)| zone.present > 0)
}

fn orders<S: State>(state: &S) -> core::ops::RangeInclusive<Order> {
    0..=state.geometry().max_order
}

#[cfg(test)]
mod tests;
