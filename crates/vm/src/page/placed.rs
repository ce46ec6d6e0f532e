//! Pages by the migratetype of their request and of their pageblock.

use pageblock::frame::{Order, Pfn, pages};
use pageblock::mobility::{MIGRATETYPES, Migratetype};
use pageblock::request::Request;

use crate::vm::Vm;

/// Allocated pages, counted at allocation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Placed {
    pages: [[u64; MIGRATETYPES]; MIGRATETYPES],
}

impl Placed {
    fn record(&mut self, requested: Migratetype, block: Migratetype, order: Order) {
        self.pages[requested as usize][block as usize] += pages(order);
    }

    /// Iterates over the type of the request, the type of the pageblock after any claim, and the number of pages.
    pub fn iter(&self) -> impl Iterator<Item = (Migratetype, Migratetype, u64)> + '_ {
        Migratetype::ALL.into_iter().flat_map(move |requested| {
            let row = self.pages[requested as usize];
            Migratetype::ALL.into_iter().map(move |block| (requested, block, row[block as usize]))
        })
    }
}

impl<O> Vm<'_, O> {
    /// Counts a block that a request was served with.
    #[inline]
    pub(crate) fn count_placed(&mut self, request: &Request, pfn: Pfn) {
        let Some(zone) = self.allocator.zone_of(pfn) else { return };
        let Some(block) = self.allocator.zones()[zone.index()].block_type(pfn) else { return };
        let requested = request.gfp.migratetype().unwrap_or(Migratetype::Unmovable);
        self.placed.record(requested, block, request.order);
    }
}
