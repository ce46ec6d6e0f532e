//! One pageblock at one moment.

use pageblock::FrameState;
use pageblock::frame::{Pfn, pages};
use pageblock::mobility::Migratetype;
use pageblock::zone::Zone;

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
    /// frame were requested as; it gets whether the allocator knows them as movable, and the pageblock's type.
    pub(super) fn of(
        zone: &Zone<'_>,
        first: Pfn,
        requested: &mut impl FnMut(Pfn, bool, Migratetype) -> Migratetype,
    ) -> Self {
        let size = zone.geometry().pageblock_pages();
        let span = zone.span();
        let (mut pfn, end) = (first.0.max(span.start.0), (first.0 + size).min(span.end.0));
        let migratetype = zone.block_type(Pfn(pfn)).unwrap_or(Migratetype::Movable);
        let (mut free, mut reserved) = (0, 0);
        let (mut movable, mut unmovable, mut reclaimable, mut own) = (0, 0, 0, 0);
        while pfn < end {
            let left = end - pfn;
            pfn += match zone.state(Pfn(pfn)) {
                Some(FrameState::Free { order, .. } | FrameState::CpuList { order, .. }) => {
                    let here = pages(order).min(left);
                    free += here;
                    here
                }
                Some(FrameState::Allocated { order, movable: can_move }) => {
                    let here = pages(order).min(left);
                    let mt = requested(Pfn(pfn), can_move, migratetype);
                    match mt {
                        Migratetype::Movable | Migratetype::Cma => movable += here,
                        Migratetype::Reclaimable => reclaimable += here,
                        _ => unmovable += here,
                    }
                    own += if mt == home(migratetype) { here } else { 0 };
                    here
                }
                Some(FrameState::Reserved) => {
                    reserved += 1;
                    1
                }
                // The tail of a block that began in the pageblock before, of an order above a pageblock's.
                Some(FrameState::Tail) => {
                    let order = zone.geometry().max_order;
                    match block_over(zone, Pfn(pfn), order) {
                        Some(FrameState::Allocated { movable: true, .. }) => movable += left,
                        Some(FrameState::Allocated { .. }) => unmovable += left,
                        _ => free += left,
                    }
                    left
                }
                Some(FrameState::Hole) | None => 1,
            };
        }
        let used = movable + unmovable + reclaimable;
        let content = match (movable > 0, unmovable > 0, reclaimable > 0) {
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
fn block_over(zone: &Zone<'_>, pfn: Pfn, max_order: u8) -> Option<FrameState> {
    (1..=max_order).find_map(|order| {
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
