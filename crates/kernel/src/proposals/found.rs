//! Free blocks that one search found, for the requests that follow: a zone's lists are not searched for each.

use pageblock::decide::{Block, View};
use pageblock::frame::{Order, Pfn};

/// Requests that are served before the next search.
const REUSED: usize = 64;

/// Blocks that serve next, the last one first.
#[derive(Debug)]
pub(super) struct Found {
    blocks: Vec<Block>,
    left: usize,
    nothing: bool,
}

impl Found {
    /// Keeps the blocks with the least keys.
    pub(super) fn best<K: Ord>(mut blocks: Vec<Block>, mut key: impl FnMut(&Block) -> K) -> Self {
        blocks.sort_by_cached_key(&mut key);
        blocks.truncate(REUSED);
        blocks.reverse();
        Self { left: REUSED, nothing: blocks.is_empty(), blocks }
    }

    /// Returns whether no search is due yet: a block is left, or nothing was found.
    pub(super) fn serves(&self, zone: &dyn View) -> bool {
        self.left > 0 && (self.nothing || self.blocks.iter().any(|block| zone.is_free(*block)))
    }

    /// Returns whether the search found nothing, and counts the question: after as many as it would have served requests the
    /// search is due again.
    pub(super) fn ask_nothing(&mut self) -> bool {
        self.left = self.left.saturating_sub(usize::from(self.nothing));
        self.nothing
    }

    /// Takes the next block that is still free; what is left of a larger block serves next.
    pub(super) fn take(&mut self, zone: &dyn View, want: Order) -> Option<Block> {
        self.left = self.left.saturating_sub(1);
        let block = loop {
            let block = self.blocks.pop()?;
            if zone.is_free(block) {
                break block;
            }
        };
        for order in (want..block.order).rev() {
            self.blocks.push(Block { pfn: Pfn(block.pfn.0 + (1 << order)), order, ..block });
        }
        Some(block)
    }
}
