//! Where blocks are freed to and taken from, by what their pageblocks hold.

use std::cmp::Reverse;

use pageblock::decide::{Block, Decide, End, Fallback, Kept, Outcome, View, Want};
use pageblock::frame::Pfn;

/// How many blocks of a list a fallback looks at.
const FALLBACK_LOOKS: usize = 8;

/// Which end of its list a freed block goes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Freed {
    /// That of Linux.
    Linux,
    /// The head, where less than one of so many pages of the pageblock is free; else the tail.
    Share(u64),
    /// The tail, where Linux says so or at least one of so many pages of the pageblock is free; else the head.
    OrShare(u64),
    /// The head, where the pageblock has fewer free pages than that of the list's head; else the tail.
    Fuller,
}

/// What is changed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placement {
    /// Where a freed block goes.
    pub(crate) freed: Freed,
    /// Where a CPU's list takes a block of a pageblock that is not full.
    pub(crate) kept: Kept,
    /// A pageblock is full here if less than one of so many pages is free.
    pub(crate) full: u64,
    /// Of how many blocks of a list the one in the fullest pageblock serves; 0: the head serves.
    pub(crate) looks: usize,
    /// Whether fallbacks choose among blocks too: the emptiest pageblock for a claim, the fullest to steal from.
    pub(crate) fallbacks: bool,
    /// Whether the pageblock that served last serves before the fullest.
    pub(crate) finishes: bool,
}

/// A placement at work in a machine.
pub(crate) struct Working {
    placement: Placement,
    /// The first frame of the pageblock that served last.
    last: Option<Pfn>,
}

impl Placement {
    pub(crate) fn start(self) -> Working {
        Working { placement: self, last: None }
    }
}

impl Decide for Working {
    fn serve(&mut self, zone: &dyn View, _want: Want, linux: Block) -> Pfn {
        let (looks, order) = (self.placement.looks, zone.pageblock_order());
        if looks == 0 || linux.order >= order {
            return linux.pfn;
        }
        let last = self.last.filter(|_| self.placement.finishes);
        let key = |pfn: Pfn| {
            let finishes = Some(pfn.align_down(order)) == last;
            // The counter of a pageblock that serves again is not read.
            (finishes, Reverse(if finishes { None } else { zone.free_in_pageblock(pfn) }))
        };
        let pfn = zone.best((linux.order, linux.kind), looks, key).unwrap_or(linux.pfn);
        self.last = Some(pfn.align_down(order));
        pfn
    }

    fn fallback(
        &mut self,
        zone: &dyn View,
        _want: Want,
        linux: Option<Fallback>,
    ) -> Option<Fallback> {
        let found = linux?;
        if !self.placement.fallbacks || found.order >= zone.pageblock_order() {
            return linux;
        }
        let list = (found.order, found.from);
        let free = |pfn| zone.free_in_pageblock(pfn);
        let pfn = match found.outcome {
            Outcome::Single => zone.best(list, FALLBACK_LOOKS, |pfn| Reverse(free(pfn))),
            Outcome::Claim => zone.best(list, FALLBACK_LOOKS, free),
            Outcome::ClaimWhole | Outcome::Refile => None,
        };
        Some(Fallback { pfn: pfn.unwrap_or(found.pfn), ..found })
    }

    fn keep(&mut self, zone: &dyn View, block: Block, linux: Kept) -> Kept {
        if self.placement.kept == Kept::Head || block.order >= zone.pageblock_order() {
            return linux;
        }
        let Some(free) = zone.free_in_pageblock(block.pfn) else { return linux };
        let is_full = free * self.placement.full < 1 << zone.pageblock_order();
        if is_full { linux } else { self.placement.kept }
    }

    fn freed_to(&mut self, zone: &dyn View, block: Block, linux: End) -> End {
        if self.placement.freed == Freed::Linux || block.order >= zone.pageblock_order() {
            return linux;
        }
        let Some(others) = zone.free_in_pageblock(block.pfn) else { return linux };
        let free = others + (1 << block.order);
        let is_full = match self.placement.freed {
            Freed::Linux => return linux,
            Freed::Share(share) => free * share < 1 << zone.pageblock_order(),
            Freed::OrShare(share) => {
                linux == End::Head && free * share < 1 << zone.pageblock_order()
            }
            Freed::Fuller => {
                let head = zone.best((block.order, block.kind), 1, |_| ());
                head.and_then(|pfn| zone.free_in_pageblock(pfn)).is_none_or(|head| free < head)
            }
        };
        if is_full { End::Head } else { End::Tail }
    }
}
