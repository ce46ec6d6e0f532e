//! Opens the events of a file in any of the formats.

use std::path::Path;

use crate::formats::capture::Format;
use crate::formats::events::Events;
use crate::formats::llfree::LlfreeReader;
use crate::formats::perf_data::PerfData;
use crate::formats::text::TextReader;
use crate::formats::trace_dat::TraceDat;
use crate::formats::tsv::TsvReader;
use crate::input::bytes::{Input, START_BYTES, refuse_others};
use crate::input::error::Error;
use crate::record::decoding::Decoding;
use crate::store::packed::Packed;

/// The formats in the order in which a file is tried; the last takes every file.
const FORMATS: [Format; 6] = [
    Format::of::<Packed>(),
    Format::of::<TraceDat>(),
    Format::of::<PerfData>(),
    Format::of::<LlfreeReader>(),
    Format::of::<TsvReader>(),
    Format::of::<TextReader>(),
];

/// Returns the format whose files start so.
pub(crate) fn format_of(start: &[u8]) -> Format {
    let found = FORMATS.iter().find(|format| (format.recognizes)(start));
    *found.expect("the last format takes every file")
}

impl Events {
    /// Opens a file, plain or compressed, and detects its format by its first bytes: a `.pbrec`, a
    /// `trace.dat`, a `perf.data`, an `events.tsv`, a trace of LLFree, or else a trace as printed by ftrace, perf or trace-cmd.
    ///
    /// # Errors
    /// If it cannot be opened, a header is damaged, or it is a file of another tool.
    pub fn open(path: &Path, decoding: Decoding) -> Result<Self, Error> {
        let mut input = Input::open(path)?;
        refuse_others(&mut input)?;
        let format = format_of(input.peek(START_BYTES)?);
        (format.start)(path, input, decoding).map(Self::of)
    }
}
