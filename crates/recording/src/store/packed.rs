//! A `.pbrec` as a capture format: its columns as a stream of events.

use std::path::Path;

use super::columnar::{Columnar, Records};
use super::pbrec::{MAGIC, columnar, open};
use crate::formats::capture::{Capture, Machine};
use crate::input::bytes::Input;
use crate::input::error::Error;
use crate::record::decoding::Decoding;
use crate::record::event::Record;
use crate::record::losses::Losses;
use crate::state::recording::Recording;

/// Streams the events of a `.pbrec`. After an error the stream ends.
pub(crate) struct Packed {
    columnar: Columnar,
    records: Records,
    /// The size of the file.
    bytes: u64,
}

impl Capture for Packed {
    fn recognizes(start: &[u8]) -> bool {
        start.starts_with(MAGIC)
    }

    fn start(path: &Path, input: Input, _: Decoding) -> Result<Self, Error> {
        let columnar = columnar(path)?;
        let records = columnar.records()?;
        Ok(Self { columnar, records, bytes: input.file_bytes().unwrap_or(0) })
    }

    fn machine(path: &Path, _: &[u8], _: Decoding) -> Result<Machine, Error> {
        let Recording { kernel, comms, kernel_assumed, .. } = open(path)?;
        Ok(Machine { kernel: Some(kernel).filter(|_| !kernel_assumed), comms })
    }

    /// Returns the share of the file that the events read so far are of all events.
    fn bytes_read(&self) -> u64 {
        let (all, left) = (self.columnar.events.max(1), self.records.left());
        let read = self.columnar.events.saturating_sub(left);
        (u128::from(self.bytes) * u128::from(read) / u128::from(all)) as u64
    }

    fn bytes(&self) -> Option<u64> {
        Some(self.bytes)
    }

    fn is_selected(&self) -> bool {
        true
    }

    fn losses(&self) -> Option<&Losses> {
        Some(&self.columnar.losses)
    }
}

impl Iterator for Packed {
    type Item = Result<Record, Error>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.records.next()
    }
}
