//! A set of frames, stored as extents: adjacent extents are merged.

use std::collections::BTreeMap;

use pageblock::frame::{FrameRange, Pfn};

/// A set of frames.
#[derive(Default)]
pub(super) struct Extents(BTreeMap<u64, u64>);

impl Extents {
    /// Adds a range that must not overlap the set; otherwise returns the first frame that is already in it.
    pub(super) fn add(&mut self, range: FrameRange) -> Result<(), Pfn> {
        let (mut start, mut end) = (range.start.0, range.end.0);
        if start >= end {
            return Ok(());
        }
        if let Some((&from, &to)) = self.0.range(..=start).next_back() {
            if to > start {
                return Err(range.start);
            }
            if to == start {
                start = from;
            }
        }
        if let Some((&from, &to)) = self.0.range(range.start.0..).next() {
            if from < end {
                return Err(Pfn(from));
            }
            if from == end {
                self.0.remove(&from);
                end = to;
            }
        }
        self.0.insert(start, end);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_added_once_and_neighbours_are_one_extent() {
        let mut set = Extents::default();
        let mut add = |start, end| set.add(FrameRange::new(start, end)).map_err(|pfn| pfn.0);
        assert_eq!(add(10, 20), Ok(()));
        assert_eq!(add(30, 40), Ok(()));
        assert_eq!((add(19, 21), add(5, 11), add(5, 50)), (Err(19), Err(10), Err(10)));
        assert_eq!((add(10, 20), add(12, 13), add(25, 31)), (Err(10), Err(12), Err(30)));
        assert_eq!((add(5, 5), add(20, 30)), (Ok(()), Ok(())));
        assert_eq!(set.0, BTreeMap::from([(10, 40)]));
    }
}
