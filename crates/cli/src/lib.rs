//! The program `pageblock`: parses arguments, calls the libraries, prints their results. A program of a user's own is
//! the same with policies of theirs ([`main_with`]; `pageblock policy new` makes one).
//!
//! Exit status: 0; 1 if a comparison fails; 2 for wrong usage or input; 130 after Ctrl-C. If the reader closes
//! the pipe early, the program exits with 0.
#![forbid(unsafe_code)]
// A closed standard error must not end the program: `output` ignores it.
#![deny(clippy::print_stderr, clippy::print_stdout)]

use std::io::ErrorKind;
use std::process::ExitCode;

use clap::Parser;
use clap::error::{ContextKind, ContextValue};
use pageblock_plan::error::line;

mod args;
mod bench;
#[cfg(feature = "full")]
mod bisect;
mod child;
mod compare;
#[cfg(feature = "full")]
mod demo;
mod doctor;
mod explain;
#[cfg(feature = "full")]
mod fleet;
mod flight;
mod forecast;
#[cfg(feature = "full")]
mod fragment;
#[cfg(feature = "full")]
mod guest;
mod interrupt;
mod machines;
mod manual;
mod metrics;
mod output;
mod overview;
mod plan;
#[cfg(feature = "full")]
mod plot;
mod policy;
mod progress;
mod record;
mod recording;
mod remedies;
mod repeat;
mod replay;
#[cfg(feature = "full")]
mod report;
mod run;
mod suggest;
#[cfg(feature = "full")]
mod sweep;
mod trace;
#[cfg(feature = "full")]
mod tune;
mod verify;
#[cfg(feature = "full")]
mod watch;

pub use pageblock_kernel::own::Own;

use args::{Args, Command};
use plan::{ReplayPlan, RunPlan, VerifyPlan};

/// The result of a command, which determines its exit status.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// Success, or nothing was judged.
    Yes,
    /// The comparison failed.
    No,
    /// Ctrl-C ended it; finished results are printed.
    Interrupted,
    /// A command that was run has this exit status.
    Status(u8),
}

/// Runs the program with these policies beside those that it has: `--policy linux-7.3,decide=NAME`.
#[must_use]
pub fn main_with(own: Vec<Own>) -> ExitCode {
    match pageblock_kernel::own::register(own) {
        Ok(()) => main(),
        Err(error) => {
            output::note(&format!("error: {}\n", line(&std::io::Error::other(error))));
            ExitCode::from(2)
        }
    }
}

/// Runs the program.
#[must_use]
pub fn main() -> ExitCode {
    if std::env::args_os().len() < 2 {
        // A closed pipe is not a failure of it.
        let _ = output::print(overview::TEXT);
        return ExitCode::SUCCESS;
    }
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => return usage(&error),
    };
    match interrupt::install().and_then(|()| run(args)) {
        Ok(Verdict::Yes) => ExitCode::SUCCESS,
        Ok(Verdict::No) => ExitCode::from(1),
        Ok(Verdict::Status(status)) => ExitCode::from(status),
        Ok(Verdict::Interrupted) => ExitCode::from(interrupt::INTERRUPTED),
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            output::note(&format!("error: {}\n", line(error.as_ref())));
            ExitCode::from(2)
        }
    }
}

fn run(args: Args) -> anyhow::Result<Verdict> {
    match args.command {
        Command::Policy(args) => policy::run(args),
        Command::Recording(command) => recording::run(&command),
        Command::Explain(args) => explain::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Flight(args) => flight::run(&args),
        Command::Forecast(args) => forecast::run(&args),
        #[cfg(feature = "full")]
        Command::Fragment(args) => fragment::run(&args),
        Command::Metrics(args) => metrics::run(&args),
        #[cfg(feature = "full")]
        Command::Watch(args) => watch::run(&args),
        Command::Record(args) => record::run(&args),
        Command::Run(args) => run::run(RunPlan::new(args)?),
        #[cfg(feature = "full")]
        Command::Guest(command) => guest::run(&command),
        Command::Repeat(args) => repeat::run(args),
        #[cfg(feature = "full")]
        Command::Bisect(args) => bisect::run(&args),
        #[cfg(feature = "full")]
        Command::Fleet(args) => fleet::run(&args),
        #[cfg(feature = "full")]
        Command::Sweep(args) => sweep::run(&args),
        #[cfg(feature = "full")]
        Command::Tune(args) => tune::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Verify(args) => verify::run(&VerifyPlan::new(args)?),
        Command::Replay(args) => replay::run(&ReplayPlan::new(args)?),
        #[cfg(feature = "full")]
        Command::Report(args) => report::run(&args),
        #[cfg(feature = "full")]
        Command::Plot(args) => plot::run(&args),
        #[cfg(feature = "full")]
        Command::Demo(args) => demo::run(&args),
        #[cfg(not(feature = "full"))]
        Command::Other(words) => anyhow::bail!(
            "there is no command '{}' in a build without default features; cargo build --release has all",
            words.first().map_or("", String::as_str)
        ),
        Command::Machine(command) => machines::run(&command),
        Command::Completions { shell } => manual::completions(shell),
        Command::Man { folder } => manual::man(&folder),
        Command::Bench(command) => bench::run(command),
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = |cause: &(dyn std::error::Error + 'static)| {
        cause.downcast_ref::<std::io::Error>().is_some_and(|e| e.kind() == ErrorKind::BrokenPipe)
    };
    error.chain().any(io)
}

/// Prints help if it was requested, else the error in one line.
fn usage(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        // A closed pipe is not a failure of a help text either.
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    let text = error.to_string();
    let first = text.split("\n\n").next().unwrap_or_default();
    // Without a subcommand clap prints its whole help as the error.
    let mut line = if first.starts_with("error: ") {
        first.split_whitespace().collect::<Vec<_>>().join(" ")
    } else {
        overview::missing(std::env::args_os().skip(1))
    };
    // The most similar one is the last.
    for similar in [ContextKind::SuggestedSubcommand, ContextKind::SuggestedArg] {
        let name = match error.get(similar) {
            Some(ContextValue::String(name)) => Some(name),
            Some(ContextValue::Strings(names)) => names.last(),
            _ => None,
        };
        if let Some(name) = name {
            line += &format!("; similar is {name}");
        }
    }
    output::note(&format!("{line} (see --help)\n"));
    ExitCode::from(2)
}
