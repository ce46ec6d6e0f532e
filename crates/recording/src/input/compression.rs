//! Compressed streams, by their first bytes.

use std::io::{self, BufRead, BufReader, Read};

use flate2::bufread::MultiGzDecoder;
use liblzma::bufread::XzDecoder;
use liblzma::stream::{CONCATENATED, Stream};

/// The bytes that are needed to tell how a stream is compressed.
pub(crate) const MAGIC_BYTES: usize = 6;
/// The maximum memory of xz: the largest preset needs 65 MiB. It bounds what a damaged header can request.
const XZ_MEMORY_BYTES: u64 = 256 << 20;

/// How a stream is compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Compression {
    /// gzip.
    Gzip,
    /// xz.
    Xz,
    /// zstd.
    Zstd,
}

impl Compression {
    /// Returns how a stream with these first bytes is compressed, if it is in one of the ways that are read.
    #[must_use]
    pub(crate) fn of(start: &[u8]) -> Option<Self> {
        match start {
            [0x1f, 0x8b, ..] => Some(Self::Gzip),
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Some(Self::Xz),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Self::Zstd),
            _ => None,
        }
    }

    /// Returns its name.
    #[must_use]
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Xz => "xz",
            Self::Zstd => "zstd",
        }
    }

    /// Returns what a compressed stream holds; parts that follow each other are read as one.
    ///
    /// # Errors
    /// If a decompressor cannot be made.
    pub(crate) fn decoder<'a>(
        self,
        reader: impl BufRead + Send + 'a,
    ) -> io::Result<Box<dyn Read + Send + 'a>> {
        Ok(match self {
            Self::Gzip => Box::new(MultiGzDecoder::new(reader)),
            Self::Xz => {
                let stream = Stream::new_stream_decoder(XZ_MEMORY_BYTES, CONCATENATED)?;
                Box::new(XzDecoder::new_stream(reader, stream))
            }
            Self::Zstd => Box::new(zstd::stream::read::Decoder::with_buffer(reader)?),
        })
    }
}

/// Returns the first bytes that a format is known by if a tool packed the stream in a way that is not read.
pub(crate) fn packed_otherwise(start: &[u8]) -> Option<&'static str> {
    match start {
        [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41, 0x59, 0x26, ..] => Some("a bzip2 file"),
        [b'P', b'K', 3, 4, ..] => Some("a zip file"),
        [b'L', b'P', b'K', b'S', b'H', b'H', b'R', b'H', ..] => Some("a journal of systemd"),
        _ => None,
    }
}

/// Returns whether a stream with these first bytes is compressed or packed, in a way that is read or not.
#[must_use]
pub fn is_packed(start: &[u8]) -> bool {
    Compression::of(start).is_some() || packed_otherwise(start).is_some()
}

/// Returns a stream with what may be compressed in it decompressed.
///
/// # Errors
/// If it cannot be read, or is packed in a way that is not read.
pub fn decompressed<'a>(reader: impl Read + Send + 'a) -> io::Result<Box<dyn Read + Send + 'a>> {
    let mut reader = BufReader::with_capacity(256 << 10, reader);
    let start = reader.fill_buf()?;
    if let Some(found) = packed_otherwise(start) {
        let how = match found {
            "a journal of systemd" => "journalctl --file=FILE -k prints it as text",
            _ => "allowed: plain, or compressed with gzip, xz or zstd",
        };
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("{found}; {how}")));
    }
    match Compression::of(start) {
        Some(form) => form.decoder(reader),
        None => Ok(Box::new(reader)),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn streams_are_decompressed_whatever_packed_them() {
        let text = b"Mem-Info:\n".repeat(1000);
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&text).unwrap();
        let mut xz = Vec::new();
        liblzma::read::XzEncoder::new(&text[..], 1).read_to_end(&mut xz).unwrap();
        let zstd = zstd::encode_all(&text[..], 1).unwrap();
        for packed in [text.clone(), gzip.finish().unwrap(), xz, zstd] {
            // Rotated logs are joined.
            let twice = [&packed[..], &packed].concat();
            let mut read = Vec::new();
            decompressed(&twice[..]).unwrap().read_to_end(&mut read).unwrap();
            assert_eq!(read, text.repeat(2), "{:?}", Compression::of(&packed));
        }
    }

    #[test]
    fn what_is_packed_otherwise_is_refused() {
        for (start, expected) in [
            (&b"BZh91AY&SY"[..], "a bzip2 file; allowed: plain"),
            (b"PK\x03\x04", "a zip file; allowed: plain"),
            (b"LPKSHHRH", "a journal of systemd; journalctl --file=FILE -k"),
        ] {
            let error = decompressed(start).map(|_| ()).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
