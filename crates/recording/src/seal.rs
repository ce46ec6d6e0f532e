//! A checksum inside a file of another format.
//!
//! The format's own metadata holds a text of fixed length, [`blank_seal`], near the end of the file. When the
//! file is complete, its digits are replaced by the checksum of the whole file computed with zeros in their
//! place. The file thus stays valid for every other reader of its format.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};

const MARK: &str = "pageblock-seal:";
const DIGITS: usize = 16;
/// What ends a file: the length of the footer, which holds the seal, and a mark.
const TRAILER_BYTES: u64 = 10;
const TRAILER_MARK: &[u8] = b"ARROW1";

/// Returns the text to be stored in the metadata.
pub(crate) fn blank_seal() -> String {
    format!("{MARK}{}", "0".repeat(DIGITS))
}

/// Writes the checksum into a complete file.
pub(crate) fn seal(file: &mut File) -> io::Result<()> {
    let at = find(file)?.ok_or(io::ErrorKind::InvalidData)?;
    let sum = checksum(file, at)?;
    file.seek(SeekFrom::Start(at))?;
    file.write_all(format!("{sum:016x}").as_bytes())
}

/// Reports whether the file contains its own checksum.
pub(crate) fn is_intact(file: &mut File) -> io::Result<bool> {
    let Some(at) = find(file)? else { return Ok(false) };
    let mut digits = [0; DIGITS];
    file.seek(SeekFrom::Start(at))?;
    file.read_exact(&mut digits)?;
    Ok(digits == *format!("{:016x}", checksum(file, at)?).as_bytes())
}

/// Returns the position of the digits.
fn find(file: &mut File) -> io::Result<Option<u64>> {
    let len = file.seek(SeekFrom::End(0))?;
    let Some(end) = len.checked_sub(TRAILER_BYTES) else { return Ok(None) };
    file.seek(SeekFrom::Start(end))?;
    let mut trailer = [0; TRAILER_BYTES as usize];
    file.read_exact(&mut trailer)?;
    let (footer, mark) = trailer.split_at(4);
    let footer = i32::from_le_bytes(footer.try_into().unwrap_or_default());
    let from = u64::try_from(footer).ok().and_then(|footer| end.checked_sub(footer));
    let Some(from) = from.filter(|_| mark == TRAILER_MARK) else { return Ok(None) };
    file.seek(SeekFrom::Start(from))?;
    let mut tail = Vec::new();
    file.take(end - from).read_to_end(&mut tail)?;
    let at = memchr::memmem::rfind(&tail, MARK.as_bytes()).map(|at| at + MARK.len());
    Ok(at.filter(|at| at + DIGITS <= tail.len()).map(|at| from + at as u64))
}

/// Computes a checksum with four lanes of words. Each step is a bijection, so any single changed word is
/// detected.
fn checksum(file: &mut File, digits_at: u64) -> io::Result<u64> {
    const K: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut lanes = [1u64, 2, 3, 4];
    let mut buffer = vec![0; 256 << 10];
    let mut offset = 0u64;
    file.seek(SeekFrom::Start(0))?;
    loop {
        let mut len = 0;
        while len < buffer.len() {
            match file.read(&mut buffer[len..])? {
                0 => break,
                n => len += n,
            }
        }
        if len == 0 {
            break;
        }
        for at in digits_at.max(offset)..(digits_at + DIGITS as u64).min(offset + len as u64) {
            buffer[(at - offset) as usize] = b'0';
        }
        buffer[len..len.next_multiple_of(32)].fill(0);
        for block in buffer[..len.next_multiple_of(32)].chunks_exact(32) {
            for (lane, word) in lanes.iter_mut().zip(block.chunks_exact(8)) {
                let word = u64::from_le_bytes(word.try_into().unwrap_or_default());
                *lane = (*lane ^ word).wrapping_mul(K).rotate_left(29);
            }
        }
        offset += len as u64;
    }
    Ok(lanes.iter().fold(offset, |sum, lane| (sum ^ lane).wrapping_mul(K).rotate_left(29)))
}
