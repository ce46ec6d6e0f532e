//! Random access to a file, and a walk over the fields of its headers.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::input::bytes::Input;
use crate::input::error::{Damage, Error, Place};

/// The byte order of the traced machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Endian {
    Little,
    Big,
}

impl Endian {
    /// Converts up to 8 bytes to a number.
    #[inline]
    pub(crate) fn number(self, bytes: &[u8]) -> u64 {
        let mut word = [0; 8];
        match self {
            Self::Little => {
                word[..bytes.len()].copy_from_slice(bytes);
                u64::from_le_bytes(word)
            }
            Self::Big => {
                word[8 - bytes.len()..].copy_from_slice(bytes);
                u64::from_be_bytes(word)
            }
        }
    }
}

/// A source from which a trace can be read.
pub(crate) trait ReadSeek: Read + Seek + Send {}
impl<T: Read + Seek + Send> ReadSeek for T {}

/// A file with random access.
pub(crate) struct Source {
    pub(crate) name: Arc<Path>,
    reader: Box<dyn ReadSeek>,
    pub(crate) bytes: u64,
    at: u64,
}

impl Source {
    pub(crate) fn new(mut reader: Box<dyn ReadSeek>, name: &Path) -> Result<Self, Error> {
        let bytes = reader.seek(SeekFrom::End(0)).map_err(|e| Error::io(name, e))?;
        Ok(Self { name: Arc::from(name), reader, bytes, at: bytes })
    }

    pub(crate) fn place(&self, offset: u64) -> Place {
        Place { file: Arc::clone(&self.name), line: None, offset }
    }

    /// Fills `out` with the bytes at a position; the error names `what` if they are missing.
    pub(crate) fn read_at(&mut self, at: u64, out: &mut [u8], what: &str) -> Result<(), Error> {
        if at.checked_add(out.len() as u64).is_none_or(|end| end > self.bytes) {
            return Err(Error::unexpected(
                self.place(self.bytes),
                "the end of the file",
                format!("{what} of {} bytes at byte {at}", out.len()),
            ));
        }
        if self.at != at {
            self.reader.seek(SeekFrom::Start(at)).map_err(|e| Error::io(&self.name, e))?;
        }
        self.reader.read_exact(out).map_err(|e| Error::io(&self.name, e))?;
        self.at = at + out.len() as u64;
        Ok(())
    }

    /// Reads this many bytes at a position into a new vector.
    pub(crate) fn read_vec(&mut self, at: u64, len: u64, what: &str) -> Result<Vec<u8>, Error> {
        let mut out = vec![0; len.min(self.bytes.saturating_sub(at)) as usize];
        if (out.len() as u64) < len {
            return Err(Error::unexpected(
                self.place(self.bytes),
                "the end of the file",
                format!("{what} of {len} bytes at byte {at}"),
            ));
        }
        self.read_at(at, &mut out, what)?;
        Ok(out)
    }
}

/// Opens a file with random access; one that is compressed as a whole is decompressed first.
pub(crate) fn open_source(path: &Path) -> Result<Source, Error> {
    let mut file = File::open(path).map_err(|e| Error::io(path, e))?;
    let mut magic = Vec::new();
    Read::by_ref(&mut file).take(8).read_to_end(&mut magic).map_err(|e| Error::io(path, e))?;
    file.rewind().map_err(|e| Error::io(path, e))?;
    let packed = magic.starts_with(b"\xfd7zXZ") || magic.starts_with(b"\x28\xb5\x2f\xfd");
    let file = if packed { unpacked(path)? } else { file };
    Source::new(Box::new(file), path)
}

/// Decompresses a file to a temporary one that is removed when it is closed: the CPUs' parts are consecutive
/// but must be read concurrently.
fn unpacked(path: &Path) -> Result<File, Error> {
    let mut input = Input::open(path)?;
    let (mut file, name) = temporary_file()?;
    loop {
        let chunk = input.next_chunk()?;
        if chunk.is_empty() {
            return Ok(file);
        }
        file.write_all(chunk).map_err(|e| Error::io(&name, e))?;
    }
}

/// Creates a file without a name in the folder for temporary files, whose path is returned for messages.
fn temporary_file() -> Result<(File, PathBuf), Error> {
    let folder = std::env::temp_dir();
    let file = tempfile::tempfile_in(&folder).map_err(|e| Error::io(&folder, e))?;
    Ok((file, folder))
}

/// The compression of parts of the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Codec {
    None,
    Zstd,
}

impl Codec {
    /// Decompresses a part to `bytes` bytes; `at` is its position in the file.
    pub(crate) fn unpack(
        self,
        source: &Source,
        at: u64,
        packed: &[u8],
        bytes: usize,
    ) -> Result<Vec<u8>, Error> {
        /// The maximum size of a section or chunk, far above real ones; it bounds the memory that a damaged
        /// file can take.
        const LIMIT_BYTES: usize = 256 << 20;
        let damage = |why: String| {
            let place = source.place(at);
            Error::Damaged(Box::new(Damage { at: place, form: "zstd", compressed_offset: at, why }))
        };
        if self == Self::None {
            return Err(damage("a compressed part of a file without compression".to_owned()));
        }
        if bytes > LIMIT_BYTES {
            return Err(damage(format!("a part of {bytes} bytes, of at most {LIMIT_BYTES}")));
        }
        let unpacked = zstd::bulk::decompress(packed, bytes).map_err(|e| damage(e.to_string()))?;
        if unpacked.len() == bytes {
            return Ok(unpacked);
        }
        Err(damage(format!("a part of {} bytes instead of {bytes}", unpacked.len())))
    }
}

/// Reads the fields of a header in sequence, from the file or from a decompressed section.
pub(crate) struct Walk<'a> {
    pub(crate) source: &'a mut Source,
    pub(crate) endian: Endian,
    /// The position in the file; in a decompressed section the position of the section's start.
    pub(crate) at: u64,
    section: Option<(Vec<u8>, usize)>,
}

impl<'a> Walk<'a> {
    pub(crate) fn file(source: &'a mut Source, endian: Endian, at: u64) -> Self {
        Self { source, endian, at, section: None }
    }

    pub(crate) fn section(source: &'a mut Source, endian: Endian, at: u64, data: Vec<u8>) -> Self {
        Self { source, endian, at, section: Some((data, 0)) }
    }

    pub(crate) fn place(&self) -> Place {
        let inside = self.section.as_ref().map_or(0, |(_, at)| *at as u64);
        self.source.place(self.at + inside)
    }

    pub(crate) fn bytes(&mut self, len: u64, what: &str) -> Result<Vec<u8>, Error> {
        if let Some((data, at)) = &mut self.section {
            let end = usize::try_from(len).ok().and_then(|len| at.checked_add(len));
            if let Some(end) = end
                && let Some(bytes) = data.get(*at..end)
            {
                *at = end;
                return Ok(bytes.to_vec());
            }
            let found = "the end of the section";
            return Err(Error::unexpected(self.place(), found, format!("{what} of {len} bytes")));
        }
        let bytes = self.source.read_vec(self.at, len, what)?;
        self.at += len;
        Ok(bytes)
    }

    fn number(&mut self, len: u64, what: &str) -> Result<u64, Error> {
        Ok(self.endian.number(&self.bytes(len, what)?))
    }

    pub(crate) fn u16(&mut self, what: &str) -> Result<u16, Error> {
        Ok(self.number(2, what)? as u16)
    }

    pub(crate) fn u32(&mut self, what: &str) -> Result<u32, Error> {
        Ok(self.number(4, what)? as u32)
    }

    pub(crate) fn u64(&mut self, what: &str) -> Result<u64, Error> {
        self.number(8, what)
    }

    /// Reads a text that ends with a NUL.
    pub(crate) fn text(&mut self, what: &str) -> Result<String, Error> {
        const LIMIT_BYTES: usize = 4096;
        let mut text = Vec::new();
        loop {
            match self.bytes(1, what)?[0] {
                0 => return Ok(String::from_utf8_lossy(&text).into_owned()),
                byte => text.push(byte),
            }
            if text.len() > LIMIT_BYTES {
                return Err(Error::malformed(self.place(), &text, format!("{what} ending in NUL")));
            }
        }
    }

    /// Checks for fixed bytes.
    pub(crate) fn mark(&mut self, mark: &[u8]) -> Result<(), Error> {
        let at = self.place();
        let expected = format!("the mark \"{}\"", mark.escape_ascii());
        let found = self.bytes(mark.len() as u64, &expected)?;
        if found == mark { Ok(()) } else { Err(Error::malformed(at, &found, expected)) }
    }
}
