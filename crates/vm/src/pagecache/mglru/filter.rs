//! A Bloom filter of page tables that are worth a walk (`update_bloom_filter`, `test_bloom_filter`).

use crate::pagecache::space::SpaceId;

/// The logarithm of its bits (`BLOOM_FILTER_SHIFT`).
const SHIFT: u32 = 15;
const WORDS: usize = (1 << SHIFT) / 64;

/// A set of page tables: whatever was added is in it, and others by chance. Two bits stand for each table.
#[derive(Clone, Debug)]
pub(super) struct Filter {
    bits: Box<[u64; WORDS]>,
}

/// Returns the two bits of a page table of a mapping.
const fn keys(space: SpaceId, table: u32) -> [usize; 2] {
    // Multiplication with 2 to the power of 64 over the golden ratio, as hash_64; the kernel hashes the entry's address.
    let hash = ((space as u64) << 32 | table as u64).wrapping_mul(0x61c8_8646_80b5_83eb);
    let key = hash >> (64 - 2 * SHIFT);
    [(key & ((1 << SHIFT) - 1)) as usize, (key >> SHIFT) as usize]
}

impl Filter {
    pub(super) fn new() -> Self {
        Self { bits: Box::new([0; WORDS]) }
    }

    pub(super) fn clear(&mut self) {
        self.bits.fill(0);
    }

    pub(super) fn add(&mut self, space: SpaceId, table: u32) {
        for key in keys(space, table) {
            self.bits[key / 64] |= 1 << (key % 64);
        }
    }

    pub(super) fn has(&self, space: SpaceId, table: u32) -> bool {
        keys(space, table).iter().all(|key| self.bits[key / 64] >> (key % 64) & 1 != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_what_was_added_and_little_else() {
        let mut filter = Filter::new();
        (0..1000).for_each(|at| filter.add(at % 7, at));
        assert!((0..1000).all(|at| filter.has(at % 7, at)));
        let others = (0..100_000).filter(|&at| filter.has(9, at)).count();
        // 2,000 of 32,768 bits are set: four in a thousand.
        assert!((200..600).contains(&others), "{others}");
        filter.clear();
        assert!(!filter.has(0, 0));
    }
}
