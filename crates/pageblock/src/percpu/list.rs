//! One list of a CPU cache: a short stack of blocks in the CPU's own memory, and a chain through the page map for
//! the rest. Under packed placement a ring in the CPU's own memory replaces the chain.
//!
//! The stack is the head of the list. A block that is freed and allocated again at once never leaves it, so the
//! links in the page map are neither read nor written.

use crate::policy::source::{Chosen, PolicySource};
use crate::table::chain::{Chain, Tag};
use crate::table::map::{Index, NIL, PageMap};

/// The memory of the blocks that do not fit on the stack.
pub(crate) enum Rest<'a, P: PolicySource = Chosen> {
    /// Links in the page map, marked with the CPU's tag.
    Linked(&'a PageMap<'a, P>, Tag),
    /// A ring in the CPU's own memory.
    Ring(&'a mut [Index]),
}

/// [`Rest`] for readers.
#[derive(Clone, Copy)]
pub(crate) enum RestRef<'a, P: PolicySource = Chosen> {
    /// See [`Rest::Linked`].
    Linked(&'a PageMap<'a, P>),
    /// See [`Rest::Ring`].
    Ring(&'a [Index]),
}

/// The size of the stack: a list fills a cache line.
const HOT: usize = 13;

const _: () = assert!(size_of::<CpuList>() == 64);

/// A list. One to a cache line.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(crate) struct CpuList {
    /// The blocks at the head of the list; the head itself is the last one.
    hot: [Index; HOT],
    len: u32,
    /// The blocks after those of the stack.
    chain: Chain,
}

impl CpuList {
    pub(crate) const EMPTY: Self = Self { hot: [NIL; HOT], len: 0, chain: Chain::EMPTY };

    /// A list on which [`top`](Self::top) finds nothing and [`push_hot`](Self::push_hot) does nothing.
    pub(crate) const CLOSED: Self = Self { len: u32::MAX, ..Self::EMPTY };

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0 && self.chain.is_empty()
    }

    /// Returns the chain, which follows the blocks of [`hot`](Self::hot).
    pub(crate) fn chain(&self) -> &Chain {
        &self.chain
    }

    /// Returns the blocks on the stack, head to tail.
    pub(crate) fn hot(&self) -> impl DoubleEndedIterator<Item = Index> + use<> {
        self.hot.into_iter().take(self.len as usize).rev()
    }

    /// Iterates from the head to the tail.
    pub(crate) fn iter<'a, P: PolicySource>(
        &self,
        rest: RestRef<'a, P>,
    ) -> impl Iterator<Item = Index> + use<'a, P> {
        let linked = match rest {
            RestRef::Linked(map) => Some(self.chain.iter(map)),
            RestRef::Ring(_) => None,
        };
        let ring = match rest {
            RestRef::Linked(_) => None,
            RestRef::Ring(ring) => Some(self.chain.ring_iter(ring)),
        };
        self.hot().chain(linked.into_iter().flatten()).chain(ring.into_iter().flatten())
    }

    /// Returns the number of blocks of a list that has a ring.
    pub(crate) fn len_in(&self, ring: &[Index]) -> usize {
        self.len as usize + self.chain.ring_len(ring)
    }

    /// Returns how many blocks fit at the tail.
    pub(crate) fn room(&self, ring: &[Index]) -> usize {
        ring.len() - self.chain.ring_len(ring)
    }

    /// Returns whether a block is on the list. A linked list is searched from both ends at once.
    #[cfg(feature = "replay")]
    pub(crate) fn contains(
        &self,
        rest: RestRef<'_, impl PolicySource>,
        tag: Tag,
        i: Index,
    ) -> bool {
        self.hot().any(|hot| hot == i)
            || match rest {
                RestRef::Linked(map) => {
                    let mut ends = self.chain.iter(map).zip(self.chain.iter_back(map, tag));
                    ends.any(|(a, b)| a == i || b == i)
                }
                RestRef::Ring(ring) => self.chain.ring_iter(ring).any(|at| at == i),
            }
    }

    /// Returns the head of the list, if it is on the stack.
    #[inline(always)]
    pub(crate) fn top(&self) -> Option<Index> {
        let at = self.len.checked_sub(1)?;
        self.hot.get(at as usize).copied()
    }

    /// Removes the head from the stack.
    #[inline(always)]
    pub(crate) fn drop_top(&mut self) {
        debug_assert!((1..=HOT as u32).contains(&self.len), "no block on the stack");
        self.len -= 1;
    }

    /// Fills an empty stack from the rest of the list, until a link disagrees or a linked block is not `owned`. A ring has
    /// no links that could be wrong, and each of its blocks is checked when it is taken. Returns whether the stack has a
    /// block now.
    pub(crate) fn warm(
        &mut self,
        rest: Rest<'_, impl PolicySource>,
        owned: impl Fn(Index) -> bool,
    ) -> bool {
        debug_assert_eq!(self.len, 0, "blocks on the stack would be lost");
        let mut first = HOT;
        match rest {
            Rest::Linked(map, tag) => {
                while first > 0 && !self.chain.is_empty() {
                    match self.chain.first(map, tag) {
                        Ok((i, next)) if owned(i) => {
                            first -= 1;
                            self.hot[first] = i;
                            self.chain.step(next);
                        }
                        _ => break,
                    }
                }
            }
            Rest::Ring(ring) => first -= self.chain.ring_pop_heads(ring, &mut self.hot),
        }
        if first > 0 {
            self.hot.copy_within(first.., 0);
        }
        self.len = (HOT - first) as u32;
        self.len > 0
    }

    /// Returns the next free place on the stack, `None` if it is full.
    #[inline(always)]
    pub(crate) fn free_place(&self) -> Option<usize> {
        let len = self.len as usize;
        (len < HOT).then_some(len)
    }

    /// Puts a block before the head, at its [place](Self::free_place) on the stack.
    #[inline(always)]
    pub(crate) fn push_at(&mut self, place: usize, i: Index) {
        debug_assert_eq!(place, self.len as usize, "blocks on the stack would be lost or made up");
        self.hot[place] = i;
        self.len = place as u32 + 1;
    }

    /// Puts a block before the head, if there is room on the stack. Returns whether there was.
    #[inline(always)]
    pub(crate) fn push_hot(&mut self, i: Index) -> bool {
        let place = self.free_place();
        if let Some(place) = place {
            self.push_at(place, i);
        }
        place.is_some()
    }

    /// Puts a block before the head. Returns whether there was room.
    pub(crate) fn push_head(&mut self, rest: Rest<'_, impl PolicySource>, i: Index) -> bool {
        self.make_room(rest);
        self.push_hot(i)
    }

    /// Moves the older half of a full stack to the rest of the list, if there is room.
    #[inline]
    pub(crate) fn make_room(&mut self, rest: Rest<'_, impl PolicySource>) {
        const HALF: usize = HOT / 2;
        if (self.len as usize) < HOT {
            return;
        }
        match rest {
            Rest::Linked(map, tag) => {
                self.hot[..HALF].iter().for_each(|&i| self.chain.push_head(map, tag, i));
            }
            Rest::Ring(ring) => {
                let (older, _) = self.hot.split_first_chunk::<HALF>().expect("half of a stack");
                if !self.chain.ring_push_stack(ring, older) {
                    return;
                }
            }
        }
        self.hot.copy_within(HALF.., 0);
        self.len = (HOT - HALF) as u32;
    }

    /// Puts a block after the tail. Returns whether there was room.
    #[inline]
    pub(crate) fn push_tail(&mut self, rest: Rest<'_, impl PolicySource>, i: Index) -> bool {
        match rest {
            Rest::Linked(map, tag) => {
                self.chain.push_tail(map, tag, i);
                true
            }
            Rest::Ring(ring) => self.chain.ring_push_tail(ring, i),
        }
    }

    /// Puts consecutive blocks at the tail, for which there is room; see [`Chain::push_tail_run`]. A few go to the
    /// stack, if nothing follows it.
    #[inline]
    pub(crate) fn push_tail_run(
        &mut self,
        rest: Rest<'_, impl PolicySource>,
        i: Index,
        n: u32,
        step: Index,
    ) {
        let (len, new) = (self.len as usize, n as usize);
        if self.chain.is_empty() && len + new <= HOT {
            self.hot.copy_within(..len, new);
            let stack = self.hot[..new].iter_mut().rev();
            stack.zip(0..).for_each(|(place, at)| *place = i + at * step);
            self.len += n;
            return;
        }
        match rest {
            Rest::Linked(map, tag) => self.chain.push_tail_run(map, tag, i, n, step),
            Rest::Ring(ring) => self.chain.ring_push_run(ring, i, n, step),
        }
    }

    /// Takes consecutive blocks from the tail; see [`Chain::pop_tail_run`].
    #[inline]
    pub(crate) fn pop_tail_run(
        &mut self,
        rest: Rest<'_, impl PolicySource>,
        most: u32,
        step: Index,
        owned: impl Fn(Index) -> bool,
    ) -> Option<(Index, u32)> {
        // The stack is short: its blocks are taken one by one.
        if self.chain.is_empty() {
            return None;
        }
        match rest {
            Rest::Linked(map, tag) => self.chain.pop_tail_run(map, tag, most, step, owned),
            Rest::Ring(ring) => self.chain.ring_pop_run(ring, most, step, owned),
        }
    }

    /// Returns the block at the tail.
    pub(crate) fn last(&self, rest: RestRef<'_, impl PolicySource>) -> Option<Index> {
        if self.chain.is_empty() {
            return self.hot().next_back();
        }
        match rest {
            RestRef::Linked(_) => self.chain.tail(),
            RestRef::Ring(ring) => Some(self.chain.ring_last(ring)),
        }
    }

    /// Removes a given block from the list.
    #[cfg(feature = "replay")]
    pub(crate) fn remove(&mut self, rest: Rest<'_, impl PolicySource>, i: Index) {
        let len = self.len as usize;
        match (self.hot[..len].iter().position(|&hot| hot == i), rest) {
            (Some(at), _) => {
                self.hot.copy_within(at + 1..len, at);
                self.len -= 1;
            }
            (None, Rest::Linked(map, tag)) => self.chain.remove(map, tag, i),
            (None, Rest::Ring(ring)) => {
                self.chain.ring_retain(ring, |at| at != i);
            }
        }
    }

    /// Takes the block at the tail, if the links to it agree and it is `owned`.
    #[inline]
    pub(crate) fn pop_tail(
        &mut self,
        rest: Rest<'_, impl PolicySource>,
        owned: impl Fn(Index) -> bool,
    ) -> Option<Index> {
        if !self.chain.is_empty() {
            return match rest {
                Rest::Linked(map, tag) => self.chain.pop_tail(map, tag, owned),
                Rest::Ring(ring) => {
                    let i = Some(self.chain.ring_last(ring)).filter(|&i| owned(i))?;
                    self.chain.ring_drop_tail(ring, 1);
                    Some(i)
                }
            };
        }
        let i = self.hot().next_back().filter(|&i| owned(i))?;
        self.hot.copy_within(1.., 0);
        self.len -= 1;
        Some(i)
    }

    /// Moves up to `most` blocks from the tail of a list that has a ring to `into`, the tail first; fewer where
    /// they are not contiguous in memory. Returns how many; 0 if `into` is empty.
    #[inline]
    pub(crate) fn pop_tails(&mut self, ring: &[Index], into: &mut [Index], most: u32) -> u32 {
        if !self.chain.is_empty() {
            return self.chain.ring_pop_tails(ring, into, most as usize) as u32;
        }
        let stack = &mut self.hot[..self.len as usize];
        let n = stack.len().min(into.len()).min(most as usize);
        into[..n].copy_from_slice(&stack[..n]);
        stack.copy_within(n.., 0);
        self.len -= n as u32;
        n as u32
    }

    /// Drops the blocks that the CPU does not own; see [`Chain::mend`]. Returns how many of the stack and of a ring; the
    /// length of a damaged chain is not known.
    pub(crate) fn mend(
        &mut self,
        rest: Rest<'_, impl PolicySource>,
        owned: impl Fn(Index) -> bool,
    ) -> u32 {
        let mut kept = 0;
        for at in 0..self.len as usize {
            let i = self.hot[at];
            if owned(i) {
                self.hot[kept] = i;
                kept += 1;
            }
        }
        let dropped = self.len - kept as u32;
        self.len = kept as u32;
        match rest {
            _ if self.chain.is_empty() => dropped,
            Rest::Linked(map, tag) => {
                self.chain.mend(map, tag, owned);
                dropped
            }
            Rest::Ring(ring) => dropped + self.chain.ring_retain(ring, owned),
        }
    }
}
