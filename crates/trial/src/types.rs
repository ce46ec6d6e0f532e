//! The types of pageblocks. No file lists them by pageblock; `pagetypeinfo` counts them by type.
//!
//! As many pageblocks as it counts are taken to be unmovable: those with the most pages that stay. Pages of unknown
//! use may be such pages; whether they are is decided by what `pagetypeinfo` says about free memory. Any that
//! remain are pageblocks that are entirely free.

use std::cmp::Reverse;

use pageblock::mobility::Migratetype::{self, Cma, Movable, Unmovable};
use pageblock_recording::{PageTypeInfo, ZoneName};

use crate::state::Use;

/// The content of a pageblock, in pages.
#[derive(Clone, Copy, Default)]
struct Content {
    free: u32,
    stays: u32,
    unknown: u32,
    moves: u32,
}

/// The types of a zone's pageblocks.
pub(crate) struct Guess {
    pub(crate) types: Vec<Migratetype>,
    /// The free pages, in blocks below a pageblock, that are in pageblocks of the kind that `pagetypeinfo` says
    /// (movable or not), and all such free pages; 0 without that file.
    pub(crate) agree: u64,
    pub(crate) pages: u64,
}

impl Content {
    fn of(uses: &[u8]) -> Self {
        let mut content = Self::default();
        for &used in uses {
            match Use::of(used) {
                Use::Absent => {}
                Use::Free => content.free += 1,
                Use::Stays => content.stays += 1,
                Use::Unknown => content.unknown += 1,
                Use::Moves | Use::MayMove | Use::Folio => content.moves += 1,
            }
        }
        content
    }

    const fn used(&self) -> u32 {
        self.stays + self.unknown + self.moves
    }
}

/// A ranking of pageblocks, the least movable first.
type Rank = fn(&Content) -> (Reverse<u32>, bool, Reverse<u32>);

/// Pages of unknown use belong to the kernel; or they are free on a per-CPU list and say nothing.
const RANKS: [Rank; 2] = [
    |block| (Reverse(block.stays + block.unknown), block.moves > 0, Reverse(0)),
    |block| (Reverse(block.stays), block.moves > 0, Reverse(block.unknown)),
];

/// Guesses the types of a zone's pageblocks, whose frames are `uses`. Without `types` a pageblock is movable unless
/// only the kernel uses it.
pub(crate) fn guess(
    uses: &[u8],
    pageblock: u64,
    zone: &ZoneName,
    types: Option<&PageTypeInfo>,
) -> Guess {
    let contents: Vec<Content> = uses.chunks(pageblock as usize).map(Content::of).collect();
    let Some(types) = types else {
        let only_kernel = |c: &Content| c.stays + c.unknown > 0 && c.moves == 0;
        let types = contents.iter().map(|c| if only_kernel(c) { Unmovable } else { Movable });
        return Guess { types: types.collect(), agree: 0, pages: 0 };
    };
    let others = types.blocks.iter().filter(|((of, mt), _)| of == zone && !is_movable(*mt));
    let others = others.map(|(_, &count)| count).sum();
    let told = free_told(pageblock, zone, types);
    let guesses =
        RANKS.map(|rank| agreeing(ranked(&contents, others, rank), &contents, pageblock, told));
    let [first, second] = guesses;
    if second.agree > first.agree { second } else { first }
}

const fn is_movable(mt: Migratetype) -> bool {
    matches!(mt, Movable | Cma)
}

/// Makes a number of pageblocks unmovable, in the order of a ranking; of equal ones the lowest first.
fn ranked(contents: &[Content], mut others: u64, rank: Rank) -> Vec<Migratetype> {
    let mut types = vec![Movable; contents.len()];
    let mut order: Vec<usize> = (0..contents.len()).collect();
    order.sort_by_key(|&at| (rank(&contents[at]), at));
    for at in order {
        if others > 0 && contents[at].free + contents[at].used() > 0 {
            types[at] = Unmovable;
            others -= 1;
        }
    }
    types
}

/// Returns the free pages in blocks below a pageblock: those in movable pageblocks, and all.
fn free_told(pageblock: u64, zone: &ZoneName, types: &PageTypeInfo) -> (u64, u64) {
    let small = pageblock.ilog2() as usize;
    let (mut movable, mut all) = (0, 0);
    for ((_, mt), counts) in types.free.iter().filter(|((of, _), _)| of == zone) {
        let pages: u64 = counts.iter().take(small).enumerate().map(|(o, &n)| n << o).sum();
        all += pages;
        movable += if is_movable(*mt) { pages } else { 0 };
    }
    (movable, all)
}

/// Compares guessed types with the recorded free memory.
fn agreeing(
    types: Vec<Migratetype>,
    contents: &[Content],
    pageblock: u64,
    (movable, pages): (u64, u64),
) -> Guess {
    let partly = |c: &&Content| u64::from(c.free) < pageblock;
    let found = contents.iter().zip(&types).filter(|(_, mt)| is_movable(**mt)).map(|(c, _)| c);
    let found: u64 = found.filter(partly).map(|c| u64::from(c.free)).sum();
    let agree = pages.saturating_sub(movable.abs_diff(found));
    Guess { types, agree, pages }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two of four pageblocks are unmovable: those with the most pages that stay.
    #[test]
    fn pageblocks_with_the_most_pages_that_stay_are_not_movable() {
        let block = |stays: usize, moves: usize| {
            let mut uses = vec![Use::Stays as u8; stays];
            uses.resize(stays + moves, Use::Moves as u8);
            uses.resize(8, Use::Free as u8);
            uses
        };
        let uses = [block(1, 3), block(4, 0), block(0, 0), block(2, 6)].concat();
        let zone: ZoneName = (0, "Normal".to_owned());
        let blocks = [((zone.clone(), Unmovable), 2), ((zone.clone(), Movable), 2)];
        let mut types = PageTypeInfo {
            pageblock_order: Some(3),
            types: vec![Unmovable, Movable],
            free: [].into(),
            blocks: blocks.into(),
        };
        let guessed = |types: Option<&PageTypeInfo>| guess(&uses, 8, &zone, types).types;
        assert_eq!(guessed(Some(&types)), [Movable, Unmovable, Movable, Unmovable]);
        assert_eq!(guessed(None), [Movable, Unmovable, Movable, Movable]);
        types.blocks.insert((zone.clone(), Unmovable), 4);
        assert_eq!(guessed(Some(&types)), [Unmovable; 4]);
    }

    /// Two pageblocks have pages of unknown use; the free pages tell which of them is movable.
    #[test]
    fn free_pages_tell_what_pages_of_unknown_use_are() {
        let zone: ZoneName = (0, "Normal".to_owned());
        let block = |used: Use, n: usize, free: usize| {
            let mut uses = vec![used as u8; n];
            uses.resize(n + free, Use::Free as u8);
            uses.resize(8, Use::Moves as u8);
            uses
        };
        let uses = [block(Use::Unknown, 6, 1), block(Use::Stays, 1, 4)].concat();
        let types = |movable: u64, unmovable: u64| PageTypeInfo {
            pageblock_order: Some(3),
            types: vec![Unmovable, Movable],
            free: [
                ((zone.clone(), Movable), vec![movable]),
                ((zone.clone(), Unmovable), vec![unmovable]),
            ]
            .into(),
            blocks: [((zone.clone(), Unmovable), 1)].into(),
        };
        let guessed = |types| {
            let guess = guess(&uses, 8, &zone, Some(&types));
            (guess.types, guess.agree, guess.pages)
        };
        assert_eq!(guessed(types(1, 4)), (vec![Movable, Unmovable], 5, 5));
        assert_eq!(guessed(types(4, 1)), (vec![Unmovable, Movable], 5, 5));
        // If neither fits, the result shows it.
        assert_eq!(guessed(types(0, 5)), (vec![Movable, Unmovable], 4, 5));
    }
}
