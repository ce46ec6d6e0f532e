//! Writes a part of a recording, or one without names, as one file.

use std::path::Path;

use pageblock_files::Access;

use super::anonymise::{anonymous_files, strip};
use crate::input::error::Error;
use crate::record::losses::Losses;
use crate::state::recording::Recording;
use crate::state::snapshot::Snapshot;
use crate::state::window::Window;
use crate::store::columnar::{Columnar, Position};
use crate::store::pbrec::{must_be_new, start_file};

/// A part of a recording.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Part {
    /// Where it begins; `None` is the first event.
    pub from: Option<Position>,
    /// Where it ends; `None` is after the last event.
    pub to: Option<Position>,
    /// Whether names are left out: of commands, files and the host.
    pub anonymous: bool,
}

/// What was written of a recording.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Written {
    /// The number of the first event.
    pub first: u64,
    /// The number of events.
    pub events: u64,
    /// Whether the state at the start belongs to it.
    pub start: bool,
    /// Whether the state at the end belongs to it.
    pub end: bool,
}

impl Recording {
    /// Writes a part of the recording as a `.pbrec`, which appears only when it is complete. A state belongs to a part that has its
    /// marks. `progress` is called now and then with the events done and their number.
    ///
    /// # Errors
    /// If the part has no events, the recording cannot be read, or `out` exists or cannot be written.
    pub fn write_part(
        &self,
        columnar: &Columnar,
        part: &Part,
        out: &Path,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Written, Error> {
        must_be_new(out)?;
        let from = columnar.event_at(part.from, 0)?;
        let to = columnar.event_at(part.to, columnar.events)?.min(columnar.events);
        if from >= to {
            let why = format!(
                "no events from {from} to {to}; allowed: a part of its {} events in {:.6} s",
                columnar.events,
                columnar.last_t_us.saturating_sub(columnar.first_t_us) as f64 / 1e6
            );
            return Err(Error::Convert { file: self.events_file.clone(), why });
        }
        let windows = &columnar.windows;
        let start = self.start_known && has(from, to, &windows.start, from == 0);
        let end =
            start && windows.end.as_ref().is_some_and(|w| has(from, to, w, to == columnar.events));
        let mut files = self.attachments()?;
        let mut target = self.clone();
        if !start {
            files.remove_folder("start/");
            (target.start, target.start_known) = (Snapshot::default(), false);
        }
        if !end {
            files.remove_folder("end/");
            target.end = None;
        }
        if part.anonymous {
            anonymous_files(&mut files, &mut target)?;
        }
        // What names nobody is made to be given away.
        let access = if part.anonymous { Access::Shared } else { Access::Private };
        let mut file = start_file(out, access, &target, &files)?;
        let records = columnar.records_from(from)?;
        for record in records.take(usize::try_from(to - from).unwrap_or(usize::MAX)) {
            let mut record = record?;
            if part.anonymous {
                strip(&mut record.what);
            }
            file.push(&record)?;
            if file.is_flushed() {
                progress(file.events(), to - from);
            }
        }
        debug_assert_eq!(file.events(), to - from, "the part lacks events");
        file.finish(&of_part(&columnar.losses, from, to))?;
        Ok(Written { first: from, events: to - from, start, end })
    }
}

/// Reports whether a part from an event to another has a state: its marks, or where there are none the end of the events.
fn has(from: u64, to: u64, window: &Window, at_end: bool) -> bool {
    let marks = &window.markers;
    if marks.is_empty() { at_end } else { from <= marks.start && marks.end < to }
}

/// Returns the losses of a part. How many events of it each CPU lost is unknown: the numbers are those of the whole recording.
fn of_part(losses: &Losses, from: u64, to: u64) -> Losses {
    match losses.first_event {
        Some(first) if first < to => {
            Losses { first_event: Some(first.saturating_sub(from)), ..losses.clone() }
        }
        _ => Losses::default(),
    }
}
