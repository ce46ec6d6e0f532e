//! Packing of scattered memory: how many blocks of 2 MiB become free as its content changes.

use std::time::{Duration, Instant};

use pageblock::frame::Order;

use crate::pattern::{below, give_back, random, shuffle};
use crate::subject::Subject;

/// The order of a block that should become free: 2 MiB.
pub const HUGE: Order = 9;

/// The result of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packed {
    /// Blocks of 2 MiB that could be allocated at the end.
    pub blocks_won_back: u64,
    /// The number of blocks of 2 MiB that all free memory could form.
    pub possible: u64,
    /// Pairs of a free and an allocation.
    pub pairs: u64,
    /// The total time.
    pub time: Duration,
}

/// Fills memory with single pages, frees a random half, and replaces the rest `times` times: each time as many
/// random pages are freed and allocated as are in use, `batch` at a time.
#[must_use]
pub fn turn_over<S: Subject>(subject: &mut S, times: u64, batch: usize) -> Packed {
    let (mut live, total) = fill_and_halve(subject);
    let mut random = random();
    let turns = times * live.len() as u64 / batch as u64;
    let start = Instant::now();
    for _ in 0..turns {
        for _ in 0..batch {
            let page = live.swap_remove(below(&mut random) % live.len());
            subject.free(page, 0);
        }
        for _ in 0..batch {
            live.push(subject.alloc_last(0).expect("as many were freed"));
        }
    }
    let time = start.elapsed();
    let possible = (total - live.len() as u64) >> HUGE;
    let blocks_won_back = huge_blocks(subject);
    give_back(subject, &live, 0);
    Packed { blocks_won_back, possible, pairs: turns * batch as u64, time }
}

/// Runs LLFree's pattern: half of memory is in use, and a tenth of that is reallocated in each round. Returns
/// the results after each of the numbers of rounds, which are ascending.
#[must_use]
pub fn reallocate<S: Subject>(subject: &mut S, rounds: &[u32]) -> Vec<Packed> {
    let (mut live, total) = fill_and_halve(subject);
    let mut random = random();
    let (mut done, mut pairs, mut time) = (0, 0, Duration::ZERO);
    let mut results = Vec::new();
    for &until in rounds {
        while done < until {
            shuffle(&mut live, &mut random);
            let tenth = live.len() / 10;
            let start = Instant::now();
            for page in live.drain(live.len() - tenth..) {
                subject.free(page, 0);
            }
            for _ in 0..tenth {
                live.push(subject.alloc_last(0).expect("as many were freed"));
            }
            time += start.elapsed();
            pairs += tenth as u64;
            done += 1;
        }
        let possible = (total - live.len() as u64) >> HUGE;
        results.push(Packed { blocks_won_back: huge_blocks(subject), possible, pairs, time });
    }
    give_back(subject, &live, 0);
    results
}

/// Allocates all of memory page by page, and frees a random half; returns the other half, and the number of all
/// pages.
fn fill_and_halve<S: Subject>(subject: &mut S) -> (Vec<u64>, u64) {
    let mut live: Vec<u64> = std::iter::from_fn(|| subject.alloc_last(0)).collect();
    let total = live.len() as u64;
    shuffle(&mut live, &mut random());
    let half = live.split_off(live.len() / 2);
    give_back(subject, &half, 0);
    (live, total)
}

/// Returns the number of blocks of 2 MiB that can be allocated; they are freed again.
fn huge_blocks<S: Subject>(subject: &mut S) -> u64 {
    subject.drain();
    let blocks: Vec<u64> = std::iter::from_fn(|| subject.alloc_last(HUGE)).collect();
    give_back(subject, &blocks, HUGE);
    subject.drain();
    blocks.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::{Bitmap, FrameAlloc};
    use crate::subject::{BuddySystem, Pageblock, PageblockPacked};

    /// 64 MiB, 32 blocks; half of them can become free.
    const FRAMES: u64 = 1 << 14;

    #[test]
    fn packed_placement_wins_blocks_back_and_others_do_not() {
        for batch in [1, 64] {
            let mut packed = PageblockPacked::new(FRAMES);
            let won = turn_over(&mut packed, 16, batch);
            assert_eq!(won.possible, 16);
            assert!(won.blocks_won_back >= 15, "{won:?}");
            packed.check();
            let linux = turn_over(&mut Pageblock::new(FRAMES), 16, batch);
            assert!(linux.blocks_won_back <= 1, "{linux:?}");
        }
    }

    #[test]
    fn peers_pack_as_expected() {
        let first_fit = turn_over(&mut Bitmap::new(FRAMES), 16, 64);
        assert!(first_fit.blocks_won_back >= 15, "{first_fit:?}");
        for won in [
            turn_over(&mut BuddySystem::new(FRAMES), 16, 64),
            turn_over(&mut FrameAlloc::new(FRAMES), 16, 64),
        ] {
            assert!(won.blocks_won_back <= 4, "{won:?}");
        }
    }

    #[test]
    fn reallocation_frees_ever_more_blocks() {
        let won = reallocate(&mut PageblockPacked::new(FRAMES), &[10, 60, 120]);
        let won: Vec<u64> = won.iter().map(|w| w.blocks_won_back).collect();
        assert!(won[0] < won[1] && won[1] < won[2] && won[2] >= 15, "{won:?}");
    }
}
