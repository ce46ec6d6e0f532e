//! What loads do in the guest, each as its simulated counterpart does it.

mod apppressure;
mod costs;
mod hugealloc;
mod mixed;
mod parallelio;
mod thpfioscale;

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rand_pcg::Pcg64;
use rand_pcg::rand_core::{Rng, SeedableRng};

use crate::job::{FILE, Job, Load};
use crate::message::{Measured, Message};

/// The arguments with which the guest's first process starts the load.
pub(crate) const LOAD: [&str; 1] = ["load"];

/// The file that the first process makes once it has read the counts, and how long that may take.
pub(crate) const COUNTED: &str = "/counted";
const COUNTS: Duration = Duration::from_secs(60);

/// Runs the load, or one of its processes, as the arguments say.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if words == LOAD {
        let job = fs::read(FILE).map_err(|error| format!("{FILE}: {error}"))?;
        let job: Job = serde_json::from_slice(&job).map_err(|error| format!("{FILE}: {error}"))?;
        let measured = match &job.load {
            Load::Boot => Measured::default(),
            Load::Costs => {
                Measured { samples: costs_in(Path::new("/data"), true)?, ..Measured::default() }
            }
            Load::Thpfioscale(sizes) => thpfioscale::run(sizes, job.seed)?,
            Load::Hugealloc(sizes) => hugealloc::run(sizes, job.seed)?,
            Load::Parallelio(sizes) => parallelio::run(sizes, job.seed)?,
            Load::Apppressure { rounds, amounts } => apppressure::run(*rounds, amounts, job.seed)?,
            Load::Mixed(sizes) => mixed::run(sizes, job.seed)?,
        };
        return tell(&Message::Measured(measured));
    }
    match words.split_first() {
        Some((&"costs", &[folder])) => {
            let costs = costs_in(Path::new(folder), false)?;
            tell(&Message::Measured(Measured { samples: costs, ..Measured::default() }))
        }
        Some((&"fio-writer", rest)) => thpfioscale::writer(&numbers(rest)?),
        Some((&"fio-reader", rest)) => thpfioscale::reader(&numbers(rest)?),
        Some((&"compile", rest)) => hugealloc::compile(&numbers(rest)?),
        Some((&"memory-cache", rest)) => hugealloc::memory_cache(&numbers(rest)?),
        Some((&"toucher", rest)) => mixed::toucher(&numbers(rest)?),
        Some((&"app", rest)) => apppressure::app(rest),
        Some((&"nothing", _)) => Ok(()),
        _ => Err("this program is for guests that pageblock starts: pageblock guest run --help"
            .to_owned()),
    }
}

fn costs_in(folder: &Path, kernel_too: bool) -> Result<BTreeMap<String, Vec<u64>>, String> {
    costs::measure(folder, kernel_too)
        .map_err(|error| format!("costs in {}: {error}", folder.display()))
}

/// Writes the same bytes some times.
fn fill(to: &mut impl Write, bytes: &[u8], times: u64) -> io::Result<()> {
    (0..times).try_for_each(|_| to.write_all(bytes))
}

fn numbers(words: &[&str]) -> Result<Vec<u64>, String> {
    words.iter().map(|word| word.parse().map_err(|_| format!("'{word}' is no number"))).collect()
}

/// Reports to the first process.
fn tell(message: &Message) -> Result<(), String> {
    let line = serde_json::to_string(message).map_err(|error| error.to_string())?;
    let mut out = io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).map_err(|error| format!("a report: {error}"))
}

/// Reports that a phase begins, with how much of the load lies before it.
fn begin(name: &str, before: f64) -> Result<(), String> {
    tell(&Message::Phase { name: name.to_owned(), before })
}

/// Reports that what is measured begins now, and waits until the kernel's counts are read.
fn prepared() -> Result<(), String> {
    tell(&Message::Prepared)?;
    let begun = Instant::now();
    while !Path::new(COUNTED).exists() {
        if begun.elapsed() > COUNTS {
            return Err(format!("no counts after {} s", COUNTS.as_secs()));
        }
        rest(Duration::from_millis(20));
    }
    Ok(())
}

/// Starts this program as another process of the load.
fn start(name: &str, numbers: &[u64]) -> Result<Child, String> {
    Command::new("/proc/self/exe")
        .arg(name)
        .args(numbers.iter().map(u64::to_string))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .map_err(|error| format!("{name}: {error}"))
}

/// Waits.
#[expect(clippy::disallowed_methods, reason = "a load runs in the guest's time")]
pub(crate) fn rest(time: Duration) {
    std::thread::sleep(time);
}

/// Waits for a process of the load.
fn finish(name: &str, mut child: Child) -> Result<(), String> {
    match child.wait() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{name} ended with {status}")),
        Err(error) => Err(format!("{name}: {error}")),
    }
}

/// Numbers that a seed and a purpose determine.
struct Random(Pcg64);

impl Random {
    fn new(seed: u64, purpose: u64) -> Self {
        Self(Pcg64::seed_from_u64(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ purpose))
    }

    fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns a number of a range, both ends included.
    fn between(&mut self, (least, most): (u64, u64)) -> u64 {
        least + self.below(most - least + 1)
    }

    /// Returns a number below `n`.
    fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * u128::from(n)) >> 64) as u64
    }
}
