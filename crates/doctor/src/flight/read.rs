//! Reads a flight file: a ring, or a part that was kept from one.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::codec::Unpacker;
use super::damage::{Damage, Damaged};
use super::frame::{Event, FileText, State};
use super::layout::{Records, SLOT_HEADER, Shape, sequence};
use crate::error::Error;
use crate::proc::open_regular;
use crate::proc::tree::Tree;

/// A flight file.
pub struct Flight {
    file: File,
    path: PathBuf,
    shape: Shape,
}

/// The state of a machine at one moment.
pub struct Moment<'a> {
    state: &'a State,
    /// Lines of the kernel's log since the moment before.
    pub log: &'a str,
    /// Failures and stalls since then.
    pub events: &'a [Event],
    /// The recorder, or a part of the ring, begins here.
    pub is_key: bool,
}

impl Moment<'_> {
    /// Returns its time in milliseconds since 1970.
    #[must_use]
    pub const fn wall_ms(&self) -> u64 {
        self.state.wall_ms
    }

    /// Returns the files, each as it was last read.
    #[must_use]
    pub fn files(&self) -> BTreeMap<String, FileText> {
        self.state.files()
    }

    /// Returns one file.
    #[must_use]
    pub fn file(&self, name: &str) -> Option<FileText> {
        self.state.file(name)
    }
}

/// The parts of a flight file that were read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Extent {
    /// The samples.
    pub samples: u64,
    /// The bytes of their records.
    pub bytes: u64,
    /// The parts that could not be read, with their times and the reasons.
    pub damage: Vec<Damage>,
}

impl Flight {
    /// Opens a flight file, which may be written to at the same time.
    ///
    /// # Errors
    /// If it cannot be read or is no flight file.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let file = open_regular(path).map_err(Error::io(path))?;
        let shape = shape(&file, path)?;
        Ok(Self { file, path: path.to_owned(), shape })
    }

    /// Returns the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Calls a function with every moment in chronological order, until it returns false.
    ///
    /// # Errors
    /// If the file cannot be read. Damage is reported in the result.
    pub fn each(&self, see: &mut dyn FnMut(&Moment<'_>) -> bool) -> Result<Extent, Error> {
        let mut extent = Extent::default();
        let mut damaged = Damaged::default();
        for (sequence, number) in slots(&self.file, self.shape, &self.path)? {
            let bytes = slot(&self.file, self.shape, number, &self.path)?;
            damaged.begin(number, sequence, &bytes);
            let seen = &mut |moment: &Moment<'_>| {
                damaged.readable(moment.wall_ms());
                see(moment)
            };
            match each_of(&bytes, &mut extent, seen) {
                Ok(Some(end)) => damaged.end(number, &bytes, end),
                Ok(None) => break,
                Err(why) => damaged.lost(format!("part {number}: {why}")),
            }
        }
        extent.damage = damaged.found();
        Ok(extent)
    }

    /// Makes a tree of a moment's files and of a log.
    #[must_use]
    pub fn tree(&self, mut files: BTreeMap<String, FileText>, log: Option<&str>) -> Tree {
        if let Some(log) = log {
            files.insert("/dmesg".to_owned(), Ok(log.to_owned()));
        }
        Tree::of_texts(&self.path, files)
    }
}

/// Calls a function with the moments of a slot. Returns the offset where they end; `None` if the function stopped.
fn each_of(
    slot: &[u8],
    extent: &mut Extent,
    see: &mut dyn FnMut(&Moment<'_>) -> bool,
) -> Result<Option<usize>, String> {
    let Some(mut records) = Records::of(slot) else { return Ok(Some(slot.len())) };
    let mut state = State::default();
    let mut unpacker = None;
    for (is_key, bytes) in records.by_ref() {
        if is_key {
            unpacker = Some(Unpacker::new().map_err(|error| error.to_string())?);
        }
        let unpacker = unpacker.as_mut().ok_or("its first sample needs one before it")?;
        let frame = unpacker.unpack(bytes).map_err(|error| error.to_string())?;
        let (log, events) = state.unpack(&frame)?;
        extent.samples += 1;
        extent.bytes += bytes.len() as u64;
        if !see(&Moment { state: &state, log: &log, events: &events, is_key }) {
            return Ok(None);
        }
    }
    Ok(Some(records.at()))
}

/// Returns the time of a slot's first sample.
pub(super) fn start_ms(slot: &[u8]) -> Option<u64> {
    let mut start = None;
    let first = &mut |moment: &Moment<'_>| {
        start = Some(moment.wall_ms());
        false
    };
    each_of(slot, &mut Extent::default(), first).ok()?;
    start
}

/// Reads the shape of a file.
pub(super) fn shape(file: &File, path: &Path) -> Result<Shape, Error> {
    let mut header = [0; 28];
    let read = read_at(file, &mut header, 0).map_err(Error::io(path))?;
    Shape::read(&header[..read]).map_err(|why| Error::Unusable { path: path.to_owned(), why })
}

/// Returns the slots that were begun: their sequence numbers and their places, the oldest first.
pub(super) fn slots(file: &File, shape: Shape, path: &Path) -> Result<Vec<(u64, u32)>, Error> {
    let mut slots = Vec::new();
    for slot in 0..shape.slots {
        let mut header = [0; SLOT_HEADER];
        let read = read_at(file, &mut header, shape.offset(slot)).map_err(Error::io(path))?;
        if read == 0 {
            break;
        }
        slots.extend(sequence(&header[..read]).map(|sequence| (sequence, slot)));
    }
    slots.sort_unstable();
    Ok(slots)
}

/// Reads a slot, or the part of it that exists.
pub(super) fn slot(file: &File, shape: Shape, slot: u32, path: &Path) -> Result<Vec<u8>, Error> {
    let mut bytes = vec![0; shape.slot_bytes as usize];
    let read = read_at(file, &mut bytes, shape.offset(slot)).map_err(Error::io(path))?;
    bytes.truncate(read);
    Ok(bytes)
}

/// Reads up to the end of the file.
fn read_at(file: &File, bytes: &mut [u8], at: u64) -> std::io::Result<usize> {
    let mut read = 0;
    while read < bytes.len() {
        match file.read_at(&mut bytes[read..], at + read as u64) {
            Ok(0) => break,
            Ok(more) => read += more,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(read)
}
