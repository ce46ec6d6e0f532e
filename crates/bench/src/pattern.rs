//! The patterns. Each is timed without what prepares it.

use std::hint::black_box;
use std::time::{Duration, Instant};

use pageblock::frame::Order;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::RngCore;

use crate::subject::Subject;

/// What is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pattern {
    /// A block is taken and given back, again and again.
    WarmPairs,
    /// Blocks are taken until three quarters of memory are in use.
    Fill,
    /// Those blocks are given back in the order in which they were taken.
    DrainInOrder,
    /// Those blocks are given back in random order.
    DrainRandom,
}

impl Pattern {
    /// Every pattern.
    pub const ALL: [Self; 4] = [Self::WarmPairs, Self::Fill, Self::DrainInOrder, Self::DrainRandom];

    /// Its name in the results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::WarmPairs => "warm pairs",
            Self::Fill => "fill",
            Self::DrainInOrder => "drain in order",
            Self::DrainRandom => "drain at random",
        }
    }

    /// The operations of one run: pairs, or blocks taken or given back.
    #[must_use]
    pub const fn operations(self, frames: u64, order: Order) -> u64 {
        match self {
            Self::WarmPairs => 1000,
            _ => (frames - frames / 4) >> order,
        }
    }

    /// Runs the pattern once on an allocator with all memory free, and leaves it so. Gives the time
    /// of the pattern itself.
    ///
    /// # Panics
    /// Where a block is not given.
    pub fn run<S: Subject>(self, subject: &mut S, frames: u64, order: Order) -> Duration {
        let operations = self.operations(frames, order);
        if self == Self::WarmPairs {
            return warm_pairs(subject, operations, order);
        }
        let mut taken = Vec::with_capacity(operations as usize);
        let start = Instant::now();
        for _ in 0..operations {
            taken.push(subject.alloc(order).expect("memory is left"));
        }
        let fill = start.elapsed();
        if self == Self::DrainRandom {
            shuffle(&mut taken);
        }
        let start = Instant::now();
        for &frame in &taken {
            subject.free(frame, order);
        }
        let drain = start.elapsed();
        if self == Self::Fill { fill } else { drain }
    }
}

fn warm_pairs<S: Subject>(subject: &mut S, pairs: u64, order: Order) -> Duration {
    let start = Instant::now();
    for _ in 0..pairs {
        let frame = subject.alloc(order).expect("memory is left");
        subject.free(black_box(frame), order);
    }
    start.elapsed()
}

/// The same order in every run.
fn shuffle(frames: &mut [u64]) {
    let mut random = Pcg64Mcg::new(0xcafe_f00d);
    for last in (1..frames.len()).rev() {
        frames.swap(last, random.next_u64() as usize % (last + 1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::{BuddySystem, Pageblock, PageblockZone};

    // A quarter of it must be more than the watermark.
    const FRAMES: u64 = 1 << 16;

    fn every_pattern<S: Subject>(check: impl Fn(&S)) {
        for pattern in Pattern::ALL {
            for order in [0, 3, 9] {
                let mut subject = S::new(FRAMES);
                pattern.run(&mut subject, FRAMES, order);
                check(&subject);
            }
        }
    }

    #[test]
    fn every_pattern_runs_on_every_allocator() {
        every_pattern(Pageblock::check);
        every_pattern(|_: &PageblockZone| {});
        every_pattern(|_: &BuddySystem| {});
    }

    #[test]
    fn tables_take_at_most_ten_bytes_a_frame() {
        let frames = 1 << 18;
        let bytes = Pageblock::new(frames).metadata as u64;
        assert!(bytes <= 10 * frames, "{bytes} bytes for {frames} frames");
    }
}
