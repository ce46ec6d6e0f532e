//! A run of a sweep in a process of its own, with limits: what needs too much, hangs or panics takes no other run with it.

use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use anyhow::Context;
use pageblock_plan::error::{Error, Result};
use pageblock_plan::own::Loads;
use pageblock_plan::sweep::Cell;
use pageblock_plan::watch::Watch;
use rustix::process::{Resource, Rlimit, setrlimit};

use crate::Verdict;
use crate::args::sweep::SweepArgs;
use crate::output;

/// The signal by which the allocator of a process ends it, and that of its limit of CPU time.
const SIGABRT: i32 = 6;
const SIGXCPU: i32 = 24;
/// Seconds from the signal to the end of a process that ignores it. A limit that kills at once would look as the kernel's OOM
/// killer does.
const GRACE: u64 = 2;

/// What a run may use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// CPU time in seconds, as elapsed time says little on a busy machine.
    cpu: Option<u32>,
    /// Memory in MiB.
    memory: Option<u32>,
}

impl Limits {
    /// Returns those of a command line, if it has any.
    pub(super) fn of(args: &SweepArgs) -> Option<Self> {
        let [cpu, memory] = [args.limit_cpu, args.limit_memory].map(|limit| limit.map(u32::from));
        (cpu.is_some() || memory.is_some()).then_some(Self { cpu, memory })
    }

    /// Returns the words of a command line that mean these.
    fn words(self) -> impl Iterator<Item = String> {
        let cpu = self.cpu.map(|cpu| format!("--limit-cpu={cpu}"));
        let memory = self.memory.map(|memory| format!("--limit-memory={memory}"));
        cpu.into_iter().chain(memory)
    }

    /// Lets the kernel hold this process to them, also where nobody watches it any more.
    fn impose(self) -> rustix::io::Result<()> {
        let limit = |resource, soft: u64, hard: u64| {
            setrlimit(resource, Rlimit { current: Some(soft), maximum: Some(hard) })
        };
        if let Some(cpu) = self.cpu.map(u64::from) {
            limit(Resource::Cpu, cpu, cpu + GRACE)?;
        }
        if let Some(bytes) = self.memory.map(|mib| u64::from(mib) << 20) {
            limit(Resource::Data, bytes, bytes)?;
        }
        Ok(())
    }
}

/// Does the run that standard input has as JSON, and prints its row: what the processes of a sweep do.
pub(super) fn one(args: &SweepArgs, loads: &Loads, watch: &dyn Watch) -> anyhow::Result<Verdict> {
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    Limits::of(args).map_or(Ok(()), Limits::impose)?;
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    let cell: Cell = serde_json::from_str(&text).context("standard input: a cell of a sweep")?;
    output::print(&format!("{}\n", cell.run(loads, watch)?))?;
    Ok(Verdict::Yes)
}

/// Runs a cell of the grid in a file; returns its row.
pub(super) fn run(cell: &Cell, file: &Path, limits: Limits) -> Result<String> {
    let failed = |error: std::io::Error| Error::Asked(format!("a process for a run: {error}"));
    let text = serde_json::to_string(cell).map_err(|error| failed(error.into()))?;
    let mut child = Command::new(std::env::current_exe().map_err(failed)?)
        .args(["sweep", "--cell"])
        .args(limits.words())
        .arg(file)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    if let Some(mut input) = child.stdin.take() {
        // One that ended before it read says why itself.
        let _ = input.write_all(text.as_bytes());
    }
    let output = child.wait_with_output().map_err(failed)?;
    let said = String::from_utf8_lossy(&output.stderr);
    match String::from_utf8(output.stdout) {
        Ok(row) if output.status.success() => Ok(row.trim_end().to_owned()),
        _ => Err(Error::Asked(why(output.status, limits, &said))),
    }
}

/// Says why a process failed that wrote this to standard error.
fn why(status: ExitStatus, limits: Limits, said: &str) -> String {
    match (status.signal(), limits) {
        (Some(SIGXCPU), Limits { cpu: Some(cpu), .. }) => {
            format!("not done after {cpu} s of CPU time")
        }
        (Some(SIGABRT), Limits { memory: Some(mib), .. }) if said.contains("memory allocation") => {
            format!("more than {mib} MiB")
        }
        // A panic has its place on one line, and its message on the next.
        _ => match said.split_once("panicked at ") {
            Some((_, panic)) => panic.lines().take(2).collect::<Vec<_>>().join(" "),
            None => format!("{status}: {}", said.lines().last().unwrap_or_default()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel's OOM killer ends a run too: that is no limit of the run's.
    #[test]
    fn only_its_own_signal_says_that_a_run_took_too_long() {
        let limits = Limits { cpu: Some(7), memory: Some(5) };
        let said = |signal, text| why(ExitStatus::from_raw(signal), limits, text);
        assert_eq!(said(SIGXCPU, ""), "not done after 7 s of CPU time");
        assert!(said(9, "").starts_with("signal: 9"), "{}", said(9, ""));
        assert_eq!(said(SIGABRT, "memory allocation of 9 bytes failed"), "more than 5 MiB");
        let panic = "\nthread 'main' (3) panicked at a.rs:1:2:\nindex out of bounds\nnote: run";
        assert_eq!(said(SIGABRT, panic), "a.rs:1:2: index out of bounds");
    }
}
