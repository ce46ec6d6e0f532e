//! Runs the kernel's own make.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use super::{CONFIG, Step, Work};
use crate::error::Error;

/// About the steps of a build of 6.12 with the small configuration.
const STEPS: u64 = 1400;
/// How often a build is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// The words that a compiler, a linker or make itself says before the reason.
const REASONS: [&str; 4] = ["error:", "Error ", "not found", "***"];

/// Builds the kernel of the folder's tree, and returns the image. `name` ends its release, `key` is part of its version.
pub(super) fn kernel(work: &Work<'_>, name: &str, key: &str) -> Result<PathBuf, Error> {
    let config = work.folder.join("guest.config");
    fs::write(&config, CONFIG).map_err(Error::at(&config))?;
    let objects = work.folder.join("objects");
    fs::create_dir_all(&objects).map_err(Error::at(&objects))?;
    let counted = work.folder.join("steps");
    let before: Option<u64> =
        fs::read_to_string(&counted).ok().and_then(|text| text.trim().parse().ok());
    let shown = if name.is_empty() {
        "the kernel as it is".to_owned()
    } else {
        format!("the kernel with {name}")
    };
    if before.is_none() {
        work.say(Step::Note("the first build takes about a quarter of an hour on two CPUs; later ones use its objects"))?;
    }
    work.say(Step::Begin(&format!("building {shown}"), if before.is_none() { STEPS } else { 0 }))?;
    run(
        work,
        &[format!("KCONFIG_ALLCONFIG={}", config.display()), "allnoconfig".to_owned()],
        "configured",
    )?;
    let suffix = if name.is_empty() { String::new() } else { format!("-{name}") };
    let steps = run(
        work,
        &[
            format!("-j{}", work.jobs),
            format!("LOCALVERSION={suffix}"),
            // Two builds of the same differ in nothing; two patches of a name in this.
            format!("KBUILD_BUILD_HOST={key}"),
            "KBUILD_BUILD_USER=pageblock".to_owned(),
            "KBUILD_BUILD_VERSION=1".to_owned(),
            "KBUILD_BUILD_TIMESTAMP=Thu Jan  1 00:00:00 UTC 2026".to_owned(),
            "bzImage".to_owned(),
        ],
        "built",
    )?;
    if before.is_none() {
        fs::write(&counted, steps.to_string()).map_err(Error::at(&counted))?;
    }
    Ok(objects.join("arch/x86/boot/bzImage"))
}

/// A make, which is ended with all that it started when it is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            let group = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw);
            // It may have ended by itself.
            let _ = group.map(|group| kill_process_group(group, Signal::TERM));
            let _ = self.0.wait();
        }
    }
}

/// Runs make with arguments, and returns the number of lines that it printed: one a step.
fn run(work: &Work<'_>, arguments: &[String], done: &str) -> Result<u64, Error> {
    let [log, errors] = ["log", "errors"].map(|name| work.folder.join(name));
    let mut file = File::create(&log).map_err(Error::at(&log))?;
    let beside = File::create(&errors).map_err(Error::at(&errors))?;
    let mut command = Command::new("make");
    command
        .arg("-C")
        .arg(work.folder.join("tree"))
        .arg(format!("O={}", work.folder.join("objects").display()));
    command.args(["ARCH=x86", "--no-print-directory"]).args(arguments);
    // What the caller's own make or build says does not count here.
    for name in ["MAKEFLAGS", "MFLAGS", "KBUILD_OUTPUT", "LOCALVERSION", "CROSS_COMPILE"] {
        command.env_remove(name);
    }
    command
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(beside)
        .process_group(0);
    let spawned = command.spawn().map_err(|error| {
        Error::Program(format!(
            "make: {error}; a build needs make, gcc, flex, bison, bc, libelf-dev and patch"
        ))
    })?;
    let mut make = Running(spawned);
    let steps = AtomicU64::new(0);
    let output = make.0.stdout.take();
    let status = std::thread::scope(|scope| {
        scope.spawn(|| {
            for line in output
                .into_iter()
                .flat_map(|pipe| BufReader::new(pipe).lines().map_while(Result::ok))
            {
                steps.fetch_add(1, Relaxed);
                // The log is for whoever looks for what came before.
                let _ = writeln!(file, "{line}");
            }
        });
        let status = wait(work, &mut make, &steps);
        // The reader ends when nobody writes any more.
        drop(make);
        status
    })?;
    if status.success() {
        return Ok(steps.into_inner());
    }
    let text = fs::read(&errors).map_err(Error::at(&errors))?;
    let text = String::from_utf8_lossy(&text);
    let reason = text.lines().find(|line| REASONS.iter().any(|word| line.contains(word)));
    Err(Error::Build {
        done: done.to_owned(),
        why: reason.unwrap_or("make failed").trim().to_owned(),
        errors,
    })
}

#[expect(clippy::disallowed_methods, reason = "a build runs in real time")]
fn wait(
    work: &Work<'_>,
    make: &mut Running,
    steps: &AtomicU64,
) -> Result<std::process::ExitStatus, Error> {
    loop {
        let ended = make.0.try_wait().map_err(|error| Error::Program(format!("make: {error}")))?;
        work.say(Step::Done(steps.load(Relaxed)))?;
        if let Some(status) = ended {
            return Ok(status);
        }
        std::thread::sleep(LOOK_EVERY);
    }
}
