//! Reads `/proc/kpageflags` and `/proc/kpagecount`, live or saved, in parts.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use pageblock_recording::Input;

use super::kind::{Kind, bit, is_dropped, kind};
use crate::error::Error;
use crate::proc::tree::Tree;

/// The number of frames read at a time: a part of 256 KiB stays in a cache.
const CHUNK: usize = 1 << 15;

/// Called with the number of frames read so far. Returns whether to stop.
pub type Watch<'a> = &'a dyn Fn(u64) -> bool;

/// Consecutive frames of one use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// Their use.
    pub kind: Kind,
    /// The number of frames.
    pub frames: u64,
    /// Whether `drop_caches` frees them: clean page cache that no process maps.
    pub dropped: bool,
}

/// Receives the use of the frames of a zone, from its first frame on. A folio above order 0 is a separate run if
/// frames are read from `/proc/kpageflags`.
pub trait Sink {
    /// Receives the next frames.
    fn push(&mut self, run: Run);
    /// Ends the zone.
    fn finish(&mut self) {}
}

/// A table with a word for each frame.
pub(super) struct Table {
    path: PathBuf,
    source: Source,
    /// The next frame.
    at: u64,
    bytes: Vec<u8>,
}

enum Source {
    File(File),
    Compressed(Box<Input>),
}

impl Table {
    /// Opens a table; it is compressed if its name says so.
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        let source = match path.extension().and_then(|end| end.to_str()) {
            Some("zst" | "xz") => Source::Compressed(Box::new(Input::open(path)?)),
            _ => Source::File(File::open(path).map_err(Error::io(path))?),
        };
        Ok(Self { path: path.to_owned(), source, at: 0, bytes: Vec::new() })
    }

    /// Returns the words of frames; fewer at the end of the table.
    fn words(&mut self, from: u64, count: usize) -> Result<&[u8], Error> {
        match &mut self.source {
            Source::File(file) => {
                if self.at != from {
                    file.seek(SeekFrom::Start(from * 8)).map_err(Error::io(&self.path))?;
                }
                self.bytes.clear();
                let mut limited = Read::by_ref(file).take(count as u64 * 8);
                limited.read_to_end(&mut self.bytes).map_err(Error::io(&self.path))?;
            }
            Source::Compressed(input) => {
                while self.at < from {
                    let step = CHUNK.min((from - self.at) as usize);
                    self.bytes.resize(step * 8, 0);
                    input.read_exact(&mut self.bytes, "the words of frames")?;
                    self.at += step as u64;
                }
                self.bytes.resize(count * 8, 0);
                input.read_exact(&mut self.bytes, "the words of frames")?;
            }
        }
        let whole = self.bytes.len() / 8;
        self.at = from + whole as u64;
        Ok(&self.bytes[..whole * 8])
    }
}

fn word(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().unwrap_or_default())
}

/// The use of the frames of a machine, read part by part.
pub struct Frames {
    flags: Table,
}

impl Frames {
    /// Opens `/proc/kpageflags` of a tree. `/proc/kpagecount` would take as long again and is not read, so kernel memory that is
    /// mapped cannot be distinguished from free memory on per-CPU lists.
    ///
    /// # Errors
    /// If the file does not exist, or may not be read.
    pub fn open(tree: &Tree) -> Result<Self, Error> {
        let path = tree.find("/proc/kpageflags").ok_or_else(|| Error::Missing {
            path: tree.root().to_owned(),
            what: "kpageflags",
            expected: "/proc/kpageflags, or a copy of it",
        })?;
        Ok(Self { flags: Table::open(&path)? })
    }

    /// Passes the frames from `start` to `end` to a sink. `start` is the first frame of a pageblock, and `huge` the
    /// number of its frames.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn read<S: Sink>(
        &mut self,
        (start, end): (u64, u64),
        huge: u64,
        sink: &mut S,
    ) -> Result<(), Error> {
        read(&mut self.flags, None, (start, end, huge), sink, &|_| false)
    }
}

/// Passes the frames from `start` to `end` to a sink. A folio of at least `huge` frames is a huge one.
pub(super) fn read<S: Sink>(
    flags: &mut Table,
    mut counts: Option<&mut Table>,
    (start, end, huge): (u64, u64, u64),
    sink: &mut S,
    watch: Watch<'_>,
) -> Result<(), Error> {
    let mut runs = Runs { kind: Kind::Hole, frames: 0, folio: false, dropped: false, huge, sink };
    let mut last = (bit::NO_PAGE, 0);
    let mut at = start;
    while at < end {
        let frames = CHUNK.min((end - at) as usize);
        let words = flags.words(at, frames)?;
        let maps = match &mut counts {
            Some(table) => table.words(at, frames)?,
            None => &[],
        };
        for (n, bytes) in words.chunks_exact(8).enumerate() {
            let flags = word(bytes);
            let maps = maps.get(n * 8..n * 8 + 8).map_or(0, word);
            if (flags, maps) == last && flags & (bit::HEAD | bit::TAIL) == 0 {
                runs.frames += 1;
                continue;
            }
            last = (flags, maps);
            runs.push(flags, maps);
        }
        let read = (words.len() / 8) as u64;
        at += read;
        if watch(read) {
            return Err(Error::Stopped);
        }
        if read < frames as u64 {
            // The kernel has no more frames.
            break;
        }
    }
    runs.end();
    sink.finish();
    Ok(())
}

/// The current run of frames of one kind.
struct Runs<'a, S> {
    kind: Kind,
    frames: u64,
    /// Whether it is one folio above order 0, whose size shows at its end.
    folio: bool,
    dropped: bool,
    huge: u64,
    sink: &'a mut S,
}

impl<S: Sink> Runs<'_, S> {
    fn push(&mut self, flags: u64, maps: u64) {
        let head = flags & bit::HEAD != 0 && flags & bit::LRU != 0;
        let now = kind(flags, maps, self.kind);
        let tail = flags & bit::TAIL != 0;
        // The tails of a folio are dropped with its head.
        let dropped = if tail { self.dropped } else { is_dropped(now, flags, maps) };
        let same = now == self.kind && dropped == self.dropped;
        if same && !head && (tail || !self.folio) {
            self.frames += 1;
            return;
        }
        self.end();
        self.kind = now;
        self.frames = 1;
        self.folio = head;
        self.dropped = dropped;
    }

    fn end(&mut self) {
        let kind = match self.kind {
            Kind::LargeFolio if self.folio && self.frames >= self.huge => Kind::HugeFolio,
            kind => kind,
        };
        if self.frames > 0 {
            self.sink.push(Run { kind, frames: self.frames, dropped: self.dropped });
        }
        self.frames = 0;
    }
}
