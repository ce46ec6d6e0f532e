//! One list of a CPU cache: a short stack of blocks in the CPU's own memory, and a chain through the
//! page map for the rest.
//!
//! The stack is the head of the list. What is freed and allocated again at once never leaves it, so
//! that the page map's links are neither read nor written.

use crate::table::chain::{Chain, Tag};
use crate::table::map::{Index, NIL, PageMap};

/// Blocks that fit on the stack, so that a list fills a cache line.
const HOT: usize = 13;

const _: () = assert!(size_of::<CpuList>() == 64);

/// A list. One to a cache line.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(crate) struct CpuList {
    /// The first blocks of the list, the first of all last.
    hot: [Index; HOT],
    len: u32,
    /// What follows them.
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

    /// Returns the first blocks of the list, first to last.
    pub(crate) fn hot(&self) -> impl DoubleEndedIterator<Item = Index> + use<> {
        self.hot.into_iter().take(self.len as usize).rev()
    }

    #[cfg(feature = "replay")]
    pub(crate) fn head(&self) -> Option<Index> {
        self.hot().next().or_else(|| self.chain.head())
    }

    pub(crate) fn tail(&self) -> Option<Index> {
        self.chain.tail().or_else(|| self.hot().next_back())
    }

    /// Iterates from the head to the tail.
    pub(crate) fn iter<'a>(&self, map: &'a PageMap<'_>) -> impl Iterator<Item = Index> + use<'a> {
        self.hot().chain(self.chain.iter(map))
    }

    /// Tells whether a block is on the list; searches from both ends at once.
    #[cfg(feature = "replay")]
    pub(crate) fn contains(&self, map: &PageMap<'_>, tag: Tag, i: Index) -> bool {
        let from_both_ends = || self.chain.iter(map).zip(self.chain.iter_back(map, tag));
        self.hot().any(|hot| hot == i) || from_both_ends().any(|(a, b)| a == i || b == i)
    }

    /// Returns the first block, if it is on the stack.
    #[inline(always)]
    pub(crate) fn top(&self) -> Option<Index> {
        let at = self.len.checked_sub(1)?;
        self.hot.get(at as usize).copied()
    }

    /// Takes the first block off the stack.
    #[inline(always)]
    pub(crate) fn drop_top(&mut self) {
        self.len -= 1;
    }

    /// Fills an empty stack from the chain, as far as its links agree and `owned` holds. Tells
    /// whether there is a first block now.
    pub(crate) fn warm(
        &mut self,
        map: &PageMap<'_>,
        tag: Tag,
        owned: impl Fn(Index) -> bool,
    ) -> bool {
        let mut first = HOT;
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
        self.hot.copy_within(first.., 0);
        self.len = (HOT - first) as u32;
        self.len > 0
    }

    /// Puts a block before the first, if there is room on the stack.
    #[inline(always)]
    pub(crate) fn push_hot(&mut self, i: Index) -> bool {
        let len = self.len;
        if len as usize >= HOT {
            return false;
        }
        self.hot[len as usize] = i;
        self.len = len + 1;
        true
    }

    pub(crate) fn push_head(&mut self, map: &PageMap<'_>, tag: Tag, i: Index) {
        self.make_room(map, tag);
        self.push_hot(i);
    }

    /// Moves the older half of a full stack to the chain.
    pub(crate) fn make_room(&mut self, map: &PageMap<'_>, tag: Tag) {
        const HALF: usize = HOT / 2;
        if (self.len as usize) < HOT {
            return;
        }
        for &i in &self.hot[..HALF] {
            self.chain.push_head(map, tag, i);
        }
        self.hot.copy_within(HALF.., 0);
        self.len = (HOT - HALF) as u32;
    }

    #[inline]
    pub(crate) fn push_tail(&mut self, map: &PageMap<'_>, tag: Tag, i: Index) {
        self.chain.push_tail(map, tag, i);
    }

    /// Puts consecutive blocks at the end; see [`Chain::push_tail_run`]. A few go on the
    /// stack, if the list has no chain.
    #[inline]
    pub(crate) fn push_tail_run(
        &mut self,
        map: &PageMap<'_>,
        tag: Tag,
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
        } else {
            self.chain.push_tail_run(map, tag, i, n, step);
        }
    }

    /// Takes consecutive blocks from the end; see [`Chain::pop_tail_run`].
    #[inline]
    pub(crate) fn pop_tail_run(
        &mut self,
        map: &PageMap<'_>,
        tag: Tag,
        most: u32,
        step: Index,
        owned: impl Fn(Index) -> bool,
    ) -> Option<(Index, u32)> {
        if self.chain.is_empty() {
            return None;
        }
        self.chain.pop_tail_run(map, tag, most, step, owned)
    }

    /// Takes a given block off the list.
    #[cfg(feature = "replay")]
    pub(crate) fn remove(&mut self, map: &PageMap<'_>, tag: Tag, i: Index) {
        let len = self.len as usize;
        match self.hot[..len].iter().position(|&hot| hot == i) {
            Some(at) => {
                self.hot.copy_within(at + 1..len, at);
                self.len -= 1;
            }
            None => self.chain.remove(map, tag, i),
        }
    }

    /// Takes the last block off the list, if the links to it agree and it is `owned`.
    #[inline]
    pub(crate) fn pop_tail(
        &mut self,
        map: &PageMap<'_>,
        tag: Tag,
        owned: impl Fn(Index) -> bool,
    ) -> Option<Index> {
        if !self.chain.is_empty() {
            return self.chain.pop_tail(map, tag, owned);
        }
        let i = self.tail().filter(|&i| owned(i))?;
        self.hot.copy_within(1.., 0);
        self.len -= 1;
        Some(i)
    }

    /// Drops blocks that the owner does not have; see [`Chain::mend`].
    pub(crate) fn mend(&mut self, map: &PageMap<'_>, tag: Tag, owned: impl Fn(Index) -> bool) {
        let mut kept = 0;
        for at in 0..self.len as usize {
            let i = self.hot[at];
            if owned(i) {
                self.hot[kept] = i;
                kept += 1;
            }
        }
        self.len = kept as u32;
        if !self.chain.is_empty() {
            self.chain.mend(map, tag, owned);
        }
    }
}
