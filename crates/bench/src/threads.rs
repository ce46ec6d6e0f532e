//! Patterns run by several threads concurrently.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pageblock::frame::Order;

use crate::pattern::Pattern;
use crate::peers::set_cpu;
use crate::subject::SharedSubject;

/// Runs a pattern in every thread, each with its handle and its share of the frames. Returns the mean over the
/// threads of the time per operation, in nanoseconds.
pub fn run<S: SharedSubject>(
    handles: &mut [S],
    pattern: Pattern,
    frames: u64,
    order: Order,
) -> f64 {
    let share = frames / handles.len() as u64;
    let barrier = Barrier::new(handles.len());
    let work = |cpu: usize, handle: &mut S| {
        set_cpu(cpu);
        barrier.wait();
        pattern.run(handle, share, order)
    };
    let times: Vec<Duration> = std::thread::scope(|scope| {
        let work = &work;
        let spawn = |(cpu, handle)| scope.spawn(move || work(cpu, handle));
        let threads: Vec<_> = handles.iter_mut().enumerate().map(spawn).collect();
        threads.into_iter().map(|thread| thread.join().expect("no thread panics")).collect()
    });
    let total: Duration = times.iter().sum();
    let operations = pattern.operations(share, order) * handles.len() as u64;
    total.as_nanos() as f64 / operations as f64
}

/// Blocks that one run hands over.
const HANDED_OVER: u64 = 20_000;
const SLOTS: usize = 256;

/// Allocates in one thread and frees in another. Returns the time per operation in nanoseconds; a block takes
/// two operations.
///
/// # Panics
/// Unless there are two handles.
pub fn producer_consumer<S: SharedSubject>(handles: &mut [S], order: Order) -> f64 {
    let [producer, consumer] = handles else { panic!("two threads hand over") };
    // 0 means an empty slot.
    let ring: Vec<AtomicU64> = (0..SLOTS).map(|_| AtomicU64::new(0)).collect();
    let slot = |n: u64| &ring[n as usize % SLOTS];
    let start = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            set_cpu(0);
            for n in 0..HANDED_OVER {
                let block = loop {
                    // Frames in the consumer's per-CPU lists come back in time.
                    match producer.alloc(order) {
                        Some(block) => break block,
                        None => std::thread::yield_now(),
                    }
                };
                wait_until(|| slot(n).load(Ordering::Acquire) == 0);
                slot(n).store(block + 1, Ordering::Release);
            }
        });
        scope.spawn(|| {
            set_cpu(1);
            for n in 0..HANDED_OVER {
                wait_until(|| slot(n).load(Ordering::Acquire) != 0);
                let block = slot(n).swap(0, Ordering::AcqRel) - 1;
                consumer.free(block, order);
            }
        });
    });
    start.elapsed().as_nanos() as f64 / (2 * HANDED_OVER) as f64
}

/// Spins until the condition holds, yielding now and then.
pub(crate) fn wait_until(ready: impl Fn() -> bool) {
    let mut spins = 0;
    while !ready() {
        spins += 1;
        if spins % 64 == 0 {
            std::thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::{Bitmap, FrameAlloc, Locked, MiMalloc, System};
    use crate::subject::{BuddySystem, PageblockCpu, PageblockPackedCpu};

    const FRAMES: u64 = 1 << 17;

    fn every<S: SharedSubject>() {
        let mut handles = S::handles(FRAMES, 2);
        for pattern in Pattern::ALL.into_iter().filter(|&p| p != Pattern::Fail) {
            assert!(run(&mut handles, pattern, FRAMES, 3) > 0.0);
        }
        assert!(producer_consumer(&mut handles, 0) > 0.0);
    }

    #[test]
    fn every_shared_allocator_runs_every_pattern() {
        every::<PageblockCpu>();
        every::<PageblockPackedCpu>();
        every::<Locked<BuddySystem>>();
        every::<Locked<Bitmap>>();
        every::<FrameAlloc>();
        every::<System>();
        every::<MiMalloc>();
    }
}
