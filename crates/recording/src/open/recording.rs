//! Opens a recording.

use std::path::{Path, PathBuf};

use super::capture::{self, CaptureOptions};
use crate::formats::events::Events;
use crate::input::error::Error;
use crate::state::paths::{EVENTS, find};
use crate::state::recording::Recording;
use crate::state::window::{WindowFinder, Windows};
use crate::store::pbrec;

impl Recording {
    /// Opens a `.pbrec`; a folder with `start/`, `end/` (optional) and `events.tsv`, `trace.dat`, `perf.data` or
    /// `trace.txt` (a printed trace), each plain or compressed; or a capture of another tool, which is one file.
    ///
    /// # Errors
    /// If a needed part is missing, or a part that is there cannot be read.
    pub fn open(dir: &Path) -> Result<Self, Error> {
        if dir.is_file() {
            if pbrec::is_pbrec(dir)? {
                return pbrec::open(dir);
            }
            return capture::open(dir, &CaptureOptions::default());
        }
        if !dir.is_dir() {
            let what = "such file or folder";
            let expected = "a .pbrec, the folder of a recording, or a capture of another tool";
            return Err(Error::Missing { path: dir.to_owned(), what, expected });
        }
        let mut recording = Self::open_states(dir)?;
        recording.events_file = events_file(dir)?;
        Ok(recording)
    }

    /// Streams the events in the order of the file. After an error the stream ends.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub fn events(&self) -> Result<Events, Error> {
        Events::open(&self.events_file, self.decoding)
    }

    /// Finds the positions of the snapshots; reads the whole stream once.
    ///
    /// # Errors
    /// If the events cannot be read.
    pub fn windows(&self) -> Result<Windows, Error> {
        let mut finder = WindowFinder::new(self);
        for record in self.events()? {
            finder.push(&record?);
        }
        Ok(finder.finish())
    }
}

/// Finds the file with the events.
fn events_file(dir: &Path) -> Result<PathBuf, Error> {
    if let Some(file) = EVENTS.into_iter().find_map(|name| find(dir, name)) {
        return Ok(file);
    }
    if dir.join("trace.raw").is_dir() {
        return Err(Error::Missing {
            path: dir.to_owned(),
            what: "events yet, as its recorder was stopped before it wrote them",
            expected: "what `pageblock record --salvage` makes of it",
        });
    }
    Err(Error::Missing {
        path: dir.to_owned(),
        what: "events",
        expected: "events.tsv, trace.dat, perf.data or trace.txt, or any with .xz or .zst",
    })
}
