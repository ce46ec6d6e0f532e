//! Lists in a ring buffer instead of links: the ends of the [`Chain`] are then places in the ring.

use super::Chain;
use crate::table::map::{Index, NIL};

impl Chain {
    /// Returns the number of blocks in a ring.
    pub(crate) fn ring_len(&self, ring: &[Index]) -> usize {
        if self.is_empty() {
            0
        } else {
            let (head, tail) = (self.head as usize, self.tail as usize);
            1 + if tail >= head { tail - head } else { tail + ring.len() - head }
        }
    }

    /// Puts a block before the first. Returns whether there was room.
    #[inline]
    pub(crate) fn ring_push_head(&mut self, ring: &mut [Index], i: Index) -> bool {
        if self.ring_len(ring) == ring.len() {
            return false;
        }
        if self.is_empty() {
            (self.head, self.tail) = (0, 0);
        } else {
            self.head = before(ring, self.head as usize, 1) as u32;
        }
        ring[self.head as usize] = i;
        true
    }

    /// Puts blocks before the first, the last of them foremost, if there is room for all. Returns whether there
    /// was.
    #[inline]
    pub(crate) fn ring_push_stack<const N: usize>(
        &mut self,
        ring: &mut [Index],
        blocks: &[Index; N],
    ) -> bool {
        if ring.len() - self.ring_len(ring) < N {
            return false;
        }
        let head = self.head as usize;
        if !self.is_empty() {
            if let Some(start) = head.checked_sub(N) {
                if let Some(places) = ring.get_mut(start..head) {
                    places.iter_mut().zip(blocks.iter().rev()).for_each(|(place, &i)| *place = i);
                    self.head = start as u32;
                    return true;
                }
            }
        }
        for &i in blocks {
            self.ring_push_head(ring, i);
        }
        true
    }

    /// Puts a block after the last. Returns whether there was room.
    #[inline]
    pub(crate) fn ring_push_tail(&mut self, ring: &mut [Index], i: Index) -> bool {
        if self.ring_len(ring) == ring.len() {
            return false;
        }
        if self.is_empty() {
            (self.head, self.tail) = (0, 0);
        } else {
            self.tail = after(ring, self.tail as usize, 1) as u32;
        }
        ring[self.tail as usize] = i;
        true
    }

    /// Puts `n` blocks, for which there is room, after the last, each `step` frames after the one before.
    #[inline]
    pub(crate) fn ring_push_run(&mut self, ring: &mut [Index], i: Index, n: u32, step: Index) {
        debug_assert!(self.ring_len(ring) + n as usize <= ring.len(), "a ring has no room");
        let start = if self.is_empty() { 0 } else { after(ring, self.tail as usize, 1) };
        if n == 0 || start >= ring.len() {
            return;
        }
        if self.is_empty() {
            self.head = 0;
        }
        self.tail = after(ring, start, n as usize - 1) as u32;
        let (low, high) = ring.split_at_mut(start);
        let before = high.len() as u32;
        high.iter_mut().zip(0..n).for_each(|(place, at)| *place = i + at * step);
        low.iter_mut().zip(before..n).for_each(|(place, at)| *place = i + at * step);
    }

    /// Moves blocks, contiguous in the ring, from the head of a ring to `into`, the head to its end, while there is room.
    /// Returns how many.
    #[inline]
    pub(crate) fn ring_pop_heads<const N: usize>(
        &mut self,
        ring: &[Index],
        into: &mut [Index; N],
    ) -> usize {
        if self.is_empty() {
            return 0;
        }
        let head = self.head as usize;
        let end = if self.tail >= self.head { self.tail as usize + 1 } else { ring.len() };
        let blocks = &ring[head..end];
        let n = N.min(blocks.len());
        match blocks.first_chunk::<N>() {
            // A number that the compiler knows.
            Some(blocks) => into.iter_mut().rev().zip(blocks).for_each(|(to, &i)| *to = i),
            None => into.iter_mut().rev().zip(blocks).for_each(|(to, &i)| *to = i),
        }
        if n == self.ring_len(ring) {
            *self = Self::EMPTY;
        } else {
            self.head = after(ring, head, n) as u32;
        }
        n
    }

    /// Returns the last block of a ring that is not empty.
    #[inline]
    pub(crate) fn ring_last(&self, ring: &[Index]) -> Index {
        ring[self.tail as usize]
    }

    /// Drops the last `n` blocks of a ring.
    #[inline]
    pub(crate) fn ring_drop_tail(&mut self, ring: &[Index], n: usize) {
        debug_assert!(n <= self.ring_len(ring), "fewer blocks than {n}");
        if n == self.ring_len(ring) {
            *self = Self::EMPTY;
        } else {
            self.tail = before(ring, self.tail as usize, n) as u32;
        }
    }

    /// Moves up to `most` blocks, contiguous in the ring, from the tail of a ring that is not empty to `into`, the
    /// tail first. Returns how many fit.
    #[inline]
    pub(crate) fn ring_pop_tails(
        &mut self,
        ring: &[Index],
        into: &mut [Index],
        most: usize,
    ) -> usize {
        debug_assert!(!self.is_empty(), "no block in the ring");
        let end = self.tail as usize + 1;
        let start = if self.tail >= self.head { self.head as usize } else { 0 };
        let n = most.min(into.len()).min(end - start);
        let blocks = ring[end - n..end].iter().rev();
        into.iter_mut().zip(blocks).for_each(|(place, &i)| *place = i);
        if n > 0 {
            self.ring_drop_tail(ring, n);
        }
        n
    }

    /// Takes a run from the tail; see [`Chain::pop_tail_run`].
    #[inline]
    pub(crate) fn ring_pop_run(
        &mut self,
        ring: &[Index],
        most: u32,
        step: Index,
        owned: impl Fn(Index) -> bool,
    ) -> Option<(Index, u32)> {
        debug_assert!(!self.is_empty(), "no block in the ring");
        let first = self.ring_last(ring);
        let most = most.min(self.ring_len(ring) as u32);
        let (mut n, mut at) = (0, self.tail as usize);
        while n < most {
            let i = ring[at];
            if i != first + n * step || !owned(i) {
                break;
            }
            n += 1;
            at = if at == 0 { ring.len() } else { at } - 1;
        }
        // The largest power of two that fits.
        let n = 1 << n.checked_ilog2()?;
        if n < 2 {
            return None;
        }
        self.ring_drop_tail(ring, n as usize);
        Some((first, n))
    }

    /// Keeps only the blocks of a ring for which `keep` holds. Returns how many it dropped.
    pub(crate) fn ring_retain(&mut self, ring: &mut [Index], keep: impl Fn(Index) -> bool) -> u32 {
        let old = core::mem::replace(self, Self::EMPTY);
        let mut dropped = 0;
        for at in 0..old.ring_len(ring) {
            // The place that is written never passes the one that is read.
            let i = ring[after(ring, old.head as usize, at)];
            if !keep(i) {
                dropped += 1;
                continue;
            }
            if self.is_empty() {
                (self.head, self.tail) = (old.head, old.head);
            } else {
                self.tail = after(ring, self.tail as usize, 1) as u32;
            }
            ring[self.tail as usize] = i;
        }
        dropped
    }

    /// Iterates over a ring, head to tail.
    pub(crate) fn ring_iter<'a>(
        &self,
        ring: &'a [Index],
    ) -> impl DoubleEndedIterator<Item = Index> + use<'a> {
        let head = if self.head == NIL { 0 } else { self.head as usize };
        (0..self.ring_len(ring)).map(move |at| ring[after(ring, head, at)])
    }
}

/// Returns the place `n` places later, with `n` at most one round.
#[inline(always)]
fn after(ring: &[Index], place: usize, n: usize) -> usize {
    let at = place + n;
    if at >= ring.len() { at - ring.len() } else { at }
}

/// Returns the place `n` places earlier, with `n` at most one round.
#[inline(always)]
fn before(ring: &[Index], place: usize, n: usize) -> usize {
    if place >= n { place - n } else { place + ring.len() - n }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn blocks(chain: &Chain, ring: &[Index]) -> Vec<Index> {
        chain.ring_iter(ring).collect()
    }

    /// Takes up to `n` blocks from the head, the head first.
    fn pop(chain: &mut Chain, ring: &[Index], n: usize) -> Vec<Index> {
        let one = |_| {
            let mut into = [0];
            (chain.ring_pop_heads(ring, &mut into) == 1).then_some(into[0])
        };
        (0..n).map_while(one).collect()
    }

    #[test]
    fn ring_has_two_ends_and_as_many_places_as_it_has() {
        let (mut ring, mut chain) = ([0; 4], Chain::EMPTY);
        assert!(chain.ring_push_head(&mut ring, 5));
        assert!(chain.ring_push_head(&mut ring, 6));
        assert!(chain.ring_push_tail(&mut ring, 4));
        assert!(chain.ring_push_head(&mut ring, 7));
        assert!(!chain.ring_push_head(&mut ring, 8) && !chain.ring_push_tail(&mut ring, 8));
        assert_eq!(blocks(&chain, &ring), [7, 6, 5, 4]);
        assert_eq!(chain.ring_last(&ring), 4);
        assert_eq!(pop(&mut chain, &ring, 1), [7]);
        chain.ring_drop_tail(&ring, 1);
        assert_eq!(blocks(&chain, &ring), [6, 5]);
        assert!(chain.ring_push_tail(&mut ring, 9) && chain.ring_push_tail(&mut ring, 10));
        chain.ring_retain(&mut ring, |i| i != 6 && i != 9);
        assert_eq!(blocks(&chain, &ring), [5, 10]);
        chain.ring_drop_tail(&ring, 2);
        assert!(chain.is_empty() && blocks(&chain, &ring).is_empty());
    }

    #[test]
    fn many_come_to_the_end_and_leave_from_the_start_at_once() {
        let (mut ring, mut chain) = ([0; 8], Chain::EMPTY);
        chain.ring_push_run(&mut ring, 16, 5, 2);
        let mut first = [0; 4];
        assert_eq!(chain.ring_pop_heads(&ring, &mut first), 4);
        assert_eq!(first, [22, 20, 18, 16]);
        chain.ring_push_run(&mut ring, 40, 7, 1);
        assert_eq!(blocks(&chain, &ring), [24, 40, 41, 42, 43, 44, 45, 46]);
        assert_eq!(chain.ring_pop_heads(&ring, &mut [0; 9]), 4, "then the ring starts again");
        assert_eq!(pop(&mut chain, &ring, 9), [43, 44, 45, 46]);
        assert!(chain.is_empty());
        chain.ring_push_run(&mut ring, 3, 1, 1);
        assert_eq!(blocks(&chain, &ring), [3]);
    }

    #[test]
    fn stack_comes_to_the_start_and_leaves_it_wherever_that_is() {
        for turned in 0..8 {
            let (mut ring, mut chain) = ([0; 8], Chain::EMPTY);
            chain.ring_push_run(&mut ring, 90, turned + 1, 1);
            assert_eq!(pop(&mut chain, &ring, turned as usize).len(), turned as usize);
            let last = 90 + turned;
            assert!(chain.ring_push_stack(&mut ring, &[1, 2, 3]), "{turned}");
            assert!(chain.ring_push_stack(&mut ring, &[4, 5, 6]), "{turned}");
            assert!(!chain.ring_push_stack(&mut ring, &[7, 8]), "{turned}: one place is left");
            assert_eq!(blocks(&chain, &ring), [6, 5, 4, 3, 2, 1, last], "{turned}");
            assert_eq!(pop(&mut chain, &ring, 3), [6, 5, 4]);
            assert_eq!(blocks(&chain, &ring), [3, 2, 1, last], "{turned}");
            assert_eq!(pop(&mut chain, &ring, 2), [3, 2]);
            assert_eq!(blocks(&chain, &ring), [1, last]);
        }
    }

    #[test]
    fn run_at_the_end_of_a_ring_is_a_power_of_two() {
        let (mut ring, mut chain) = ([0; 8], Chain::EMPTY);
        for i in [40, 7, 5, 4, 3, 2] {
            assert!(chain.ring_push_tail(&mut ring, i));
        }
        assert_eq!(chain.ring_pop_run(&ring, 4, 1, |i| i != 3), None);
        assert_eq!(chain.ring_pop_run(&ring, 8, 1, |i| i != 4), Some((2, 2)));
        assert_eq!(chain.ring_pop_run(&ring, 8, 1, |_| true), Some((4, 2)));
        assert_eq!(chain.ring_pop_run(&ring, 8, 1, |_| true), None);
        assert_eq!(blocks(&chain, &ring), [40, 7]);
    }
}
