//! The types with which the pages in use were requested, and the pageblocks that are mixed by them.

use pageblock::FrameState;
use pageblock::alloc::Allocator;
use pageblock::frame::{Order, Pfn};
use pageblock::mobility::Migratetype;
use pageblock::zone::Zone;
use pageblock_measure::value::blocks::{BlockCensus, BlockSummary, TypeCounts};

use crate::demand::assumed_type;

/// The type with which each page in use was requested, as page owners keep it (`mm/page_owner.c`).
pub(crate) struct Requested {
    /// By frame: the type plus one; 0 if the frame is free, or nothing is known of it.
    types: Vec<u8>,
}

impl Requested {
    /// Assumes of every block in use what is most likely.
    pub(crate) fn of(allocator: &Allocator<'_>) -> Self {
        let end = allocator.zones().iter().map(|z| z.span().end.0).max().unwrap_or(0) as usize;
        let mut requested = Self { types: vec![0; end] };
        for zone in allocator.zones() {
            for pfn in (zone.span().start.0..zone.span().end.0).map(Pfn) {
                if let Some(FrameState::Allocated { order, movable }) = zone.state(pfn) {
                    let block = zone.block_type(pfn).unwrap_or(Migratetype::Movable);
                    requested.note(pfn, order, assumed_type(movable, block));
                }
            }
        }
        requested
    }

    /// Notes that a block was requested as a type. Frames beyond the machine's end are ignored.
    pub(crate) fn note(&mut self, pfn: Pfn, order: Order, mt: Migratetype) {
        self.fill(pfn, order, mt as u8 + 1);
    }

    /// Notes that a block is free again.
    pub(crate) fn end(&mut self, pfn: Pfn, order: Order) {
        self.fill(pfn, order, 0);
    }

    fn fill(&mut self, pfn: Pfn, order: Order, value: u8) {
        let start = pfn.0 as usize;
        let end = (start + (1 << order)).min(self.types.len());
        self.types.get_mut(start..end).unwrap_or_default().fill(value);
    }

    /// Notes that the pages in two frames exchanged places.
    pub(crate) fn swap(&mut self, one: Pfn, other: Pfn) {
        self.types.swap(one.0 as usize, other.0 as usize);
    }

    /// Notes that a page moved to a free frame.
    pub(crate) fn relocate(&mut self, from: Pfn, to: Pfn) {
        self.types[to.0 as usize] = std::mem::take(&mut self.types[from.0 as usize]);
    }

    /// Returns the type with which the page in a frame was requested, if that is known.
    pub(crate) fn get(&self, pfn: Pfn) -> Option<Migratetype> {
        let mt = self.types.get(pfn.0 as usize)?.checked_sub(1)?;
        Migratetype::from_index(usize::from(mt))
    }

    /// Returns the pageblocks of all zones by type, and which of them are mixed by pages of a known type.
    pub(crate) fn census(&self, allocator: &Allocator<'_>) -> BlockCensus {
        count(allocator, |_, pfn| self.get(pfn))
    }

    /// As [`Self::census`], of an allocator on which a recording's changes were imposed: what is free there holds nothing, and
    /// a page that moved to its frame is taken for what it most likely is, as no event names its request.
    pub(crate) fn census_of_states(&self, allocator: &Allocator<'_>) -> BlockCensus {
        count(allocator, |zone, pfn| {
            let is_free = zone.free_block_of(pfn).is_some();
            // Only the first frame of a block has its state.
            let known = || self.get(pfn);
            let assumed = || match zone.state(pfn)? {
                FrameState::Allocated { movable, .. } => {
                    Some(assumed_type(movable, zone.block_type(pfn)?))
                }
                _ => None,
            };
            (!is_free).then(|| known().or_else(assumed)).flatten()
        })
    }
}

/// Counts the pageblocks of all zones by the types of their pages.
fn count(
    allocator: &Allocator<'_>,
    of: impl Fn(&Zone<'_>, Pfn) -> Option<Migratetype>,
) -> BlockCensus {
    let of = &of;
    let blocks = allocator.zones().iter().flat_map(|zone| {
        zone.pageblocks().map(move |(start, migratetype, _)| {
            let mut allocated = TypeCounts::default();
            let pages = zone.geometry().pageblock_pages();
            for mt in (start.0..start.0 + pages).filter_map(|pfn| of(zone, Pfn(pfn))) {
                allocated[mt] += 1;
            }
            BlockSummary { migratetype, allocated }
        })
    });
    BlockCensus::of(blocks)
}
