//! Prints the best of several runs of each pattern, in nanoseconds per block, which is more stable than a mean
//! on a busy machine. With a pattern and an order it runs only these, for callgrind:
//!
//! `valgrind --tool=callgrind target/release/examples/best 'warm pairs' 0 1`
//!
//! A fourth argument names another allocator: `pageblock-packed`, `pageblock-shared` and `pageblock-packed-shared` by a
//! CPU's handle, `frame-alloc`, `bitmap-allocator`, `buddy_system_allocator`. A fifth one is the size of memory in GiB.

use pageblock_bench::pattern::Pattern;
use pageblock_bench::peers::{Bitmap, FrameAlloc};
use pageblock_bench::subject::{
    BuddySystem, Pageblock, PageblockCpu, PageblockPacked, PageblockPackedCpu, PageblockZone,
    Subject,
};

/// Frames of a GiB.
const GIB: u64 = 1 << 18;

fn best<S: Subject>(pattern: Pattern, order: u8, (runs, frames): (u32, u64)) -> f64 {
    let mut subject = S::new(frames);
    let times = (0..runs).map(|_| pattern.run(&mut subject, frames, order));
    let time = times.min().unwrap_or_default();
    time.as_nanos() as f64 / pattern.operations(frames, order) as f64
}

/// Measures an allocator.
type Measure = fn(Pattern, u8, (u32, u64)) -> f64;

fn of(name: &str) -> Result<Measure, String> {
    match name {
        Pageblock::NAME => Ok(best::<Pageblock>),
        PageblockPacked::NAME => Ok(best::<PageblockPacked>),
        PageblockCpu::NAME => Ok(best::<PageblockCpu>),
        PageblockPackedCpu::NAME => Ok(best::<PageblockPackedCpu>),
        FrameAlloc::NAME => Ok(best::<FrameAlloc>),
        Bitmap::NAME => Ok(best::<Bitmap>),
        BuddySystem::NAME => Ok(best::<BuddySystem>),
        _ => Err(format!("no allocator {name}")),
    }
}

fn main() -> Result<(), String> {
    let args: Vec<String> = std::env::args().collect();
    let number = |at: usize, default: u32| match args.get(at) {
        None => Ok(default),
        Some(text) => text.parse().map_err(|error| format!("{text}: {error}")),
    };
    let size = (number(3, 30)?, u64::from(number(5, 1)?) * GIB);
    println!(
        "{:<16} {:>5} {:>12} {:>12} {:>12}",
        "[ns a block]", "order", "pageblock", "small lists", "buddy_system"
    );
    for pattern in Pattern::ALL {
        for order in [0, 3, 9] {
            let chosen = |at: usize, text: &str| args.get(at).is_none_or(|arg| arg == text);
            if !chosen(1, pattern.name()) || !chosen(2, &order.to_string()) {
                continue;
            }
            if args.len() > 2 {
                let one = of(args.get(4).map_or(Pageblock::NAME, String::as_str))?;
                println!("{:<16} {order:>5} {:>12.1}", pattern.name(), one(pattern, order, size));
                continue;
            }
            let ours = best::<Pageblock>(pattern, order, size);
            let zone = best::<PageblockZone>(pattern, order, size);
            let other = best::<BuddySystem>(pattern, order, size);
            println!("{:<16} {order:>5} {ours:>12.1} {zone:>12.1} {other:>12.1}", pattern.name());
        }
    }
    Ok(())
}
