//! Random calls of a shared allocator, mistakes included, beside a shadow model: the driver of the fuzz target `calls`
//! without libFuzzer.
//!
//! `cargo run --release -p pageblock --example random_calls -- --calls 100000000 --seed 1 --placement packed`
//!
//! The same seed makes the same calls. Every line that it prints is true if it is ended there.

#[path = "../tests/it/driver.rs"]
mod driver;
#[path = "../tests/it/hostile.rs"]
mod hostile;

use std::process::ExitCode;
use std::time::{Duration, Instant};

const USAGE: &str = "random_calls [--calls N] [--seed S] [--placement packed|linux|both]";

/// Bytes of an allocator's history: a power of two between these, 270 to 17 000 calls.
const BYTES: [u64; 2] = [10, 16];

struct Plan {
    calls: u64,
    seed: u64,
    /// The byte by which the driver chooses the placement; any without one.
    placement: Option<u8>,
}

fn plan(mut args: impl Iterator<Item = String>) -> Result<Plan, String> {
    let mut plan = Plan { calls: 1_000_000, seed: 1, placement: None };
    while let Some(option) = args.next() {
        let value = args.next().ok_or_else(|| format!("{option}: a value is missing; {USAGE}"))?;
        let number = || value.parse().map_err(|_| format!("{option} {value}: not a number"));
        match option.as_str() {
            "--calls" => plan.calls = number()?,
            "--seed" => plan.seed = number()?,
            "--placement" => {
                plan.placement = match value.as_str() {
                    "linux" => Some(0),
                    "packed" => Some(1),
                    "both" => None,
                    _ => return Err(format!("--placement {value}: packed, linux or both")),
                }
            }
            _ => return Err(format!("{option}: unknown; {USAGE}")),
        }
    }
    Ok(plan)
}

/// The next number of splitmix64.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut x = *state;
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

fn main() -> ExitCode {
    let Plan { calls, seed, placement } = match plan(std::env::args().skip(1)) {
        Ok(plan) => plan,
        Err(line) => {
            eprintln!("{line}");
            return ExitCode::from(2);
        }
    };
    let mut state = seed;
    let mut data = Vec::new();
    let (mut done, mut histories) = (0, 0u64);
    let start = Instant::now();
    let mut told = start;
    while done < calls {
        data.resize(1 << (BYTES[0] + next(&mut state) % (BYTES[1] - BYTES[0] + 1)), 0);
        for eight in data.chunks_exact_mut(8) {
            eight.copy_from_slice(&next(&mut state).to_le_bytes());
        }
        if let Some(placement) = placement {
            data[1] = placement;
        }
        done += driver::drive(&data);
        histories += 1;
        if done >= calls || told.elapsed() > Duration::from_secs(60) {
            told = Instant::now();
            let rate = done as f64 / start.elapsed().as_secs_f64();
            println!(
                "seed {seed}: {done} calls in {histories} histories, {rate:.0} a second, no violation"
            );
        }
    }
    ExitCode::SUCCESS
}
