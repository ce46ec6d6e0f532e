//! Runs all workloads under random valid policies, and looks for runs that do not end, panic, lose a page, or
//! use too much memory.
//!
//! ```text
//! cargo build --release -p pageblock-cli
//! cargo run --release -p pageblock-cli --example sweep -- --log sweep.tsv
//! ```
//!
//! Each run is a process of its own, killed when it exceeds a limit; on Linux that of CPU time outlives the sweep.
//! A line of the log stands for each run that is over, and a second call goes on from there. A failure is
//! printed with the command that shows it. Exits with 1 where there was one.

mod policies;
mod runs;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Parser;
use pageblock_simulate::workload;
use runs::{Ending, Limits, Ran};

#[derive(Parser)]
#[command(about = "Run all workloads under random policies")]
struct Args {
    /// Number of random policies
    #[arg(long, default_value_t = 2000)]
    policies: u64,
    /// Seed of the random policies
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Run only these workloads
    #[arg(long = "workload")]
    workloads: Vec<String>,
    /// Shrink machines and workloads
    #[arg(long, default_value = "1/64")]
    scale: String,
    /// CPU seconds that a run may use
    #[arg(long, default_value_t = 120)]
    limit: u64,
    /// MiB that a run may use
    #[arg(long, default_value_t = 512)]
    mib: u64,
    /// Concurrent runs
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// The program; by default the one in the folder above this example
    #[arg(long)]
    program: Option<PathBuf>,
    /// Log file with a line for each completed run; completed runs are skipped
    #[arg(long, default_value = "sweep.tsv")]
    log: PathBuf,
}

/// A run to be made.
struct Job<'w> {
    number: u64,
    workload: &'w str,
    policy: String,
}

/// A line of the log.
struct Line {
    number: u64,
    workload: String,
    millis: u64,
    mib: u64,
    ending: String,
    policy: String,
}

impl Line {
    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.split('\t');
        Some(Self {
            number: fields.next()?.parse().ok()?,
            workload: fields.next()?.to_owned(),
            millis: fields.next()?.parse().ok()?,
            mib: fields.next()?.parse().ok()?,
            ending: fields.next()?.to_owned(),
            policy: fields.next()?.to_owned(),
        })
    }

    fn of(job: &Job<'_>, ran: &Ran) -> Self {
        Self {
            number: job.number,
            workload: job.workload.to_owned(),
            millis: u64::try_from(ran.time.as_millis()).unwrap_or(u64::MAX),
            mib: ran.mib,
            ending: ran.ending.to_string().replace(['\t', '\n'], " "),
            policy: job.policy.clone(),
        }
    }

    fn print(&self) -> String {
        let Self { number, workload, millis, mib, ending, policy } = self;
        format!("{number}\t{workload}\t{millis}\t{mib}\t{ending}\t{policy}")
    }
}

fn main() -> anyhow::Result<ExitCode> {
    let args = Args::parse();
    let program = match &args.program {
        Some(program) => program.clone(),
        None => beside()?,
    };
    let old = read(&args.log)?;
    let over: BTreeSet<(u64, &str)> = old.iter().map(|l| (l.number, l.workload.as_str())).collect();
    let known: Vec<&str> = workload::ALL.iter().map(|w| w.name()).collect();
    if let Some(unknown) = args.workloads.iter().find(|w| !known.contains(&w.as_str())) {
        bail!("there is no workload '{unknown}'; there are {}", known.join(", "));
    }
    let wanted = |w: &&str| args.workloads.is_empty() || args.workloads.iter().any(|a| a == w);
    let jobs: Vec<Job<'_>> = (0..args.policies)
        .flat_map(|number| {
            let policy = policies::policy(args.seed, number);
            let of = move |workload| Job { number, workload, policy: policy.clone() };
            known.iter().copied().filter(wanted).map(of)
        })
        .filter(|job| !over.contains(&(job.number, job.workload)))
        .collect();
    println!("{} runs to do, {} done", jobs.len(), old.len());
    let lines = sweep(&args, &program, &jobs)?;
    let all: Vec<Line> = old.into_iter().chain(lines).collect();
    Ok(summarize(&args, &all))
}

/// Returns the program that was built with this example.
fn beside() -> anyhow::Result<PathBuf> {
    let exe = std::env::current_exe()?;
    let folder = exe.parent().and_then(Path::parent).context("the example has no folder")?;
    let program = folder.join("pageblock");
    if !program.exists() {
        bail!("{} does not exist: build it, or name one with --program", program.display());
    }
    Ok(program)
}

fn read(log: &Path) -> anyhow::Result<Vec<Line>> {
    if !log.exists() {
        return Ok(Vec::new());
    }
    let text = std::fs::read_to_string(log).with_context(|| log.display().to_string())?;
    let line = |(at, line)| {
        Line::parse(line)
            .with_context(|| format!("{}: line {} is not a line of a sweep", log.display(), at + 1))
    };
    text.lines().enumerate().map(line).collect()
}

fn sweep(args: &Args, program: &Path, jobs: &[Job<'_>]) -> anyhow::Result<Vec<Line>> {
    let limits = Limits { time: Duration::from_secs(args.limit), mib: args.mib };
    let mut log = OpenOptions::new().create(true).append(true).open(&args.log)?;
    let next = AtomicUsize::new(0);
    let done: Mutex<(Vec<Line>, &mut File)> = Mutex::new((Vec::new(), &mut log));
    let worker = |worker: usize| -> anyhow::Result<()> {
        let scratch = args.log.with_extension(format!("{worker}"));
        while let Some(job) = jobs.get(next.fetch_add(1, Relaxed)) {
            let arguments = runs::arguments(job.workload, &job.policy, &args.scale);
            let ran = runs::run(program, &arguments, &scratch, limits)?;
            let line = Line::of(job, &ran);
            let Ok(mut done) = done.lock() else { bail!("another worker panicked") };
            writeln!(done.1, "{}", line.print())?;
            done.0.push(line);
            progress(&done.0, jobs.len(), job, &ran, &arguments);
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..args.jobs).map(|at| scope.spawn(move || worker(at))).collect();
        workers.into_iter().try_for_each(|worker| match worker.join() {
            Ok(result) => result,
            Err(_) => bail!("a worker panicked"),
        })
    })?;
    let Ok((lines, _)) = done.into_inner() else { bail!("a worker panicked") };
    Ok(lines)
}

fn progress(lines: &[Line], all: usize, job: &Job<'_>, ran: &Ran, arguments: &[String]) {
    if let Ending::Failed(what) = &ran.ending {
        println!("{what}:\n  pageblock {}", arguments.join(" "));
    }
    if lines.len().is_multiple_of(100) {
        println!("{} of {all} runs, at policy {}", lines.len(), job.number);
    }
}

fn summarize(args: &Args, lines: &[Line]) -> ExitCode {
    let mut endings: BTreeMap<&str, u64> = BTreeMap::new();
    for line in lines {
        *endings.entry(line.ending.split(':').next().unwrap_or_default()).or_default() += 1;
    }
    let policies: BTreeSet<u64> = lines.iter().map(|line| line.number).collect();
    println!("{} runs under {} policies at {}:", lines.len(), policies.len(), args.scale);
    for (ending, count) in &endings {
        println!("  {count:6} {ending}");
    }
    let command = |line: &Line| {
        format!(
            "pageblock {}",
            runs::arguments(&line.workload, &line.policy, &args.scale).join(" ")
        )
    };
    let show = |title: &str, line: Option<&Line>| {
        if let Some(line) = line {
            println!(
                "{title}: {:.1} s, {} MiB, {}",
                line.millis as f64 / 1000.0,
                line.mib,
                line.ending
            );
            println!("  {}", command(line));
        }
    };
    show("The slowest", lines.iter().max_by_key(|line| line.millis));
    show("The largest", lines.iter().max_by_key(|line| line.mib));
    let failed = lines.iter().filter(|line| line.ending.starts_with("FAILED"));
    failed.clone().for_each(|line| show("Failed", Some(line)));
    if failed.count() > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
