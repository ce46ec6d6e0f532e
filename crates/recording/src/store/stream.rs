//! A table of columns that may be cut or damaged: its batches from the start on, without its end.
//!
//! An Arrow IPC file is a mark, then messages: four bytes 0xff, the bytes of a description, the description, a body.
//! The library's reader trusts the sizes in them, and a damaged one requests all memory: they are
//! checked here before it sees a message.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use arrow_buffer::Buffer;
use arrow_ipc::reader::StreamDecoder;
use arrow_ipc::{Message, MessageHeader, root_as_message};

use crate::input::error::Error;
use crate::store::seal::TRAILER_MARK;
use crate::store::table::{Batch, guarded};

const CONTINUATION: [u8; 4] = [0xff; 4];
/// The bytes of a buffer after decompression: many times those of a batch that `TableWriter` writes.
const BUFFER_LIMIT: i64 = 256 << 20;
/// The bytes before a compressed buffer that tell its size after decompression; -1 if it is not compressed.
const SIZE_BYTES: usize = 8;

/// Reads the batches of a table from its start until it is damaged or ends.
pub(crate) struct StreamReader {
    path: PathBuf,
    file: BufReader<File>,
    left: u64,
    decoder: StreamDecoder,
    first: Option<Batch>,
}

impl StreamReader {
    /// Opens a table with these columns in this order. Nothing is known of its end.
    pub(crate) fn open(path: &Path, columns: &[&str]) -> Result<Self, Error> {
        let failed = |error| Error::io(path, error);
        let file = File::open(path).map_err(failed)?;
        let left = file.metadata().map_err(failed)?.len();
        let mut file = BufReader::with_capacity(1 << 16, file);
        // The mark is padded with zeros.
        let start = file.fill_buf().map_err(failed)?;
        let mark = TRAILER_MARK.len();
        let mark = mark + start.iter().skip(mark).take_while(|&&byte| byte == 0).count();
        file.seek_relative(mark as i64).map_err(failed)?;
        let left = left.saturating_sub(mark as u64);
        let decoder = StreamDecoder::new();
        let mut stream = Self { path: path.to_owned(), file, left, decoder, first: None };
        let columns_are = |decoder: &StreamDecoder| {
            let schema = decoder.schema()?;
            Some(schema.fields().iter().map(|field| field.name()).eq(columns))
        };
        // A description without a body is taken in with the bytes after it.
        while stream.decoder.schema().is_none() {
            let message = stream.message().ok_or_else(|| stream.damaged())?;
            stream.first = stream.decode(message)?;
        }
        match columns_are(&stream.decoder) {
            Some(true) => Ok(stream),
            Some(false) => Err(Error::columnar(path, "it has other columns")),
            None => Err(stream.damaged()),
        }
    }

    /// Returns the texts at the start.
    pub(crate) fn head(&self) -> HashMap<String, String> {
        self.decoder.schema().map(|schema| schema.metadata().clone().into()).unwrap_or_default()
    }

    /// Reads the next batch; `None` after the last whole one.
    pub(crate) fn next_batch(&mut self) -> Option<Batch> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        loop {
            let message = self.message()?;
            if let Some(batch) = self.decode(message).ok()? {
                return Some(batch);
            }
        }
    }

    /// Reads one message whose sizes are possible; `None` if there is no other.
    fn message(&mut self) -> Option<Vec<u8>> {
        let mut bytes = self.take(8)?;
        let (mark, size) = (&bytes[..4], &bytes[4..]);
        let size = u32::from_le_bytes(size.try_into().ok()?);
        if mark != CONTINUATION || size == 0 {
            return None;
        }
        let description = self.take(u64::from(size))?;
        let body = {
            let message = root_as_message(&description).ok()?;
            let body = self.take(u64::try_from(message.bodyLength()).ok()?)?;
            is_possible(message, &body)?;
            body
        };
        bytes.extend(description);
        bytes.extend(body);
        Some(bytes)
    }

    fn take(&mut self, bytes: u64) -> Option<Vec<u8>> {
        self.left = self.left.checked_sub(bytes)?;
        let mut taken = vec![0; usize::try_from(bytes).ok()?];
        self.file.read_exact(&mut taken).ok()?;
        Some(taken)
    }

    fn decode(&mut self, message: Vec<u8>) -> Result<Option<Batch>, Error> {
        let Self { path, decoder, .. } = self;
        guarded(path, || {
            let mut bytes = Buffer::from_vec(message);
            let batch = decoder.decode(&mut bytes).map_err(|e| Error::columnar(path, e))?;
            Ok(batch.map(|batch| Batch { batch, path: path.clone() }))
        })
    }

    fn damaged(&self) -> Error {
        Error::columnar(&self.path, "its beginning is damaged")
    }
}

/// Checks that the buffers of a message lie in its body and do not become too large.
fn is_possible(message: Message<'_>, body: &[u8]) -> Option<()> {
    let batch = match message.header_type() {
        MessageHeader::Schema => return Some(()),
        MessageHeader::RecordBatch => message.header_as_record_batch()?,
        MessageHeader::DictionaryBatch => message.header_as_dictionary_batch()?.data()?,
        _ => return None,
    };
    for buffer in batch.buffers()? {
        let start = usize::try_from(buffer.offset()).ok()?;
        let size = usize::try_from(buffer.length()).ok()?;
        let bytes = body.get(start..start.checked_add(size)?)?;
        if batch.compression().is_some() && !bytes.is_empty() {
            let size = i64::from_le_bytes(bytes.get(..SIZE_BYTES)?.try_into().ok()?);
            (-1..=BUFFER_LIMIT).contains(&size).then_some(())?;
        }
    }
    Some(())
}
