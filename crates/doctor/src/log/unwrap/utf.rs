//! Text in encodings other than UTF-8.

use std::io::{self, BufRead, BufReader, Read};

/// The number of bytes by which UTF-16 without a byte order mark is recognised: in a log every second byte is 0.
const LOOKED_AT: usize = 64;

/// Reads text that may be UTF-16 as UTF-8.
pub(in crate::log) struct Utf8<R> {
    source: BufReader<R>,
    /// Converts two bytes to a number; `None` if the text is not UTF-16.
    wide: Option<fn([u8; 2]) -> u16>,
    ready: Vec<u8>,
}

impl<R: Read> Utf8<R> {
    /// # Errors
    /// If reading fails.
    pub(in crate::log) fn new(source: R) -> io::Result<Self> {
        let mut source = BufReader::with_capacity(256 << 10, source);
        let mut wide: Option<fn([u8; 2]) -> u16> = None;
        match source.fill_buf()? {
            [0xff, 0xfe, ..] => wide = Some(u16::from_le_bytes),
            [0xfe, 0xff, ..] => wide = Some(u16::from_be_bytes),
            _ => {}
        }
        match wide {
            Some(_) => source.consume(2),
            None => wide = unmarked(source.buffer()),
        }
        Ok(Self { source, wide, ready: Vec::new() })
    }
}

impl<R: Read> Read for Utf8<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(wide) = self.wide else { return self.source.read(buffer) };
        if self.ready.is_empty() {
            let mut bytes = Vec::new();
            // A number of whole characters, but for one that is made of two numbers.
            (&mut self.source).take(4096).read_to_end(&mut bytes)?;
            let mut units: Vec<u16> =
                bytes.chunks_exact(2).map(|two| wide([two[0], two[1]])).collect();
            if units.last().is_some_and(|unit| (0xd800..0xdc00).contains(unit)) {
                let mut rest = Vec::new();
                (&mut self.source).take(2).read_to_end(&mut rest)?;
                units.extend(rest.chunks_exact(2).map(|two| wide([two[0], two[1]])));
            }
            self.ready = String::from_utf16_lossy(&units).into_bytes();
        }
        let read = self.ready.len().min(buffer.len());
        buffer[..read].copy_from_slice(&self.ready[..read]);
        self.ready.drain(..read);
        Ok(read)
    }
}

/// Returns the byte order of UTF-16 without a byte order mark, such as a part of a file.
fn unmarked(start: &[u8]) -> Option<fn([u8; 2]) -> u16> {
    let pairs = start.get(..LOOKED_AT)?.chunks_exact(2);
    let all = |zero: usize| pairs.clone().all(|two| two[zero] == 0 && two[1 - zero] != 0);
    match () {
        () if all(1) => Some(u16::from_le_bytes),
        () if all(0) => Some(u16::from_be_bytes),
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn utf_16_of_either_order_is_read() {
        let text = format!("{}\n", "Mem-Info: ".repeat(9)) + &"Mem-Info: \u{1f600}\n".repeat(1000);
        for (mark, bytes) in [
            (&[][..], text.encode_utf16().flat_map(u16::to_le_bytes).collect()),
            (&[], text.encode_utf16().flat_map(u16::to_be_bytes).collect()),
            (&[0xff, 0xfe], text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>()),
            (&[0xfe, 0xff], text.encode_utf16().flat_map(u16::to_be_bytes).collect()),
        ] {
            let bytes = [mark, &bytes].concat();
            assert_eq!(io::read_to_string(Utf8::new(&bytes[..]).unwrap()).unwrap(), text);
        }
        assert_eq!(io::read_to_string(Utf8::new(&b"plain"[..]).unwrap()).unwrap(), "plain");
    }
}
