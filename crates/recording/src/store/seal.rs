//! A checksum inside a file of another format.
//!
//! The format's own metadata holds a text of fixed length, [`blank_seal`], near the end of the file. When the
//! file is complete, its digits are replaced by the checksum of the whole file computed with zeros in their
//! place. The file thus stays valid for every other reader of its format.
//!
//! Another text of fixed length, [`blank_note`], is for what is found out later; the checksum does not cover it.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;

const MARK: &str = "pageblock-seal:";
const DIGITS: usize = 16;
const NOTE_MARK: &str = "pageblock-note:";
/// The length of a note: a judgement takes about 3 KiB.
const NOTE_BYTES: usize = 16 << 10;
/// What ends a file: the length of the footer, which holds the seal, and a mark.
const TRAILER_BYTES: u64 = 10;
pub(crate) const TRAILER_MARK: &[u8] = b"ARROW1";

/// Returns the text to be stored in the metadata.
pub(crate) fn blank_seal() -> String {
    format!("{MARK}{}", "0".repeat(DIGITS))
}

/// Returns the text to be stored in the metadata for a note.
pub(crate) fn blank_note() -> String {
    format!("{NOTE_MARK}{}", " ".repeat(NOTE_BYTES))
}

/// Returns the note in such a text; empty if there is none.
pub(crate) fn note_of(text: &str) -> &str {
    text.strip_prefix(NOTE_MARK).unwrap_or_default().trim_end()
}

/// Writes a note of ASCII into a complete file. Returns `false`, and writes nothing, if the file has no place for it or it is
/// too long.
pub(crate) fn write_note(file: &mut File, note: &str) -> io::Result<bool> {
    let Some(at) = find(file)?.note.filter(|_| note.len() <= NOTE_BYTES && note.is_ascii()) else {
        return Ok(false);
    };
    file.seek(SeekFrom::Start(at))?;
    file.write_all(format!("{note:NOTE_BYTES$}").as_bytes())?;
    Ok(true)
}

/// The positions of what the checksum does not cover.
#[derive(Default)]
struct Blanks {
    /// That of the digits.
    digits: Option<u64>,
    note: Option<u64>,
}

impl Blanks {
    /// Returns the ranges with what stands there while the checksum is computed.
    fn ranges(&self) -> impl Iterator<Item = (Range<u64>, u8)> {
        let range = |at: Option<u64>, len: usize| at.map(|at| at..at + len as u64);
        let digits = range(self.digits, DIGITS).map(|range| (range, b'0'));
        digits.into_iter().chain(range(self.note, NOTE_BYTES).map(|range| (range, b' ')))
    }
}

/// Writes the checksum into a complete file.
pub(crate) fn seal(file: &mut File) -> io::Result<()> {
    let blanks = find(file)?;
    let at = blanks.digits.ok_or(io::ErrorKind::InvalidData)?;
    let sum = checksum(file, &blanks)?;
    file.seek(SeekFrom::Start(at))?;
    file.write_all(format!("{sum:016x}").as_bytes())
}

/// Reports whether the file contains its own checksum.
pub(crate) fn is_intact(file: &mut File) -> io::Result<bool> {
    let blanks = find(file)?;
    let Some(at) = blanks.digits else { return Ok(false) };
    let mut digits = [0; DIGITS];
    file.seek(SeekFrom::Start(at))?;
    file.read_exact(&mut digits)?;
    Ok(digits == *format!("{:016x}", checksum(file, &blanks)?).as_bytes())
}

/// Finds the positions in the file's footer.
fn find(file: &mut File) -> io::Result<Blanks> {
    let len = file.seek(SeekFrom::End(0))?;
    let Some(end) = len.checked_sub(TRAILER_BYTES) else { return Ok(Blanks::default()) };
    file.seek(SeekFrom::Start(end))?;
    let mut trailer = [0; TRAILER_BYTES as usize];
    file.read_exact(&mut trailer)?;
    let (footer, mark) = trailer.split_at(4);
    let footer = i32::from_le_bytes(footer.try_into().unwrap_or_default());
    let from = u64::try_from(footer).ok().and_then(|footer| end.checked_sub(footer));
    let Some(from) = from.filter(|_| mark == TRAILER_MARK) else { return Ok(Blanks::default()) };
    file.seek(SeekFrom::Start(from))?;
    let mut tail = Vec::new();
    file.take(end - from).read_to_end(&mut tail)?;
    let find = |mark: &str, bytes: usize| {
        let at = memchr::memmem::rfind(&tail, mark.as_bytes())? + mark.len();
        (at + bytes <= tail.len()).then_some(from + at as u64)
    };
    Ok(Blanks { digits: find(MARK, DIGITS), note: find(NOTE_MARK, NOTE_BYTES) })
}

/// Computes a checksum with four lanes of words. Each step is a bijection, so any single changed word is
/// detected.
fn checksum(file: &mut File, blanks: &Blanks) -> io::Result<u64> {
    const K: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut lanes = [1u64, 2, 3, 4];
    let mut length = 0u64;
    each_part(file, blanks, &mut |part| {
        length += part.len() as u64;
        for block in part.chunks(32) {
            let mut words = [0; 32];
            words[..block.len()].copy_from_slice(block);
            for (lane, word) in lanes.iter_mut().zip(words.chunks_exact(8)) {
                let word = u64::from_le_bytes(word.try_into().unwrap_or_default());
                *lane = (*lane ^ word).wrapping_mul(K).rotate_left(29);
            }
        }
    })?;
    Ok(lanes.iter().fold(length, |sum, lane| (sum ^ lane).wrapping_mul(K).rotate_left(29)))
}

/// Adds the content of a file to a digest, without its checksum and its note: a note that is found out later does not
/// make another recording of it.
pub(crate) fn digest(file: &mut File, digest: &mut blake3::Hasher) -> io::Result<()> {
    let blanks = find(file)?;
    each_part(file, &blanks, &mut |part| {
        digest.update(part);
    })
}

/// Calls a function with the parts of a file in their order, all of them 256 KiB long but for the last. What
/// the checksum does not cover is blank.
fn each_part(file: &mut File, blanks: &Blanks, each: &mut dyn FnMut(&[u8])) -> io::Result<()> {
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
            return Ok(());
        }
        for (range, blank) in blanks.ranges() {
            let part = range.start.max(offset)..range.end.min(offset + len as u64);
            if part.start < part.end {
                buffer[(part.start - offset) as usize..(part.end - offset) as usize].fill(blank);
            }
        }
        each(&buffer[..len]);
        offset += len as u64;
    }
}
