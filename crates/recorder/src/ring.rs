//! A recording that keeps the last minutes only: segments, each with the state of memory at its begin, so that whichever
//! is the oldest that is kept has the recording's start state.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use pageblock_files::Access;

use crate::cost::Cost;
use crate::drain::{Spool, file_of};
use crate::error::{Error, copy, part_folder, write};
use crate::finish::{Progress, Remains, is_file};
use crate::salvage::{META, PAGES, partial_of};
use crate::session::{Session, Summary};
use crate::state::{SNAPSHOT, write_state};
use crate::stop::{Stop, reason};
use crate::trace_dat::End;

/// How much a ring keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RingPlan {
    /// The time that is kept at least, once it has passed.
    pub keep: Duration,
    /// The bytes of events that are kept at most, whatever time they cover.
    pub bytes: u64,
}

/// The segments that a ring keeps are at least this many, where time and bytes decide.
const PARTS: u32 = 4;
/// A segment is at least so many times as long as its state takes, so that states take a small part of a CPU.
const STATE_SHARE: u32 = 20;
/// The shortest segment.
const SHORTEST: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Ring {
    plan: RingPlan,
    segments: VecDeque<Segment>,
    /// How long the last state took.
    state: Duration,
    /// The bytes of all segments when the last one began.
    bytes_before: u64,
    /// Whether events were removed before their time, as they were too many.
    pub(crate) shortened: bool,
    /// Recordings saved so far.
    saved: u64,
}

#[derive(Debug)]
struct Segment {
    number: u64,
    began: Instant,
    /// The statistics of the buffers at its begin.
    stats: Vec<(u32, String)>,
}

impl Ring {
    pub(crate) fn new(plan: RingPlan) -> Self {
        let first = Segment { number: 0, began: Instant::now(), stats: Vec::new() };
        Self {
            plan,
            segments: [first].into(),
            state: Duration::ZERO,
            bytes_before: 0,
            shortened: false,
            saved: 0,
        }
    }

    /// Reports whether a new segment is to begin.
    fn is_due(&self, bytes: u64) -> bool {
        let age = self.segments.back().map_or(Duration::ZERO, |last| last.began.elapsed());
        let shortest = SHORTEST.max(self.state * STATE_SHARE);
        let full = bytes.saturating_sub(self.bytes_before) >= self.plan.bytes / u64::from(PARTS);
        age >= shortest && (age >= self.plan.keep / PARTS || full)
    }

    /// Reports whether the oldest segment is not needed any more.
    fn can_drop(&mut self, bytes: u64) -> bool {
        let Some(second) = self.segments.get(1) else { return false };
        // What is kept begins when its state is taken.
        if second.began.elapsed() >= self.plan.keep + self.state {
            return true;
        }
        self.shortened |= bytes > self.plan.bytes;
        bytes > self.plan.bytes
    }

    /// Returns the statistics of the buffers at the begin of what is kept.
    pub(crate) fn base(&self) -> &[(u32, String)] {
        self.segments.front().map_or(&[], |first| &first.stats)
    }

    /// Returns how long ago what is kept began.
    pub(crate) fn covers(&self) -> Duration {
        self.segments.front().map_or(Duration::ZERO, |first| first.began.elapsed())
    }
}

impl Session {
    /// Does what a ring needs from time to time: begins a segment, removes the oldest. Call it often.
    ///
    /// # Errors
    /// If a file cannot be written, or the caller stops it.
    pub fn tick(&mut self, stop: Stop<'_>) -> Result<(), Error> {
        let Some(ring) = &self.ring else { return Ok(()) };
        if ring.is_due(self.bytes()) {
            self.rotate(stop)?;
        }
        self.remove_old()
    }

    /// Begins a segment, with the state of memory.
    #[expect(clippy::disallowed_methods, reason = "the machine is recorded in real time")]
    fn rotate(&mut self, stop: Stop<'_>) -> Result<(), Error> {
        let number = self.shared.segment.load(Relaxed) + 1;
        let folder = self.spool.segment(number);
        part_folder(&folder)?;
        self.shared.segment.store(number, Relaxed);
        let stats = loop {
            let stats: Option<Vec<_>> = self.drains.iter().map(|d| d.stats_at(number)).collect();
            match stats {
                Some(stats) => break stats,
                // The thread says why when it is joined.
                None if self.has_failed() => return Ok(()),
                None => std::thread::sleep(Duration::from_millis(2)),
            }
        };
        let (began, bytes) = (Instant::now(), self.bytes());
        if let Some(ring) = &mut self.ring {
            ring.segments.push_back(Segment { number, began, stats });
            ring.bytes_before = bytes;
        }
        self.tracefs.mark("S1")?;
        write_state(&folder.join("start"), stop).map_err(|error| reason(error, stop))?;
        self.tracefs.mark("S2")?;
        if let Some(ring) = &mut self.ring {
            ring.state = began.elapsed();
        }
        Ok(())
    }

    fn remove_old(&mut self) -> Result<(), Error> {
        let Self { ring: Some(ring), shared, spool, meta, .. } = self else { return Ok(()) };
        while ring.can_drop(shared.bytes.load(Relaxed)) {
            let Some(old) = ring.segments.pop_front() else { break };
            let folder = spool.segment(old.number);
            let size = |cpu: &u32| file_of(&folder, *cpu).metadata().map_or(0, |file| file.len());
            let freed: u64 = meta.cpus.iter().map(size).sum();
            // A recorder may be killed meanwhile: what is half removed is no segment.
            let doomed = folder.with_extension("old");
            fs::rename(&folder, &doomed).map_err(Error::io(&folder))?;
            fs::remove_dir_all(&doomed).map_err(Error::io(&doomed))?;
            shared.bytes.fetch_sub(freed, Relaxed);
            ring.bytes_before = ring.bytes_before.saturating_sub(freed);
        }
        Ok(())
    }

    /// Makes a recording of what a ring keeps, and goes on with an empty one. Its name ends in -1, -2, ...; returns `None`
    /// where there is no ring.
    ///
    /// # Errors
    /// If a file cannot be written, or the caller stops it.
    pub fn save(
        &mut self,
        stop: Stop<'_>,
        progress: Progress<'_>,
    ) -> Result<Option<Summary>, Error> {
        let Some(ring) = &mut self.ring else { return Ok(None) };
        ring.saved += 1;
        let covers = ring.covers();
        let out = numbered(&self.plan.out, ring.saved);
        if out.exists() {
            return Err(Error::Exists(out));
        }
        let partial = partial_of(&out);
        let pages = partial.join(PAGES);
        let made = pageblock_files::new_folder(&partial, Access::Private);
        made.map_err(Error::creating(&partial))?;
        part_folder(&pages)?;
        self.mark_state("E", &partial.join("end"), stop)?;
        self.rotate(stop)?;
        let Some(ring) = &mut self.ring else { return Ok(None) };
        let base = ring.base().to_vec();
        let keep = ring.segments.pop_back();
        let spool = Spool { folder: pages.clone(), segmented: true };
        for segment in ring.segments.drain(..) {
            let (from, to) = (self.spool.segment(segment.number), spool.segment(segment.number));
            fs::rename(&from, &to).map_err(Error::io(&from))?;
        }
        let stats = keep.as_ref().map(|keep| keep.stats.clone()).unwrap_or_default();
        ring.segments.extend(keep);
        let bytes = bytes_below(&spool, &self.meta.cpus)?;
        self.shared.bytes.fetch_sub(bytes, Relaxed);
        ring.bytes_before = 0;
        let shortened = std::mem::take(&mut ring.shortened);
        let json = serde_json::to_string(&self.meta).unwrap_or_default();
        write(&pages.join(META), json)?;
        copy(&self.partial.join("static.tar"), &partial.join("static.tar"))?;
        let end = End { stats: since(&stats, &base), names: self.tracefs.saved_names()? };
        let mut summary = Summary::new(&out, bytes, &end);
        summary.kept = Some((covers, shortened));
        self.tasks.extend(crate::state::names());
        let pages = take_start(&partial, &spool)?;
        let (meta, tasks) = (&self.meta, &self.tasks[..]);
        Remains { folder: &partial, pages, meta, end: &end, tasks }
            .make(&out, stop, progress)
            .map_err(|error| reason(error, stop))?;
        summary.whole_cost = Cost::now();
        Ok(Some(summary))
    }
}

/// Returns the name of a recording that is saved meanwhile.
fn numbered(out: &Path, number: u64) -> PathBuf {
    let whole = if is_file(out) { out.with_extension("") } else { out.to_owned() };
    let mut name = whole.into_os_string();
    name.push(format!("-{number}"));
    if is_file(out) {
        name.push(".pbrec");
    }
    name.into()
}

fn bytes_below(spool: &Spool, cpus: &[u32]) -> Result<u64, Error> {
    let folders = segments(&spool.folder)?;
    let files = folders.iter().flat_map(|(_, folder)| cpus.iter().map(|&cpu| file_of(folder, cpu)));
    Ok(files.map(|file| file.metadata().map_or(0, |file| file.len())).sum())
}

/// Returns the segments in a folder of pages, the oldest first.
pub(crate) fn segments(pages: &Path) -> Result<Vec<(u64, PathBuf)>, Error> {
    let mut found = Vec::new();
    for entry in fs::read_dir(pages).map_err(Error::io(pages))? {
        let path = entry.map_err(Error::io(pages))?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        if let Some(number) = name.and_then(|name| name.parse().ok()).filter(|_| path.is_dir()) {
            found.push((number, path));
        }
    }
    found.sort();
    Ok(found)
}

/// Makes the state of the oldest segment that has one the recording's start state; returns the folders of pages from there on.
pub(crate) fn take_start(partial: &Path, spool: &Spool) -> Result<Vec<PathBuf>, Error> {
    if !spool.segmented {
        return Ok(vec![spool.folder.clone()]);
    }
    let start = partial.join("start");
    let mut folders = segments(&spool.folder)?;
    // An earlier attempt may have done so.
    if !start.exists() {
        let has_state = |folder: &Path| folder.join("start").join(SNAPSHOT).is_file();
        let first = folders.iter().position(|(_, folder)| has_state(folder));
        let Some(first) = first else {
            let path = partial.to_owned();
            return Err(Error::NotPartial { path, missing: "start state" });
        };
        for (_, folder) in folders.drain(..first) {
            fs::remove_dir_all(&folder).map_err(Error::io(&folder))?;
        }
        fs::rename(folders[0].1.join("start"), &start).map_err(Error::io(&start))?;
    }
    Ok(folders.into_iter().map(|(_, folder)| folder).collect())
}

/// Returns statistics of buffers without what they counted before.
pub(crate) fn since(stats: &[(u32, String)], base: &[(u32, String)]) -> Vec<(u32, String)> {
    const COUNTERS: [&str; 4] = ["overrun", "commit overrun", "dropped events", "read events"];
    let value = |text: &str, key: &str| -> Option<u64> {
        let line = text.lines().find_map(|line| line.trim().strip_prefix(key)?.strip_prefix(':'));
        line?.trim().parse().ok()
    };
    let of = |(cpu, text): &(u32, String)| {
        let before = base.iter().find(|(of, _)| of == cpu).map_or("", |(_, text)| text);
        let line = |line: &str| match line.split_once(':') {
            Some((key, _)) if COUNTERS.contains(&key.trim()) => {
                let key = key.trim();
                let [now, then] = [text, before].map(|text| value(text, key).unwrap_or(0));
                format!("{key}: {}\n", now.saturating_sub(then))
            }
            _ => format!("{line}\n"),
        };
        (*cpu, text.lines().map(line).collect())
    };
    stats.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_begin_with_what_is_kept() {
        let now = [(1, "entries: 7\noverrun: 5\ndropped events: 2\nread events: 90\n".to_owned())];
        let then = [(1, "entries: 3\noverrun: 4\nread events: 50\n".to_owned())];
        let since = since(&now, &then);
        assert_eq!(since[0].1, "entries: 7\noverrun: 1\ndropped events: 2\nread events: 40\n");
    }

    #[test]
    fn segments_go_by_time_and_by_bytes() {
        let plan = RingPlan { keep: Duration::ZERO, bytes: 100 };
        let mut ring = Ring::new(plan);
        assert!(!ring.is_due(0) && !ring.can_drop(1000));
        let second = Segment { number: 1, began: ring.segments[0].began, stats: Vec::new() };
        ring.segments.push_back(second);
        assert!(ring.can_drop(0) && !ring.shortened);
        ring.plan.keep = Duration::from_secs(3600);
        assert!(!ring.can_drop(100) && !ring.shortened);
        assert!(ring.can_drop(101) && ring.shortened);
    }
}
