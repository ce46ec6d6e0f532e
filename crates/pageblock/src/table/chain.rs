//! Doubly linked chains of blocks, linked through the page map by their first frames.
//!
//! Backward links are stored exclusive-ored with the owner's *tag*. So a chain of one CPU that another CPU's frees
//! have run into is recognised: its links in the two directions do not agree.

mod ring;

use crate::table::links::Links;
use crate::table::map::{Index, NIL};

/// The owner of a chain; 0 for zones.
pub(crate) type Tag = u32;

/// A chain. The previous link of its head is undefined.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chain {
    head: Index,
    /// Undefined in an empty chain.
    tail: Index,
}

/// The links of a chain contradict each other: they lead to blocks that the owner does not have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Broken;

impl Chain {
    pub(crate) const EMPTY: Self = Self { head: NIL, tail: NIL };

    #[inline]
    pub(crate) fn head(&self) -> Option<Index> {
        (self.head != NIL).then_some(self.head)
    }

    #[inline]
    pub(crate) fn tail(&self) -> Option<Index> {
        (!self.is_empty()).then_some(self.tail)
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.head == NIL
    }

    #[inline(always)]
    pub(crate) fn push_head(&mut self, map: &impl Links, tag: Tag, i: Index) {
        debug_assert!(
            i != self.head && i < map.frames(),
            "block {i} is the head already, or no block"
        );
        map.set_next(i, self.head);
        if self.head == NIL {
            self.tail = i;
        } else {
            map.set_prev(self.head, i ^ tag);
        }
        self.head = i;
    }

    #[inline]
    pub(crate) fn push_tail(&mut self, map: &impl Links, tag: Tag, i: Index) {
        debug_assert!(i < map.frames(), "block {i} does not exist");
        debug_assert!(self.is_empty() || i != self.tail, "block {i} is the tail already");
        map.set_next(i, NIL);
        if self.is_empty() {
            self.head = i;
        } else {
            map.set_prev(i, self.tail ^ tag);
            map.set_next(self.tail, i);
        }
        self.tail = i;
    }

    /// Puts `n` blocks at the tail, each `step` frames after the one before.
    #[inline]
    pub(crate) fn push_tail_run(
        &mut self,
        map: &impl Links,
        tag: Tag,
        i: Index,
        n: u32,
        step: Index,
    ) {
        debug_assert!(n > 0 && step > 0, "no blocks");
        self.push_tail(map, tag, i);
        let mut last = i;
        for _ in 1..n {
            let next = last + step;
            map.set_next(last, next);
            map.set_prev(next, last ^ tag);
            last = next;
        }
        map.set_next(last, NIL);
        self.tail = last;
    }

    #[inline]
    pub(crate) fn remove(&mut self, map: &impl Links, tag: Tag, i: Index) {
        debug_assert!(!self.is_empty(), "block {i} removed from an empty chain");
        let next = map.next(i);
        if self.head == i {
            self.head = next;
            return;
        }
        let prev = map.prev(i) ^ tag;
        map.set_next(prev, next);
        if next == NIL {
            self.tail = prev;
        } else {
            map.set_prev(next, prev ^ tag);
        }
    }

    /// Returns the head and the block after it, if their links agree.
    #[inline(always)]
    pub(crate) fn first(&self, map: &impl Links, tag: Tag) -> Result<(Index, Index), Broken> {
        let next = map.next(self.head);
        let agree =
            if next == NIL { self.tail == self.head } else { map.prev(next) == self.head ^ tag };
        if agree { Ok((self.head, next)) } else { Err(Broken) }
    }

    /// Makes `next`, the block after the head, the head.
    #[inline(always)]
    pub(crate) fn step(&mut self, next: Index) {
        self.head = next;
    }

    /// Takes the tail of a chain that is not empty, if it is `owned` and its links agree.
    #[inline]
    pub(crate) fn pop_tail(
        &mut self,
        map: &impl Links,
        tag: Tag,
        owned: impl Fn(Index) -> bool,
    ) -> Option<Index> {
        let i = self.tail;
        if map.next(i) != NIL || !owned(i) {
            return None;
        }
        if self.head == i {
            *self = Self::EMPTY;
        } else {
            let before = self.before(map, tag, i)?;
            map.set_next(before, NIL);
            self.tail = before;
        }
        Some(i)
    }

    /// Takes a run from the tail of a chain that is not empty: a power of two of blocks, at most `most`, each
    /// `owned` and each lying `step` frames after the block that followed it in the chain. Returns the tail and the
    /// number of blocks; `None` for less than two.
    #[inline]
    pub(crate) fn pop_tail_run(
        &mut self,
        map: &impl Links,
        tag: Tag,
        most: u32,
        step: Index,
        owned: impl Fn(Index) -> bool,
    ) -> Option<(Index, u32)> {
        let first = self.tail;
        // Most tails are no run.
        if map.prev(first) ^ tag != first + step || map.next(first) != NIL || !owned(first) {
            return None;
        }
        let (mut last, mut n) = (first, 1);
        // The end of the longest power of two so far, and the block before it.
        let mut cut = None;
        while n <= most {
            let before = if last == self.head { None } else { Some(self.before(map, tag, last)?) };
            if n.is_power_of_two() {
                cut = Some((n, before));
            }
            match before {
                Some(i) if n < most && i == last + step && owned(i) => (last, n) = (i, n + 1),
                _ => break,
            }
        }
        let (n, before) = cut.filter(|&(n, _)| n > 1)?;
        match before {
            Some(before) => {
                map.set_next(before, NIL);
                self.tail = before;
            }
            None => *self = Self::EMPTY,
        }
        Some((first, n))
    }

    /// Returns the block before another, if their links agree.
    #[inline]
    fn before(&self, map: &impl Links, tag: Tag, i: Index) -> Option<Index> {
        let prev = map.prev(i) ^ tag;
        (prev < map.frames() && map.next(prev) == i).then_some(prev)
    }

    /// Returns the block after another, if their links agree.
    fn after(&self, map: &impl Links, tag: Tag, i: Index) -> Option<Index> {
        let next = map.next(i);
        (next < map.frames() && map.prev(next) == i ^ tag).then_some(next)
    }

    /// Repairs a broken chain: keeps the `owned` blocks that can be reached from its head or its tail. The block
    /// with the wrong link is dropped, and so are blocks that cannot be reached.
    #[cold]
    pub(crate) fn mend(&mut self, map: &impl Links, tag: Tag, owned: impl Fn(Index) -> bool) {
        let Self { head, tail } = *self;
        let limit = map.frames() as usize;
        let ends = |i: Index| i < map.frames() && owned(i);
        let back = |&i: &Index| self.before(map, tag, i).filter(|&p| i != head && owned(p));
        let rear = (ends(tail) && map.next(tail) == NIL)
            .then(|| core::iter::successors(Some(tail), back).take(limit).last())
            .flatten()
            // A tail to which no link leads is the owner's only if it follows the head directly.
            .filter(|&start| start != tail || map.prev(tail) ^ tag == head);
        let on = |&i: &Index| self.after(map, tag, i).filter(|&n| owned(n) && Some(n) != rear);
        let mut front = None;
        if ends(head) && rear != Some(head) {
            // Without the last one, whose link leads elsewhere.
            let run = core::iter::successors(Some(head), on).take(limit);
            front = run.zip(core::iter::successors(Some(head), on).skip(1)).map(|(i, _)| i).last();
        }
        *self = match (front, rear) {
            (Some(end), Some(start)) => {
                map.set_next(end, start);
                map.set_prev(start, end ^ tag);
                Self { head, tail }
            }
            (Some(end), None) => {
                map.set_next(end, NIL);
                Self { head, tail: end }
            }
            (None, Some(start)) => Self { head: start, tail },
            (None, None) => Self::EMPTY,
        };
    }

    /// Moves all blocks before `i` after the tail, so that `i` becomes the head (`move_freelist_tail` of
    /// compaction's fast search).
    pub(crate) fn rotate_to(&mut self, map: &impl Links, tag: Tag, i: Index) {
        if self.head == i {
            return;
        }
        debug_assert!(!self.is_empty(), "block {i} is not on an empty chain");
        let before = map.prev(i) ^ tag;
        map.set_next(self.tail, self.head);
        map.set_prev(self.head, self.tail ^ tag);
        map.set_next(before, NIL);
        self.head = i;
        self.tail = before;
    }

    /// Iterates from the tail to the head.
    pub(crate) fn iter_back<'a, L: Links>(
        &self,
        map: &'a L,
        tag: Tag,
    ) -> impl Iterator<Item = Index> + use<'a, L> {
        // The tail of an empty chain is undefined.
        let (mut at, head) = (if self.is_empty() { NIL } else { self.tail }, self.head);
        core::iter::from_fn(move || {
            let i = (at != NIL).then_some(at)?;
            at = if i == head { NIL } else { map.prev(i) ^ tag };
            Some(i)
        })
    }

    /// Iterates from the head to the tail.
    pub(crate) fn iter<'a, L: Links>(
        &self,
        map: &'a L,
    ) -> impl Iterator<Item = Index> + use<'a, L> {
        let mut at = self.head;
        core::iter::from_fn(move || {
            let i = (at != NIL).then_some(at)?;
            at = map.next(i);
            Some(i)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::frame::Pfn;
    use crate::policy::Placement;
    use crate::table::map::PageMap;
    use crate::table::memory::Tables;
    use core::mem::MaybeUninit;
    use std::vec::Vec;

    const A: Tag = 1;
    const B: Tag = 2;

    fn with_map(test: impl FnOnce(&PageMap<'_>)) {
        let mut memory = [MaybeUninit::uninit(); 1024];
        let mut tables = Tables::new(&mut memory);
        test(&PageMap::new(&mut tables, Pfn(0), 64, 3, Placement::Linux).unwrap());
    }

    fn blocks(chain: &Chain, map: &PageMap<'_>) -> Vec<Index> {
        chain.iter(map).collect()
    }

    fn chain(map: &PageMap<'_>, tag: Tag, blocks: &[Index]) -> Chain {
        let mut chain = Chain::EMPTY;
        blocks.iter().for_each(|&i| chain.push_tail(map, tag, i));
        chain
    }

    #[test]
    fn backwards_is_the_same_in_reverse() {
        with_map(|map| {
            let mut chain = chain(map, A, &[3, 9, 4]);
            let back = |chain: &Chain| chain.iter_back(map, A).collect::<Vec<_>>();
            assert_eq!(back(&chain), [4, 9, 3]);
            chain.rotate_to(map, A, 9);
            assert_eq!((blocks(&chain, map), back(&chain)), ([9, 4, 3].into(), [3, 4, 9].into()));
            assert_eq!(back(&Chain::EMPTY), []);
        });
    }

    #[test]
    fn chains_of_two_owners_do_not_run_into_each_other() {
        with_map(|map| {
            let mut a = chain(map, A, &[1, 2, 3, 4]);
            let mut b = chain(map, B, &[11, 12, 13]);
            // Both free 20 at once, and B's links win.
            a.push_head(map, A, 20);
            b.push_head(map, B, 20);
            assert_eq!(a.first(map, A), Err(Broken));
            assert_eq!(b.first(map, B), Ok((20, 11)));
            a.mend(map, A, |_| true);
            assert_eq!(blocks(&a, map), [1, 2, 3, 4]);
            assert_eq!(blocks(&b, map), [20, 11, 12, 13]);
        });
    }

    #[test]
    fn break_within_leaves_out_one_block() {
        with_map(|map| {
            let mut a = chain(map, A, &[3, 4, 5]);
            let mut b = chain(map, B, &[11, 12]);
            a.push_head(map, A, 20);
            b.push_head(map, B, 20);
            a.push_head(map, A, 2);
            a.push_head(map, A, 1);
            a.mend(map, A, |_| true);
            assert_eq!(blocks(&a, map), [1, 2, 3, 4, 5]);
            assert_eq!(b.first(map, B), Ok((20, 11)));
        });
    }

    #[test]
    fn tail_of_another_owner_is_left_out() {
        with_map(|map| {
            let mut a = chain(map, A, &[1, 2, 3]);
            let mut b = Chain::EMPTY;
            b.push_head(map, B, 3);
            b.push_head(map, B, 9);
            assert_eq!(a.pop_tail(map, A, |_| true), None);
            a.mend(map, A, |_| true);
            assert_eq!(blocks(&a, map), [1]);
            let mut c = chain(map, A, &[1, 2, 3]);
            c.mend(map, A, |_| true);
            assert_eq!(blocks(&c, map), [1, 2, 3], "a whole chain stays");
            c.mend(map, A, |i| i != 1);
            assert_eq!(blocks(&c, map), [2, 3], "the head was given away");
            c.mend(map, A, |_| false);
            assert!(c.is_empty());
        });
    }

    #[test]
    fn run_at_the_tail_is_a_power_of_two_in_order() {
        with_map(|map| {
            let mut a = Chain::EMPTY;
            a.push_tail(map, A, 40);
            a.push_tail(map, A, 9);
            a.push_tail_run(map, A, 50, 3, 2);
            assert_eq!(blocks(&a, map), [40, 9, 50, 52, 54]);
            assert_eq!(a.pop_tail_run(map, A, 4, 2, |_| true), None, "54 lies above 52");
            let mut a = chain(map, A, &[7, 5, 4, 3, 2, 1, 0]);
            assert_eq!(a.pop_tail_run(map, A, 4, 1, |i| i != 1), None);
            assert_eq!(a.pop_tail_run(map, A, 8, 1, |i| i != 3), Some((0, 2)));
            assert_eq!(blocks(&a, map), [7, 5, 4, 3, 2]);
            assert_eq!(a.pop_tail_run(map, A, 8, 1, |_| true), Some((2, 4)));
            assert_eq!(blocks(&a, map), [7]);
            assert_eq!(a.pop_tail_run(map, A, 8, 1, |_| true), None);
            let mut a = chain(map, A, &[21, 20]);
            assert_eq!(a.pop_tail_run(map, B, 2, 1, |_| true), None, "the links are another's");
            assert_eq!(a.pop_tail_run(map, A, 2, 1, |_| true), Some((20, 2)));
            assert!(a.is_empty());
        });
    }
}
