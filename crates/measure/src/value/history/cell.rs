//! One pageblock at one moment.

use pageblock::frame::{Pfn, pages};
use pageblock::mobility::Migratetype;
use pageblock::zone::Zone;
use pageblock::{BlockUsage, FrameState};

/// The bytes of a cell in a history.
pub(super) const CELL_BYTES: usize = 4;

/// What the pages in use of a pageblock are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Content {
    /// The block has no memory of the zone.
    #[default]
    Hole,
    /// No page is in use.
    Free,
    /// Compaction can move every page in use.
    Movable,
    /// No page in use can be moved, and at least one cannot be reclaimed either.
    Unmovable,
    /// Every page in use can be reclaimed but not moved.
    Reclaimable,
    /// Some pages in use can be moved, others not.
    Mixed,
    /// The allocator never had any of its memory: the kernel's own, from boot.
    Reserved,
}

impl Content {
    /// Every class, by its number in a history.
    pub const ALL: [Self; 7] = [
        Self::Hole,
        Self::Free,
        Self::Movable,
        Self::Unmovable,
        Self::Reclaimable,
        Self::Mixed,
        Self::Reserved,
    ];

    /// Returns its name, as a history lists it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hole => "hole",
            Self::Free => "free",
            Self::Movable => "movable",
            Self::Unmovable => "unmovable",
            Self::Reclaimable => "reclaimable",
            Self::Mixed => "mixed",
            Self::Reserved => "reserved",
        }
    }
}

/// A pageblock at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cell {
    /// The number of its type in [`Migratetype::ALL`].
    pub migratetype: u8,
    /// What its pages in use are.
    pub content: Content,
    /// Its free pages, those on per-CPU lists included, in eighths of a pageblock, rounded down.
    pub free_eighths: u8,
    /// Whether most of its pages in use were requested as another type than the block's.
    pub foreign: bool,
    /// Its pages that compaction cannot move: unmovable, reclaimable and reserved ones.
    pub stuck: u16,
}

impl Cell {
    /// Returns the pageblock of this frame in its zone. `requested` returns the type that the pages at a
    /// frame were requested as, of those that the allocator does not know as movable; it gets the pageblock's type.
    pub(super) fn of(
        zone: &Zone<'_>,
        first: Pfn,
        requested: &mut impl FnMut(Pfn, Migratetype) -> Migratetype,
    ) -> Self {
        let inside = first.max(zone.span().start);
        let migratetype = zone.block_type(inside).unwrap_or(Migratetype::Movable);
        let home = home(migratetype);
        let size = zone.geometry().pageblock_pages();
        let (mut moved, mut unmovable, mut reclaimable, mut own) = (0, 0, 0, 0);
        let mut fixed = |pfn: Pfn, pages: u64| {
            let mt = requested(pfn, migratetype);
            match mt {
                Migratetype::Movable | Migratetype::Cma => moved += pages,
                Migratetype::Reclaimable => reclaimable += pages,
                _ => unmovable += pages,
            }
            own += if mt == home { pages } else { 0 };
        };
        let mut usage = zone.block_usage_with_fixed(first, &mut fixed).unwrap_or_default();
        if zone.state(first) == Some(FrameState::Tail) {
            // All of it is the tail of a block larger than a pageblock.
            usage = match block_over(zone, first) {
                Some(FrameState::Allocated { movable: true, .. }) => {
                    BlockUsage { movable: size, ..BlockUsage::default() }
                }
                Some(FrameState::Allocated { .. }) => {
                    fixed(first, size);
                    BlockUsage { unmovable: size, ..BlockUsage::default() }
                }
                _ => BlockUsage { free: size, ..BlockUsage::default() },
            };
        }
        let BlockUsage { movable, free, reserved, .. } = usage;
        moved += movable;
        own += if home == Migratetype::Movable { movable } else { 0 };
        let used = moved + unmovable + reclaimable;
        let content = match (moved > 0, unmovable > 0, reclaimable > 0) {
            (true, false, false) => Content::Movable,
            (false, true, _) => Content::Unmovable,
            (false, false, true) => Content::Reclaimable,
            (true, ..) => Content::Mixed,
            (false, false, false) if free > 0 => Content::Free,
            (false, false, false) if reserved > 0 => Content::Reserved,
            _ => Content::Hole,
        };
        let reserve = matches!(migratetype, Migratetype::HighAtomic | Migratetype::Reserve);
        Self {
            migratetype: migratetype as u8,
            content,
            free_eighths: (free * 8 / size) as u8,
            foreign: !reserve && used > 0 && own * 2 < used,
            stuck: u16::try_from(unmovable + reclaimable + reserved).unwrap_or(u16::MAX),
        }
    }

    /// Returns its bytes in a history.
    pub(super) const fn bytes(self) -> [u8; CELL_BYTES] {
        let [low, high] = self.stuck.to_le_bytes();
        let eighths = self.free_eighths | (self.foreign as u8) << 7;
        [self.migratetype | (self.content as u8) << 4, eighths, low, high]
    }

    /// Returns the cell of these bytes; `None` if a number in them has no meaning.
    pub(super) fn from_bytes([kinds, eighths, low, high]: [u8; CELL_BYTES]) -> Option<Self> {
        let migratetype = kinds & 0xf;
        Migratetype::from_index(usize::from(migratetype))?;
        let free_eighths = eighths & 0x7f;
        Some(Self {
            migratetype,
            content: *Content::ALL.get(usize::from(kinds >> 4))?,
            free_eighths: Some(free_eighths).filter(|&eighths| eighths <= 8)?,
            foreign: eighths & 0x80 != 0,
            stuck: u16::from_le_bytes([low, high]),
        })
    }
}

/// Returns the type whose requests belong in a block of this type.
const fn home(block: Migratetype) -> Migratetype {
    match block {
        Migratetype::Cma => Migratetype::Movable,
        block => block,
    }
}

/// Returns the state of the block that covers a frame, which is not its first.
fn block_over(zone: &Zone<'_>, pfn: Pfn) -> Option<FrameState> {
    (1..=zone.geometry().max_order).find_map(|order| {
        let head = pfn.align_down(order);
        let state = zone.state(head)?;
        match state {
            FrameState::Free { order: has, .. }
            | FrameState::CpuList { order: has, .. }
            | FrameState::Allocated { order: has, .. } => {
                (head.0 + pages(has) > pfn.0).then_some(state)
            }
            _ => None,
        }
    })
}
