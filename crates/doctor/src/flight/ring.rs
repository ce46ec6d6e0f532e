//! Writes a ring file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use pageblock_files::Access;
use rustix::fs::{FallocateFlags, FlockOperation};

use super::codec::Packer;
use super::frame::{Frame, State};
use super::layout::{HEADER, Records, SLOT_HEADER, Shape, record, slot_header};
use super::read::{slot, slots};
use crate::error::Error;

/// A ring of samples in a file of a fixed size.
pub struct Ring {
    file: File,
    path: PathBuf,
    shape: Shape,
    /// The slot that is written, its sequence number, and where the next record begins in it.
    slot: u32,
    sequence: u64,
    at: usize,
    state: State,
    /// `None` before a key frame.
    packer: Option<Packer>,
}

impl Ring {
    /// Opens a ring to continue it, or creates one of this size in bytes (24 MiB by default). The process has
    /// exclusive use of it from then on.
    ///
    /// # Errors
    /// If the file cannot be written, is not a ring, has another size than requested, or is in use by another
    /// process.
    pub fn open(path: &Path, bytes: Option<u64>) -> Result<Self, Error> {
        let opened = pageblock_files::in_place(path, Access::Private);
        let (file, is_made) = opened.map_err(Error::io(path))?;
        let unusable = |why: &str| Error::Unusable { path: path.to_owned(), why: why.to_owned() };
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| unusable("another process writes this ring"))?;
        let is_new = file.metadata().map_err(Error::io(path))?.len() == 0;
        let wanted = Shape::of(bytes.unwrap_or(super::RING_BYTES));
        if is_new {
            create(&file, wanted).map_err(|source| {
                // A ring that lacks disk space would fail later, unattended. An existing file stays.
                if is_made {
                    let _ = std::fs::remove_file(path);
                }
                Error::Io { path: path.to_owned(), source }
            })?;
        }
        let shape = super::read::shape(&file, path)?;
        if bytes.is_some() && shape != wanted {
            let mib = shape.bytes() >> 20;
            return Err(unusable(&format!(
                "a ring of {mib} MiB; name another file for another size"
            )));
        }
        // A ring that was copied and cut.
        file.set_len(shape.bytes()).map_err(Error::io(path))?;
        let (state, path) = (State::default(), path.to_owned());
        let mut ring = Self { file, path, shape, slot: 0, sequence: 0, at: 0, state, packer: None };
        ring.find_end()?;
        Ok(ring)
    }

    fn find_end(&mut self) -> Result<(), Error> {
        let newest = slots(&self.file, self.shape, &self.path)?.into_iter().next_back();
        let Some((sequence, number)) = newest else {
            return self.begin(0, 1);
        };
        (self.slot, self.sequence) = (number, sequence);
        let bytes = slot(&self.file, self.shape, number, &self.path)?;
        if let Some(mut records) = Records::of(&bytes) {
            records.by_ref().for_each(drop);
            self.at = records.at();
        }
        Ok(())
    }

    /// Begins a slot.
    fn begin(&mut self, slot: u32, sequence: u64) -> Result<(), Error> {
        (self.slot, self.sequence, self.at) = (slot, sequence, SLOT_HEADER);
        self.packer = None;
        self.write(self.shape.offset(slot), &slot_header(sequence))
    }

    /// Appends a frame, and returns the bytes that it took.
    ///
    /// # Errors
    /// If it cannot be written, or is too large for the ring.
    pub fn append(&mut self, frame: &Frame) -> Result<usize, Error> {
        let key = self.packer.is_none();
        let packed = self.state.pack(frame, key);
        let taken = self.put(&packed, key)?;
        if let Some(taken) = taken {
            return Ok(taken);
        }
        self.begin((self.slot + 1) % self.shape.slots, self.sequence + 1)?;
        // The state has the frame's files already.
        let packed = self.state.pack(frame, true);
        self.put(&packed, true)?.ok_or_else(|| Error::Unusable {
            path: self.path.clone(),
            why: "one sample does not fit a part of the ring; a larger --size is needed".to_owned(),
        })
    }

    /// Writes a packed frame; `None` if it does not fit the slot.
    fn put(&mut self, packed: &[u8], key: bool) -> Result<Option<usize>, Error> {
        let io = Error::io(&self.path);
        let packer = match self.packer.take() {
            Some(packer) => Ok(packer),
            None => Packer::new(),
        };
        let mut packer = packer.map_err(io)?;
        let bytes = packer.pack(packed).map_err(Error::io(&self.path))?;
        let record = record(self.sequence, key, &bytes);
        if self.at + record.len() > self.shape.slot_bytes as usize {
            return Ok(None);
        }
        self.write(self.shape.offset(self.slot) + self.at as u64, &record)?;
        self.at += record.len();
        self.packer = Some(packer);
        Ok(Some(record.len()))
    }

    fn write(&self, at: u64, bytes: &[u8]) -> Result<(), Error> {
        self.file.write_all_at(bytes, at).map_err(Error::io(&self.path))
    }

    /// Waits until the appended frames are on the disk.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn sync(&self) -> Result<(), Error> {
        self.file.sync_data().map_err(Error::io(&self.path))
    }

    /// Writes the parts with samples since a moment to a file, completely or not at all. The first part may begin
    /// earlier.
    ///
    /// # Errors
    /// If a file cannot be read or written.
    pub fn keep(&self, since_ms: u64, path: &Path) -> Result<(), Error> {
        let mut kept: Vec<Vec<u8>> = Vec::new();
        for (_, number) in slots(&self.file, self.shape, &self.path)?.into_iter().rev() {
            let bytes = slot(&self.file, self.shape, number, &self.path)?;
            let starts = super::read::start_ms(&bytes);
            kept.push(bytes);
            if starts.is_some_and(|start| start <= since_ms) {
                break;
            }
        }
        kept.reverse();
        let slots = kept.len() as u32;
        let mut text = Shape { slots, ..self.shape }.header().to_vec();
        text.resize(HEADER as usize, 0);
        let last = kept.len() - 1;
        for (n, mut slot) in kept.into_iter().enumerate() {
            // The rest of the newest one is old.
            if n == last
                && let Some(mut records) = Records::of(&slot)
            {
                records.by_ref().for_each(drop);
                let end = records.at();
                slot.truncate(end);
            }
            text.extend(slot);
        }
        pageblock_files::write(path, &text, Access::Private).map_err(Error::io(path))
    }

    /// Returns the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the bytes of the file.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.shape.bytes()
    }

    /// Returns whether the ring has samples, of this process or of one before.
    #[must_use]
    pub fn has_samples(&self) -> bool {
        self.sequence > 1 || self.at > SLOT_HEADER
    }
}

/// Creates the file of a ring with all its space, so that a full disk cannot stop it later.
fn create(file: &File, shape: Shape) -> io::Result<()> {
    match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, shape.bytes()) {
        Ok(()) => {}
        // Some file systems cannot reserve space.
        Err(error) if error == rustix::io::Errno::OPNOTSUPP => file.set_len(shape.bytes())?,
        Err(error) => return Err(error.into()),
    }
    file.write_all_at(&shape.header(), 0)?;
    file.sync_all()
}
