//! The allocator's state in the formats of `/proc`: `buddyinfo`, `pagetypeinfo`, `zoneinfo` and the
//! lines of `vmstat` that an allocator can fill.
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

use core::fmt;

use crate::api::alloc::Allocator;
use crate::base::frame::{Order, Pfn};
use crate::base::ids::{CpuId, NodeId, ZoneIndex};
use crate::base::layout::ZoneKind;
use crate::base::mobility::{MIGRATETYPES, Migratetype, Numbering};
use crate::percpu::cache::CpuCache;
use crate::table::map::FrameState;
use crate::zone::Zone;

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
pub struct BuddyInfo<'a, 'm>(pub &'a Allocator<'m>);

impl fmt::Display for BuddyInfo<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for zone in populated(self.0) {
            write!(f, "Node {}, zone {:>8} ", zone.node(), zone.kind().name())?;
            for order in orders(zone) {
                write!(f, "{:6} ", zone.nr_free(order))?;
            }
            f.write_str("\n")?;
        }
        Ok(())
    }
}

/// `/proc/pagetypeinfo`: the free blocks of each order and type, and the pageblocks of each type.
#[derive(Clone, Copy)]
pub struct PageTypeInfo<'a, 'm> {
    /// The state.
    pub allocator: &'a Allocator<'m>,
    /// The kernel.
    pub kernel: KernelFormat,
}

impl fmt::Display for PageTypeInfo<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let geometry = self.allocator.geometry();
        let mut shown = None;
        for node in populated(self.allocator).map(Zone::node) {
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

impl<'m> PageTypeInfo<'_, 'm> {
    fn zones(&self, node: NodeId) -> impl Iterator<Item = &Zone<'m>> {
        populated(self.allocator).filter(move |zone| zone.node() == node)
    }

    fn free_blocks(&self, f: &mut fmt::Formatter<'_>, node: NodeId) -> fmt::Result {
        write!(f, "{:<43} ", "Free pages count per migrate type at order")?;
        for order in 0..=self.allocator.geometry().max_order {
            write!(f, "{order:6} ")?;
        }
        f.write_str("\n")?;
        for zone in self.zones(node) {
            for mt in self.kernel.types() {
                let (kind, mt_name) = (zone.kind().name(), mt.name());
                write!(f, "Node {node:4}, zone {kind:>8}, type {mt_name:>12} ")?;
                for order in orders(zone) {
                    let count = zone.nr_free_of(order, mt);
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
        for zone in self.zones(node) {
            let counts = blocks_by_type(zone);
            write!(f, "Node {node}, zone {:>8} ", zone.kind().name())?;
            for mt in self.kernel.types() {
                write!(f, "{:12} ", counts[mt as usize])?;
            }
            f.write_str("\n")?;
        }
        Ok(())
    }
}

/// Returns the pageblocks of each type, as the kernel walks them: in steps of a pageblock from the zone's
/// first frame, which need not be the first of its block.
fn blocks_by_type(zone: &Zone<'_>) -> [u64; MIGRATETYPES] {
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

/// `/proc/zoneinfo`, without the lines that the allocator cannot know.
#[derive(Clone, Copy)]
pub struct ZoneInfo<'a, 'm> {
    /// The state.
    pub allocator: &'a Allocator<'m>,
    /// The kernel.
    pub kernel: KernelFormat,
}

impl fmt::Display for ZoneInfo<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for at in ZoneIndex::up_to(self.allocator.zones().len()) {
            self.zone(f, at)?;
        }
        Ok(())
    }
}

impl ZoneInfo<'_, '_> {
    fn zone(&self, f: &mut fmt::Formatter<'_>, at: ZoneIndex) -> fmt::Result {
        let zone = &self.allocator.zones()[at.index()];
        let kernel = self.kernel;
        writeln!(f, "Node {}, zone {:>8}", zone.node(), zone.kind().name())?;
        writeln!(f, "  pages free     {}", zone.free_pages())?;
        let (boost, marks) = (zone.boost(), zone.watermarks());
        let mut line = |since, name, pages: u64| match kernel.version >= since {
            true => writeln!(f, "        {name:<8} {pages}"),
            false => Ok(()),
        };
        line((5, 17), "boost", boost)?;
        line((0, 0), "min", marks.min + boost)?;
        line((0, 0), "low", marks.low + boost)?;
        line((0, 0), "high", marks.high + boost)?;
        line((6, 12), "promo", marks.promo + boost)?;
        line((0, 0), "spanned", zone.span().len())?;
        line((0, 0), "present", zone.present())?;
        line((0, 0), "managed", zone.managed())?;
        line((5, 14), "cma", cma_pages(zone))?;
        self.protection(f, zone)?;
        if zone.present() == 0 {
            return Ok(());
        }
        zone_counters(kernel, zone, |name, value| writeln!(f, "      {name:<12} {value}"))?;
        f.write_str("  pagesets\n")?;
        for (cpu, cache) in
            (0..).map_while(|cpu| Some((cpu, self.allocator.cache(at, CpuId(cpu))?)))
        {
            writeln!(f, "    cpu: {cpu}")?;
            self.pageset(f, cache)?;
            writeln!(f, "  vm stats threshold: {}", self.threshold(zone))?;
        }
        let start = zone.span().start;
        if kernel.from(4, 8) {
            writeln!(f, "  node_unreclaimable:  0\n  start_pfn:           {start}")?;
        } else {
            writeln!(f, "  all_unreclaimable: 0\n  start_pfn:         {start}")?;
        }
        if kernel.from(6, 19) {
            writeln!(f, "  reserved_highatomic: {}", zone.reserved_highatomic())?;
            let free = zone.free_pages_of(Migratetype::HighAtomic);
            writeln!(f, "  free_highatomic:     {free}")?;
        }
        Ok(())
    }

    /// Writes the columns, one for each zone that the kernel was built with: `HighMem` is missing in 64-bit
    /// ones, `Device` (nothing is kept back for it) is present from 4.5 on.
    fn protection(&self, f: &mut fmt::Formatter<'_>, zone: &Zone<'_>) -> fmt::Result {
        let mut separator = "        protection: (";
        for (kind, pages) in ZoneKind::ALL.into_iter().zip(zone.lowmem_reserve()) {
            if kind == ZoneKind::HighMem && !self.has(ZoneKind::HighMem) {
                continue;
            }
            write!(f, "{separator}{pages}")?;
            separator = ", ";
        }
        if self.kernel.from(4, 5) {
            write!(f, ", {}", zone.lowmem_reserve()[ZoneKind::Movable as usize])?;
        }
        f.write_str(")\n")
    }

    fn has(&self, kind: ZoneKind) -> bool {
        self.allocator.zones().iter().any(|zone| zone.kind() == kind)
    }

    fn pageset(&self, f: &mut fmt::Formatter<'_>, cache: &CpuCache<'_>) -> fmt::Result {
        let width = if self.kernel.from(6, 13) { 9 } else { 6 };
        let mut line = |name, pages: u32| writeln!(f, "              {name:<width$} {pages}");
        line("count:", cache.count())?;
        line("high:", cache.high())?;
        line("batch:", cache.limits().batch)?;
        if self.kernel.from(6, 13) {
            line("high_min:", cache.limits().high_min)?;
            line("high_max:", cache.limits().high_max)?;
        }
        Ok(())
    }

    /// Returns how far a CPU's own counters may deviate (`calculate_normal_threshold`).
    fn threshold(&self, zone: &Zone<'_>) -> u32 {
        let fls = |n: u64| u64::BITS - n.leading_zeros();
        let units_of_128_mib = zone.managed() >> (27 - 12);
        (2 * fls(self.allocator.cpus() as u64) * (1 + fls(units_of_128_mib))).min(125)
    }
}

fn cma_pages(zone: &Zone<'_>) -> u64 {
    blocks_by_type(zone)[Migratetype::Cma as usize] * zone.geometry().pageblock_pages()
}

/// Returns the zone counters (`enum zone_stat_item`) that an allocator has.
fn zone_counters(
    kernel: KernelFormat,
    zone: &Zone<'_>,
    mut line: impl FnMut(&str, u64) -> fmt::Result,
) -> fmt::Result {
    line("nr_free_pages", zone.free_pages())?;
    if kernel.from(6, 17) {
        line("nr_free_pages_blocks", zone.free_pages_in_blocks())?;
    }
    if kernel.from(3, 12) && !kernel.from(4, 8) {
        // The counter is read as unsigned, negative rounds show as 0.
        line("nr_alloc_batch", zone.alloc_batch().max(0) as u64)?;
    }
    line("nr_free_cma", zone.free_pages_of(Migratetype::Cma))
}

/// The lines of `/proc/vmstat` that an allocator can fill, in their order.
#[derive(Clone, Copy)]
pub struct VmStat<'a, 'm> {
    /// The state.
    pub allocator: &'a Allocator<'m>,
    /// The kernel.
    pub kernel: KernelFormat,
}

impl fmt::Display for VmStat<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let zones = self.allocator.zones();
        // Every zone has the same lines, so the sums are printed in the order of the first zone's.
        if let Some(first) = zones.first() {
            zone_counters(self.kernel, first, |name, _| {
                let mut sum = 0;
                for zone in zones {
                    zone_counters(self.kernel, zone, |other, value| {
                        sum += if other == name { value } else { 0 };
                        Ok(())
                    })?;
                }
                writeln!(f, "{name} {sum}")
            })?;
        }
        let counters = || {
            let of_zone =
                |(at, zone): (_, &Zone<'_>)| Some((zone.kind(), self.allocator.counters(at)?));
            ZoneIndex::up_to(zones.len()).zip(zones).filter_map(of_zone)
        };
        for (kind, name) in PGALLOC {
            let of_kind = || counters().filter(|&(of, _)| of == kind);
            if kind == ZoneKind::HighMem && of_kind().next().is_none() {
                continue;
            }
            writeln!(f, "{name} {}", of_kind().map(|(_, c)| c.pgalloc).sum::<u64>())?;
        }
        writeln!(f, "pgfree {}", counters().map(|(_, c)| c.pgfree).sum::<u64>())
    }
}

const PGALLOC: [(ZoneKind, &str); 5] = [
    (ZoneKind::Dma, "pgalloc_dma"),
    (ZoneKind::Dma32, "pgalloc_dma32"),
    (ZoneKind::Normal, "pgalloc_normal"),
    (ZoneKind::HighMem, "pgalloc_high"),
    (ZoneKind::Movable, "pgalloc_movable"),
];

/// Returns the zones with memory, node by node.
fn populated<'a, 'm>(allocator: &'a Allocator<'m>) -> impl Iterator<Item = &'a Zone<'m>> {
    allocator.zones().iter().filter(|zone| zone.present() > 0)
}

fn orders(zone: &Zone<'_>) -> core::ops::RangeInclusive<Order> {
    0..=zone.geometry().max_order
}

#[cfg(test)]
mod tests;
