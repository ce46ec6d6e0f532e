//! The records of a `perf.data` in the order of the file, decompressed.

use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

use crate::input::error::{Damage, Error};
use crate::input::source::Endian;
use crate::input::source::Source;

/// The bytes that are read at a time.
const READ_BYTES: u64 = 256 << 10;
const HEADER_BYTES: usize = 8;
const TRACING_DATA: u32 = 66;
const AUXTRACE: u32 = 71;
const COMPRESSED: u32 = 81;
const COMPRESSED2: u32 = 83;

/// A record's header; its body is in [`Stream::body`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Head {
    pub(super) kind: u32,
    pub(super) misc: u16,
    /// Its position in the file; of a compressed record that of what it was in.
    pub(super) at: u64,
}

/// A stream of records.
pub(super) struct Stream {
    pub(super) source: Source,
    endian: Endian,
    /// The position after the records that were read.
    pub(super) at: u64,
    end: u64,
    buffer: Vec<u8>,
    buffer_at: u64,
    body: Vec<u8>,
    zstd: Option<Decoder<'static>>,
    /// What was decompressed and not yet read; `read` bytes of it were.
    unpacked: Vec<u8>,
    read: usize,
    /// The position of what was last decompressed.
    packed_at: u64,
    /// Where the event formats are, if a record said so.
    pub(super) formats: Option<u64>,
}

impl Stream {
    pub(super) fn new(source: Source, endian: Endian, records: std::ops::Range<u64>) -> Self {
        Self {
            source,
            endian,
            at: records.start,
            end: records.end,
            buffer: Vec::new(),
            buffer_at: records.start,
            body: Vec::new(),
            zstd: None,
            unpacked: Vec::new(),
            read: 0,
            packed_at: 0,
            formats: None,
        }
    }

    /// Returns the body of the last record.
    pub(super) fn body(&self) -> &[u8] {
        &self.body
    }

    /// Reads the next record.
    pub(super) fn next(&mut self) -> Result<Option<Head>, Error> {
        loop {
            if let Some(head) = self.next_unpacked()? {
                return Ok(Some(head));
            }
            let Some(head) = self.next_stored()? else { return Ok(None) };
            match head.kind {
                COMPRESSED | COMPRESSED2 => self.unpack(head)?,
                AUXTRACE => {
                    let bytes = self.number(0..8);
                    self.skip(head, bytes)?;
                }
                TRACING_DATA => {
                    let bytes = self.number(0..4);
                    self.formats = Some(self.at);
                    self.skip(head, bytes.next_multiple_of(8))?;
                }
                _ => return Ok(Some(head)),
            }
        }
    }

    fn number(&self, range: std::ops::Range<usize>) -> u64 {
        self.body.get(range).map_or(0, |bytes| self.endian.number(bytes))
    }

    /// Passes data that follow a record.
    fn skip(&mut self, head: Head, bytes: u64) -> Result<(), Error> {
        match self.at.checked_add(bytes) {
            Some(end) if end <= self.end => {
                self.at = end;
                Ok(())
            }
            _ => Err(self.cut(head.at, bytes)),
        }
    }

    fn cut(&self, at: u64, bytes: u64) -> Error {
        let place = self.source.place(self.end);
        let expected = format!("the rest of the record at byte {at}, {bytes} bytes");
        Error::unexpected(place, "the end of the records", expected)
    }

    /// Reads a record as it is in the file.
    fn next_stored(&mut self) -> Result<Option<Head>, Error> {
        if self.at >= self.end {
            return Ok(None);
        }
        let at = self.at;
        let head = self.window(at, HEADER_BYTES as u64)?.try_into().unwrap_or_default();
        let (head, bytes) = self.head(head, at)?;
        let body = self.window(at, bytes as u64)?[HEADER_BYTES..].to_vec();
        self.body = body;
        self.at += bytes as u64;
        Ok(Some(head))
    }

    /// Returns bytes of the file, at most 64 KiB.
    fn window(&mut self, at: u64, bytes: u64) -> Result<&[u8], Error> {
        if at + bytes > self.end {
            return Err(self.cut(at, bytes));
        }
        if at < self.buffer_at || at + bytes > self.buffer_at + self.buffer.len() as u64 {
            let len = READ_BYTES.min(self.end - at);
            self.buffer.resize(len as usize, 0);
            self.source.read_at(at, &mut self.buffer, "records")?;
            self.buffer_at = at;
        }
        let start = (at - self.buffer_at) as usize;
        Ok(&self.buffer[start..start + bytes as usize])
    }

    /// Parses a header; returns it and the size of the record with it.
    fn head(&self, bytes: [u8; HEADER_BYTES], at: u64) -> Result<(Head, usize), Error> {
        let kind = self.endian.number(&bytes[..4]) as u32;
        let misc = self.endian.number(&bytes[4..6]) as u16;
        let size = self.endian.number(&bytes[6..]) as usize;
        if size < HEADER_BYTES {
            let found = format!("a record of {size} bytes");
            return Err(Error::unexpected(
                self.source.place(at),
                found,
                "at least its 8 bytes of header",
            ));
        }
        Ok((Head { kind, misc, at }, size))
    }

    /// Reads a record of what was decompressed; `None` if it is not complete.
    fn next_unpacked(&mut self) -> Result<Option<Head>, Error> {
        let left = &self.unpacked[self.read..];
        let Some(&bytes) = left.first_chunk::<HEADER_BYTES>() else { return Ok(None) };
        let (head, size) = self.head(bytes, self.packed_at)?;
        let Some(record) = self.unpacked[self.read..].get(HEADER_BYTES..size) else {
            return Ok(None);
        };
        self.body.clear();
        self.body.extend_from_slice(record);
        self.read += size;
        Ok(Some(head))
    }

    /// Decompresses the last record behind what is left: the records are parts of one stream of zstd.
    fn unpack(&mut self, head: Head) -> Result<(), Error> {
        /// What one record may become, far above what perf puts in one.
        const LIMIT_BYTES: usize = 64 << 20;
        self.unpacked.drain(..self.read);
        self.read = 0;
        self.packed_at = head.at;
        let packed = if head.kind == COMPRESSED2 {
            let bytes = self.number(0..8) as usize;
            self.body.get(8..).map_or(&[][..], |packed| packed.get(..bytes).unwrap_or(packed))
        } else {
            &self.body[..]
        };
        let place = self.source.place(head.at);
        let damage = |why: String| {
            let at = place.clone();
            Error::Damaged(Box::new(Damage { at, form: "zstd", compressed_offset: head.at, why }))
        };
        let zstd = match &mut self.zstd {
            Some(zstd) => zstd,
            none => none.insert(Decoder::new().map_err(|e| damage(e.to_string()))?),
        };
        let mut input = InBuffer::around(packed);
        let mut chunk = vec![0; 128 << 10];
        loop {
            let mut output = OutBuffer::around(&mut chunk[..]);
            zstd.run(&mut input, &mut output).map_err(|e| damage(e.to_string()))?;
            let written = output.pos();
            self.unpacked.extend_from_slice(&chunk[..written]);
            if written < chunk.len() && input.pos() >= packed.len() {
                return Ok(());
            }
            if self.unpacked.len() > LIMIT_BYTES {
                return Err(damage(format!("a record of more than {LIMIT_BYTES} bytes")));
            }
        }
    }
}
