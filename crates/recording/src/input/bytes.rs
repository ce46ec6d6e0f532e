//! Files as streams of decompressed bytes and of lines, with their positions.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::input::compression::{Compression, MAGIC_BYTES};
use crate::input::error::{Damage, Error, Place, quoted};

/// The bytes that are needed to detect a file's format: one line.
pub(crate) const START_BYTES: usize = 4096;
/// The bytes that are read from the decompressor at a time.
const CHUNK_BYTES: usize = 256 << 10;
/// The maximum length of a line, far above that of any format; it bounds the memory that a damaged file can
/// take.
const LINE_LIMIT_BYTES: usize = 1 << 20;

/// A byte stream with a known position, decompressed while it is read.
pub struct Input {
    file: Arc<Path>,
    reader: Box<dyn Read + Send>,
    compression: Option<&'static str>,
    file_bytes_read: Arc<AtomicU64>,
    file_bytes: Option<u64>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    offset: u64,
    line: u64,
}

/// One line of an [`Input`], without its line end.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    /// The text.
    pub bytes: &'a [u8],
    /// The line number, from 1.
    pub number: u64,
    /// The position of its first byte in the decompressed stream.
    pub offset: u64,
    /// Whether the line has a line end; a line without one ends the file.
    pub complete: bool,
}

/// Counts the bytes that a decompressor reads.
struct Counted<R>(R, Arc<AtomicU64>);

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.0.read(buf)?;
        self.1.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}

impl Input {
    /// Opens a file; xz and zstd are detected by their first bytes.
    ///
    /// # Errors
    /// If the file cannot be opened or read.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let file = File::open(path).map_err(|e| Error::io(path, e))?;
        let bytes = file.metadata().map_err(|e| Error::io(path, e))?.len();
        let mut input = Self::from_reader(file, path)?;
        input.file_bytes = Some(bytes);
        Ok(input)
    }

    /// Reads from any source; messages name it by `name`.
    ///
    /// # Errors
    /// If the first bytes cannot be read.
    pub fn from_reader(mut reader: impl Read + Send + 'static, name: &Path) -> Result<Self, Error> {
        let mut magic = Vec::with_capacity(MAGIC_BYTES);
        let start = MAGIC_BYTES as u64;
        reader.by_ref().take(start).read_to_end(&mut magic).map_err(|e| Error::io(name, e))?;
        // Recordings are never gzip: `refuse_others` says so.
        let form = Compression::of(&magic).filter(|form| *form != Compression::Gzip);
        let file_bytes_read = Arc::new(AtomicU64::new(0));
        let whole = io::Cursor::new(magic).chain(reader);
        let counted = Counted(whole, Arc::clone(&file_bytes_read));
        let reader: Box<dyn Read + Send> = match form {
            Some(form) => form
                .decoder(BufReader::with_capacity(64 << 10, counted))
                .map_err(|e| Error::io(name, e))?,
            None => Box::new(counted),
        };
        Ok(Self {
            file: Arc::from(name),
            reader,
            compression: form.map(Compression::name),
            file_bytes_read,
            file_bytes: None,
            buffer: Vec::new(),
            start: 0,
            end: 0,
            offset: 0,
            line: 0,
        })
    }

    /// Returns the file's name.
    #[must_use]
    pub fn file(&self) -> &Arc<Path> {
        &self.file
    }

    /// Returns how the file is compressed, `xz` or `zstd`, if it is.
    pub(crate) fn compression(&self) -> Option<&'static str> {
        self.compression
    }

    /// Returns how many bytes of the file, as stored, were read.
    #[must_use]
    pub fn file_bytes_read(&self) -> u64 {
        self.file_bytes_read.load(Ordering::Relaxed)
    }

    /// Returns the size of the file as stored; `None` if it is not a file.
    #[must_use]
    pub fn file_bytes(&self) -> Option<u64> {
        self.file_bytes
    }

    /// Returns the position of the next byte.
    #[must_use]
    pub fn place(&self) -> Place {
        Place { file: Arc::clone(&self.file), line: None, offset: self.offset }
    }

    /// Returns the position of a line.
    #[must_use]
    pub fn place_of(&self, number: u64, offset: u64) -> Place {
        Place { file: Arc::clone(&self.file), line: Some(number), offset }
    }

    /// Reads the next line.
    ///
    /// # Errors
    /// If the file cannot be read or decompressed, or a line exceeds 1 MiB.
    #[inline]
    pub fn next_line(&mut self) -> Result<Option<Line<'_>>, Error> {
        let mut searched = 0;
        loop {
            let unread = &self.buffer[self.start + searched..self.end];
            if let Some(n) = memchr::memchr(b'\n', unread) {
                return Ok(Some(self.take_line(searched + n, 1)));
            }
            searched = self.end - self.start;
            if searched > LINE_LIMIT_BYTES {
                let found = &self.buffer[self.start..self.end];
                return Err(Error::unexpected(
                    self.place_of(self.line + 1, self.offset),
                    format!("{} and {searched} bytes without a line end", quoted(&found[..20])),
                    "lines of at most 1048576 bytes",
                ));
            }
            if self.fill()? == 0 {
                if searched == 0 {
                    return Ok(None);
                }
                return Ok(Some(self.take_line(searched, 0)));
            }
        }
    }

    #[inline]
    fn take_line(&mut self, len: usize, end_len: usize) -> Line<'_> {
        let at = self.start;
        let offset = self.offset;
        self.start += len + end_len;
        self.offset += (len + end_len) as u64;
        self.line += 1;
        let bytes = &self.buffer[at..at + len];
        Line { bytes, number: self.line, offset, complete: end_len == 1 }
    }

    /// Reads exactly `out.len()` bytes; the error names `what` if the stream ends first.
    ///
    /// # Errors
    /// If the file cannot be read or decompressed, or ends.
    pub fn read_exact(&mut self, out: &mut [u8], what: &str) -> Result<(), Error> {
        let mut done = 0;
        while done < out.len() {
            if self.start == self.end && self.fill()? == 0 {
                return Err(Error::unexpected(
                    self.place(),
                    format!("the end of the file inside {what}"),
                    format!("{} more bytes", out.len() - done),
                ));
            }
            let n = (self.end - self.start).min(out.len() - done);
            out[done..done + n].copy_from_slice(&self.buffer[self.start..self.start + n]);
            self.start += n;
            self.offset += n as u64;
            done += n;
        }
        Ok(())
    }

    /// Returns the next bytes without consuming them: at least `bytes` of them, or all that are left.
    ///
    /// # Errors
    /// If the file cannot be read or decompressed.
    pub fn peek(&mut self, bytes: usize) -> Result<&[u8], Error> {
        // A read may return fewer bytes than requested.
        while self.end - self.start < bytes && self.fill()? > 0 {}
        Ok(&self.buffer[self.start..self.end])
    }

    /// Reads some bytes; returns none at the end of the stream.
    ///
    /// # Errors
    /// If the file cannot be read or decompressed.
    pub fn next_chunk(&mut self) -> Result<&[u8], Error> {
        if self.start == self.end {
            self.fill()?;
        }
        let chunk = self.start..self.end;
        self.offset += chunk.len() as u64;
        self.start = self.end;
        Ok(&self.buffer[chunk])
    }

    /// Reads everything that is left, at most `limit_bytes`.
    ///
    /// # Errors
    /// If the file cannot be read or decompressed, or is larger.
    pub fn read_to_end(&mut self, limit_bytes: usize) -> Result<Vec<u8>, Error> {
        let mut all = Vec::new();
        loop {
            all.extend_from_slice(&self.buffer[self.start..self.end]);
            self.offset += (self.end - self.start) as u64;
            self.start = self.end;
            if all.len() > limit_bytes {
                return Err(Error::unexpected(
                    self.place(),
                    "more data",
                    format!("a file of at most {limit_bytes} bytes"),
                ));
            }
            if self.fill()? == 0 {
                return Ok(all);
            }
        }
    }

    /// Appends a chunk to the buffer; returns 0 at the end of the stream.
    fn fill(&mut self) -> Result<usize, Error> {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.buffer.len() < self.end + CHUNK_BYTES {
            self.buffer.resize(self.end + CHUNK_BYTES, 0);
        }
        let room = self.end..self.end + CHUNK_BYTES;
        loop {
            match self.reader.read(&mut self.buffer[room.clone()]) {
                Ok(n) => {
                    self.end += n;
                    return Ok(n);
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(self.read_error(e)),
            }
        }
    }

    fn read_error(&self, source: io::Error) -> Error {
        let Some(form) = self.compression else {
            return Error::io(&self.file, source);
        };
        let mut at = self.place();
        at.offset += (self.end - self.start) as u64;
        Error::Damaged(Box::new(Damage {
            at,
            form,
            compressed_offset: self.file_bytes_read(),
            why: source.to_string(),
        }))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_numbers_and_offsets_across_chunks() {
        let text: String = (0..100_000).map(|n| format!("line {n}\n")).collect();
        let mut input = Input::from_reader(io::Cursor::new(text.clone()), Path::new("t")).unwrap();
        let mut n = 0;
        while let Some(line) = input.next_line().unwrap() {
            assert_eq!(line.bytes, format!("line {n}").as_bytes());
            assert_eq!(line.number, n + 1);
            assert!(text[line.offset as usize..].starts_with(&format!("line {n}\n")));
            assert!(line.complete);
            n += 1;
        }
        assert_eq!(n, 100_000);
    }

    #[test]
    fn a_peek_returns_the_requested_bytes_even_from_short_reads() {
        struct Slow(&'static [u8]);
        impl Read for Slow {
            fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
                let n = self.0.len().min(out.len()).min(3);
                out[..n].copy_from_slice(&self.0[..n]);
                self.0 = &self.0[n..];
                Ok(n)
            }
        }
        let mut input = Input::from_reader(Slow(b"0123456789 and so on"), Path::new("t")).unwrap();
        assert!(input.peek(10).unwrap().starts_with(b"0123456789"));
        assert_eq!(input.peek(100).unwrap(), b"0123456789 and so on");
        assert_eq!(input.next_line().unwrap().unwrap().bytes, b"0123456789 and so on");
    }

    #[test]
    fn a_truncated_xz_file_says_where() {
        let text = "one two three\n".repeat(10_000);
        let mut packed = Vec::new();
        liblzma::read::XzEncoder::new(text.as_bytes(), 1).read_to_end(&mut packed).unwrap();
        packed.truncate(packed.len() / 2);
        let cut = packed.len();
        let mut input = Input::from_reader(io::Cursor::new(packed), Path::new("t.xz")).unwrap();
        let error = input.read_to_end(1 << 30).unwrap_err();
        let Error::Damaged(damage) = &error else { panic!("{error}") };
        assert_eq!(damage.compressed_offset, cut as u64);
        assert_eq!(error.to_string().lines().count(), 1);
    }

    #[test]
    fn a_truncated_zstd_file_says_where() {
        let text = "one two three\n".repeat(10_000);
        let mut packed = zstd::encode_all(text.as_bytes(), 1).unwrap();
        packed.truncate(packed.len() - 3);
        let cut = packed.len();
        let mut input = Input::from_reader(io::Cursor::new(packed), Path::new("t.zst")).unwrap();
        let error = input.read_to_end(1 << 30).unwrap_err();
        let Error::Damaged(damage) = &error else { panic!("{error}") };
        assert_eq!(damage.compressed_offset, cut as u64);
    }
}
