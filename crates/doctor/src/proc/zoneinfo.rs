//! `/proc/zoneinfo`, of any version.

use std::io::Cursor;
use std::path::Path;

pub use pageblock_recording::ZoneFigures as Zone;
use pageblock_recording::{Input, ProcFiles};

use crate::error::Error;

/// The limit of frames of a zone that can be judged.
const PAGES: u64 = 1 << 48;
/// The limit of a zone's frames: 64 TiB of pages of 4 KiB.
const SPAN: u64 = 1 << 34;

/// Reads the zones that have memory, in the order of the file. `path` is named in errors.
///
/// # Errors
/// If a line is not in the format, or no zone has memory.
pub fn read(text: String, path: &Path) -> Result<Vec<Zone>, Error> {
    let input = Input::from_reader(Cursor::new(text), path)?;
    let zones = ProcFiles::read_zoneinfo(input)?.zones.into_iter();
    let zones: Vec<Zone> = zones.filter(|zone| zone.spanned > 0 && zone.managed > 0).collect();
    let unexpected =
        |found, expected| Error::Unexpected { path: path.to_owned(), line: 0, found, expected };
    if zones.is_empty() {
        return Err(unexpected(
            String::new(),
            "at least one zone with memory, as in /proc/zoneinfo",
        ));
    }
    if let Some(zone) = zones.iter().find(|zone| zone.start() >= PAGES || zone.spanned >= SPAN) {
        return Err(unexpected(zone.label(), "a zone of less than 2^34 frames, below frame 2^48"));
    }
    Ok(zones)
}
