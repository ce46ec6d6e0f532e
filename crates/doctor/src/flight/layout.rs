//! The layout of a ring file.
//!
//! A header of 4096 bytes: `PBFLIGHT`, the version (1), the bytes of a slot, the number of slots (`u32` each), and their XXH3. Then the
//! slots. A slot begins with its sequence number (`u64`) and the XXH3 of it; the slot with the largest number is being
//! written. Records follow each other: their length (`u32`; the highest bit tells a key frame), an XXH3 seeded with the slot's number,
//! so that older records in the slot do not match, and the bytes. All numbers are little-endian.

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

pub(super) const MAGIC: &[u8; 8] = b"PBFLIGHT";
const VERSION: u32 = 1;
/// The bytes before the first slot.
pub(super) const HEADER: u64 = 4096;
/// The bytes before a slot's first record.
pub(super) const SLOT_HEADER: usize = 16;
/// The bytes before a record's own.
pub(super) const RECORD_HEADER: usize = 12;
const KEY: u32 = 1 << 31;

/// The smallest and the largest slot.
pub(super) const SLOT_BYTES: std::ops::RangeInclusive<u32> = 64 << 10..=16 << 20;
/// The largest number of slots.
pub(super) const SLOTS: u32 = 1 << 14;

/// The sizes of a ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Shape {
    pub(super) slot_bytes: u32,
    pub(super) slots: u32,
}

impl Shape {
    /// Returns the shape of a ring of about this size in bytes: 96 slots, or fewer if those would be too small.
    pub(super) fn of(bytes: u64) -> Self {
        let part = (bytes / 96).next_multiple_of(4096);
        let slot_bytes = part.clamp((*SLOT_BYTES.start()).into(), 1 << 20) as u32;
        let slots = (bytes / u64::from(slot_bytes)).clamp(2, SLOTS.into()) as u32;
        Self { slot_bytes, slots }
    }

    pub(super) const fn bytes(self) -> u64 {
        HEADER + self.slot_bytes as u64 * self.slots as u64
    }

    pub(super) const fn offset(self, slot: u32) -> u64 {
        HEADER + self.slot_bytes as u64 * slot as u64
    }

    pub(super) fn header(self) -> [u8; 28] {
        let mut bytes = [0; 28];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.slot_bytes.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.slots.to_le_bytes());
        let check = xxh3_64(&bytes[..20]);
        bytes[20..].copy_from_slice(&check.to_le_bytes());
        bytes
    }

    /// Reads a header. An error describes the damage.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, String> {
        if bytes.get(..8) != Some(MAGIC) {
            return Err("no flight file; expected one that `pageblock flight` wrote".to_owned());
        }
        let whole = bytes.get(..28).ok_or("cut within its header")?;
        let version = u32_at(whole, 8);
        if version != VERSION {
            return Err(format!(
                "version {version} of the format; this program reads version {VERSION}"
            ));
        }
        let shape = Self { slot_bytes: u32_at(whole, 12), slots: u32_at(whole, 16) };
        let fits = SLOT_BYTES.contains(&shape.slot_bytes) && (1..=SLOTS).contains(&shape.slots);
        if u64_at(whole, 20) != xxh3_64(&whole[..20]) || !fits {
            return Err("its header is damaged".to_owned());
        }
        Ok(shape)
    }
}

/// Returns the header of a slot.
pub(super) fn slot_header(sequence: u64) -> [u8; SLOT_HEADER] {
    let number = sequence.to_le_bytes();
    let mut bytes = [0; SLOT_HEADER];
    bytes[..8].copy_from_slice(&number);
    bytes[8..].copy_from_slice(&xxh3_64(&number).to_le_bytes());
    bytes
}

/// Returns the sequence number of a slot; `None` if it was never written, or not completely.
pub(super) fn sequence(slot: &[u8]) -> Option<u64> {
    let header = slot.get(..SLOT_HEADER)?;
    (u64_at(header, 8) == xxh3_64(&header[..8])).then(|| u64_at(header, 0)).filter(|&n| n > 0)
}

/// Returns a record in its stored form.
pub(super) fn record(sequence: u64, key: bool, bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX) & !KEY | if key { KEY } else { 0 };
    let mut record = Vec::with_capacity(RECORD_HEADER + bytes.len());
    record.extend_from_slice(&length.to_le_bytes());
    record.extend_from_slice(&check(sequence, length, bytes).to_le_bytes());
    record.extend_from_slice(bytes);
    record
}

fn check(sequence: u64, length: u32, bytes: &[u8]) -> u64 {
    xxh3_64_with_seed(bytes, sequence.rotate_left(32) ^ u64::from(length))
}

/// The whole records of a slot.
pub(super) struct Records<'a> {
    slot: &'a [u8],
    sequence: u64,
    at: usize,
}

impl<'a> Records<'a> {
    /// Starts with the first record; `None` if the slot has no header.
    pub(super) fn of(slot: &'a [u8]) -> Option<Self> {
        Some(Self { slot, sequence: sequence(slot)?, at: SLOT_HEADER })
    }

    /// Returns where the next record begins, or would be written.
    pub(super) const fn at(&self) -> usize {
        self.at
    }
}

impl<'a> Iterator for Records<'a> {
    /// Whether it is a key frame, and its bytes.
    type Item = (bool, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let header = self.slot.get(self.at..self.at + RECORD_HEADER)?;
        let length = u32_at(header, 0);
        let start = self.at + RECORD_HEADER;
        let bytes = self.slot.get(start..start + (length & !KEY) as usize)?;
        if bytes.is_empty() || u64_at(header, 4) != check(self.sequence, length, bytes) {
            return None;
        }
        self.at = start + bytes.len();
        Some((length & KEY != 0, bytes))
    }
}

/// The largest number of times that a slot's bytes are hashed to find a record.
const HASHED: usize = 64;

/// Returns whether a whole record of a slot begins somewhere after a place, which is then no end but damage. What was in the
/// slot before has another number.
pub(super) fn later_record(slot: &[u8], sequence: u64, at: usize) -> bool {
    let mut budget = HASHED * slot.len();
    for start in at..slot.len().saturating_sub(RECORD_HEADER) {
        let header = &slot[start..start + RECORD_HEADER];
        let length = u32_at(header, 0);
        let size = (length & !KEY) as usize;
        let Some(bytes) = slot.get(start + RECORD_HEADER..start + RECORD_HEADER + size) else {
            continue;
        };
        if size == 0 || size > budget {
            continue;
        }
        budget -= size;
        if u64_at(header, 4) == check(sequence, length, bytes) {
            return true;
        }
    }
    false
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].try_into().map_or(0, u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].try_into().map_or(0, u64::from_le_bytes)
}
