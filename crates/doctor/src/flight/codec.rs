//! Packed frames as compressed records. Each record ends a block of a zstd stream, so that it can be read as soon
//! as it is complete, and refers to earlier data of the stream.

use std::io::{self, Write};

use zstd::stream::write::{Decoder, Encoder};
use zstd::zstd_safe::{CParameter, DParameter};

use super::frame::MOST_BYTES;

/// The compression level; higher levels save little here.
const LEVEL: i32 = 9;
/// The binary logarithm of the compression window in bytes.
const WINDOW: u32 = 18;

/// Compresses the frames of a stream.
pub(super) struct Packer(Encoder<'static, Vec<u8>>);

impl Packer {
    pub(super) fn new() -> io::Result<Self> {
        let mut encoder = Encoder::new(Vec::new(), LEVEL)?;
        encoder.set_parameter(CParameter::WindowLog(WINDOW))?;
        encoder.set_parameter(CParameter::ContentSizeFlag(false))?;
        Ok(Self(encoder))
    }

    /// Returns the record of a frame.
    pub(super) fn pack(&mut self, frame: &[u8]) -> io::Result<Vec<u8>> {
        self.0.write_all(frame)?;
        self.0.flush()?;
        Ok(std::mem::take(self.0.get_mut()))
    }
}

/// Decompresses the records of a stream.
pub(super) struct Unpacker(Decoder<'static, Limited>);

/// Holds the bytes of one record, and no more than a record can have.
#[derive(Default)]
struct Limited(Vec<u8>);

impl Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > 2 * MOST_BYTES {
            return Err(io::Error::other("a record of more than 32 MiB"));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Unpacker {
    pub(super) fn new() -> io::Result<Self> {
        let mut decoder = Decoder::new(Limited::default())?;
        decoder.set_parameter(DParameter::WindowLogMax(WINDOW))?;
        Ok(Self(decoder))
    }

    /// Returns the frame of a record.
    pub(super) fn unpack(&mut self, record: &[u8]) -> io::Result<Vec<u8>> {
        self.0.write_all(record)?;
        self.0.flush()?;
        Ok(std::mem::take(&mut self.0.get_mut().0))
    }
}
