//! `ftrace-TEST`: the fallbacks that the monitor `ftrace` saw, in the form that tracefs prints them.

use std::path::Path;

use pageblock::mobility::Numbering;
use pageblock_measure::{ExtfragKey, ExtfragMatrix};
use pageblock_recording::{Decoding, KernelVersion, TextLine, TextParser, What};

use crate::error::{Place, Result};

/// The fallbacks of a test, and the events that the kernel's buffer lost.
#[derive(Debug, Default)]
pub(super) struct Fallbacks {
    pub(super) matrix: ExtfragMatrix,
    pub(super) lost: u64,
}

/// Reads the fallbacks of a trace; `None` if it has no event of them and lost none, as the monitor may not have been
/// asked for them.
///
/// # Errors
/// If the file cannot be read, or tracefs prints no such line.
pub(super) fn fallbacks(path: &Path, version: Option<&KernelVersion>) -> Result<Option<Fallbacks>> {
    let numbering = version.map_or(Numbering::Modern, KernelVersion::numbering);
    // Whether a kernel has CMA changes the number of isolated pageblocks, from which no fallback takes.
    let mut parser = TextParser::new(Decoding { numbering, cma: false });
    let mut input = super::open(path)?;
    let mut found = Fallbacks::default();
    while let Some(line) = input.next_line()? {
        let number = line.number;
        let parsed = parser
            .parse(line.bytes)
            .map_err(|expected| crate::Error::Asked(format!("line {number}: allowed: {expected}")));
        match parsed.at(|| path.display())? {
            TextLine::Event(record) => {
                if let What::Extfrag(event) = record.what {
                    found.matrix.add(ExtfragKey::from(&event), 1);
                }
            }
            TextLine::Lost { events, .. } => found.lost += events,
            TextLine::Buffer { .. } | TextLine::Nothing => {}
        }
    }
    Ok((found.matrix.total() > 0 || found.lost > 0).then_some(found))
}
