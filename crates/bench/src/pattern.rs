//! The patterns. Their preparation is not timed.

use std::hint::black_box;
use std::time::{Duration, Instant};

use pageblock::frame::Order;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::Rng;

use crate::subject::Subject;

/// A sequence of operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pattern {
    /// A block is allocated and freed, repeatedly.
    WarmPairs,
    /// Blocks are allocated until three quarters of memory are in use.
    Fill,
    /// Those blocks are freed in the order of allocation.
    DrainInOrder,
    /// Those blocks are freed in random order.
    DrainRandom,
    /// Nine tenths of memory are in use; 64 random blocks are freed, then 64 allocated, repeatedly.
    Steady,
    /// Blocks are allocated with lifetimes of 1, 16, 256 or 4096 steps of the pattern, equally many of each.
    MixedLifetimes,
    /// All memory is in use; requests fail, repeatedly.
    Fail,
}

/// Pairs of one run.
const PAIRS: u64 = 10_000;
/// Blocks freed and allocated at a time while memory is nearly full.
const TURN: usize = 64;
/// The mixed lifetimes, in steps.
const LIFETIMES: [usize; 4] = [1, 16, 256, 4096];

impl Pattern {
    /// Every pattern.
    pub const ALL: [Self; 7] = [
        Self::WarmPairs,
        Self::Fill,
        Self::DrainInOrder,
        Self::DrainRandom,
        Self::Steady,
        Self::MixedLifetimes,
        Self::Fail,
    ];

    /// Returns its name in the results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::WarmPairs => "warm pairs",
            Self::Fill => "fill",
            Self::DrainInOrder => "drain in order",
            Self::DrainRandom => "drain at random",
            Self::Steady => "steady at 90 %",
            Self::MixedLifetimes => "mixed lifetimes",
            Self::Fail => "failing request",
        }
    }

    /// Returns its name in plans and JSON.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Self::WarmPairs => "pair",
            Self::Fill => "bulk_fill",
            Self::DrainInOrder => "bulk_drain",
            Self::DrainRandom => "random_drain",
            Self::Steady => "steady_90",
            Self::MixedLifetimes => "mixed_lifetimes",
            Self::Fail => "fail",
        }
    }

    /// Returns the number of operations of one run: pairs for [`Self::WarmPairs`], else blocks allocated, freed
    /// or refused.
    #[must_use]
    pub const fn operations(self, frames: u64, order: Order) -> u64 {
        match self {
            Self::WarmPairs | Self::Fail => PAIRS,
            Self::Fill | Self::DrainInOrder | Self::DrainRandom => (frames - frames / 4) >> order,
            Self::Steady => 2 * self.turns(frames, order) * Self::turn(frames, order) as u64,
            Self::MixedLifetimes => 2 * Self::steps(frames, order),
        }
    }

    /// Returns the blocks of a turn: 64, but at most a quarter of those in use.
    const fn turn(frames: u64, order: Order) -> usize {
        let held = (frames - frames / 10) >> order;
        if held < 4 * TURN as u64 { (held as usize).div_ceil(4) } else { TURN }
    }

    const fn turns(self, frames: u64, order: Order) -> u64 {
        let held = (frames - frames / 10) >> order;
        held.div_ceil(Self::turn(frames, order) as u64)
    }

    /// Returns the steps of mixed lifetimes: memory holds all blocks that live at a time.
    const fn steps(frames: u64, order: Order) -> u64 {
        (frames >> order) / 2
    }

    /// Runs the pattern once on an allocator with all memory free, and leaves it so. Returns the time of the
    /// pattern itself.
    ///
    /// # Panics
    /// If an allocation fails that should succeed, or succeeds that should fail.
    pub fn run<S: Subject>(self, subject: &mut S, frames: u64, order: Order) -> Duration {
        match self {
            Self::WarmPairs => warm_pairs(subject, order),
            Self::Steady => self.steady(subject, frames, order),
            Self::MixedLifetimes => mixed_lifetimes(subject, frames, order),
            Self::Fail => fail(subject, order),
            Self::Fill | Self::DrainInOrder | Self::DrainRandom => {
                self.fill_and_drain(subject, frames, order)
            }
        }
    }

    fn fill_and_drain<S: Subject>(self, subject: &mut S, frames: u64, order: Order) -> Duration {
        let operations = self.operations(frames, order);
        let mut taken = Vec::with_capacity(operations as usize);
        let start = Instant::now();
        take(subject, &mut taken, operations, order);
        let fill = start.elapsed();
        if self == Self::DrainRandom {
            shuffle(&mut taken, &mut random());
        }
        let start = Instant::now();
        give_back(subject, &taken, order);
        let drain = start.elapsed();
        if self == Self::Fill { fill } else { drain }
    }

    fn steady<S: Subject>(self, subject: &mut S, frames: u64, order: Order) -> Duration {
        let (turns, turn) = (self.turns(frames, order), Self::turn(frames, order));
        let mut taken = Vec::new();
        take(subject, &mut taken, (frames - frames / 10) >> order, order);
        let mut random = random();
        let choices: Vec<usize> = (0..turns as usize * turn).map(|_| below(&mut random)).collect();
        let start = Instant::now();
        for choices in choices.chunks(turn) {
            for choice in choices {
                let block = taken.swap_remove(choice % taken.len());
                subject.free(block, order);
            }
            take(subject, &mut taken, turn as u64, order);
        }
        let time = start.elapsed();
        give_back(subject, &taken, order);
        time
    }
}

fn warm_pairs<S: Subject>(subject: &mut S, order: Order) -> Duration {
    let start = Instant::now();
    for _ in 0..PAIRS {
        let frame = subject.alloc(order).expect("memory is left");
        subject.free(black_box(frame), order);
    }
    start.elapsed()
}

/// Allocates a block in each step and frees those whose lifetimes have ended.
fn mixed_lifetimes<S: Subject>(subject: &mut S, frames: u64, order: Order) -> Duration {
    let steps = Pattern::steps(frames, order) as usize;
    let mut queues = LIFETIMES.map(|lifetime| vec![None; lifetime.min(steps / 4).max(1)]);
    let mut random = random();
    let kinds: Vec<usize> = (0..steps).map(|_| below(&mut random) % LIFETIMES.len()).collect();
    let mut at = [0; LIFETIMES.len()];
    let start = Instant::now();
    for kind in kinds {
        let queue = &mut queues[kind];
        let place = at[kind];
        at[kind] = if place + 1 == queue.len() { 0 } else { place + 1 };
        let block = subject.alloc(order).expect("memory is left");
        if let Some(old) = queue[place].replace(block) {
            subject.free(old, order);
        }
    }
    for block in queues.iter_mut().flatten().filter_map(Option::take) {
        subject.free(block, order);
    }
    start.elapsed()
}

fn fail<S: Subject>(subject: &mut S, order: Order) -> Duration {
    let mut taken = Vec::new();
    while let Some(block) = subject.alloc(0) {
        taken.push(block);
    }
    let start = Instant::now();
    for _ in 0..PAIRS {
        assert_eq!(black_box(subject.alloc(order)), None);
    }
    let time = start.elapsed();
    give_back(subject, &taken, 0);
    time
}

/// Allocates `n` blocks.
pub(crate) fn take<S: Subject>(subject: &mut S, taken: &mut Vec<u64>, n: u64, order: Order) {
    for _ in 0..n {
        taken.push(subject.alloc(order).expect("memory is left"));
    }
}

pub(crate) fn give_back<S: Subject>(subject: &mut S, taken: &[u64], order: Order) {
    for &frame in taken {
        subject.free(frame, order);
    }
}

/// Returns a generator with a fixed seed.
pub(crate) fn random() -> Pcg64Mcg {
    Pcg64Mcg::new(0xcafe_f00d)
}

pub(crate) fn below(random: &mut Pcg64Mcg) -> usize {
    random.next_u64() as usize
}

pub(crate) fn shuffle(frames: &mut [u64], random: &mut Pcg64Mcg) {
    for last in (1..frames.len()).rev() {
        frames.swap(last, below(random) % (last + 1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::{Bitmap, FrameAlloc, MiMalloc, System};
    use crate::subject::{
        BuddySystem, Pageblock, PageblockCpu, PageblockPacked, PageblockPackedCpu, PageblockZone,
    };

    // A quarter of it must be more than the watermark.
    const FRAMES: u64 = 1 << 16;

    fn every_pattern<S: Subject>(check: impl Fn(&S)) {
        for pattern in Pattern::ALL.into_iter().filter(|&p| p != Pattern::Fail || S::FAILS) {
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
        every_pattern(PageblockPacked::check);
        every_pattern(|_: &PageblockZone| {});
        every_pattern(PageblockCpu::check);
        every_pattern(PageblockPackedCpu::check);
        every_pattern(|_: &BuddySystem| {});
        every_pattern(|_: &Bitmap| {});
        every_pattern(|_: &FrameAlloc| {});
        every_pattern(|_: &System| {});
        every_pattern(|_: &MiMalloc| {});
    }

    #[test]
    fn tables_take_at_most_ten_bytes_a_frame() {
        let frames = 1 << 18;
        for policy in ["linux-6.12", "linux-6.12,placement=packed"] {
            let bytes = Pageblock::with_policy(frames, policy).metadata as u64;
            assert!(bytes <= 10 * frames, "{bytes} bytes for {frames} frames");
        }
    }
}
