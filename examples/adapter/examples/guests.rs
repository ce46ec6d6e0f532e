//! Guests of 256 MiB to 16 GiB come to a pool of 256 GiB and go, with balloons: how many gigabytes are whole, by three
//! ways to place them. Nothing is mapped. `cargo run --release --example guests`

use std::mem::MaybeUninit;
use std::time::Instant;

use adapter::vm_memory::{GIGABYTE, pool};
use pageblock::policy::Policy;
use pageblock::prelude::{Allocator, CpuId, FrameRange, Pfn, Request};

const POOL: u64 = 256 << 30;
const FRAMES: usize = (POOL >> 21) as usize;
const PER_GIGABYTE: usize = 1 << GIGABYTE;
const ROUNDS: u32 = 20_000;
const SEEDS: u64 = 10;

/// A pool of frames of 2 MiB.
trait Pool {
    /// Takes frames, or none; the second number is of ranges.
    fn take(&mut self, frames: usize) -> Option<(Vec<u32>, usize)>;
    /// Frees a guest's frames.
    fn give(&mut self, frames: &[u32]);
    /// Gigabytes that are wholly free.
    fn whole(&mut self) -> usize;
    /// Bytes of its tables.
    fn bytes(&self) -> usize;
}

/// A bit a frame, the lowest free first: what a pool of one's own usually is.
struct FirstFit {
    free: Vec<bool>,
    next: usize,
}

impl Pool for FirstFit {
    fn take(&mut self, frames: usize) -> Option<(Vec<u32>, usize)> {
        let mut taken = Vec::with_capacity(frames);
        let mut at = self.next;
        while taken.len() < frames && at < FRAMES {
            if self.free[at] {
                taken.push(at as u32);
            }
            at += 1;
        }
        if taken.len() < frames {
            return None;
        }
        taken.iter().for_each(|&frame| self.free[frame as usize] = false);
        self.next = at;
        let breaks = taken.windows(2).filter(|pair| pair[0] + 1 != pair[1]).count();
        Some((taken, breaks + 1))
    }
    fn give(&mut self, frames: &[u32]) {
        for &frame in frames {
            self.free[frame as usize] = true;
            self.next = self.next.min(frame as usize);
        }
    }
    fn whole(&mut self) -> usize {
        self.free.chunks(PER_GIGABYTE).filter(|gigabyte| gigabyte.iter().all(|&free| free)).count()
    }
    fn bytes(&self) -> usize {
        FRAMES / 8
    }
}

struct Ours<'m> {
    allocator: Allocator<'m>,
    extents: Vec<FrameRange>,
    bytes: usize,
}

impl Pool for Ours<'_> {
    fn take(&mut self, frames: usize) -> Option<(Vec<u32>, usize)> {
        let (request, count) = (Request::movable(0), frames as u64);
        let Self { allocator, extents, .. } = self;
        let n = allocator.alloc_extents(CpuId(0), count, &request, extents, &mut ()).ok()?;
        let mut taken = Vec::with_capacity(frames);
        for extent in &extents[..n] {
            for (pfn, order) in extent.blocks(GIGABYTE) {
                // Each page of 2 MiB can be given back alone.
                allocator.split_allocated(pfn, order, 0).expect("it was just taken");
            }
            taken.extend(extent.start.0 as u32..extent.end.0 as u32);
        }
        Some((taken, n))
    }
    fn give(&mut self, frames: &[u32]) {
        for &frame in frames {
            self.allocator.free(CpuId(0), Pfn(frame.into()), 0, &mut ()).expect("it is in use");
        }
    }
    fn whole(&mut self) -> usize {
        self.allocator.drain_all(&mut ());
        self.allocator.zones()[0].nr_free(GIGABYTE) as usize
    }
    fn bytes(&self) -> usize {
        self.bytes
    }
}

fn random(state: &mut u64) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state >> 20) as usize
}

/// Medians over the second half of a run: whole gigabytes of those that could be, ranges a guest, refused; and the time.
fn run(pool: &mut dyn Pool, seed: u64) -> [f64; 4] {
    let (mut state, mut guests, mut used) = (seed * 0x9e37_79b9_7f4a_7c15, Vec::new(), 0usize);
    let (mut share, mut ranges, mut refused, mut started) = (Vec::new(), Vec::new(), 0, 0);
    let start = Instant::now();
    for round in 0..ROUNDS {
        if used < FRAMES * 3 / 4 {
            let frames = PER_GIGABYTE / 4 * [1, 2, 4, 8, 16, 64][random(&mut state) % 6];
            if let Some((taken, n)) = pool.take(frames) {
                used += taken.len();
                started += 1;
                ranges.push(n as f64);
                guests.push(taken);
            } else {
                refused += 1;
            }
        } else if random(&mut state).is_multiple_of(4) {
            // A balloon takes a sixteenth of a guest, page by page.
            let guest = random(&mut state) % guests.len();
            let guest: &mut Vec<u32> = &mut guests[guest];
            let back: Vec<u32> = (0..guest.len() / 16)
                .map(|_| guest.swap_remove(random(&mut state) % guest.len()))
                .collect();
            used -= back.len();
            pool.give(&back);
        } else {
            let guest = guests.swap_remove(random(&mut state) % guests.len());
            used -= guest.len();
            pool.give(&guest);
        }
        if round > ROUNDS / 2 && round % 50 == 0 {
            share.push(pool.whole() as f64 / ((FRAMES - used) / PER_GIGABYTE).max(1) as f64);
        }
    }
    let time = start.elapsed().as_secs_f64() / f64::from(ROUNDS) * 1e6;
    let median = |mut of: Vec<f64>| {
        of.sort_by(f64::total_cmp);
        of[of.len() / 2]
    };
    let refused = f64::from(refused) / f64::from(refused + started) * 100.0;
    [median(share) * 100.0, median(ranges), refused, time]
}

fn main() {
    println!(
        "{} GiB, {ROUNDS} rounds, {SEEDS} seeds: medians, and least to most of whole gigabytes",
        POOL >> 30
    );
    println!(
        "{:<12} {:>18} {:>8} {:>12} {:>9} {:>8}",
        "", "whole [%]", "ranges", "refused [%]", "us/round", "bytes"
    );
    let zone = |policy: Policy| pool(POOL).policy(policy);
    let linux =
        Policy::parse("linux-6.12,reserve=off,wmark_gap=none,boost=off").expect("it exists");
    for (name, policy) in
        [("first fit", None), ("linux-6.12", Some(linux)), ("the default", Some(Policy::default()))]
    {
        let (mut results, mut bytes) = (Vec::new(), 0);
        for seed in 1..=SEEDS {
            let mut memory = Vec::new();
            let mut first = FirstFit { free: vec![true; FRAMES], next: 0 };
            let mut ours;
            let pool: &mut dyn Pool = match policy {
                None => &mut first,
                Some(policy) => {
                    let zone = zone(policy);
                    memory
                        .resize(zone.metadata_size().expect("it is sound"), MaybeUninit::uninit());
                    let bytes = memory.len();
                    let allocator = zone.build(&mut memory).expect("it is sound");
                    let extents = vec![FrameRange::new(0, 0); FRAMES];
                    ours = Ours { allocator, extents, bytes };
                    &mut ours
                }
            };
            results.push(run(pool, seed));
            bytes = pool.bytes();
        }
        let column = |at: usize| {
            let mut of: Vec<f64> = results.iter().map(|result| result[at]).collect();
            of.sort_by(f64::total_cmp);
            of
        };
        let median = |at: usize| column(at)[SEEDS as usize / 2];
        let whole = column(0);
        println!(
            "{name:<12} {:>5.0} ({:>3.0} to {:>3.0}) {:>8.0} {:>12.1} {:>9.1} {bytes:>8}",
            median(0),
            whole[0],
            whole[SEEDS as usize - 1],
            median(1),
            median(2),
            median(3)
        );
    }
}
