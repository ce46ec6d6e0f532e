//! The use of a frame, from its words in `/proc/kpageflags` and `/proc/kpagecount`.

use serde::Serialize;

/// Bits of `/proc/kpageflags` (include/uapi/linux/kernel-page-flags.h).
pub(super) mod bit {
    pub(crate) const UPTODATE: u64 = 1 << 3;
    pub(crate) const DIRTY: u64 = 1 << 4;
    pub(crate) const LRU: u64 = 1 << 5;
    pub(crate) const SLAB: u64 = 1 << 7;
    pub(crate) const WRITEBACK: u64 = 1 << 8;
    pub(crate) const BUDDY: u64 = 1 << 10;
    pub(crate) const MMAP: u64 = 1 << 11;
    pub(crate) const ANON: u64 = 1 << 12;
    pub(crate) const SWAP_BACKED: u64 = 1 << 14;
    pub(crate) const HEAD: u64 = 1 << 15;
    pub(crate) const TAIL: u64 = 1 << 16;
    pub(crate) const HUGETLB: u64 = 1 << 17;
    pub(crate) const UNEVICTABLE: u64 = 1 << 18;
    pub(crate) const POISON: u64 = 1 << 19;
    pub(crate) const NO_PAGE: u64 = 1 << 20;
    pub(crate) const OFFLINE: u64 = 1 << 23;
    pub(crate) const ZERO_PAGE: u64 = 1 << 24;
    pub(crate) const PAGE_TABLE: u64 = 1 << 26;
    pub(crate) const RESERVED: u64 = 1 << 32;
    pub(crate) const MLOCKED: u64 = 1 << 33;
}

/// The use of a frame.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Kind {
    /// On a free list.
    Free,
    /// Anonymous memory.
    Anon,
    /// Clean page cache.
    File,
    /// Shared memory.
    Shmem,
    /// A folio above order 0, smaller than a pageblock, on an LRU list.
    LargeFolio,
    /// Dirty page cache, or under writeback.
    Dirty,
    /// Unevictable or mlocked memory.
    Unevictable,
    /// A folio of a pageblock or more.
    HugeFolio,
    /// Anonymous memory or page cache that is currently on no LRU list.
    OffLru,
    /// Without any flag: kernel memory, or free on a per-CPU list.
    KernelOrFree,
    /// The slab allocator.
    Slab,
    /// Page tables.
    PageTable,
    /// Kernel memory that is mapped or part of a larger block, and the zero page.
    Kernel,
    /// hugetlb pages.
    Hugetlb,
    /// Reserved at boot.
    Reserved,
    /// Offline: ballooned or unplugged.
    Offline,
    /// Memory with a hardware error.
    Poison,
    /// No memory.
    Hole,
}

/// The number of kinds.
pub const KINDS: usize = Kind::Hole as usize + 1;

/// Whether compaction can move a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Movable {
    /// It is free.
    Free,
    /// It moves, unless it is pinned.
    Yes,
    /// It may move.
    Maybe,
    /// It may be free on a per-CPU list.
    Unknown,
    /// It does not move.
    No,
}

/// Whether reclaim can free a page without moving it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reclaimable {
    /// It may: page cache, and pages that look like it.
    Cache,
    /// It may, if swap has room.
    Swap,
    /// It does not. Which pages of the slab allocator a shrinker frees is not known.
    No,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; KINDS] = [
        Self::Free,
        Self::Anon,
        Self::File,
        Self::Shmem,
        Self::LargeFolio,
        Self::Dirty,
        Self::Unevictable,
        Self::HugeFolio,
        Self::OffLru,
        Self::KernelOrFree,
        Self::Slab,
        Self::PageTable,
        Self::Kernel,
        Self::Hugetlb,
        Self::Reserved,
        Self::Offline,
        Self::Poison,
        Self::Hole,
    ];

    /// Returns the name in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Anon => "anonymous",
            Self::File => "page cache",
            Self::Shmem => "shared memory",
            Self::LargeFolio => "large folios",
            Self::Dirty => "dirty page cache",
            Self::Unevictable => "mlocked",
            Self::HugeFolio => "huge pages",
            Self::OffLru => "off the LRU lists",
            Self::KernelOrFree => "kernel or per-CPU lists",
            Self::Slab => "slab",
            Self::PageTable => "page tables",
            Self::Kernel => "other kernel",
            Self::Hugetlb => "hugetlb",
            Self::Reserved => "reserved",
            Self::Offline => "offline",
            Self::Poison => "poisoned",
            Self::Hole => "hole",
        }
    }

    /// Returns whether reclaim can free it.
    #[must_use]
    pub const fn reclaimable(self) -> Reclaimable {
        match self {
            Self::File | Self::Dirty | Self::LargeFolio | Self::HugeFolio | Self::OffLru => {
                Reclaimable::Cache
            }
            Self::Anon | Self::Shmem => Reclaimable::Swap,
            _ => Reclaimable::No,
        }
    }

    /// Returns whether compaction can move it.
    #[must_use]
    pub const fn movable(self, rules: Rules) -> Movable {
        match self {
            Self::Free => Movable::Free,
            Self::Anon | Self::File | Self::Shmem => Movable::Yes,
            Self::Unevictable if !rules.unevictable => Movable::No,
            Self::LargeFolio | Self::Dirty | Self::Unevictable | Self::HugeFolio | Self::OffLru => {
                Movable::Maybe
            }
            Self::KernelOrFree => Movable::Unknown,
            Self::Slab
            | Self::PageTable
            | Self::Kernel
            | Self::Hugetlb
            | Self::Reserved
            | Self::Offline
            | Self::Poison
            | Self::Hole => Movable::No,
        }
    }
}

/// The kinds of pages that this kernel's compaction moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rules {
    /// Folios above order 0 are moved, and a run ends at one if no free block of its size is left: from 6.9.
    pub large_folios: bool,
    /// Unevictable pages (`vm.compact_unevictable_allowed`).
    pub unevictable: bool,
    /// After pageblocks without free pages the search for room looks at every second page, then every fourth, up to every 32nd:
    /// from 5.1 (4fca9730c51d).
    pub sampling: bool,
}

/// Returns whether `drop_caches` frees a frame of a kind: clean page cache that no process maps.
pub(super) const fn is_dropped(kind: Kind, flags: u64, maps: u64) -> bool {
    const KEPT: u64 = bit::ANON | bit::SWAP_BACKED | bit::DIRTY | bit::WRITEBACK | bit::MMAP;
    // A frame without a known number of maps has the largest one.
    let mapped = maps > 0 && maps != u64::MAX;
    matches!(kind, Kind::File | Kind::LargeFolio | Kind::HugeFolio) && flags & KEPT == 0 && !mapped
}

/// Returns the use of a frame. `before` is the use of the frame before it, which the tails of older kernels share.
/// `maps` is its word in `/proc/kpagecount`.
pub(super) const fn kind(flags: u64, maps: u64, before: Kind) -> Kind {
    const NEVER_LRU: u64 = bit::NO_PAGE
        | bit::BUDDY
        | bit::RESERVED
        | bit::POISON
        | bit::HUGETLB
        | bit::SLAB
        | bit::PAGE_TABLE
        | bit::OFFLINE
        | bit::ZERO_PAGE;
    if flags & NEVER_LRU != 0 {
        return special(flags);
    }
    if flags & bit::LRU != 0 {
        return match () {
            () if flags & (bit::UNEVICTABLE | bit::MLOCKED) != 0 => Kind::Unevictable,
            // How large it is shows at its last frame.
            () if flags & (bit::HEAD | bit::TAIL) != 0 => Kind::LargeFolio,
            () if flags & bit::ANON != 0 => Kind::Anon,
            () if flags & bit::SWAP_BACKED != 0 => Kind::Shmem,
            () if flags & (bit::DIRTY | bit::WRITEBACK) != 0 => Kind::Dirty,
            () => Kind::File,
        };
    }
    if flags & bit::TAIL != 0 {
        return match before {
            Kind::Free | Kind::Hole | Kind::KernelOrFree => Kind::Kernel,
            head => head,
        };
    }
    match () {
        () if flags & (bit::UNEVICTABLE | bit::MLOCKED) != 0 => Kind::Unevictable,
        () if flags & bit::ANON != 0 => Kind::OffLru,
        () if flags & bit::HEAD != 0 => Kind::Kernel,
        () if flags & (bit::UPTODATE | bit::SWAP_BACKED) != 0 => Kind::OffLru,
        () if maps > 0 && maps != u64::MAX => Kind::Kernel,
        () => Kind::KernelOrFree,
    }
}

const fn special(flags: u64) -> Kind {
    match () {
        () if flags & bit::NO_PAGE != 0 => Kind::Hole,
        () if flags & bit::BUDDY != 0 => Kind::Free,
        () if flags & bit::POISON != 0 => Kind::Poison,
        () if flags & bit::RESERVED != 0 => Kind::Reserved,
        () if flags & bit::HUGETLB != 0 => Kind::Hugetlb,
        () if flags & bit::SLAB != 0 => Kind::Slab,
        () if flags & bit::PAGE_TABLE != 0 => Kind::PageTable,
        () if flags & bit::OFFLINE != 0 => Kind::Offline,
        () => Kind::Kernel,
    }
}
