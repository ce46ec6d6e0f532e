//! Measures what a message in a socket, a page in a pipe and a table of pages cost on this machine: the costs marked
//! **H** of the simulation (crates/simulate/src/sim/cost.rs).
//!
//!     cargo run --release -p pageblock-guest --example held_costs
//!
//! Prints the least and the median of 41 rounds in nanoseconds.

use std::error::Error;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::ptr;
use std::time::Instant;

use pageblock_simulate::workload::mixed::{MESSAGES, PIPE_PAGES};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

const ROUNDS: usize = 41;
/// Sockets, pipes and tables of a round.
const EACH: u64 = 100;
/// What a table of pages maps, in bytes.
const TABLE_BYTES: usize = 2 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let [mut messages, mut frees, mut pages, mut touches, mut faults] = [const { Vec::new() }; 5];
    for _ in 0..ROUNDS {
        let mut pairs = Vec::new();
        for _ in 0..EACH {
            pairs.push(UnixStream::pair()?);
        }
        messages.push(each(EACH * MESSAGES, || {
            pairs.iter_mut().try_for_each(|(from, _)| fill(from, &[0; 640], MESSAGES))
        })?);
        frees.push(each(EACH * MESSAGES, || {
            pairs.clear();
            Ok(())
        })?);
        let mut pipes = Vec::new();
        for _ in 0..EACH {
            pipes.push(std::io::pipe()?);
        }
        pages.push(each(EACH * PIPE_PAGES, || {
            pipes.iter_mut().try_for_each(|(_, from)| fill(from, &[1; 4096], PIPE_PAGES))
        })?);
        let [first, next] = touched()?;
        touches.push(first);
        faults.push(next);
    }
    for (what, times) in [
        ("message of 640 bytes", &mut messages),
        ("free of a message", &mut frees),
        ("page of a pipe", &mut pages),
        ("first touch of 2 MiB", &mut touches),
        ("next touch there", &mut faults),
    ] {
        times.sort_unstable();
        println!("{what:<22} {:>6} {:>6} ns", times[0], times[ROUNDS / 2]);
    }
    Ok(())
}

fn fill(to: &mut impl Write, bytes: &[u8], times: u64) -> std::io::Result<()> {
    (0..times).try_for_each(|_| to.write_all(bytes))
}

/// Returns the nanoseconds of each of `count` operations.
fn each(count: u64, run: impl FnOnce() -> std::io::Result<()>) -> std::io::Result<u64> {
    let begun = Instant::now();
    run()?;
    Ok(begun.elapsed().as_nanos() as u64 / count)
}

/// Touches two pages in the memory of each of many tables: first a fault of a small page that needs a table, then one that
/// finds it.
fn touched() -> std::io::Result<[u64; 2]> {
    let bytes = EACH as usize * TABLE_BYTES;
    // SAFETY: the kernel chooses the place; nothing else knows the mapping, which ends below.
    let start = unsafe {
        mmap_anonymous(
            ptr::null_mut(),
            bytes,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::PRIVATE,
        )
    }?;
    // SAFETY: the mapping is this one's.
    unsafe { madvise(start, bytes, Advice::LinuxNoHugepage) }?;
    let touch = |offset: usize| {
        each(EACH, || {
            for at in 0..EACH as usize {
                // SAFETY: it is within the mapping.
                unsafe { start.cast::<u8>().add(at * TABLE_BYTES + offset).write_volatile(1) };
            }
            Ok(())
        })
    };
    let times = touch(0).and_then(|first| Ok([first, touch(TABLE_BYTES / 2)?]));
    // SAFETY: nothing uses the mapping any more.
    unsafe { munmap(start, bytes) }?;
    times
}
