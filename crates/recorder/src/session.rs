//! A recording under way.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use pageblock_files::Access;
use pageblock_recording::MemInfo;

use crate::cost::Cost;
use crate::drain::{Drain, Shared, Spool};
use crate::error::{Error, part_folder, read, write};
use crate::finish::{Progress, Remains};
use crate::open_files;
use crate::probes::{GROUP, Probes};
use crate::ring::{Ring, RingPlan, since, take_start};
use crate::salvage::{META, PAGES, partial_of};
use crate::state::{names, write_settings, write_state, write_tables};
use crate::stop::{Stop, reason};
use crate::trace_dat::{End, Meta};
use crate::tracefs::{STACK, Tracefs, Tracepoints};

/// What to record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// The file to write, which ends in `.pbrec`, or a folder with any other name.
    pub out: PathBuf,
    /// The size of each CPU's buffer in KiB; by default as the machine's memory allows.
    pub buffer_kib: Option<u64>,
    /// Whether to record every tracepoint of the groups compaction, vmscan, migrate and huge_memory.
    pub all_events: bool,
    /// Whether to set probes on what moves pages without an event.
    pub probes: bool,
    /// Whether to record the call sites of the events that matter.
    pub stacks: bool,
    /// Keep the last minutes only, until the end.
    pub ring: Option<RingPlan>,
}

/// What a recording would switch on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Preview {
    /// The tracepoints, and those that are missing.
    pub events: Tracepoints,
    /// The probes.
    pub probes: Probes,
    /// The number of CPUs that have a buffer.
    pub cpus: usize,
    /// The size of each CPU's buffer in KiB.
    pub buffer_kib: u64,
}

/// A recording under way. Dropped without [`Session::finish`] or [`Session::discard`] it leaves the folder with `.partial` at its end.
#[derive(Debug)]
pub struct Session {
    pub(crate) plan: Plan,
    pub(crate) partial: PathBuf,
    pub(crate) tracefs: Tracefs,
    pub(crate) meta: Meta,
    pub(crate) spool: Spool,
    pub(crate) shared: Arc<Shared>,
    pub(crate) drains: Vec<Drain>,
    pub(crate) tasks: Vec<(u32, String)>,
    pub(crate) ring: Option<Ring>,
}

/// What was recorded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Summary {
    /// The file or folder.
    pub out: PathBuf,
    /// The bytes of events as the kernel stores them.
    pub bytes: u64,
    /// Events recorded, by CPU.
    pub events: Vec<(u32, u64)>,
    /// Events lost, by CPU.
    pub lost: Vec<(u32, u64)>,
    /// What the recorder took until the recording ended.
    pub cost: Cost,
    /// What it took until the recording had its form.
    pub whole_cost: Cost,
    /// Of a ring: the time that it covers, and whether that is less than asked for, as there were too many bytes.
    pub kept: Option<(Duration, bool)>,
}

impl Summary {
    pub(crate) fn new(out: &Path, bytes: u64, end: &End) -> Self {
        let count = |names: &[&str]| {
            let of = |stats: &str| names.iter().map(|name| number(stats, name)).sum();
            end.stats.iter().map(|(cpu, stats)| (*cpu, of(stats))).collect()
        };
        Self {
            out: out.to_owned(),
            bytes,
            events: count(&["read events:"]),
            lost: count(&["overrun:", "commit overrun:", "dropped events:"]),
            cost: Cost::now(),
            whole_cost: Cost::default(),
            kept: None,
        }
    }
}

impl Session {
    /// Returns what a recording would switch on, without switching it on.
    ///
    /// # Errors
    /// If there is no tracefs, or a needed tracepoint is missing.
    pub fn preview(plan: &Plan) -> Result<Preview, Error> {
        let tracefs = Tracefs::create()?;
        let cpus = tracefs.cpus()?.len();
        let buffer_kib = buffer_kib(plan, cpus)?;
        let probes = if plan.probes { tracefs.possible_probes()? } else { Probes::default() };
        Ok(Preview { events: tracefs.events(plan.all_events)?, probes, cpus, buffer_kib })
    }

    /// Switches tracing on and takes the start state.
    ///
    /// # Errors
    /// If the folder exists, tracing cannot be switched on, a file cannot be written, or the caller stops it. Nothing stays
    /// switched on, and no folder is left.
    pub fn start(mut plan: Plan, stop: Stop<'_>) -> Result<Self, Error> {
        // Without a slash at the end, after which `.partial` would be a name inside the folder.
        plan.out = plan.out.components().collect();
        let partial = partial_of(&plan.out);
        if plan.out.exists() {
            return Err(Error::Exists(plan.out));
        }
        let tracefs = Tracefs::create()?;
        let events = tracefs.events(plan.all_events)?.there;
        if let Some(parent) = partial.parent() {
            fs::create_dir_all(parent).map_err(Error::io(parent))?;
        }
        let made = pageblock_files::new_folder(&partial, Access::Private);
        made.map_err(Error::creating(&partial))?;
        Self::switch_on(plan, partial.clone(), tracefs, &events, stop).map_err(|error| {
            let _ = fs::remove_dir_all(&partial);
            reason(error, stop)
        })
    }

    fn switch_on(
        plan: Plan,
        partial: PathBuf,
        tracefs: Tracefs,
        events: &[String],
        stop: Stop<'_>,
    ) -> Result<Self, Error> {
        let mut meta = meta(&tracefs, events)?;
        // Tracing is off yet.
        let probes = if plan.probes { tracefs.probe()? } else { Probes::default() };
        for event in &probes.events {
            meta.formats.push((format!("{GROUP}/{event}"), tracefs.probe_format(event)?));
        }
        if plan.stacks {
            meta.formats.push((STACK.to_owned(), tracefs.format(STACK)?));
            meta.symbols = symbols()?;
        }
        meta.inferred = probes.inferred.iter().map(|&what| what.to_owned()).collect();
        tracefs.buffer(buffer_kib(&plan, meta.cpus.len())?)?;
        let pages = partial.join(PAGES);
        part_folder(&pages)?;
        let json = serde_json::to_string(&meta).unwrap_or_default();
        write(&pages.join(META), json)?;
        let spool = Spool { folder: pages, segmented: plan.ring.is_some() };
        let mut session = Self {
            ring: plan.ring.map(Ring::new),
            plan,
            partial,
            tracefs,
            meta,
            spool,
            shared: Arc::default(),
            drains: Vec::new(),
            tasks: names(),
        };
        session.begin(events, stop)?;
        Ok(session)
    }

    fn begin(&mut self, events: &[String], stop: Stop<'_>) -> Result<(), Error> {
        let first = self.spool.segment(0);
        if self.spool.segmented {
            part_folder(&first)?;
        }
        // The buffer, the file, and both ends of a pipe.
        open_files::allow(4 * self.meta.cpus.len());
        for &cpu in &self.meta.cpus {
            let (bytes, shared) = (self.meta.page_bytes, &self.shared);
            let drain = Drain::start(&self.tracefs, cpu, &self.spool, bytes, shared)?;
            self.drains.push(drain);
        }
        // Events name threads, so that the settings wait until all of them run.
        write_settings(&self.partial, &formats_as_settings(&self.meta)?)?;
        self.tracefs.enable(events)?;
        if self.plan.stacks {
            self.tracefs.take_stacks()?;
        }
        self.tracefs.trace(true)?;
        if self.spool.segmented {
            return self.mark_state("S", &first.join("start"), stop);
        }
        let start = self.partial.join("start");
        self.mark_state("S", &start, stop)?;
        // Whoever reads these tables does not replay them: they need not be of the moment.
        write_tables(&start, stop)
    }

    /// Returns the bytes of events so far.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.shared.bytes.load(Relaxed)
    }

    /// Reports whether events can no longer be written, such as to a full disk.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.shared.failed.load(Relaxed)
    }

    /// Switches everything off and removes what was written.
    ///
    /// # Errors
    /// If the folder cannot be removed.
    pub fn discard(mut self) -> Result<(), Error> {
        self.tracefs.trace(false)?;
        self.shared.ending.store(true, Relaxed);
        let drained: Vec<_> =
            std::mem::take(&mut self.drains).into_iter().map(Drain::join).collect();
        drained.into_iter().collect::<Result<(), _>>()?;
        fs::remove_dir_all(&self.partial).map_err(Error::io(&self.partial))
    }

    /// Takes the end state, switches everything off, and gives the recording its name.
    ///
    /// # Errors
    /// If a file could not be written, or the caller stops it: [`Error::Kept`] names the folder of what was recorded until then.
    pub fn finish(mut self, stop: Stop<'_>, progress: Progress<'_>) -> Result<Summary, Error> {
        self.end(stop, progress).map_err(|error| Error::Kept {
            partial: self.partial.clone(),
            why: Box::new(reason(error, stop)),
        })
    }

    fn end(&mut self, stop: Stop<'_>, progress: Progress<'_>) -> Result<Summary, Error> {
        // Where events could not be written, the thread that failed says why.
        let end = self.partial.join("end");
        let state = if self.has_failed() { Ok(()) } else { self.mark_state("E", &end, stop) };
        let kept = self.ring.as_ref().map(|ring| (ring.covers(), ring.shortened));
        self.tracefs.trace(false)?;
        self.shared.ending.store(true, Relaxed);
        let drained: Vec<_> =
            std::mem::take(&mut self.drains).into_iter().map(Drain::join).collect();
        drained.into_iter().collect::<Result<(), _>>()?;
        state?;
        if self.ring.is_none() {
            write_tables(&end, stop)?;
        }
        self.tasks.extend(names());
        let stats = self.meta.cpus.iter().map(|&cpu| Ok((cpu, self.tracefs.stats(cpu)?)));
        let stats: Vec<(u32, String)> = stats.collect::<Result<_, Error>>()?;
        let base = self.ring.as_ref().map_or(&[][..], Ring::base);
        let end = End { stats: since(&stats, base), names: self.tracefs.saved_names()? };
        let mut summary = Summary::new(&self.plan.out, self.bytes(), &end);
        summary.kept = kept;
        let Self { partial, plan, meta, tasks, spool, .. } = self;
        let pages = take_start(partial, spool)?;
        Remains { folder: partial, pages, meta, end: &end, tasks }
            .make(&plan.out, stop, progress)?;
        summary.whole_cost = Cost::now();
        Ok(summary)
    }

    /// Takes a state between two marks.
    pub(crate) fn mark_state(
        &self,
        mark: &str,
        folder: &Path,
        stop: Stop<'_>,
    ) -> Result<(), Error> {
        self.tracefs.mark(&format!("{mark}1"))?;
        write_state(folder, stop)?;
        self.tracefs.mark(&format!("{mark}2"))
    }

    /// Switches everything off after an error; what was recorded is kept, as the error that is returned says.
    #[must_use]
    pub fn abandon(self, why: Error) -> Error {
        Error::Kept { partial: self.partial.clone(), why: Box::new(why) }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // The instance is busy as long as a thread reads it.
        self.shared.ending.store(true, Relaxed);
        let _ = self.tracefs.trace(false);
        for drain in std::mem::take(&mut self.drains) {
            let _ = drain.join();
        }
    }
}

fn meta(tracefs: &Tracefs, events: &[String]) -> Result<Meta, Error> {
    let header_page = tracefs.header("header_page")?;
    let mut formats = Vec::new();
    let all = events.iter().map(String::as_str).chain(["ftrace/print"]);
    for event in all {
        formats.push((event.to_owned(), tracefs.format(event)?));
    }
    let kernel = |name: &str| -> Result<String, Error> {
        Ok(read(&Path::new("/proc/sys/kernel").join(name))?.trim().to_owned())
    };
    Ok(Meta {
        page_bytes: page_bytes(&header_page).unwrap_or(4096),
        header_page,
        header_event: tracefs.header("header_event")?,
        formats,
        cpus: tracefs.cpus()?,
        uname: format!(
            "{} {} {} {}",
            kernel("ostype")?,
            kernel("osrelease")?,
            kernel("version")?,
            std::env::consts::ARCH
        ),
        recorder: std::process::id(),
        symbols: String::new(),
        inferred: Vec::new(),
    })
}

/// Returns the functions of the kernel by address; nothing where it hides the addresses.
fn symbols() -> Result<String, Error> {
    let text = read(Path::new("/proc/kallsyms"))?;
    let is_function = |line: &&str| {
        let mut words = line.split_ascii_whitespace().skip(1);
        let function = words.next().is_some_and(|kind| matches!(kind, "t" | "T" | "w" | "W"));
        function && words.next().is_some_and(|name| !name.starts_with("__pfx_"))
    };
    let hidden = text.lines().all(|line| line.starts_with("0000000000000000 "));
    let lines = text.lines().filter(is_function).map(|line| format!("{line}\n"));
    Ok(if hidden { String::new() } else { lines.collect() })
}

/// Returns the size of a ring buffer's page: where its data begin, and how large they are.
fn page_bytes(header_page: &str) -> Option<usize> {
    let line = header_page.lines().find(|line| line.contains(" data;"))?;
    let number = |key: &str| -> Option<usize> {
        line.split(key).nth(1)?.split(';').next()?.trim().parse().ok()
    };
    Some(number("offset:")? + number("size:")?)
}

fn formats_as_settings(meta: &Meta) -> Result<Vec<(String, Vec<u8>)>, Error> {
    let format = |(name, text): &(String, String)| {
        (format!("events/{name}/format"), text.clone().into_bytes())
    };
    let recorder = serde_json::json!({
        "recorder_pid": meta.recorder,
        "recorder_threads": threads()?,
        "inferred": meta.inferred,
    });
    let own = ("pageblock/recorder.json".to_owned(), format!("{recorder}\n").into_bytes());
    Ok(meta.formats.iter().map(format).chain([own]).collect())
}

/// Returns the threads of this process: an event's `common_pid` is a thread.
fn threads() -> Result<Vec<u32>, Error> {
    let tasks = Path::new("/proc/self/task");
    let mut threads = Vec::new();
    for entry in fs::read_dir(tasks).map_err(Error::io(tasks))? {
        let name = entry.map_err(Error::io(tasks))?.file_name();
        threads.extend(name.to_str().and_then(|name| name.parse::<u32>().ok()));
    }
    threads.sort_unstable();
    Ok(threads)
}

/// Returns the size of each CPU's buffer that a plan asks for, or that suits the machine.
fn buffer_kib(plan: &Plan, cpus: usize) -> Result<u64, Error> {
    match plan.buffer_kib {
        Some(kib) => Ok(kib),
        None => {
            let meminfo = read(Path::new("/proc/meminfo"))?;
            let total = MemInfo::parse(&meminfo).get("MemTotal").unwrap_or(0);
            Ok(suitable_kib(total, cpus as u64))
        }
    }
}

/// Returns the size of each CPU's buffer for a machine: all together take at most a 64th of its memory.
fn suitable_kib(memory_kib: u64, cpus: u64) -> u64 {
    (memory_kib / 64 / cpus.max(1)).clamp(1 << 10, 64 << 10)
}

/// Returns a number of a buffer's statistics.
fn number(stats: &str, key: &str) -> u64 {
    let value = |line: &str| line.trim().strip_prefix(key)?.trim().parse().ok();
    stats.lines().find_map(value).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_suit_the_memory_of_the_machine() {
        assert_eq!(suitable_kib(24 << 20, 2), 64 << 10);
        assert_eq!(suitable_kib(640 << 10, 2), 5 << 10);
        assert_eq!(suitable_kib(256 << 20, 256), 16 << 10);
        assert_eq!(suitable_kib(128 << 10, 8), 1 << 10);
    }

    #[test]
    fn overruns_of_both_kinds_are_numbers_of_their_own() {
        let stats =
            "entries: 7\noverrun: 5\ncommit overrun: 3\ndropped events: 2\nread events: 9\n";
        let keys = ["overrun:", "commit overrun:", "dropped events:", "read events:"];
        assert_eq!(keys.map(|key| number(stats, key)), [5, 3, 2, 9]);
    }
}
