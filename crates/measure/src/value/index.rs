//! The kernel's fragmentation indexes, computed from the number of free blocks of each order.
//!
//! `free_blocks[order]` is the number of free blocks of that order in a zone, of any type (a row of
//! `/proc/buddyinfo`). All indexes are in thousandths, in the kernel's own integer arithmetic
//! (`mm/vmstat.c`), in which negative values are meaningful.

use pageblock::frame::{Order, pages};

/// The inputs of the indexes (`struct contig_page_info`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ContigPageInfo {
    /// Free pages.
    pub free_pages: u64,
    /// Free blocks of any order.
    pub free_blocks_total: u64,
    /// Free blocks of the wanted size; a larger block counts as several.
    pub free_blocks_suitable: u64,
}

impl ContigPageInfo {
    /// Sums a zone's free blocks with respect to an order (`fill_contig_page_info`).
    #[must_use]
    pub fn new(free_blocks: &[u64], order: Order) -> Self {
        let mut info = Self::default();
        for (at, &blocks) in (0..).zip(free_blocks) {
            info.free_blocks_total += blocks;
            info.free_pages += blocks * pages(at);
            if at >= order {
                info.free_blocks_suitable += blocks << (at - order);
            }
        }
        info
    }

    const fn unusable_pages(&self, order: Order) -> u64 {
        self.free_pages - self.free_blocks_suitable * pages(order)
    }
}

/// Returns the reason for which a request of this order would fail (`fragmentation_index`): towards 0
/// lack of memory, towards 1000 fragmentation; -1000 if it would not fail, 0 if nothing is free. Lack
/// of memory can yield a value below 0.
#[must_use]
pub fn fragmentation_index(free_blocks: &[u64], order: Order) -> i64 {
    let info = ContigPageInfo::new(free_blocks, order);
    if info.free_blocks_total == 0 {
        return 0;
    }
    if info.free_blocks_suitable > 0 {
        return -1000;
    }
    let missing = 1000 + info.free_pages * 1000 / pages(order);
    1000 - (missing / info.free_blocks_total) as i64
}

/// Returns the share of free memory that cannot serve a request of this order, in thousandths: 0 to
/// 1000 (`unusable_free_index`); 1000 if nothing is free.
#[must_use]
pub fn unusable_free_index(free_blocks: &[u64], order: Order) -> u64 {
    let info = ContigPageInfo::new(free_blocks, order);
    match info.free_pages {
        0 => 1000,
        free => info.unusable_pages(order) * 1000 / free,
    }
}

/// Returns the same share in percent, as used by proactive compaction (`extfrag_for_order`, from 5.9);
/// 0 if nothing is free.
#[must_use]
pub fn extfrag_for_order(free_blocks: &[u64], order: Order) -> u64 {
    let info = ContigPageInfo::new(free_blocks, order);
    match info.free_pages {
        0 => 0,
        free => info.unusable_pages(order) * 100 / free,
    }
}

/// Returns [`unusable_free_index`] for every order of the row.
#[must_use]
pub fn unusable_free_indexes(free_blocks: &[u64]) -> Vec<u64> {
    (0..).zip(free_blocks).map(|(order, _)| unusable_free_index(free_blocks, order)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `/proc/buddyinfo` of a 6.18 machine, zone Normal.
    const NORMAL: [u64; 11] = [5021, 7740, 655, 739, 392, 97, 15, 2, 39, 138, 38];
    /// The same without its blocks of orders 9 and 10.
    const NO_HUGE: [u64; 11] = [5021, 7740, 655, 739, 392, 97, 15, 2, 39, 0, 0];

    fn only(order: usize, blocks: u64) -> [u64; 11] {
        let mut free = [0; 11];
        free[order] = blocks;
        free
    }

    #[test]
    fn fragmentation_index_of_a_real_machine() {
        assert_eq!(fragmentation_index(&only(0, 1000), 3), 874);
        assert_eq!(fragmentation_index(&only(8, 1), 9), -500);
        assert_eq!(fragmentation_index(&only(0, 8), 3), 750);
        assert_eq!(fragmentation_index(&[0; 11], 3), 0);
        assert_eq!(fragmentation_index(&only(10, 1), 3), -1000);
        assert_eq!(fragmentation_index(&only(3, 1), 3), -1000);
        assert_eq!(fragmentation_index(&NO_HUGE, 9), 994);
    }

    #[test]
    fn unusable_free_index_of_a_real_machine() {
        let info = ContigPageInfo::new(&NORMAL, 9);
        assert_eq!((info.free_pages, info.free_blocks_total), (159_177, 14_876));
        assert_eq!(unusable_free_index(&NORMAL, 9), 311);
        assert_eq!(extfrag_for_order(&NORMAL, 9), 31);
        assert_eq!(unusable_free_index(&NORMAL, 10), 755);
        assert_eq!(extfrag_for_order(&NORMAL, 10), 75);
        assert_eq!(unusable_free_index(&NORMAL, 0), 0);
    }

    #[test]
    fn no_free_memory_is_unusable_but_no_reason_to_compact() {
        assert_eq!(unusable_free_index(&[0; 11], 0), 1000);
        assert_eq!(extfrag_for_order(&[0; 11], 0), 0);
    }
}
