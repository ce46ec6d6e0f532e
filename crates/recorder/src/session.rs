//! A recording under way.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::drain::{Drain, Shared, file_of};
use crate::error::{Error, read, write};
use crate::state::{names, write_settings, write_state, write_tables};
use crate::trace_dat::{self, End, Meta};
use crate::tracefs::Tracefs;

/// The folder of the pages in a recording that is not finished.
const PAGES: &str = "trace.raw";
const META: &str = "meta.json";

/// What to record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// The folder to write.
    pub out: PathBuf,
    /// The size of each CPU's buffer in KiB.
    pub buffer_kib: u64,
    /// Whether to record every tracepoint of the groups compaction, vmscan, migrate and huge_memory.
    pub all_events: bool,
}

/// A recording under way. Dropped without [`Session::finish`] or [`Session::discard`] it leaves the folder with `.partial` at its end.
#[derive(Debug)]
pub struct Session {
    plan: Plan,
    partial: PathBuf,
    tracefs: Tracefs,
    meta: Meta,
    shared: Arc<Shared>,
    drains: Vec<Drain>,
    tasks: Vec<(u32, String)>,
}

/// What was recorded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Summary {
    /// The folder.
    pub out: PathBuf,
    /// The bytes of events.
    pub bytes: u64,
    /// Events recorded, by CPU.
    pub events: Vec<(u32, u64)>,
    /// Events lost, by CPU.
    pub lost: Vec<(u32, u64)>,
}

fn partial_of(out: &Path) -> PathBuf {
    let mut name = out.as_os_str().to_owned();
    name.push(".partial");
    name.into()
}

impl Session {
    /// Returns what a recording would switch on, without switching it on: the tracepoints, and the CPUs with a buffer.
    ///
    /// # Errors
    /// If there is no tracefs, or a needed tracepoint is missing.
    pub fn preview(plan: &Plan) -> Result<(Vec<String>, usize), Error> {
        let tracefs = Tracefs::create()?;
        Ok((tracefs.events(plan.all_events)?, tracefs.cpus()?.len()))
    }

    /// Switches tracing on and takes the start state.
    ///
    /// # Errors
    /// If the folder exists, tracing cannot be switched on, or a file cannot be written. Nothing stays switched on.
    pub fn start(plan: Plan) -> Result<Self, Error> {
        let partial = partial_of(&plan.out);
        if let Some(there) = [&plan.out, &partial].into_iter().find(|path| path.exists()) {
            return Err(Error::Exists(there.clone()));
        }
        let tracefs = Tracefs::create()?;
        let events = tracefs.events(plan.all_events)?;
        let meta = meta(&tracefs, &events)?;
        tracefs.buffer(plan.buffer_kib)?;
        let pages = partial.join(PAGES);
        fs::create_dir_all(&pages).map_err(Error::io(&pages))?;
        let json = serde_json::to_string(&meta).unwrap_or_default();
        write(&pages.join(META), json)?;
        let more = formats_as_settings(&meta);
        write_settings(&partial, &more)?;
        let mut session = Self {
            plan,
            partial,
            tracefs,
            meta,
            shared: Arc::default(),
            drains: Vec::new(),
            tasks: names(),
        };
        session.begin(&events)?;
        Ok(session)
    }

    fn begin(&mut self, events: &[String]) -> Result<(), Error> {
        let pages = self.partial.join(PAGES);
        for &cpu in &self.meta.cpus {
            let drain =
                Drain::start(&self.tracefs, cpu, &pages, self.meta.page_bytes, &self.shared)?;
            self.drains.push(drain);
        }
        self.tracefs.enable(events)?;
        self.tracefs.trace(true)?;
        let start = self.partial.join("start");
        self.tracefs.mark("S1")?;
        write_state(&start)?;
        self.tracefs.mark("S2")?;
        // Whoever reads these tables does not replay them: they need not be of the moment.
        write_tables(&start)
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
    /// If a file could not be written. What was recorded until then stays in the folder with `.partial` at its end.
    pub fn finish(mut self) -> Result<Summary, Error> {
        let state = self.end_state();
        self.tracefs.trace(false)?;
        self.shared.ending.store(true, Relaxed);
        let drained: Vec<_> =
            std::mem::take(&mut self.drains).into_iter().map(Drain::join).collect();
        drained.into_iter().collect::<Result<(), _>>()?;
        state?;
        self.tasks.extend(names());
        let stats = self.meta.cpus.iter().map(|&cpu| Ok((cpu, self.tracefs.stats(cpu)?)));
        let stats: Vec<(u32, String)> = stats.collect::<Result<_, Error>>()?;
        let end = End { stats, names: self.tracefs.saved_names()? };
        let count = |names: &[&str]| {
            let of = |stats: &str| names.iter().map(|name| number(stats, name)).sum();
            end.stats.iter().map(|(cpu, stats)| (*cpu, of(stats))).collect()
        };
        let summary = Summary {
            out: self.plan.out.clone(),
            bytes: self.bytes(),
            events: count(&["read events:"]),
            lost: count(&["overrun:", "dropped events:"]),
        };
        complete(&self.partial, &self.plan.out, &self.meta, &end, &self.tasks)?;
        Ok(summary)
    }

    fn end_state(&self) -> Result<(), Error> {
        self.tracefs.mark("E1")?;
        write_state(&self.partial.join("end"))?;
        self.tracefs.mark("E2")
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

/// Makes a recording of what a killed recorder left behind, without the end state.
///
/// # Errors
/// If the folder is not such a folder, or the recording cannot be written.
pub fn salvage(partial: &Path, out: &Path) -> Result<(), Error> {
    if out.exists() {
        return Err(Error::Exists(out.to_owned()));
    }
    let not = |missing| Error::NotPartial { path: partial.to_owned(), missing };
    let path = partial.join(PAGES).join(META);
    if !path.is_file() {
        return Err(not("trace.raw/meta.json"));
    }
    if !partial.join("start/snapshot.txt.zst").is_file() {
        return Err(not("start state"));
    }
    let meta: Meta = serde_json::from_str(&read(&path)?).map_err(|_| not("valid meta.json"))?;
    complete(partial, out, &meta, &End::default(), &[])
}

/// Writes what is still missing and gives the recording its name.
fn complete(
    partial: &Path,
    out: &Path,
    meta: &Meta,
    end: &End,
    tasks: &[(u32, String)],
) -> Result<(), Error> {
    let pages = partial.join(PAGES);
    let trace = partial.join("trace.dat");
    // What an earlier attempt left.
    let _ = fs::remove_file(&trace);
    trace_dat::write(meta, end, &pages, &trace)?;
    let mut names: std::collections::BTreeMap<u32, String> = tasks.iter().cloned().collect();
    for line in end.names.lines() {
        if let Some((pid, name)) = line.split_once(' ')
            && let Ok(pid) = pid.parse()
        {
            names.entry(pid).or_insert_with(|| name.to_owned());
        }
    }
    let json = serde_json::to_string(&names).unwrap_or_default();
    write(&partial.join("comms.json"), json)?;
    fs::rename(partial, out).map_err(Error::io(out))?;
    let pages = out.join(PAGES);
    for &cpu in &meta.cpus {
        let _ = fs::remove_file(file_of(&pages, cpu));
    }
    fs::remove_dir_all(&pages).map_err(Error::io(&pages))
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
    })
}

/// Returns the size of a ring buffer's page: where its data begin, and how large they are.
fn page_bytes(header_page: &str) -> Option<usize> {
    let line = header_page.lines().find(|line| line.contains(" data;"))?;
    let number = |key: &str| -> Option<usize> {
        line.split(key).nth(1)?.split(';').next()?.trim().parse().ok()
    };
    Some(number("offset:")? + number("size:")?)
}

fn formats_as_settings(meta: &Meta) -> Vec<(String, Vec<u8>)> {
    let format = |(name, text): &(String, String)| {
        (format!("events/{name}/format"), text.clone().into_bytes())
    };
    let recorder = format!("{{\"recorder_pid\": {}}}\n", meta.recorder);
    let own = ("pageblock/recorder.json".to_owned(), recorder.into_bytes());
    meta.formats.iter().map(format).chain([own]).collect()
}

/// Returns a number of a buffer's statistics.
fn number(stats: &str, key: &str) -> u64 {
    let value = |line: &str| line.trim().strip_prefix(key)?.trim().parse().ok();
    stats.lines().find_map(value).unwrap_or(0)
}
