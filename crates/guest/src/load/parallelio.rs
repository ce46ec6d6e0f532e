//! parallelio: a memory cache with its client, while dd writes files of growing size.

use std::fs::{self, File};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use super::{Random, begin, rest};
use crate::inside::memory::Mapping;
use crate::inside::state;
use crate::job::Parallelio;
use crate::message::Measured;

/// dd's file.
const FILE: &str = "/data/largefile";
/// dd's block.
const BLOCK: usize = 1 << 20;
/// A client that is so much ahead waits.
const AHEAD: Duration = Duration::from_millis(4);

/// The measurements of an iteration.
struct Round {
    rate: u64,
    io: Duration,
    swapped_in: u64,
    swapped: u64,
    minor: u64,
    major: u64,
}

/// Runs every iteration with every size of the file; the first is not counted by the benchmark's own report.
pub(super) fn run(sizes: &Parallelio, seed: u64) -> Result<Measured, String> {
    let all = sizes.iterations * sizes.files.len() as u64;
    let mut measured = Measured::default();
    let failed = |error: std::io::Error| format!("parallelio: {error}");
    begin("warming up", 0.0)?;
    iterate(sizes, 0, seed).map_err(failed)?;
    let mut done = 0;
    for &(pages, name) in &sizes.files {
        let mut rounds = Vec::new();
        for _ in 0..sizes.iterations {
            begin(&format!("a file of {name} MiB on the whole machine"), done as f64 / all as f64)?;
            done += 1;
            rounds.push(iterate(sizes, pages, seed.wrapping_mul(1000) + done).map_err(failed)?);
        }
        // As in the benchmark's report, all values are from the round with the fewest operations.
        let Some(worst) = rounds.into_iter().min_by_key(|round| round.rate) else { continue };
        for (what, value) in [
            ("memcachetest", worst.rate),
            ("io-duration", worst.io.as_millis() as u64),
            ("swaptotal", worst.swapped),
            ("swapin", worst.swapped_in),
            ("minorfaults", worst.minor),
            ("majorfaults", worst.major),
        ] {
            measured.samples.insert(format!("{what}-{name}M"), vec![value]);
        }
    }
    Ok(measured)
}

fn counted(name: &str) -> u64 {
    state::counter(name).unwrap_or(0)
}

fn iterate(sizes: &Parallelio, file: u64, seed: u64) -> std::io::Result<Round> {
    let before = ["pswpin", "pswpout", "pgfault", "pgmajfault"].map(counted);
    let over = AtomicBool::new(false);
    let (rate, io) = std::thread::scope(|scope| {
        let dd =
            scope.spawn(|| if file == 0 { Ok(Duration::ZERO) } else { dd(sizes, file, &over) });
        let rate = serve(sizes, seed);
        over.store(true, Relaxed);
        let io = dd.join().map_err(|_| std::io::Error::other("dd panicked"))??;
        Ok::<_, std::io::Error>((rate?, io))
    })?;
    if file > 0 {
        fs::remove_file(FILE)?;
    }
    let after = ["pswpin", "pswpout", "pgfault", "pgmajfault"].map(counted);
    let [swapped_in, out, faults, major] = std::array::from_fn(|at| after[at] - before[at]);
    let minor = faults.saturating_sub(major);
    Ok(Round { rate, io, swapped_in, swapped: swapped_in + out, minor, major })
}

/// Fills the pool, then gets and sets; returns the operations a second as memcachetest computes them.
fn serve(sizes: &Parallelio, seed: u64) -> std::io::Result<u64> {
    let first = |item: u64| item * sizes.item_pages_percent / 100;
    let mut pool = Mapping::new(first(sizes.items) as usize)?;
    pool.want_small()?;
    let mut random = Random::new(seed, 1);
    let mut due = Instant::now();
    let mut operate = |pool: &mut Mapping, item: u64, set: bool| {
        for page in first(item)..first(item + 1) {
            if set { pool.touch(page as usize) } else { pool.look(page as usize) }
        }
        // The client has a pace of its own: a faster CPU waits.
        let now = Instant::now();
        due = due.max(now.checked_sub(AHEAD).unwrap_or(now))
            + Duration::from_nanos(sizes.operation_ns);
        if due > now + AHEAD {
            rest(due - now);
        }
    };
    (0..sizes.items).for_each(|item| operate(&mut pool, item, true));
    let begun = Instant::now();
    let mut operations = sizes.items;
    while begun.elapsed() < Duration::from_nanos(sizes.duration_ns) {
        let item = random.below(sizes.items);
        operate(&mut pool, item, random.below(100) < sizes.sets_percent);
        operations += 1;
    }
    Ok((operations as f64 / begun.elapsed().as_secs_f64()) as u64)
}

/// Runs `dd if=/dev/zero of=largefile bs=1M conv=fdatasync` once the memory in use is that at which the benchmark begins it.
fn dd(sizes: &Parallelio, pages: u64, over: &AtomicBool) -> std::io::Result<Duration> {
    let in_use = || {
        let info = state::meminfo().unwrap_or_default();
        let [total, free] = ["MemTotal", "MemFree"].map(|name| info.get(name).unwrap_or(1));
        (total - free) * 100 >= total * sizes.begins_percent
    };
    while !over.load(Relaxed) && !in_use() {
        rest(Duration::from_nanos(sizes.looks_ns));
    }
    rest(Duration::from_nanos(sizes.waits_ns));
    let begun = Instant::now();
    let block = vec![0; BLOCK];
    let mut file = File::create(FILE)?;
    let mut left = pages as usize * 4096;
    while left > 0 {
        let len = left.min(BLOCK);
        file.write_all(&block[..len])?;
        left -= len;
    }
    file.sync_data()?;
    Ok(begun.elapsed())
}
