//! The holders of memory, by the counters in a report.

use serde::Serialize;

use crate::log::{MemInfo, Zone};
use crate::watermark::Check;

/// A kind of holder.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Holding {
    /// Anonymous memory of processes that reclaim may take.
    Anonymous,
    /// Page cache that reclaim may take.
    File,
    /// tmpfs and System V memory.
    Shmem,
    /// Memory that processes locked.
    Mlocked,
    /// Other memory that reclaim may not take.
    Unevictable,
    /// Slab that the kernel cannot free.
    SlabUnreclaimable,
    /// Slab that the kernel can free.
    SlabReclaimable,
    /// Slab, where nothing tells whether the kernel can free it.
    Slab,
    /// The kernel's stacks of tasks.
    KernelStack,
    /// Page tables.
    PageTables,
    /// Huge pages that were set aside (hugetlb).
    Hugetlb,
    /// The cache of ZFS (ARC).
    Arc,
    /// Memory that a balloon returned to the hypervisor.
    Balloon,
    /// Compressed swap (zsmalloc).
    Zspages,
    /// Memory that no counter of the report includes: pages of drivers, vmalloc, percpu, balloons.
    Uncounted,
    /// The same, with slab, whose field was not pasted.
    Unprinted,
    /// Memory that the allocator never got.
    NeverGiven,
}

impl Holding {
    /// Returns its name for use in a sentence.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Anonymous => "anonymous memory of processes",
            Self::File => "page cache",
            Self::Shmem => "tmpfs and shared memory",
            Self::Mlocked => "memory that processes locked (mlock)",
            Self::Unevictable => "other unevictable memory",
            Self::SlabUnreclaimable => "slab of the kernel that it cannot free",
            Self::SlabReclaimable => "slab of the kernel that it can free",
            Self::Slab => "slab of the kernel, which it can free or not",
            Self::KernelStack => "stacks of tasks in the kernel",
            Self::PageTables => "page tables",
            Self::Hugetlb => "huge pages that were set aside (hugetlb)",
            Self::Arc => "the cache of ZFS (ARC)",
            Self::Balloon => "the balloon of the hypervisor",
            Self::Zspages => "compressed swap (zram, zswap)",
            Self::Uncounted => {
                "what no counter of the report has (drivers, vmalloc, percpu, balloons, ZFS)"
            }
            Self::Unprinted => {
                "what the pasted fields do not have, which include neither Slab nor drivers"
            }
            Self::NeverGiven => "memory that was never given to the allocator",
        }
    }
}

impl Holding {
    /// Returns the holder that a field of `/proc/meminfo` counts.
    pub(crate) fn of_field(field: &str) -> Option<Self> {
        Some(match field {
            "MemAvailable" => return None,
            "SUnreclaim" | "Slab" => Self::SlabUnreclaimable,
            "KernelStack" => Self::KernelStack,
            "PageTables" => Self::PageTables,
            "AnonPages" => Self::Anonymous,
            "Shmem" => Self::Shmem,
            _ => Self::Uncounted,
        })
    }
}

/// A holder and its memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Holder {
    /// The kind of holder.
    pub holding: Holding,
    /// Its memory in kB.
    pub kb: u64,
}

/// Returns the holders of at least a twentieth of the printed memory, the largest first.
#[must_use]
pub fn holders(memory: &MemInfo) -> Vec<Holder> {
    let held = memory.held;
    let less =
        |all: Option<u64>, part: Option<u64>| all.map(|a| a.saturating_sub(part.unwrap_or(0)));
    // If the text before the zones was cut off.
    let by_zone = Some(memory.zones.iter().map(|zone| zone.file).sum()).filter(|kb| *kb > 0);
    // Graphics drivers pin their shared memory, which then counts as both.
    let is_shared = |kb: &u64| held.shmem.is_some_and(|shmem| kb.abs_diff(shmem) < shmem / 10);
    let unevictable = less(held.unevictable, held.mlocked).filter(|kb| !is_shared(kb));
    let counted = [
        (Holding::Anonymous, less(held.anonymous, held.shmem)),
        (Holding::File, memory.file_pages.map_or(by_zone, |pages| Some(pages * memory.page_kb()))),
        (Holding::Shmem, held.shmem),
        (Holding::Mlocked, held.mlocked),
        (Holding::Unevictable, unevictable),
        (Holding::SlabUnreclaimable, held.slab_unreclaimable),
        (Holding::SlabReclaimable, held.slab_reclaimable),
        (Holding::Slab, held.slab),
        (Holding::KernelStack, held.kernel_stack),
        (Holding::PageTables, held.pagetables),
        (Holding::Hugetlb, held.hugetlb),
        (Holding::Arc, held.arc),
        (Holding::Balloon, held.balloon),
        (Holding::Zspages, held.zspages),
    ];
    let sum: u64 = counted.iter().filter_map(|(_, kb)| *kb).fold(0, u64::saturating_add);
    let others = [
        (
            Holding::Uncounted,
            held.uncounted
                .or_else(|| uncounted(memory, sum.saturating_add(held.other.unwrap_or(0))))
                .or_else(|| most_unknown(memory)),
        ),
        (Holding::Unprinted, held.unprinted),
        (Holding::NeverGiven, Some(memory.zones.iter().map(never_given).sum())),
    ];
    let size: u64 = memory.zones.iter().filter_map(|zone| zone.present.or(zone.managed)).sum();
    let is_of_machine = held.uncounted.or(held.unprinted).or(held.arc);
    let size =
        size.max(is_of_machine.map_or(0, |_| memory.ram_pages.unwrap_or(0) * memory.page_kb()));
    // Counts without zones.
    let size = if size == 0 { sum } else { size };
    largest(counted.into_iter().chain(others), size)
}

/// Returns the holders of at least a twentieth of `size`, the largest first.
fn largest(all: impl Iterator<Item = (Holding, Option<u64>)>, size: u64) -> Vec<Holder> {
    let holder = |(holding, kb): (Holding, Option<u64>)| Some(Holder { holding, kb: kb? });
    let mut holders: Vec<Holder> = all.filter_map(holder).collect();
    holders.retain(|holder| holder.kb > 0 && holder.kb.saturating_mul(20) >= size);
    holders.sort_by_key(|holder| std::cmp::Reverse(holder.kb));
    holders
}

/// Returns the holders of the zones that were checked for a request, by the lines of these zones.
#[must_use]
pub fn holders_of(memory: &MemInfo, checks: &[Check]) -> Vec<Holder> {
    let is_checked =
        |zone: &&Zone| checks.iter().any(|of| (of.node, of.kind) == (zone.node, zone.kind));
    let zones: Vec<&Zone> = memory.zones.iter().filter(is_checked).collect();
    let sum = |of: fn(&Zone) -> u64| zones.iter().map(|zone| of(zone)).fold(0, u64::saturating_add);
    let slab: Option<u64> = zones.iter().map(|zone| zone.counts.slab).sum();
    let known = [
        (Holding::Anonymous, sum(|zone| zone.counts.anonymous)),
        (Holding::File, sum(|zone| zone.file)),
        (Holding::Unevictable, sum(|zone| zone.counts.unevictable)),
        (Holding::KernelStack, sum(|zone| zone.counts.kernel)),
        (Holding::Slab, slab.unwrap_or(0)),
    ];
    let used: Option<u64> = zones.iter().map(|zone| zone.managed?.checked_sub(zone.free?)).sum();
    let counted = known.iter().map(|(_, kb)| *kb).fold(0, u64::saturating_add);
    // From 4.8 on slab is counted by node only.
    let rest = if slab.is_some() { Holding::Uncounted } else { Holding::Unprinted };
    let others = [
        (rest, used.map(|used| used.saturating_sub(counted))),
        (Holding::NeverGiven, Some(sum(never_given))),
    ];
    let size = sum(|zone| zone.present.or(zone.managed).unwrap_or(0));
    largest(known.into_iter().map(|(holding, kb)| (holding, Some(kb))).chain(others), size)
}

/// Returns the allocated memory that no counter includes, in kB; `None` if the report lacks a counter that may include it,
/// or a zone.
fn uncounted(memory: &MemInfo, counted: u64) -> Option<u64> {
    let held = memory.held;
    let is_counted = [
        held.anonymous,
        held.unevictable,
        held.slab_unreclaimable,
        held.pagetables,
        memory.file_pages,
    ];
    if !memory.is_whole || memory.repeats || is_counted.contains(&None) {
        return None;
    }
    let used = |zone: &Zone| zone.managed?.checked_sub(zone.free?);
    // Zones that the request may not use are not printed, and their memory is counted.
    let present: u64 = memory.zones.iter().filter_map(|zone| zone.present).sum();
    let ram = memory.ram_pages.map_or(0, |pages| pages * memory.page_kb());
    if present.saturating_mul(20) < ram.saturating_mul(19) {
        return None;
    }
    let used: Option<Vec<u64>> = memory.zones.iter().map(used).collect();
    Some(used?.iter().sum::<u64>().saturating_sub(counted))
}

/// Returns the memory that no printed counter includes, in kB, if that is most of it and the kernel's other counters were cut
/// off.
fn most_unknown(memory: &MemInfo) -> Option<u64> {
    let held = memory.held;
    let sum = |of: fn(&Zone) -> Option<u64>| memory.zones.iter().map(of).sum::<Option<u64>>();
    // The lines of zones may be cut.
    let by_pages = || memory.ram_pages?.checked_sub(memory.reserved_pages?);
    let managed = sum(|zone| zone.managed);
    let managed = managed.or_else(|| by_pages().map(|pages| pages * memory.page_kb()))?;
    let file = memory.zones.iter().map(|zone| zone.file).sum::<u64>();
    let file = file.max(memory.file_pages.unwrap_or(0) * memory.page_kb());
    // Locked memory is a part of unevictable memory.
    let locked = held.unevictable.max(held.mlocked);
    let others = [locked, held.slab_unreclaimable, held.slab_reclaimable, held.hugetlb];
    let known = sum(|zone| zone.free)? + held.anonymous? + file;
    let known = known.saturating_add(others.into_iter().flatten().sum::<u64>());
    (known.saturating_mul(2) < managed).then(|| managed - known)
}

/// Returns the memory of a zone that the allocator never got, in kB; 0 unless it is more than a quarter, because
/// the kernel's own tables and reservations take some of every zone.
fn never_given(zone: &Zone) -> u64 {
    match (zone.present, zone.managed) {
        (Some(present), Some(managed)) if managed < present / 4 * 3 => present - managed,
        _ => 0,
    }
}
