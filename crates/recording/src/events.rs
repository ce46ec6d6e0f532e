//! The events of a file in any of the forms.

use std::path::Path;

use crate::error::Error;
use crate::input::Input;
use crate::losses::LostByCpu;
use crate::record::Record;
use crate::text::TextReader;
use crate::trace_dat::TraceDat;
use crate::tsv::{Decoding, TsvReader};

/// Streams the events of a file. After an error the stream ends.
pub struct Events(Source);

enum Source {
    Tsv(TsvReader),
    Text(TextReader),
    TraceDat(Box<TraceDat>),
}

impl Events {
    /// Opens a file, plain or compressed, and tells its form by its first bytes: a `trace.dat`, an
    /// `events.tsv`, or else a trace as ftrace, perf or trace-cmd print it.
    ///
    /// # Errors
    /// Where it cannot be opened, or a header is damaged.
    pub fn open(path: &Path, decoding: Decoding) -> Result<Self, Error> {
        let mut input = Input::open(path)?;
        let start = input.peek()?;
        Ok(Self(if start.starts_with(b"\x17\x08\x44tracing") {
            Source::TraceDat(Box::new(TraceDat::open(path, decoding)?))
        } else if start.starts_with(b"# pb-events") || is_tsv(start) {
            Source::Tsv(TsvReader::new(input, decoding))
        } else {
            Source::Text(TextReader::new(input, decoding))
        }))
    }

    /// How many bytes of the file, as stored, were read; of a compressed `trace.dat`, which is
    /// unpacked first, how many of it unpacked.
    #[must_use]
    pub fn file_bytes_read(&self) -> u64 {
        match &self.0 {
            Source::Tsv(reader) => reader.input().file_bytes_read(),
            Source::Text(reader) => reader.input().file_bytes_read(),
            Source::TraceDat(trace) => trace.bytes_read(),
        }
    }

    /// The size that goes with [`Events::file_bytes_read`].
    #[must_use]
    pub fn file_bytes(&self) -> Option<u64> {
        match &self.0 {
            Source::Tsv(reader) => reader.input().file_bytes(),
            Source::Text(reader) => reader.input().file_bytes(),
            Source::TraceDat(trace) => Some(trace.bytes()),
        }
    }

    /// How many events the recorder lost, as far as was read; `events.tsv` does not tell, and counts
    /// as complete.
    #[must_use]
    pub fn lost(&self) -> u64 {
        match &self.0 {
            Source::Tsv(_) => 0,
            Source::Text(reader) => reader.lost(),
            Source::TraceDat(trace) => trace.lost(),
        }
    }

    /// [`Events::lost`] by CPU.
    #[must_use]
    pub fn lost_by_cpu(&self) -> LostByCpu {
        match &self.0 {
            Source::Tsv(_) => LostByCpu::new(),
            Source::Text(reader) => reader.lost_by_cpu().clone(),
            Source::TraceDat(trace) => trace.lost_by_cpu(),
        }
    }

    /// Returns, after the last event, what was lost beyond [`Events::lost_by_cpu`], of which the file
    /// does not say where.
    #[must_use]
    pub fn lost_unplaced(&self) -> LostByCpu {
        match &self.0 {
            Source::Tsv(_) => LostByCpu::new(),
            Source::Text(reader) => reader.lost_unplaced(),
            Source::TraceDat(trace) => trace.lost_unplaced(),
        }
    }
}

/// Whether a file without a heading starts like an event of `events.tsv`, or is empty.
fn is_tsv(start: &[u8]) -> bool {
    let line = start.split(|&b| b == b'\n').next().unwrap_or_default();
    let mut words = line.split(|&b| b == b' ');
    let number = |word: &[u8]| !word.is_empty() && word.iter().all(u8::is_ascii_digit);
    start.is_empty() || (0..3).all(|_| words.next().is_some_and(number))
}

impl Iterator for Events {
    type Item = Result<Record, Error>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            Source::Tsv(reader) => reader.next(),
            Source::Text(reader) => reader.next(),
            Source::TraceDat(trace) => trace.next(),
        }
    }
}
