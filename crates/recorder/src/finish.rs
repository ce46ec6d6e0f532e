//! Makes a recording of the pages and states in a folder: one file, or the folder itself.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use pageblock_recording::{Events, Recording, TraceDat};

use crate::error::{Error, write};
use crate::salvage::PAGES;
use crate::stop::Stop;
use crate::trace_dat::{End, Meta, Trace};

/// The ending of a recording that is one file.
const FILE: &str = "pbrec";

/// What is told of the bytes of events that are written, and of all.
pub type Progress<'a> = &'a mut dyn FnMut(u64, Option<u64>);

/// What there is of a recording before it has its form.
pub(crate) struct Remains<'a> {
    /// The folder of the states and settings.
    pub(crate) folder: &'a Path,
    /// The folders of pages, one after the other.
    pub(crate) pages: Vec<PathBuf>,
    pub(crate) meta: &'a Meta,
    pub(crate) end: &'a End,
    pub(crate) tasks: &'a [(u32, String)],
}

/// Reports whether a recording of this name is one file.
pub(crate) fn is_file(out: &Path) -> bool {
    out.extension().is_some_and(|ending| ending == FILE)
}

impl Remains<'_> {
    /// Makes the recording; afterwards the folder is gone, or has the recording's name.
    pub(crate) fn make(
        self,
        out: &Path,
        stop: Stop<'_>,
        progress: Progress<'_>,
    ) -> Result<(), Error> {
        self.write_names()?;
        let trace = Trace::open(self.meta, self.end, &self.pages)?;
        if is_file(out) {
            self.pack(trace, out, stop, progress)?;
            return fs::remove_dir_all(self.folder).map_err(Error::io(self.folder));
        }
        let events = self.folder.join("trace.dat");
        trace.write(&events, stop)?;
        pageblock_files::rename_new(self.folder, out).map_err(Error::creating(out))?;
        let pages = out.join(PAGES);
        if pages.exists() { fs::remove_dir_all(&pages).map_err(Error::io(&pages)) } else { Ok(()) }
    }

    /// Writes one file.
    fn pack(
        &self,
        trace: Trace,
        out: &Path,
        stop: Stop<'_>,
        progress: Progress<'_>,
    ) -> Result<(), Error> {
        let mut recording = Recording::open_states(self.folder)?;
        recording.name = out.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let stopped = Arc::clone(&trace.stopped);
        stopped.store(stop(), Relaxed);
        let events = TraceDat::from_reader(trace, &self.folder.join(PAGES), recording.decoding)?;
        let mut progress = |done, all| {
            stopped.store(stop(), Relaxed);
            progress(done, all);
        };
        Ok(recording.save_events(Events::from(events), out, &mut progress)?)
    }

    /// Writes the names of the tasks.
    fn write_names(&self) -> Result<(), Error> {
        let mut names: BTreeMap<u32, String> = self.tasks.iter().cloned().collect();
        for line in self.end.names.lines() {
            if let Some((pid, name)) = line.split_once(' ')
                && let Ok(pid) = pid.parse()
            {
                names.entry(pid).or_insert_with(|| name.to_owned());
            }
        }
        let json = serde_json::to_string(&names).unwrap_or_default();
        write(&self.folder.join("comms.json"), json)
    }
}
