//! Parts of a flight file that cannot be read, and the time that is lost with them.

use std::fmt;

use super::layout::{Records, later_record};
use crate::checkup::length;

/// Samples that cannot be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Damage {
    /// The last sample before, milliseconds since 1970; `None` if there is none.
    pub from_ms: Option<u64>,
    /// The first sample after.
    pub to_ms: Option<u64>,
    /// What is wrong.
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
    /// The bytes that the part before has free at its end; `None` for the first.
    free: Option<usize>,
    open: bool,
}

impl Damaged {
    /// A sample was read.
    pub(super) fn readable(&mut self, wall_ms: u64) {
        if let Some(damage) = self.found.last_mut().filter(|_| self.open) {
            damage.to_ms = Some(wall_ms);
        }
        (self.open, self.last_ms) = (false, Some(wall_ms));
    }

    /// What follows the last sample cannot be read.
    pub(super) fn lost(&mut self, why: String) {
        if let Some(damage) = self.found.last_mut().filter(|_| self.open) {
            damage.why += &format!("; {why}");
            return;
        }
        self.found.push(Damage { from_ms: self.last_ms, to_ms: None, why });
        self.open = true;
    }

    /// A part is begun; `slot` are its bytes. Sequence numbers rise by one, and a part ends where the next sample did not
    /// fit, which takes about as much in the next part.
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

    /// A part was read up to a place.
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
