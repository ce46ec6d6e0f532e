//! Migratetypes: how far the content of a page can be moved, which decides what it is grouped with.

use core::fmt;

/// The mobility type of a pageblock, of a free list, or of a request (`enum migratetype`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Migratetype {
    /// Kernel memory that stays where it is.
    Unmovable = 0,
    /// User memory and page cache: compaction may move it.
    Movable = 1,
    /// Kernel caches that a shrinker may free.
    Reclaimable = 2,
    /// Blocks kept for high-order requests that may not wait (4.4 and later).
    HighAtomic = 3,
    /// Blocks of a contiguous memory area: movable content only.
    Cma = 4,
    /// Blocks that nothing is allocated from.
    Isolate = 5,
    /// The migrate reserve, used as the last fallback (up to 4.3).
    Reserve = 6,
}

/// The number of [`Migratetype`] variants.
pub const MIGRATETYPES: usize = 7;

/// The number of types that a request can have, and that a CPU list exists for (`MIGRATE_PCPTYPES`).
pub const MIGRATE_PCPTYPES: usize = 3;

use Migratetype::{Cma, HighAtomic, Isolate, Movable, Reclaimable, Reserve, Unmovable};

impl Migratetype {
    /// Every type, in the order of its value.
    pub const ALL: [Self; MIGRATETYPES] =
        [Unmovable, Movable, Reclaimable, HighAtomic, Cma, Isolate, Reserve];

    /// The types that a request can have.
    pub const REQUESTABLE: [Self; MIGRATE_PCPTYPES] = [Unmovable, Movable, Reclaimable];

    /// Returns the type with this value of `self as usize`; `None` for a value without a type.
    #[must_use]
    pub const fn from_index(index: usize) -> Option<Self> {
        // Not by `ALL`: this compiles to a comparison.
        Some(match index {
            0 => Unmovable,
            1 => Movable,
            2 => Reclaimable,
            3 => HighAtomic,
            4 => Cma,
            5 => Isolate,
            6 => Reserve,
            _ => return None,
        })
    }

    /// Returns whether blocks of this type merge with blocks of another
    /// (`migratetype_is_mergeable`, since 5.18).
    #[must_use]
    pub const fn is_mergeable(self) -> bool {
        matches!(self, Unmovable | Movable | Reclaimable)
    }

    /// Returns the letter of `show_mem` (SysRq-m).
    #[must_use]
    pub const fn letter(self) -> char {
        match self {
            Unmovable => 'U',
            Movable => 'M',
            Reclaimable => 'E',
            HighAtomic => 'H',
            Cma => 'C',
            Isolate => 'I',
            Reserve => 'R',
        }
    }

    /// Returns the name that `/proc/pagetypeinfo` prints.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Unmovable => "Unmovable",
            Movable => "Movable",
            Reclaimable => "Reclaimable",
            HighAtomic => "HighAtomic",
            Cma => "CMA",
            Isolate => "Isolate",
            Reserve => "Reserve",
        }
    }
}

impl fmt::Display for Migratetype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A kernel's numbers of the types, which its tracepoints print.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Numbering {
    /// Up to 4.3: Unmovable 0, Reclaimable 1, Movable 2, Reserve 3.
    Legacy,
    /// From 4.4: Unmovable 0, Movable 1, Reclaimable 2, HighAtomic 3.
    Modern,
}

impl Numbering {
    /// Returns the kernel's number for a type, in a kernel with or without `CONFIG_CMA`; `None` where the
    /// kernel has no such type.
    #[must_use]
    pub const fn number(self, mt: Migratetype, cma: bool) -> Option<u8> {
        Some(match (self, mt) {
            (_, Unmovable) => 0,
            (Self::Legacy, Reclaimable) | (Self::Modern, Movable) => 1,
            (Self::Legacy, Movable) | (Self::Modern, Reclaimable) => 2,
            (Self::Legacy, Reserve) | (Self::Modern, HighAtomic) => 3,
            (_, Cma) if cma => 4,
            (_, Isolate) => 4 + cma as u8,
            _ => return None,
        })
    }

    /// Returns the type with this number in a kernel with or without `CONFIG_CMA`.
    #[must_use]
    pub const fn migratetype(self, number: u8, cma: bool) -> Option<Migratetype> {
        Some(match (self, number) {
            (_, 0) => Unmovable,
            (Self::Legacy, 1) | (Self::Modern, 2) => Reclaimable,
            (Self::Legacy, 2) | (Self::Modern, 1) => Movable,
            (Self::Legacy, 3) => Reserve,
            (Self::Modern, 3) => HighAtomic,
            (_, 4) if cma => Cma,
            (_, 4) => Isolate,
            (_, 5) if cma => Isolate,
            _ => return None,
        })
    }
}
