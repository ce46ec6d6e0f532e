//! Pages allocated into a block of another type: the measure of harm that is the same for every kernel
//! version.
//!
//! `mm_page_alloc_extfrag` events count decisions, and the unit of decision changed with 6.10. A page
//! that was requested as one type and came from a pageblock of another has the same meaning in every
//! version, whether it caused an event or came without one from a polluted list.

use pageblock::frame::{Order, pages};
use pageblock::mobility::{MIGRATETYPES, Migratetype};

use crate::value::counters::Counters;
use crate::value::names;

/// Pages by the requested type and by the type of the pageblock that they came from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TypeMismatch {
    pages: [[u64; MIGRATETYPES]; MIGRATETYPES],
}

impl TypeMismatch {
    /// Makes an empty matrix.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts pages by the requested type and the type of their pageblock.
    #[must_use]
    pub fn of_pages(counts: impl Iterator<Item = (Migratetype, Migratetype, u64)>) -> Self {
        let mut mismatch = Self::new();
        for (requested, block, pages) in counts {
            mismatch.pages[requested as usize][block as usize] += pages;
        }
        mismatch
    }

    /// Counts an allocated block; `block` is the type of its pageblock at the time of the allocation,
    /// after any claim. For a block of several pageblocks, call it for each.
    pub fn record(&mut self, requested: Migratetype, block: Migratetype, order: Order) {
        self.pages[requested as usize][block as usize] += pages(order);
    }

    /// Returns the pages requested as `requested` that came from a block of type `block`.
    #[must_use]
    pub const fn pages(&self, requested: Migratetype, block: Migratetype) -> u64 {
        self.pages[requested as usize][block as usize]
    }

    /// Returns the pages in a block of another type. Reserves do not count as a mismatch: movable pages
    /// in CMA blocks, and any page in a high-atomic or reserve block.
    #[must_use]
    pub fn total(&self) -> u64 {
        mismatches().map(|(requested, block)| self.pages(requested, block)).sum()
    }

    /// Returns the total and each pair of different types as counters.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let mut counters = Counters::new();
        counters.set(names::TYPE_MISMATCH_PAGES, self.total());
        for (requested, block) in mismatches() {
            let count = self.pages(requested, block);
            if count > 0 || (ordinary(requested) && ordinary(block)) {
                counters.set(names::type_mismatch(requested, block), count);
            }
        }
        counters
    }
}

const fn ordinary(mt: Migratetype) -> bool {
    mt.is_mergeable()
}

/// Iterates over the pairs (requested, block) that are a mismatch, in the order of the types.
pub fn mismatches() -> impl Iterator<Item = (Migratetype, Migratetype)> {
    let pairs = |requested| Migratetype::ALL.into_iter().map(move |block| (requested, block));
    Migratetype::ALL.into_iter().flat_map(pairs).filter(|pair| match pair {
        (_, Migratetype::HighAtomic | Migratetype::Reserve) => false,
        (Migratetype::Movable, Migratetype::Cma) => false,
        (requested, block) => requested != block,
    })
}

#[cfg(test)]
mod tests {
    use pageblock::mobility::Migratetype::{Cma, HighAtomic, Movable, Reclaimable, Unmovable};

    use super::*;

    #[test]
    fn pages_count_and_reserves_do_not() {
        let mut mismatch = TypeMismatch::new();
        mismatch.record(Unmovable, Movable, 3);
        mismatch.record(Unmovable, Movable, 0);
        mismatch.record(Reclaimable, Unmovable, 1);
        mismatch.record(Movable, Movable, 9);
        mismatch.record(Unmovable, HighAtomic, 4);
        mismatch.record(Movable, Cma, 4);
        mismatch.record(Unmovable, Cma, 5);
        assert_eq!(mismatch.total(), 9 + 2 + 32);
        let counters = mismatch.counters();
        assert_eq!(counters.get("type_mismatch_pages"), Some(43));
        assert_eq!(counters.get("type_mismatch_UinM"), Some(9));
        assert_eq!(counters.get("type_mismatch_EinU"), Some(2));
        assert_eq!(counters.get("type_mismatch_MinU"), Some(0));
        assert_eq!(counters.get("type_mismatch_UinC"), Some(32));
        assert_eq!(counters.get("type_mismatch_UinH"), None);
        assert_eq!(counters.len(), 1 + 6 + 1);
    }
}
