//! The guest's first process.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::system::{RebootCommand, reboot, uname};

use super::report::{Port, complain};
use super::{devices, fallbacks, fragmented, state};
use crate::job::{FILE, Job};
use crate::load;
use crate::message::Message;
use crate::program;

/// How often the guest says that it lives.
const ALIVE_EVERY: Duration = Duration::from_secs(5);
/// How long the kernel gets to calm down after its boot.
const CALM: Duration = Duration::from_secs(2);
/// The descriptors that a load may open.
const OPEN_FILES: u64 = 1 << 20;

/// Runs the guest's job and ends the guest.
pub(super) fn run() -> ! {
    if let Err(why) = prepare_and_run() {
        complain(&why);
    }
    rustix::fs::sync();
    if let Err(error) = reboot(RebootCommand::PowerOff) {
        complain(&format!("power off: {error}"));
    }
    // The kernel panics when its first process ends, and QEMU ends then.
    std::process::exit(1)
}

fn prepare_and_run() -> Result<(), String> {
    devices::mount_kernel()?;
    let port = Port::open().map_err(|error| format!("/dev/ttyS1: {error}"))?;
    let release = uname().release().to_string_lossy().into_owned();
    port.send(&Message::Booted { release });
    let done = run_job(&port);
    if let Err(why) = &done {
        port.send(&Message::Failed { why: why.clone() });
    }
    port.drain();
    done
}

fn run_job(port: &Port) -> Result<(), String> {
    let job = fs::read(FILE).map_err(|error| format!("{FILE}: {error}"))?;
    let job: Job = serde_json::from_slice(&job).map_err(|error| format!("{FILE}: {error}"))?;
    devices::load_modules(&job)?;
    devices::mount_disks(&job.disks)?;
    devices::set(&job.settings)?;
    let limit = Some(OPEN_FILES);
    setrlimit(Resource::Nofile, Rlimit { current: limit, maximum: limit })
        .map_err(|error| format!("open files: {error}"))?;
    keep_alive(port.clone());
    calm_down();
    let _held = job.fragment.map(|goal| fragmented::hold(&goal, job.seed)).transpose()?;
    fallbacks::count()?;
    port.send(&Message::Start { files: state::files(), fallbacks: String::new() });
    let ended = load(port, job.record)?;
    let (files, fallbacks) = (state::files(), fallbacks::text());
    if let Some(why) = ended {
        port.send(&Message::Ended { why });
    }
    port.send(&Message::End { files, fallbacks });
    Ok(())
}

/// Writes back what the boot left, and waits until the kernel's own work is done.
#[expect(clippy::disallowed_methods, reason = "the guest's kernel works in real time")]
fn calm_down() {
    rustix::fs::sync();
    // A kernel that cannot drop its caches starts with a few pages more.
    let _ = fs::write("/proc/sys/vm/drop_caches", "3");
    std::thread::sleep(CALM);
}

/// Says now and then that the guest lives.
#[expect(clippy::disallowed_methods, reason = "the host waits in real time")]
fn keep_alive(port: Port) {
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(ALIVE_EVERY);
            let uptime = fs::read_to_string("/proc/uptime").unwrap_or_default();
            let seconds =
                uptime.split('.').next().and_then(|seconds| seconds.parse().ok()).unwrap_or(0);
            port.send(&Message::Alive { seconds });
        }
    });
}

/// Runs the load as a process of its own, so that the kernel can end it when memory is out, and passes on what it reports.
/// Returns how it ended, if not by itself.
fn load(port: &Port, record: bool) -> Result<Option<String>, String> {
    let program = format!("/{}", program::NAME);
    let mut command = Command::new(if record { "/pageblock" } else { &program });
    if record {
        command.args(["record", "--out", "/recording/recording.pbrec", "--", &program]);
    }
    command.args(load::LOAD).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("{program}: {error}"))?;
    let output = child.stdout.take().ok_or("the load has no output")?;
    for line in BufReader::new(output).lines() {
        let line = line.map_err(|error| format!("the load's output: {error}"))?;
        if matches!(serde_json::from_str(&line), Ok(Message::Prepared)) {
            port.send(&Message::Start { files: state::files(), fallbacks: fallbacks::text() });
            fs::write(load::COUNTED, "").map_err(|error| format!("{}: {error}", load::COUNTED))?;
        }
        port.send_line(line.as_bytes());
    }
    let status = child.wait().map_err(|error| format!("the load: {error}"))?;
    match (status.signal(), status.code()) {
        (None, Some(0)) => Ok(None),
        (Some(9), _) | (_, Some(137)) => Ok(Some("the load was killed: out of memory".to_owned())),
        _ => Err(format!("the load ended with {status}")),
    }
}
