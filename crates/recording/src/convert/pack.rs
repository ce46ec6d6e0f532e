//! Writes a recording as one file.

use std::path::Path;

use crate::formats::events::Events;
use crate::input::error::Error;
use crate::state::recording::Recording;

/// Packs the folder of a recording, or a capture, into one file, which appears only when it is complete.
/// `progress` is called now and then with the bytes of the events read so far and their number.
///
/// # Errors
/// If the recording cannot be read, or `out` exists or cannot be written.
pub fn pack(
    folder: &Path,
    out: &Path,
    progress: &mut dyn FnMut(u64, Option<u64>),
) -> Result<(), Error> {
    Recording::open(folder)?.save(out, progress)
}

impl Recording {
    /// Writes the recording as one file, as [`pack`] does.
    ///
    /// # Errors
    /// If the recording cannot be read, or `out` exists or cannot be written.
    pub fn save(
        &self,
        out: &Path,
        progress: &mut dyn FnMut(u64, Option<u64>),
    ) -> Result<(), Error> {
        self.save_events(self.events()?, out, progress)
    }

    /// Writes the recording as one file, as [`pack`] does, with these events.
    ///
    /// # Errors
    /// If the recording or the events cannot be read, or `out` exists or cannot be written.
    pub fn save_events(
        &self,
        events: Events,
        out: &Path,
        progress: &mut dyn FnMut(u64, Option<u64>),
    ) -> Result<(), Error> {
        self.writer(out)?.write_all(events, &self.events_file, progress)
    }
}
