//! Bounds on the number of free blocks that compaction can make.

use pageblock_recording::ListFigures;
use serde::Serialize;

use super::kind::Kind;
use super::tally::{Tally, Units};
use crate::proc::zoneinfo::Zone;

/// Blocks of an order that an allocation could take: a larger free block counts as several.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Range {
    /// The order.
    pub order: u8,
    /// Aligned blocks without a hole.
    pub blocks: u64,
    /// Free now.
    pub free: u64,
    /// Free after compaction, at least: content that certainly moves has moved to room that compaction certainly
    /// uses.
    pub at_least: u64,
    /// Free after compaction, at most.
    pub at_most: u64,
    /// Blocked by a page that does not move.
    pub held: u64,
}

impl Range {
    /// Adds the blocks of another zone.
    pub(super) fn add(&mut self, other: &Self) {
        self.blocks += other.blocks;
        self.free += other.free;
        self.at_least += other.at_least;
        self.at_most += other.at_most;
        self.held += other.held;
    }
}

/// The pages that may be pinned, for all zones.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Pins(pub(super) u64);

/// The free frames outside free pageblocks to which compaction may move pages: those of movable pageblocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Room {
    pub(super) at_least: u64,
    pub(super) at_most: u64,
}

/// Returns the ranges of a zone for all its orders.
pub(super) fn ranges(tally: &Tally, zone: &Zone, room: Option<Room>, pins: Pins) -> Vec<Range> {
    let free_frames = tally.frames[Kind::Free as usize];
    let pages = 1_u64 << tally.sizes.pageblock;
    let outside: u64 = tally.blocks.iter().map(|block| u64::from(block.free)).sum::<u64>();
    let whole = tally.blocks.iter().filter(|block| u64::from(block.free) == pages).count() as u64;
    let outside = outside - whole * pages;
    let room = room.unwrap_or(Room { at_least: outside, at_most: outside });
    let hidden = hidden(zone);
    let state = compacted(tally, zone, room.at_least);
    let mut ranges = Vec::new();
    for units in &tally.units {
        let is_gigantic = units.order == tally.sizes.gigantic;
        // Blocks of 1 GiB are emptied one by one, to any free frame outside.
        let targets = match is_gigantic {
            true => u64::MAX,
            false => room.at_most.min(outside) + hidden,
        };
        let made = taken(&units.moving, targets) + taken(&units.unknown, hidden);
        let fit = (free_frames + hidden) >> units.order;
        let at_most = (units.free + made).min(fit).max(units.free);
        let sure = match units.order {
            order if is_gigantic => {
                units.sure.min(free_frames.saturating_sub(zone.wmark[0]) >> order).max(units.free)
            }
            order if order < tally.sizes.pageblock => state.parts(tally, order),
            order => state.whole(tally, order),
        };
        // A pinned page keeps one block from becoming free.
        let at_least = sure.saturating_sub(pins.0).max(sure.min(units.free)).min(at_most);
        let all = |histogram: &[u32]| histogram.iter().map(|&n| u64::from(n)).sum::<u64>();
        let possible = all(&units.moving) + all(&units.unknown);
        ranges.push(Range {
            order: units.order,
            blocks: units.whole,
            free: units.free,
            at_least,
            at_most,
            held: units.whole.saturating_sub(possible),
        });
    }
    ranges
}

/// Returns the pages of a zone that look like kernel memory and can leave: those on per-CPU lists, and movable pages
/// without flags.
pub(super) fn hidden(zone: &Zone) -> u64 {
    zone.on_cpu_lists() + zone.counter("nr_zspages")
}

/// Returns the largest number of pages that can leave their blocks after `freed` more pages have become free.
pub(super) fn room_after(tally: &Tally, units: &Units, zone: &Zone, freed: u64) -> u64 {
    match units.order == tally.sizes.gigantic {
        true => u64::MAX,
        false => tally.frames[Kind::Free as usize] + hidden(zone) + freed,
    }
}

/// Returns the number of blocks for which a number of pages suffices, those that need few first. `histogram` has blocks by the
/// number of pages that they need.
pub(super) fn taken(histogram: &[u32], mut pages: u64) -> u64 {
    let mut blocks = 0;
    for (each, &count) in (1_u64..).zip(histogram.iter().skip(1)) {
        let now = u64::from(count).min(pages / each);
        blocks += now;
        pages -= now * each;
        if now < u64::from(count) {
            break;
        }
    }
    blocks
}

/// The effect of compaction on a pageblock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum After {
    /// Nothing moves.
    Same,
    /// The content that certainly moves has left.
    Emptied,
    /// Its room is used up.
    Filled,
}

/// The certain effects of compaction.
struct Compacted(Vec<After>);

/// Runs the two scanners over a zone: pages that surely move leave the lowest pageblocks for the free frames of the
/// highest, until the scanners meet or a folio may end the run.
fn compacted(tally: &Tally, zone: &Zone, mut total: u64) -> Compacted {
    let blocks = &tally.blocks;
    let mut after = vec![After::Same; blocks.len()];
    // Below the min watermark no target is taken.
    if zone.free < zone.wmark[0] + CLUSTER {
        return Compacted(after);
    }
    let mut scanner = FreeScanner { tally, end: blocks.len(), found: true };
    let mut room = 0_u64;
    let mut emptied = Vec::new();
    'run: for at in 0..blocks.len() {
        if at >= scanner.end || blocks[at].large > 0 {
            break;
        }
        let mut moving = u64::from(blocks[at].sure);
        while moving > room {
            moving -= room;
            let Some((target, free)) = scanner.next(at).filter(|_| total > 0) else { break 'run };
            room = free.min(total);
            total -= room;
            after[target] = After::Filled;
        }
        room -= moving;
        if blocks[at].sure > 0 {
            after[at] = After::Emptied;
            emptied.push(at);
        }
    }
    // The pages freed last stay on the list of the compacting CPU.
    let mut listed = 0;
    let limit = zone.lists.iter().map(list_limit).max().unwrap_or(0);
    while let Some(at) = emptied.pop().filter(|_| listed < limit) {
        listed += u64::from(blocks[at].sure);
        after[at] = After::Same;
    }
    Compacted(after)
}

/// The least number of batches on a CPU list while pages are freed in a row: one more than it frees at once
/// (`CONFIG_PCP_BATCH_SCALE_MAX`).
const BATCHES: u64 = (1 << 5) + 1;

/// Returns the largest number of pages on lists: their limit now, or that to which frees in a row raise it (6.7 and later).
fn list_limit(list: &ListFigures) -> u64 {
    list.high.max(list.batch.saturating_mul(BATCHES))
}

/// The search for room, from the highest pageblock down.
struct FreeScanner<'a> {
    tally: &'a Tally,
    /// The pageblock above the next one.
    end: usize,
    /// Whether the last pageblock that it scanned had room, so that it looks at every page of the next.
    found: bool,
}

impl FreeScanner<'_> {
    /// Returns the next pageblock above another that certainly provides room, and its number of pages.
    fn next(&mut self, above: usize) -> Option<(usize, u64)> {
        let pages = 1_u32 << self.tally.sizes.pageblock;
        while self.end > above + 1 {
            self.end -= 1;
            let block = &self.tally.blocks[self.end];
            if u32::from(block.free) == pages {
                continue;
            }
            // Targets are in movable pageblocks. What stays in a block is a sign that its type is another.
            let is_target = block.held() == 0 && block.free > 0;
            let every = self.found || !self.tally.rules.sampling;
            self.found = is_target && (every || block.sampled);
            if self.found {
                return Some((self.end, if every { block.free.into() } else { 1 }));
            }
        }
        None
    }
}

/// The pages that are moved at a time (`COMPACT_CLUSTER_MAX`).
const CLUSTER: u64 = 32;

impl Compacted {
    /// Returns the free blocks of an order below a pageblock.
    fn parts(&self, tally: &Tally, order: u8) -> u64 {
        let each = self.0.iter().enumerate().map(|(at, after)| {
            let [now, emptied] = tally.parts_of(at, order);
            match after {
                After::Same => now,
                After::Emptied => emptied,
                After::Filled => 0,
            }
        });
        each.map(u64::from).sum()
    }

    /// Returns the free blocks of an order from that of a pageblock on.
    fn whole(&self, tally: &Tally, order: u8) -> u64 {
        let pages = 1_u32 << tally.sizes.pageblock;
        let is_free = |(after, block): (&After, &super::tally::Block)| match after {
            After::Same => u32::from(block.free) == pages,
            After::Emptied => u32::from(block.free) + u32::from(block.sure) == pages,
            After::Filled => false,
        };
        let together = 1 << (order - tally.sizes.pageblock);
        let (states, blocks) = (self.0.chunks(together), tally.blocks.chunks(together));
        let free = states.zip(blocks).filter(|(states, blocks)| {
            states.len() == together && states.iter().zip(*blocks).all(is_free)
        });
        free.count() as u64
    }
}
