//! A few ranges of frames, in a fixed place: what a kernel has before it has an allocator.

use pageblock::frame::FrameRange;

const CAPACITY: usize = 32;

/// Ranges of frames that do not overlap.
#[derive(Clone)]
pub struct Ranges {
    ranges: [FrameRange; CAPACITY],
    count: usize,
}

impl Ranges {
    /// No range.
    pub const fn new() -> Self {
        Self { ranges: [FrameRange::new(0, 0); CAPACITY], count: 0 }
    }

    /// Adds a range; an empty one is passed over.
    pub fn push(&mut self, range: FrameRange) {
        if !range.is_empty() {
            assert!(self.count < CAPACITY, "more than {CAPACITY} ranges of memory");
            self.ranges[self.count] = range;
            self.count += 1;
        }
    }

    /// All ranges.
    pub fn as_slice(&self) -> &[FrameRange] {
        &self.ranges[..self.count]
    }

    /// The frames in all ranges.
    pub fn frames(&self) -> u64 {
        self.as_slice().iter().map(|range| range.len()).sum()
    }

    /// What is left of the ranges without a range.
    pub fn without(&self, hole: FrameRange) -> Self {
        let mut left = Self::new();
        for &FrameRange { start, end } in self.as_slice() {
            left.push(FrameRange { start, end: end.min(hole.start) });
            left.push(FrameRange { start: start.max(hole.end), end });
        }
        left
    }

    /// The last frames of the largest range.
    pub fn last_of_largest(&self, frames: u64) -> FrameRange {
        let largest = self.as_slice().iter().copied().max_by_key(|range| range.len());
        let FrameRange { end, .. } =
            largest.filter(|range| range.len() >= frames).expect("a range that is large enough");
        FrameRange::new(end.0 - frames, end.0)
    }
}
