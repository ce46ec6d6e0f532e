//! One run of the program, observed from outside: its time, its memory, and its outcome.

use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use pageblock_simulate::workload::Workload;
use pageblock_simulate::workload::mixed;
#[cfg(target_os = "linux")]
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::Value;

/// The longest message that is kept, in characters.
const MESSAGE_MAX: usize = 200;
/// The longest argument that a message is kept with.
const ARGUMENT_MAX: usize = 100;

/// What a run may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// CPU time, as elapsed time says little on a busy machine.
    pub(crate) time: Duration,
    /// Peak memory in MiB.
    pub(crate) mib: u64,
}

/// The outcome of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Ending {
    /// The workload was completed.
    Done,
    /// The run ended early and reported it: `livelock` or `out_of_memory`.
    Early(String),
    /// The policy was rejected with one line.
    Refused(String),
    /// Anything else is a defect.
    Failed(String),
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done => f.write_str("done"),
            Self::Early(why) => f.write_str(why),
            Self::Refused(line) => write!(f, "refused: {line}"),
            Self::Failed(what) => write!(f, "FAILED: {what}"),
        }
    }
}

/// A run and its resource usage.
#[derive(Clone, Debug)]
pub(crate) struct Ran {
    pub(crate) ending: Ending,
    /// Its CPU time.
    pub(crate) time: Duration,
    pub(crate) mib: u64,
}

/// Returns the arguments of a run, as a user types them.
pub(crate) fn arguments(workload: &str, policy: &str, scale: &str) -> Vec<String> {
    // The loads of recordings have a small machine.
    let small = mixed::Form::ALL.iter().any(|form| form.name() == workload);
    let scale = if small { "1/8" } else { scale };
    ["run", workload, "--policy", policy, "--scale", scale, "--jobs", "1", "--json"]
        .map(str::to_owned)
        .to_vec()
}

/// Runs the program; `scratch` is a prefix for the names of two output files.
pub(crate) fn run(
    program: &Path,
    arguments: &[String],
    scratch: &Path,
    limits: Limits,
) -> std::io::Result<Ran> {
    let path = |end: &str| PathBuf::from(format!("{}.{end}", scratch.display()));
    let (out, err) = (path("out"), path("err"));
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(File::create(&out)?)
        .stderr(File::create(&err)?)
        .spawn()?;
    bound(&child, limits)?;
    let (status, time, mib) = watch(&mut child, limits)?;
    let ending = match status {
        Ok(status) => {
            ending(status, arguments, &std::fs::read(&out)?, &std::fs::read_to_string(&err)?)
        }
        Err(exceeded) => Ending::Failed(exceeded),
    };
    std::fs::remove_file(out)?;
    std::fs::remove_file(err)?;
    Ok(Ran { ending, time, mib })
}

/// Lets the kernel end it soon after its limit of CPU time, also where nobody watches it any more.
#[cfg(target_os = "linux")]
pub(crate) fn bound(child: &Child, limits: Limits) -> std::io::Result<()> {
    let seconds = Some(limits.time.as_secs() + 2);
    let limit = Rlimit { current: seconds, maximum: seconds };
    match prlimit(Some(Pid::from_child(child)), Resource::Cpu, limit) {
        // It is over already.
        Ok(_) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn bound(_: &Child, _: Limits) -> std::io::Result<()> {
    Ok(())
}

/// Waits until it is done; one that exceeds a limit is killed. Also gives its CPU time and the peak of its memory.
#[expect(clippy::disallowed_methods, reason = "the other process works in real time")]
fn watch(
    child: &mut Child,
    limits: Limits,
) -> std::io::Result<(Result<ExitStatus, String>, Duration, u64)> {
    let (mut time, mut mib) = (Duration::ZERO, 0);
    loop {
        mib = peak_mib(child.id()).max(mib);
        time = cpu_time(child.id()).max(time);
        if let Some(status) = child.try_wait()? {
            return Ok((Ok(status), time, mib));
        }
        let exceeded = if time > limits.time {
            Some(format!("not done after {} s", limits.time.as_secs()))
        } else if mib > limits.mib {
            Some(format!("more than {} MiB", limits.mib))
        } else {
            None
        };
        if let Some(exceeded) = exceeded {
            child.kill()?;
            child.wait()?;
            return Ok((Err(exceeded), time, mib));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Returns the user plus system CPU time of a process according to Linux; zero if unknown.
fn cpu_time(id: u32) -> Duration {
    const USER_HZ: u64 = 100;
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    // The name before these fields may contain blanks and brackets.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields).split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 1000 / USER_HZ)
}

/// Returns the peak memory of a process according to Linux; 0 if unknown.
fn peak_mib(id: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) / 1024
}

/// A message in one short line: without the long arguments that it repeats.
fn short(message: &str, arguments: &[String]) -> String {
    let long = arguments.iter().filter(|argument| argument.len() > ARGUMENT_MAX);
    let line = long.fold(message.to_owned(), |line, argument| line.replace(argument, "..."));
    match line.char_indices().nth(MESSAGE_MAX) {
        Some((at, _)) => format!("{}...", &line[..at]),
        None => line,
    }
}

fn ending(status: ExitStatus, arguments: &[String], out: &[u8], err: &str) -> Ending {
    let last = short(err.lines().last().unwrap_or_default(), arguments);
    match status.code() {
        Some(0) => match serde_json::from_slice::<Value>(out) {
            Ok(runs) => match runs[0]["ended"]["why"].as_str() {
                Some(why) => Ending::Early(why.to_owned()),
                None if runs[0]["event_hash"].is_string() => Ending::Done,
                None => Ending::Failed("no run in its JSON".to_owned()),
            },
            Err(error) => Ending::Failed(format!("its JSON: {error}")),
        },
        Some(2) if err.lines().count() == 1 && err.contains("allowed:") => Ending::Refused(last),
        _ => Ending::Failed(format!("{status}: {last}")),
    }
}
