//! The pageblocks of a history as bytes.
//!
//! A cell has four bytes: the type and, from bit 4, the class of content; the free eighths and, in bit 7, whether
//! most of its pages are of another type; the pages that cannot be moved, low byte and high byte. A sample is all
//! first bytes, then all second bytes and so on, each combined by exclusive or with the byte of the sample
//! before. All samples together are one zlib stream, in base64.

use std::io::{Read, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;

use super::cell::{CELL_BYTES, Cell};

/// The most pageblocks that a history may have: 8 TiB of 2 MiB.
pub(super) const BLOCKS_MAX: u64 = 1 << 22;
/// The most cells that are decoded: all samples together.
const CELLS_MAX: usize = 1 << 26;

/// Compresses samples as they are taken.
pub(super) struct Planes {
    stream: ZlibEncoder<Vec<u8>>,
    before: Vec<u8>,
}

impl Planes {
    pub(super) fn new(blocks: usize) -> Self {
        let stream = ZlibEncoder::new(Vec::new(), Compression::new(6));
        Self { stream, before: vec![0; blocks * CELL_BYTES] }
    }

    /// Appends a sample.
    pub(super) fn push(&mut self, cells: &[Cell]) {
        let blocks = cells.len();
        let mut planes = vec![0; self.before.len()];
        for (at, cell) in cells.iter().enumerate() {
            for (plane, byte) in cell.bytes().into_iter().enumerate() {
                planes[plane * blocks + at] = byte;
            }
        }
        for (new, before) in planes.iter().zip(&mut self.before) {
            *before ^= *new;
        }
        // A vector takes whatever is written.
        self.stream.write_all(&self.before).expect("a vector can be written");
        self.before = planes;
    }

    pub(super) fn finish(self) -> String {
        STANDARD.encode(self.stream.finish().expect("a vector can be written"))
    }
}

/// Returns the cells of each sample.
pub(super) fn decode(text: &str, blocks: usize, samples: usize) -> Result<Vec<Vec<Cell>>, String> {
    if blocks.checked_mul(samples).is_none_or(|cells| cells > CELLS_MAX) {
        return Err(format!("history.cells: more than {CELLS_MAX} cells"));
    }
    let bytes = STANDARD.decode(text).map_err(|error| format!("history.cells: {error}"))?;
    let mut stream = ZlibDecoder::new(bytes.as_slice());
    let mut planes = vec![0; blocks * CELL_BYTES];
    let mut change = planes.clone();
    let mut decoded = Vec::with_capacity(samples);
    for sample in 0..samples {
        stream
            .read_exact(&mut change)
            .map_err(|error| format!("history.cells: sample {sample}: {error}"))?;
        for (byte, change) in planes.iter_mut().zip(&change) {
            *byte ^= change;
        }
        let cell = |at| Cell::from_bytes(std::array::from_fn(|plane| planes[plane * blocks + at]));
        let cells: Option<Vec<Cell>> = (0..blocks).map(cell).collect();
        decoded.push(cells.ok_or_else(|| format!("history.cells: sample {sample} is damaged"))?);
    }
    Ok(decoded)
}
