//! The flight recorder: samples into a ring, and the hour around a failure into a file of its own.

use std::path::{Path, PathBuf};

use super::frame::{Event, EventKind, FileText, Frame};
use super::kmsg::{Kmsg, Watcher};
use super::pace::Pace;
use super::ring::Ring;
use super::sampler::Sampler;
use super::stall::Stalls;
use crate::error::Error;

/// The time that is kept before and after a failure: together the hour around it.
const AROUND_MS: u64 = 30 * 60_000;
/// The interval, in milliseconds, at which written data is synced to the disk.
const SYNC_MS: u64 = 10_000;
/// The extension of kept files.
const KEPT: &str = "flight";

/// The options of a recorder.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The root of the machine's files: `/`.
    pub root: PathBuf,
    /// The ring file.
    pub ring: PathBuf,
    /// The size of a new ring.
    pub bytes: Option<u64>,
    /// The number of failure files to keep beside the ring; 0 keeps none.
    pub keep: usize,
}

/// The clocks at a sample.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// Milliseconds since 1970.
    pub wall_ms: u64,
    /// Milliseconds of a clock that never goes back.
    pub mono_ms: u64,
    /// The CPU seconds that this process used so far.
    pub cpu_s: f64,
}

/// The totals of a recording.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Recorded {
    /// The samples.
    pub samples: u64,
    /// The samples that were skipped, because the machine's files are too large for the limits.
    pub skipped: u64,
    /// The bytes that were written.
    pub bytes: u64,
    /// The files that were kept.
    pub kept: Vec<PathBuf>,
}

/// The result of a sample.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Seen {
    /// Failures and stalls.
    pub events: Vec<Event>,
    /// A kept file that was started or completed.
    pub kept: Option<PathBuf>,
}

/// A file that is being kept: its times and its name.
struct Keeping {
    since_ms: u64,
    until_mono_ms: u64,
    path: PathBuf,
}

/// A flight recorder.
pub struct Recorder {
    plan: Plan,
    ring: Ring,
    sampler: Sampler,
    kmsg: Result<Kmsg, String>,
    watcher: Watcher,
    stalls: Stalls,
    pace: Pace,
    last: Option<Now>,
    synced_ms: u64,
    keeping: Option<Keeping>,
    recorded: Recorded,
}

impl Recorder {
    /// Opens the ring and the kernel's log.
    ///
    /// # Errors
    /// If the ring cannot be written, or nothing of the machine can be read.
    pub fn start(plan: Plan) -> Result<Self, Error> {
        let vmstat = plan.root.join("proc/vmstat");
        std::fs::metadata(&vmstat).map_err(Error::io(&vmstat))?;
        let ring = Ring::open(&plan.ring, plan.bytes)?;
        Ok(Self {
            sampler: Sampler::new(&plan.root),
            kmsg: Kmsg::open(&plan.root.join("dev/kmsg")),
            ring,
            plan,
            watcher: Watcher::default(),
            stalls: Stalls::default(),
            pace: Pace::default(),
            last: None,
            synced_ms: 0,
            keeping: None,
            recorded: Recorded::default(),
        })
    }

    /// Returns the ring.
    #[must_use]
    pub const fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Returns why the kernel's log cannot be watched.
    #[must_use]
    pub fn no_log(&self) -> Option<&str> {
        self.kmsg.as_ref().err().map(String::as_str)
    }

    /// Takes a sample, unless the limits forbid it; then only the log is searched for failures.
    ///
    /// # Errors
    /// If the ring or a file that is kept cannot be written.
    pub fn sample(&mut self, now: Now) -> Result<Seen, Error> {
        if let Some(last) = self.last {
            let passed = now.mono_ms.saturating_sub(last.mono_ms) as f64 / 1000.0;
            self.pace.pass(passed);
            self.pace.spend(0, now.cpu_s - last.cpu_s);
        }
        self.last = Some(now);
        let lines = match &mut self.kmsg {
            Ok(kmsg) => kmsg.lines().unwrap_or_else(|error| {
                self.kmsg = Err(error.to_string());
                Vec::new()
            }),
            Err(_) => Vec::new(),
        };
        let noted = self.watcher.look(&lines);
        let mut seen = Seen { events: noted.events, kept: None };
        if !self.pace.allows() && seen.events.is_empty() && noted.log.is_empty() {
            self.recorded.skipped += 1;
            self.complete(now, &mut seen)?;
            return Ok(seen);
        }
        let files = self.sampler.read(now.mono_ms);
        let text = |name: &str| {
            let found = files.iter().find(|(own, _)| own == name);
            found
                .and_then(|(_, text): &(String, FileText)| text.as_deref().ok())
                .unwrap_or_default()
        };
        let stalls = self.stalls.look(
            text("/proc/uptime"),
            text("/proc/vmstat"),
            text("/proc/pressure/memory"),
        );
        // The log says more about an OOM than the counter.
        let told = seen.events.iter().any(|event| event.kind == EventKind::Oom);
        seen.events
            .extend(stalls.into_iter().filter(|event| !told || event.kind != EventKind::Oom));
        let events = seen.events.clone();
        let frame = Frame { wall_ms: now.wall_ms, files, log: noted.log, events };
        let bytes = self.ring.append(&frame)?;
        self.pace.spend(bytes, 0.0);
        self.recorded.samples += 1;
        self.recorded.bytes += bytes as u64;
        if !seen.events.is_empty() || now.mono_ms >= self.synced_ms + SYNC_MS {
            self.ring.sync()?;
            self.synced_ms = now.mono_ms;
        }
        if self.plan.keep > 0 && self.keeping.is_none() {
            // The worst names the file.
            if let Some(event) = seen.events.iter().max_by_key(|event| event.kind) {
                seen.kept = Some(self.keep(now, event.kind)?);
            }
        }
        self.complete(now, &mut seen)?;
        Ok(seen)
    }

    /// Starts to keep the time around a failure. The time before it is on the disk when this returns.
    fn keep(&mut self, now: Now, kind: EventKind) -> Result<PathBuf, Error> {
        let time = super::file_time(now.wall_ms);
        let path = folder(&self.plan.ring).join(format!("{time}-{}.{KEPT}", kind.name()));
        let since_ms = now.wall_ms.saturating_sub(AROUND_MS);
        self.ring.keep(since_ms, &path)?;
        let until_mono_ms = now.mono_ms + AROUND_MS;
        self.keeping = Some(Keeping { since_ms, until_mono_ms, path: path.clone() });
        self.recorded.kept.push(path.clone());
        remove_oldest(folder(&self.plan.ring), self.plan.keep)?;
        Ok(path)
    }

    /// Completes the file that is kept, once its time is over.
    fn complete(&mut self, now: Now, seen: &mut Seen) -> Result<(), Error> {
        if let Some(keeping) = self.keeping.take_if(|k| now.mono_ms >= k.until_mono_ms) {
            self.ring.keep(keeping.since_ms, &keeping.path)?;
            seen.kept = Some(keeping.path);
        }
        Ok(())
    }

    /// Ends the recording, with all samples on the disk.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn finish(self) -> Result<Recorded, Error> {
        self.ring.sync()?;
        if let Some(keeping) = self.keeping {
            self.ring.keep(keeping.since_ms, &keeping.path)?;
        }
        Ok(self.recorded)
    }
}

/// Returns the folder of a file.
fn folder(file: &Path) -> &Path {
    file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Returns the files that were kept in a folder, the oldest first.
///
/// # Errors
/// If the folder cannot be read.
pub fn kept(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut kept = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(Error::io(folder))? {
        let path = entry.map_err(Error::io(folder))?.path();
        if path.extension().is_some_and(|end| end == KEPT) && super::is_kept_name(&path) {
            kept.push(path);
        }
    }
    // Their names begin with the time.
    kept.sort();
    Ok(kept)
}

fn remove_oldest(folder: &Path, keep: usize) -> Result<(), Error> {
    let kept = kept(folder)?;
    for path in &kept[..kept.len().saturating_sub(keep)] {
        std::fs::remove_file(path).map_err(Error::io(path))?;
    }
    Ok(())
}
