//! Pageblock, with its two tables, beside LLFree on the patterns of LLFree's own programs, sample after sample in turn.
//!
//! `cargo run --release -- time|refuse|frag|tables [GIB] [ROUNDS]`, or for callgrind
//! `once ALLOCATOR PATTERN ORDER RUNS`.

mod pattern;
mod subject;

use std::process::ExitCode;

use pageblock_bench::subject::{PageblockCpu, PageblockPackedCpu, Subject};
use pageblock_measure::statistics::resampling::bootstrap_median;
use pageblock_measure::statistics::stats::median;

use pattern::{Pattern, frag, refuse};
use subject::{Huge, Llfree};

const GIB: u64 = 1 << 18;
const ORDERS: [u8; 3] = [0, 3, 9];

/// Takes a sample, of one or two values.
type Sampler = (&'static str, Box<dyn FnMut() -> Vec<f64>>);

/// Prints the medians of samples that alternate, with intervals, and the median of the pairs' ratios to the last.
fn compare(what: &str, kinds: &[&str], rounds: usize, mut samplers: Vec<Sampler>) {
    let mut samples = vec![Vec::new(); samplers.len()];
    for round in 0..=rounds {
        for ((_, sample), samples) in samplers.iter_mut().zip(&mut samples) {
            let sample = sample();
            // The first warms up.
            if round > 0 {
                samples.push(sample);
            }
        }
    }
    for (at, kind) in kinds.iter().enumerate() {
        let of = |samples: &Vec<Vec<f64>>| -> Vec<f64> { samples.iter().map(|s| s[at]).collect() };
        let base = of(samples.last().expect("there are allocators"));
        for ((name, _), samples) in samplers.iter().zip(&samples) {
            let values = of(samples);
            let (low, high) = bootstrap_median(&values);
            let ratios: Vec<f64> = values.iter().zip(&base).map(|(v, b)| v / b).collect();
            let (middle, ratio) = (median(&values), median(&ratios));
            println!("{what:<26} {kind:<5} {name:<24} {middle:>9.1} ({low:.1} to {high:.1})  x{ratio:.2}");
        }
    }
}

fn sampler<S: Huge + 'static>(pattern: Pattern, frames: u64, order: u8, threads: usize) -> Sampler {
    let mut handles = S::handles(frames, threads);
    (S::NAME, Box::new(move || pattern.run(&mut handles, frames, order).to_vec()))
}

fn time(frames: u64, rounds: usize) {
    for pattern in Pattern::ALL {
        for order in ORDERS {
            for threads in [1, 2] {
                let what = format!("{}, order {order}, {threads} thread", pattern.name());
                let kinds: &[&str] = if pattern == Pattern::Repeat { &["pair"] } else { &["get", "put"] };
                compare(&what, kinds, rounds, vec![
                    sampler::<PageblockCpu>(pattern, frames, order, threads),
                    sampler::<PageblockPackedCpu>(pattern, frames, order, threads),
                    sampler::<Llfree>(pattern, frames, order, threads),
                ]);
            }
        }
    }
}

fn refusals(frames: u64, rounds: usize) {
    fn of<S: Huge + 'static>(frames: u64, requests: u32) -> Sampler {
        let mut subject = S::new(frames);
        (S::NAME, Box::new(move || refuse(&mut subject, &ORDERS, requests)))
    }
    compare("refusal", &["0", "3", "9"], rounds, vec![
        of::<PageblockCpu>(frames, 10_000),
        of::<PageblockPackedCpu>(frames, 10_000),
        of::<Llfree>(frames, 100),
    ]);
}

fn fragmentation(frames: u64, seeds: usize) {
    fn of<S: Huge>(frames: u64, seeds: usize) {
        const ROUNDS: [u32; 4] = [8, 20, 50, 100];
        for seed in 1..=seeds as u64 {
            let (won, pair) = frag::<S>(frames, &ROUNDS, seed);
            let won = ROUNDS.iter().zip(won).map(|(round, won)| format!("{round}: {won}"));
            println!(
                "{:<24} seed {seed}: free blocks of 2 MiB after rounds {}; of {}; {pair:.1} ns a pair",
                S::NAME,
                won.collect::<Vec<_>>().join(", "),
                frames / 2 / 512
            );
        }
    }
    of::<PageblockCpu>(frames, seeds);
    of::<PageblockPackedCpu>(frames, seeds);
    of::<Llfree>(frames, seeds);
}

fn tables(frames: u64) {
    fn of<S: Huge>(frames: u64) {
        for threads in [1, 2, 8] {
            let bytes = S::tables(frames, threads);
            let each = bytes as f64 / frames as f64;
            println!("{:<24} {threads} CPUs: {bytes} bytes, {each:.3} a frame", S::NAME);
        }
    }
    of::<PageblockCpu>(frames);
    of::<PageblockPackedCpu>(frames);
    of::<Llfree>(frames);
}

/// Runs one pattern on a new allocator of 1 GiB, for callgrind; as many refusals, if it is none.
fn once(args: &[String]) -> Option<()> {
    let [allocator, pattern, order, runs] = args else { return None };
    let pattern = Pattern::ALL.into_iter().find(|p| p.name() == pattern);
    let (order, runs) = (order.parse().ok()?, runs.parse().ok()?);
    fn of<S: Huge + 'static>(pattern: Option<Pattern>, order: u8, runs: u32) {
        let mut handles = S::handles(GIB, 1);
        match pattern {
            Some(pattern) => (0..runs).for_each(|_| _ = pattern.run(&mut handles, GIB, order)),
            None => drop(refuse(&mut handles[0], &[order], runs)),
        }
    }
    match allocator.as_str() {
        PageblockCpu::NAME => of::<PageblockCpu>(pattern, order, runs),
        PageblockPackedCpu::NAME => of::<PageblockPackedCpu>(pattern, order, runs),
        Llfree::NAME => of::<Llfree>(pattern, order, runs),
        _ => return None,
    }
    Some(())
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    let number = |at: usize, other: u64| args.get(at).and_then(|n| n.parse().ok()).unwrap_or(other);
    match args.get(1).map(String::as_str) {
        Some("time") => time(number(2, 8) * GIB, number(3, 9) as usize),
        Some("refuse") => refusals(number(2, 64) * GIB, number(3, 9) as usize),
        Some("frag") => fragmentation(number(2, 8) * GIB, number(3, 3) as usize),
        Some("tables") => tables(number(2, 64) * GIB),
        Some("once") if once(&args[2..]).is_some() => {}
        _ => {
            eprintln!("time|refuse|frag|tables [GIB] [ROUNDS], or once ALLOCATOR PATTERN ORDER RUNS");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}
