//! The blocks that cannot become free, and the number of pages that block them.

use serde::Serialize;

use super::kind::{KINDS, Kind, Movable, Rules};

/// Blocks by the number of pages that block them.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Held {
    /// The bins that have blocks, few pages first.
    pub bins: Vec<Bin>,
}

/// Blocks that are blocked by similar numbers of pages.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Bin {
    /// The fewest pages.
    pub from: u64,
    /// The most.
    pub to: u64,
    /// The blocks.
    pub blocks: u64,
    /// The blocking pages in them, by kind.
    pub pages: Vec<Holder>,
}

/// A kind of pages that block free blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Holder {
    /// The kind.
    pub kind: Kind,
    /// The pages.
    pub pages: u64,
    /// The blocks in which no other kind has more blocking pages.
    pub blocks: u64,
}

impl Held {
    /// Adds a block with these numbers of pages of each kind.
    pub(super) fn add(&mut self, kinds: &[u32; KINDS], rules: Rules) {
        let holds = |kind: &Kind| {
            matches!(kind.movable(rules), Movable::No | Movable::Unknown)
                && kinds[*kind as usize] > 0
        };
        let mut holders = Kind::ALL.into_iter().filter(holds).peekable();
        if holders.peek().is_none() {
            return;
        }
        let of = |kind: Kind| u64::from(kinds[kind as usize]);
        let total: u64 = holders.clone().map(of).sum();
        let (from, to) = bin(total);
        let place = self.bins.binary_search_by_key(&from, |bin| bin.from);
        let place = place.unwrap_or_else(|place| {
            self.bins.insert(place, Bin { from, to, ..Bin::default() });
            place
        });
        let bin = &mut self.bins[place];
        bin.blocks += 1;
        let most = holders.clone().max_by_key(|&kind| of(kind));
        for kind in holders {
            let at = bin.pages.iter().position(|holder| holder.kind == kind).unwrap_or_else(|| {
                bin.pages.push(Holder { kind, pages: 0, blocks: 0 });
                bin.pages.len() - 1
            });
            bin.pages[at].pages += of(kind);
            bin.pages[at].blocks += u64::from(Some(kind) == most);
        }
    }

    /// Adds the blocks of another zone.
    pub(super) fn merge(&mut self, other: &Self) {
        for theirs in &other.bins {
            match self.bins.iter_mut().find(|bin| bin.from == theirs.from) {
                None => self.bins.push(theirs.clone()),
                Some(bin) => {
                    bin.blocks += theirs.blocks;
                    for holder in &theirs.pages {
                        match bin.pages.iter_mut().find(|own| own.kind == holder.kind) {
                            None => bin.pages.push(*holder),
                            Some(own) => {
                                own.pages += holder.pages;
                                own.blocks += holder.blocks;
                            }
                        }
                    }
                }
            }
        }
        self.bins.sort_by_key(|bin| bin.from);
    }

    /// Sorts the kinds of each bin, most pages first.
    pub(super) fn sort(&mut self) {
        for bin in &mut self.bins {
            bin.pages.sort_by_key(|holder| (std::cmp::Reverse(holder.pages), holder.kind));
        }
    }

    /// Returns the number of blocks that at most this many pages block; exact for 1, 2, 3, 7, 15, ...
    #[must_use]
    pub fn up_to(&self, pages: u64) -> u64 {
        self.bins.iter().filter(|bin| bin.to <= pages).map(|bin| bin.blocks).sum()
    }

    /// Returns the number of all such blocks.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.bins.iter().map(|bin| bin.blocks).sum()
    }
}

/// Returns the bin of a number of pages.
const fn bin(pages: u64) -> (u64, u64) {
    if pages < 4 {
        return (pages, pages);
    }
    let from = 1 << pages.ilog2();
    (from, 2 * from - 1)
}
