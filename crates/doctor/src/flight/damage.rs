//! Unreadable parts of a flight file, and the time that is lost with them.

use std::fmt;

use super::layout::{Records, later_record};
use crate::checkup::length;

/// Samples that cannot be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Damage {
    /// The last sample before it, in milliseconds since 1970; `None` if there is no such sample.
    pub from_ms: Option<u64>,
    /// The first sample after it.
    pub to_ms: Option<u64>,
    /// The kind of damage.
    pub why: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = super::time;
        match (self.from_ms, self.to_ms) {
            (Some(from), Some(to)) => {
                let lost = length(to.saturating_sub(from) as f64 / 1000.0);
                write!(f, "{lost} unreadable, {} to {}", time(from), time(to))?;
            }
            (Some(from), None) => write!(f, "unreadable from {} on", time(from))?,
            (None, Some(to)) => write!(f, "unreadable up to {}", time(to))?,
            (None, None) => f.write_str("unreadable, and at what time is not known")?,
        }
        write!(f, ": {}", self.why)
    }
}

/// Finds damage while a file is read from its oldest sample to its newest.
#[derive(Default)]
pub(super) struct Damaged {
    found: Vec<Damage>,
    last_ms: Option<u64>,
    sequence: Option<u64>,
    /// The free bytes at the end of the previous part; `None` for the first part.
    free: Option<usize>,
    open: bool,
}

impl Damaged {
    /// Notes that a sample was read.
    pub(super) fn readable(&mut self, wall_ms: u64) {
        if let Some(damage) = self.found.last_mut().filter(|_| self.open) {
            damage.to_ms = Some(wall_ms);
        }
        (self.open, self.last_ms) = (false, Some(wall_ms));
    }

    /// Notes that the bytes after the last sample cannot be read.
    pub(super) fn lost(&mut self, why: String) {
        if let Some(damage) = self.found.last_mut().filter(|_| self.open) {
            damage.why += &format!("; {why}");
            return;
        }
        self.found.push(Damage { from_ms: self.last_ms, to_ms: None, why });
        self.open = true;
    }

    /// Notes the start of a part, whose bytes are `slot`. Sequence numbers rise by one, and a part ends where the
    /// next sample did not fit, which takes about as many bytes in the next part.
    pub(super) fn begin(&mut self, number: u32, sequence: u64, slot: &[u8]) {
        if let Some(before) = self.sequence
            && sequence > before + 1
        {
            let missing = sequence - before - 1;
            self.lost(format!("{missing} parts of the ring before part {number} have no header"));
        }
        let first = Records::of(slot).and_then(|mut records| records.next());
        if let (Some(free), Some((_, bytes))) = (self.free, first)
            && free > 2 * bytes.len() + 4096
        {
            self.lost(format!("the part before part {number} ends too early"));
        }
        self.sequence = Some(sequence);
    }

    /// Notes that a part was read up to an offset.
    pub(super) fn end(&mut self, number: u32, slot: &[u8], at: usize) {
        if let Some(sequence) = self.sequence
            && later_record(slot, sequence, at)
        {
            self.lost(format!("part {number}: a sample in the middle is damaged"));
        }
        self.free = Some(slot.len().saturating_sub(at));
    }

    pub(super) fn found(self) -> Vec<Damage> {
        self.found
    }
}
