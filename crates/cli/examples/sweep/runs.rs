//! One run of the program, observed from outside: its time, its memory, and its outcome.

use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use serde_json::Value;

/// The limits of a run.
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
    let (status, time, mib) = watch(&mut child, limits)?;
    let ending = match status {
        Ok(status) => ending(status, &std::fs::read(&out)?, &std::fs::read_to_string(&err)?),
        Err(exceeded) => Ending::Failed(exceeded),
    };
    std::fs::remove_file(out)?;
    std::fs::remove_file(err)?;
    Ok(Ran { ending, time, mib })
}

/// Waits for the process, and kills it if it exceeds a limit. Also returns its CPU time and peak memory.
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

fn ending(status: ExitStatus, out: &[u8], err: &str) -> Ending {
    let last = err.lines().last().unwrap_or_default();
    match status.code() {
        Some(0) => match serde_json::from_slice::<Value>(out) {
            Ok(runs) => match runs[0]["ended"]["why"].as_str() {
                Some(why) => Ending::Early(why.to_owned()),
                None if runs[0]["event_hash"].is_string() => Ending::Done,
                None => Ending::Failed("no run in its JSON".to_owned()),
            },
            Err(error) => Ending::Failed(format!("its JSON: {error}")),
        },
        Some(2) if err.lines().count() == 1 && err.contains("allowed:") => {
            Ending::Refused(last.to_owned())
        }
        _ => Ending::Failed(format!("{status}: {last}")),
    }
}
