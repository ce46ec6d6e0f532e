//! Hands blocks from one CPU, which allocates, to another, which frees, in one thread: what a block costs in
//! instructions, which time on two threads hides behind cache lines. A run is 20 480 blocks, 256 at a time.
//!
//! `valgrind --tool=callgrind target/release/examples/handover pageblock-packed-shared 0 3`
//!
//! The arguments are the allocator (`pageblock-shared`, `pageblock-packed-shared`, `frame-alloc`,
//! `bitmap-allocator` or `buddy_system_allocator` behind a lock), the order and the number of runs.

use pageblock::frame::Order;
use pageblock_bench::peers::{Bitmap, FrameAlloc, Locked, set_cpu};
use pageblock_bench::subject::{
    BuddySystem, PageblockCpu, PageblockPackedCpu, SharedSubject, Subject,
};

const FRAMES: u64 = 1 << 18;
const ROUNDS: usize = 80;
const HANDED_OVER: usize = 256;

fn hand_over<S: SharedSubject>(order: Order, runs: usize) {
    let mut handles = S::handles(FRAMES, 2);
    let [producer, consumer] = &mut handles[..] else { panic!("two CPUs hand over") };
    // Of large blocks fewer are at hand: a quarter of the memory at most.
    let at_a_time = HANDED_OVER.min((FRAMES >> order) as usize / 4);
    let mut blocks = Vec::with_capacity(at_a_time);
    for _ in 0..runs * ROUNDS * HANDED_OVER / at_a_time {
        set_cpu(0);
        blocks.extend((0..at_a_time).map(|_| producer.alloc(order).expect("memory is left")));
        set_cpu(1);
        blocks.drain(..).for_each(|block| consumer.free(block, order));
    }
}

fn main() -> Result<(), String> {
    let args: Vec<String> = std::env::args().collect();
    let [_, name, order, runs] = &args[..] else {
        return Err("allowed: handover ALLOCATOR ORDER RUNS".to_owned());
    };
    let order = order.parse().map_err(|error| format!("order {order}: {error}"))?;
    let runs = runs.parse().map_err(|error| format!("runs {runs}: {error}"))?;
    match name.as_str() {
        PageblockCpu::NAME => hand_over::<PageblockCpu>(order, runs),
        PageblockPackedCpu::NAME => hand_over::<PageblockPackedCpu>(order, runs),
        FrameAlloc::NAME => hand_over::<FrameAlloc>(order, runs),
        Bitmap::NAME => hand_over::<Locked<Bitmap>>(order, runs),
        BuddySystem::NAME => hand_over::<Locked<BuddySystem>>(order, runs),
        _ => return Err(format!("no allocator {name}")),
    }
    Ok(())
}
