//! The patterns of LLFree's programs `bench` and `frag` (revision in Cargo.toml), reimplemented on both allocators.

use std::hint::black_box;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use pageblock::frame::Order;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::RngCore;

use crate::subject::Huge;

/// Nanoseconds of an allocation and of a free; of a pair, in the first, where they are not timed apart.
pub type Times = [f64; 2];

/// A program's pattern.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// Half of memory is allocated, and freed last first.
    Bulk,
    /// Half of memory is in use; a block is allocated and freed, repeatedly.
    Repeat,
    /// Half of memory is allocated, shuffled between the threads, and freed.
    Rand,
}

impl Pattern {
    pub const ALL: [Self; 3] = [Self::Bulk, Self::Repeat, Self::Rand];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Bulk => "bulk",
            Self::Repeat => "repeat",
            Self::Rand => "rand",
        }
    }

    /// Runs it once, and leaves all memory free.
    pub fn run<S: Huge>(self, handles: &mut [S], frames: u64, order: Order) -> Times {
        let blocks = (frames / handles.len() as u64 / 2) >> order;
        match self {
            Self::Repeat => repeat(handles, blocks, order),
            Self::Bulk => bulk(handles, blocks, order, |shares| {
                shares.iter_mut().for_each(|share| share.reverse());
            }),
            Self::Rand => bulk(handles, blocks, order, |shares| shuffle_between(shares)),
        }
    }
}

/// Runs a step in every thread at once; returns the mean of their nanoseconds for each of `operations`.
fn together<S: Huge, T: Send>(
    handles: &mut [S],
    each: &mut [T],
    operations: u64,
    step: impl Fn(&mut S, &mut T) + Sync,
) -> f64 {
    let barrier = Barrier::new(handles.len());
    let (step, barrier) = (&step, &barrier);
    let times: Vec<Duration> = std::thread::scope(|scope| {
        let spawn = |(handle, item)| {
            scope.spawn(move || {
                barrier.wait();
                let start = Instant::now();
                step(handle, item);
                start.elapsed()
            })
        };
        let threads: Vec<_> = handles.iter_mut().zip(each).map(spawn).collect();
        threads.into_iter().map(|thread| thread.join().expect("no thread panics")).collect()
    });
    times.iter().sum::<Duration>().as_nanos() as f64 / (operations * times.len() as u64) as f64
}

fn bulk<S: Huge>(
    handles: &mut [S],
    blocks: u64,
    order: Order,
    between: impl Fn(&mut [Vec<u64>]),
) -> Times {
    let mut shares: Vec<_> = handles.iter().map(|_| vec![0; blocks as usize]).collect();
    // Touched before the clock starts.
    shares.iter_mut().flatten().for_each(|place| *place = black_box(1));
    let get = together(handles, &mut shares, blocks, |handle, share| {
        for place in share {
            *place = handle.alloc(order).expect("half of memory is free");
        }
    });
    between(&mut shares);
    let put = together(handles, &mut shares, blocks, |handle, share| {
        for &mut frame in share {
            handle.free(frame, order);
        }
    });
    [get, put]
}

fn repeat<S: Huge>(handles: &mut [S], blocks: u64, order: Order) -> Times {
    let mut shares: Vec<_> = handles.iter().map(|_| Vec::new()).collect();
    for (handle, share) in handles.iter_mut().zip(&mut shares) {
        share.extend((0..blocks).map(|_| handle.alloc(order).expect("half of memory is free")));
    }
    let pairs = blocks.max(20_000);
    let pair = together(handles, &mut shares, pairs, |handle, _| {
        for _ in 0..pairs {
            let frame = handle.alloc(order).expect("memory is left");
            handle.free(black_box(frame), order);
        }
    });
    for (handle, share) in handles.iter_mut().zip(shares) {
        share.into_iter().for_each(|frame| handle.free(frame, order));
    }
    [pair, f64::NAN]
}

fn shuffle_between(shares: &mut [Vec<u64>]) {
    let each = shares[0].len();
    let mut all = shares.concat();
    shuffle(&mut all, &mut Pcg64Mcg::new(42));
    for (share, part) in shares.iter_mut().zip(all.chunks(each)) {
        share.copy_from_slice(part);
    }
}

fn shuffle(frames: &mut [u64], random: &mut Pcg64Mcg) {
    for last in (1..frames.len()).rev() {
        frames.swap(last, random.next_u64() as usize % (last + 1));
    }
}

/// The program `frag`: all memory is allocated as single frames, half of it freed at random, and a tenth as many
/// random frames freed and allocated one by one in each round. Returns the free blocks of 2 MiB after each of the rounds
/// named, and the nanoseconds of a free and an allocation.
pub fn frag<S: Huge>(frames: u64, rounds: &[u32], seed: u64) -> (Vec<u64>, f64) {
    let mut subject = S::new(frames);
    let mut live: Vec<u64> = std::iter::from_fn(|| subject.alloc_last(0)).collect();
    let mut random = Pcg64Mcg::new(seed.into());
    shuffle(&mut live, &mut random);
    let half = frames as usize / 2;
    for frame in live.drain(live.len() - half..) {
        subject.free(frame, 0);
    }
    let (mut done, mut time, mut won) = (0, Duration::ZERO, Vec::new());
    for &until in rounds {
        while done < until {
            let start = Instant::now();
            for _ in 0..half / 10 {
                let place = random.next_u64() as usize % live.len();
                subject.free(live[place], 0);
                live[place] = subject.alloc_last(0).expect("one was freed");
            }
            time += start.elapsed();
            done += 1;
        }
        won.push(subject.free_huge());
    }
    (won, time.as_nanos() as f64 / (u64::from(done) * (half / 10) as u64) as f64)
}

/// All memory is in use; requests of an order fail. Returns the nanoseconds of each.
pub fn refuse<S: Huge>(subject: &mut S, orders: &[Order], requests: u32) -> Vec<f64> {
    let live: Vec<u64> = std::iter::from_fn(|| subject.alloc(0)).collect();
    let refused = |&order: &Order| {
        let start = Instant::now();
        for _ in 0..requests {
            assert_eq!(black_box(subject.alloc(order)), None);
        }
        start.elapsed().as_nanos() as f64 / f64::from(requests)
    };
    let times = orders.iter().map(refused).collect();
    live.into_iter().for_each(|frame| subject.free(frame, 0));
    times
}
