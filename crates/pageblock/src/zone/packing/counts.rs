//! The number of free blocks of each order in a pageblock.
//!
//! Each order below the pageblock's has a field in a word, wide enough for all its blocks before any has merged: order
//! `o` of a pageblock of order `p` has `p - o + 1` bits. Up to `p = 9` all fields fit one word. A block that is freed
//! and merges changes all counts with one addition, and the highest set bit gives the largest order.

use super::Block;
use crate::base::frame::{ORDER_LIMIT, Order};
use crate::table::memory::{Tables, TablesLayout};

/// Words for the largest pageblocks.
const WORDS: usize = 3;
/// A power of two, so that an index needs no bounds check.
pub(super) const ORDERS: usize = (ORDER_LIMIT as usize + 1).next_power_of_two();

/// The counts of all pageblocks.
pub(super) struct OrderCounts<'m> {
    words: &'m mut [u64],
    /// The number of words per pageblock.
    stride: usize,
    /// One block of each order; zero for the pageblock's order.
    one: [[u64; ORDERS]; WORDS],
    changes: Changes,
    /// The order to which each bit belongs.
    orders: [[u8; 64]; WORDS],
}

/// The changes of a pageblock's counts when a block is added.
pub(super) struct Changes {
    /// One more block of each order, and one less of each smaller order: the effect of a page that is freed and
    /// merges.
    grown: [[u64; ORDERS]; WORDS],
    /// One block of each smaller order.
    below: [[u64; ORDERS]; WORDS],
    /// One block of each order, if a pageblock has a single word; otherwise a value that no word reaches.
    least: [u64; ORDERS],
    stride: usize,
}

impl Changes {
    const NONE: [[u64; ORDERS]; WORDS] = [[0; ORDERS]; WORDS];

    fn of(one: &[[u64; ORDERS]; WORDS], below: [[u64; ORDERS]; WORDS], stride: usize) -> Self {
        let less = |word: usize, at: usize| one[word][at].wrapping_sub(below[word][at]);
        let grown = |word| core::array::from_fn(|at| less(word, at));
        let least = if stride == 1 { one[0] } else { [u64::MAX; ORDERS] };
        Self { grown: core::array::from_fn(grown), below, least, stride }
    }

    /// See [`OrderCounts::merge`].
    pub(super) fn merge(
        &self,
        words: &mut [u64],
        block: Block,
        order: Order,
        merged: Order,
    ) -> bool {
        let (order, merged) = (usize::from(order) % ORDERS, usize::from(merged) % ORDERS);
        let first = block as usize * self.stride;
        if self.stride > 1 {
            self.merge_further_words(&mut words[first..], order, merged);
        }
        let before = words[first];
        words[first] =
            before.wrapping_add(self.grown[0][merged]).wrapping_add(self.below(0, order));
        // The field of a larger order is above that of a smaller one.
        before >= self.least[merged]
    }

    /// See [`below`](Self#structfield.below).
    #[inline(always)]
    fn below(&self, word: usize, order: usize) -> u64 {
        if order == 0 { 0 } else { self.below[word][order] }
    }

    #[cold]
    #[inline(never)]
    fn merge_further_words(&self, words: &mut [u64], order: usize, merged: usize) {
        for (at, word) in words.iter_mut().enumerate().take(self.stride).skip(1) {
            let by = self.grown[at][merged].wrapping_add(self.below(at, order));
            *word = word.wrapping_add(by);
        }
    }
}

/// Returns the word and the lowest bit of each order's field, and the number of words.
fn fields(pageblock_order: Order) -> ([(usize, u32); ORDERS], usize) {
    let mut fields = [(0, 0); ORDERS];
    let (mut word, mut bit) = (0, 0);
    for order in 0..pageblock_order {
        let width = u32::from(pageblock_order - order) + 1;
        if bit + width > u64::BITS {
            (word, bit) = (word + 1, 0);
        }
        fields[usize::from(order)] = (word, bit);
        bit += width;
    }
    (fields, word + 1)
}

impl<'m> OrderCounts<'m> {
    pub(super) fn off() -> Self {
        let (one, orders) = (Changes::NONE, [[0; 64]; WORDS]);
        Self { words: &mut [], stride: 0, one, changes: Changes::of(&one, one, 0), orders }
    }

    pub(super) fn layout(
        layout: TablesLayout,
        blocks: usize,
        pageblock_order: Order,
    ) -> Option<TablesLayout> {
        layout.and::<u64>(blocks.checked_mul(fields(pageblock_order).1)?)
    }

    pub(super) fn new(
        tables: &mut Tables<'m>,
        blocks: usize,
        pageblock_order: Order,
    ) -> Option<Self> {
        let (fields, stride) = fields(pageblock_order);
        let words = tables.take(blocks * stride, |_| 0)?;
        let mut below = Changes::NONE;
        let mut counts = Self { words, stride, ..Self::off() };
        for order in 0..pageblock_order {
            let at = usize::from(order);
            let (word, bit) = fields[at];
            counts.one[word][at] = 1 << bit;
            counts.orders[word][bit as usize..].fill(order);
            for below in &mut below[word][at + 1..] {
                *below += 1 << bit;
            }
        }
        counts.changes = Changes::of(&counts.one, below, stride);
        Some(counts)
    }

    fn of(&self, block: Block) -> &[u64] {
        &self.words[block as usize * self.stride..][..self.stride]
    }

    /// Counts `by` more blocks of an order; `u64::MAX` counts one less.
    fn change(&mut self, block: Block, order: Order, by: u64) {
        if self.stride > 1 {
            return self.change_words(block, order, by);
        }
        let word = &mut self.words[block as usize];
        *word = word.wrapping_add(self.one[0][usize::from(order)].wrapping_mul(by));
    }

    #[cold]
    #[inline(never)]
    fn change_words(&mut self, block: Block, order: Order, by: u64) {
        let words = &mut self.words[block as usize * self.stride..][..self.stride];
        for (word, one) in words.iter_mut().zip(&self.one) {
            *word = word.wrapping_add(one[usize::from(order)].wrapping_mul(by));
        }
    }

    /// Counts one more block of an order.
    pub(super) fn add(&mut self, block: Block, order: Order) {
        self.change(block, order, 1);
    }

    /// Counts one block of an order less.
    pub(super) fn sub(&mut self, block: Block, order: Order) {
        debug_assert!(self.count(block, order) > 0, "no block of order {order} is counted");
        self.change(block, order, u64::MAX);
    }

    /// Counts a block of `order` that was added and merged with one block of each order from there up to `merged`,
    /// exclusive. Returns whether the largest order is known to be unchanged.
    pub(super) fn merge(&mut self, block: Block, order: Order, merged: Order) -> bool {
        debug_assert!(
            (order..merged).all(|at| self.count(block, at) > 0),
            "a buddy that merged was not counted"
        );
        self.changes.merge(self.words, block, order, merged)
    }

    /// Returns the words of all pageblocks, and their changes.
    pub(super) fn parts(&mut self) -> (&mut [u64], &Changes) {
        (&mut *self.words, &self.changes)
    }

    /// Returns the largest order that has blocks; 0 if none has.
    pub(super) fn largest(&self, block: Block) -> Order {
        if self.stride > 1 {
            return self.largest_in_words(block);
        }
        self.orders[0][(self.words[block as usize] | 1).ilog2() as usize]
    }

    #[cold]
    #[inline(never)]
    fn largest_in_words(&self, block: Block) -> Order {
        let mut words = self.of(block).iter().zip(&self.orders).rev();
        let last = words.find(|(word, _)| **word != 0);
        last.map_or(0, |(word, orders)| orders[word.ilog2() as usize])
    }

    /// Returns the smallest order from `order` on that has blocks.
    pub(super) fn smallest(&self, block: Block, order: Order) -> Option<Order> {
        if self.stride > 1 {
            return self.smallest_in_words(block, order);
        }
        let word = self.words[block as usize] & self.one[0][usize::from(order)].wrapping_neg();
        (word != 0).then(|| self.orders[0][word.trailing_zeros() as usize])
    }

    #[cold]
    #[inline(never)]
    fn smallest_in_words(&self, block: Block, order: Order) -> Option<Order> {
        let mut words = self.of(block).iter().zip(&self.one).zip(&self.orders);
        words.find_map(|((word, one), orders)| {
            // A word without a field for the order has only smaller orders, or only larger ones.
            let word = word & one[usize::from(order)].max(1).wrapping_neg();
            let found = (word != 0).then(|| orders[word.trailing_zeros() as usize])?;
            (found >= order).then_some(found)
        })
    }

    /// Returns the number of blocks of an order.
    pub(super) fn count(&self, block: Block, order: Order) -> u16 {
        let order = usize::from(order);
        let Some(at) = (0..self.stride).find(|&at| self.one[at][order] != 0) else { return 0 };
        let bit = self.one[at][order].trailing_zeros();
        let end = self.one[at][order + 1..].iter().find(|one| **one != 0);
        let word = self.of(block)[at] & end.map_or(u64::MAX, |end| end - 1);
        (word >> bit) as u16
    }

    pub(super) fn clear(&mut self, block: Block) {
        self.words[block as usize * self.stride..][..self.stride].fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::mem::MaybeUninit;
    use std::vec;
    use std::vec::Vec;

    /// Runs on the counts of two pageblocks of an order.
    fn with_counts(pageblock_order: Order, test: impl FnOnce(OrderCounts<'_>)) {
        let layout = OrderCounts::layout(TablesLayout::default(), 2, pageblock_order).unwrap();
        let mut memory: Vec<MaybeUninit<u8>> = vec![MaybeUninit::uninit(); layout.size()];
        let mut tables = Tables::new(&mut memory);
        test(OrderCounts::new(&mut tables, 2, pageblock_order).unwrap());
    }

    #[test]
    fn each_order_is_counted_apart_up_to_all_blocks_of_the_pageblock() {
        for p in 1..=ORDER_LIMIT {
            with_counts(p, |mut counts| {
                let all: Vec<u16> = (0..p).map(|order| 1 << (p - order)).collect();
                for order in 0..p {
                    (0..all[usize::from(order)]).for_each(|_| counts.add(1, order));
                    assert_eq!((counts.largest(1), counts.smallest(1, 0)), (order, Some(0)));
                }
                let now: Vec<u16> = (0..p).map(|order| counts.count(1, order)).collect();
                assert_eq!(now, all);
                assert!((0..p).all(|order| counts.count(0, order) == 0));
                for order in 0..p {
                    assert_eq!(counts.smallest(1, order), Some(order));
                    (0..all[usize::from(order)]).for_each(|_| counts.sub(1, order));
                    let next = (order + 1 < p).then_some(order + 1);
                    assert_eq!(counts.smallest(1, 0), next, "{p} {order}");
                    assert_eq!(counts.smallest(1, p), None);
                }
            });
        }
    }

    #[test]
    fn merging_counts_as_its_steps_do() {
        for p in [3, 9, 10, 13, 14] {
            with_counts(p, |mut counts| {
                for order in 0..p {
                    for merged in order..=p {
                        (order..merged).for_each(|order| counts.add(0, order));
                        counts.merge(0, order, merged);
                        for at in 0..p {
                            assert_eq!(counts.count(0, at), u16::from(at == merged), "{p} {order}");
                        }
                        counts.clear(0);
                    }
                }
            });
        }
    }
}
