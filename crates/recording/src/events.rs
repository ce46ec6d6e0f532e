//! The events of a file in any of the formats.

use std::collections::BTreeMap;
use std::path::Path;

use crate::columnar::{Columnar, Records};
use crate::error::Error;
use crate::input::Input;
use crate::llfree::LlfreeReader;
use crate::losses::{Losses, LostByCpu};
use crate::perf_data::PerfData;
use crate::record::{Record, What};
use crate::text::TextReader;
use crate::trace_dat::TraceDat;
use crate::tsv::{Decoding, TsvReader};

/// The bytes that are needed to detect a file's format: one line.
pub(crate) const START_BYTES: usize = 4096;

/// Streams the events of a file. After an error the stream ends.
pub struct Events(Source);

enum Source {
    Tsv(TsvReader),
    Text(TextReader),
    TraceDat(Box<TraceDat>),
    PerfData(Box<PerfData>),
    Llfree(LlfreeReader),
    Pbrec(Box<Packed>),
}

/// The events of a `.pbrec`.
struct Packed {
    columnar: Columnar,
    records: Records,
    bytes: u64,
}

/// Events of the slab allocator and of accounting, which capture all of `kmem:*`: they say nothing of pages.
const NOT_OF_PAGES: [&str; 9] = [
    "kmalloc",
    "kmalloc_node",
    "kfree",
    "kmem_cache_alloc",
    "kmem_cache_alloc_node",
    "kmem_cache_free",
    "rss_stat",
    "mm_calculate_totalreserve_pages",
    "mm_setup_per_zone_wmarks",
];

impl Events {
    /// Opens a file, plain or compressed, and detects its format by its first bytes: a `.pbrec`, a
    /// `trace.dat`, a `perf.data`, an `events.tsv`, a trace of LLFree, or else a trace as printed by ftrace, perf or trace-cmd.
    ///
    /// # Errors
    /// If it cannot be opened, a header is damaged, or it is a file of another tool.
    pub fn open(path: &Path, decoding: Decoding) -> Result<Self, Error> {
        let mut input = Input::open(path)?;
        refuse_others(&mut input)?;
        let start = input.peek(START_BYTES)?;
        Ok(Self(if start.starts_with(crate::pbrec::MAGIC) {
            let columnar = crate::pbrec::columnar(path)?;
            let records = columnar.records()?;
            let bytes = input.file_bytes().unwrap_or(0);
            Source::Pbrec(Box::new(Packed { columnar, records, bytes }))
        } else if start.starts_with(b"\x17\x08\x44tracing") {
            Source::TraceDat(Box::new(TraceDat::open(path, decoding)?))
        } else if crate::perf_data::is_magic(start) {
            Source::PerfData(Box::new(PerfData::open(path, decoding)?))
        } else if crate::llfree::is_trace(start) {
            Source::Llfree(LlfreeReader::open(path)?)
        } else if start.starts_with(b"# pb-events") || is_tsv(start) {
            Source::Tsv(TsvReader::new(input, decoding))
        } else {
            Source::Text(TextReader::new(input, decoding))
        }))
    }

    /// Returns how many bytes of the file, as stored, were read; for a compressed `trace.dat`, which is
    /// decompressed first, the decompressed bytes.
    #[must_use]
    pub fn file_bytes_read(&self) -> u64 {
        match &self.0 {
            Source::Tsv(reader) => reader.input().file_bytes_read(),
            Source::Text(reader) => reader.input().file_bytes_read(),
            Source::TraceDat(trace) => trace.bytes_read(),
            Source::PerfData(perf) => perf.bytes_read(),
            Source::Llfree(reader) => reader.bytes_read(),
            Source::Pbrec(packed) => packed.bytes_read(),
        }
    }

    /// Returns the total that corresponds to [`Events::file_bytes_read`].
    #[must_use]
    pub fn file_bytes(&self) -> Option<u64> {
        match &self.0 {
            Source::Tsv(reader) => reader.input().file_bytes(),
            Source::Text(reader) => reader.input().file_bytes(),
            Source::TraceDat(trace) => Some(trace.bytes()),
            Source::PerfData(perf) => Some(perf.bytes()),
            Source::Llfree(reader) => Some(reader.bytes()),
            Source::Pbrec(packed) => Some(packed.bytes),
        }
    }

    /// Returns the names of processes that stand among the events, as far as the file was read.
    pub(crate) fn comms(&self) -> Option<&BTreeMap<u32, String>> {
        match &self.0 {
            Source::Text(reader) => Some(reader.comms()),
            Source::PerfData(perf) => Some(&perf.comms),
            Source::Tsv(_) | Source::TraceDat(_) | Source::Llfree(_) | Source::Pbrec(_) => None,
        }
    }

    /// Returns all losses at once, if the file says so: a `.pbrec` does, and counts none below.
    pub(crate) fn losses(&self) -> Option<&Losses> {
        match &self.0 {
            Source::Pbrec(packed) => Some(&packed.columnar.losses),
            _ => None,
        }
    }

    /// Returns the number of events that the recorder lost, as far as the file was read; `events.tsv` does not
    /// say and counts as complete.
    #[must_use]
    pub fn lost(&self) -> u64 {
        match &self.0 {
            Source::Tsv(_) | Source::Llfree(_) | Source::Pbrec(_) => 0,
            Source::Text(reader) => reader.lost(),
            Source::TraceDat(trace) => trace.lost(),
            Source::PerfData(perf) => perf.lost(),
        }
    }

    /// Returns [`Events::lost`] by CPU.
    #[must_use]
    pub fn lost_by_cpu(&self) -> LostByCpu {
        match &self.0 {
            Source::Tsv(_) | Source::Llfree(_) | Source::Pbrec(_) => LostByCpu::new(),
            Source::Text(reader) => reader.lost_by_cpu().clone(),
            Source::TraceDat(trace) => trace.lost_by_cpu(),
            Source::PerfData(perf) => perf.lost_by_cpu().clone(),
        }
    }

    /// Returns, after the last event, the losses beyond [`Events::lost_by_cpu`] whose positions the file does
    /// not say.
    #[must_use]
    pub fn lost_unplaced(&self) -> LostByCpu {
        match &self.0 {
            Source::Tsv(_) | Source::Llfree(_) | Source::Pbrec(_) => LostByCpu::new(),
            Source::Text(reader) => reader.lost_unplaced(),
            Source::TraceDat(trace) => trace.lost_unplaced(),
            Source::PerfData(perf) => perf.lost_unplaced(),
        }
    }
}

impl From<TraceDat> for Events {
    fn from(trace: TraceDat) -> Self {
        Self(Source::TraceDat(Box::new(trace)))
    }
}

impl Packed {
    /// Returns the bytes read, as the share of events read.
    fn bytes_read(&self) -> u64 {
        let (all, left) = (self.columnar.events.max(1), self.records.left());
        let read = self.columnar.events.saturating_sub(left);
        (u128::from(self.bytes) * u128::from(read) / u128::from(all)) as u64
    }
}

/// Rejects files that other tools compressed.
///
/// # Errors
/// If it is such a file, or cannot be read.
pub(crate) fn refuse_others(input: &mut Input) -> Result<(), Error> {
    let found = match input.peek(START_BYTES)? {
        [0x1f, 0x8b, ..] => "a gzip file",
        [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41, 0x59, 0x26, ..] => "a bzip2 file",
        _ => return Ok(()),
    };
    let expected = "a plain file, or one compressed with xz or zstd";
    Err(Error::unexpected(input.place(), found, expected))
}

/// Reports whether a file without a heading starts like an event of `events.tsv`, or is empty.
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
        loop {
            let record = match &mut self.0 {
                Source::Tsv(reader) => return reader.next(),
                Source::Text(reader) => reader.next(),
                Source::TraceDat(trace) => trace.next(),
                Source::PerfData(perf) => perf.next(),
                Source::Llfree(reader) => return reader.next(),
                Source::Pbrec(packed) => return packed.records.next(),
            };
            match &record {
                Some(Ok(Record { what: What::Other(other), .. }))
                    if NOT_OF_PAGES.contains(&&*other.name) => {}
                _ => return record,
            }
        }
    }
}
