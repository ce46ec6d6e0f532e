//! Maps the frames that a recording names to memory of this machine.

use pageblock::frame::{Order, Pfn};

/// The memory that a recorded frame names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Content {
    /// A frame of the kernel or of a large page, which stays where it is.
    Fixed(Pfn),
    /// A page of a file, by its index.
    File(u32),
    /// A page of a mapping, by its index.
    Anon(u32),
}

const TAG: u32 = 3 << 30;
const FIXED: u32 = 1 << 30;
const FILE: u32 = 2 << 30;
const ANON: u32 = 3 << 30;

impl Content {
    fn encode(self) -> u32 {
        debug_assert!(
            matches!(self, Self::Fixed(Pfn(value)) if value < u64::from(FIXED))
                || matches!(self, Self::File(value) | Self::Anon(value) if value < FIXED),
            "{self:?} does not fit beside its tag"
        );
        match self {
            Self::Fixed(pfn) => FIXED | pfn.0 as u32,
            Self::File(index) => FILE | index,
            Self::Anon(index) => ANON | index,
        }
    }

    const fn decode(bits: u32) -> Option<Self> {
        let value = bits & !TAG;
        match bits & TAG {
            FIXED => Some(Self::Fixed(Pfn(value as u64))),
            FILE => Some(Self::File(value)),
            ANON => Some(Self::Anon(value)),
            _ => None,
        }
    }
}

/// The memory that each recorded frame names.
pub(crate) struct Names {
    of: Vec<u32>,
    /// Frames that the recorded compaction holds: the next free of each is its own.
    held: Vec<bool>,
    /// Memory whose recorded frame is not known: pages of bulk requests, and pages that compaction moved to
    /// unrecorded frames.
    unnamed: Vec<Content>,
}

impl Names {
    /// Returns an empty map for frames below `end`.
    pub(crate) fn new(end: usize) -> Self {
        Self { of: vec![0; end], held: vec![false; end], unnamed: Vec::new() }
    }

    /// Names the memory that a request got.
    pub(crate) fn set(&mut self, recorded: Pfn, content: Content) {
        debug_assert!(
            self.of.get(recorded.0 as usize).is_none_or(|&bits| Content::decode(bits).is_none()),
            "the memory that {recorded} named would be lost"
        );
        self.put(recorded, content);
    }

    /// Returns the memory that the frame named before.
    fn put(&mut self, recorded: Pfn, content: Content) -> Option<Content> {
        let slot = self.of.get_mut(recorded.0 as usize)?;
        self.held[recorded.0 as usize] = false;
        Content::decode(std::mem::replace(slot, content.encode()))
    }

    /// Names a block that stays where it is.
    pub(crate) fn set_block(&mut self, recorded: Pfn, here: Pfn, order: Order) {
        for n in 0..1 << order {
            self.set(Pfn(recorded.0 + n), Content::Fixed(Pfn(here.0 + n)));
        }
    }

    /// Returns the memory that a recorded frame names.
    pub(crate) fn get(&self, recorded: Pfn) -> Option<Content> {
        Content::decode(*self.of.get(recorded.0 as usize)?)
    }

    /// Removes the name of a recorded frame. Returns the memory that it named.
    pub(crate) fn take(&mut self, recorded: Pfn) -> Option<Content> {
        Content::decode(std::mem::take(self.of.get_mut(recorded.0 as usize)?))
    }

    /// Keeps memory that has no name.
    pub(crate) fn keep_unnamed(&mut self, content: Content) {
        self.unnamed.push(content);
    }

    /// Takes unnamed memory, the latest first.
    pub(crate) fn take_unnamed(&mut self) -> Option<Content> {
        self.unnamed.pop()
    }

    /// Notes that the recorded compaction took a free block.
    pub(crate) fn hold(&mut self, recorded: Pfn, order: Order) {
        let start = recorded.0 as usize;
        let end = (start + (1 << order)).min(self.held.len());
        self.held.get_mut(start..end).unwrap_or_default().fill(true);
    }

    /// Notes that the recorded compaction moved a page: the new frame names its memory, and compaction holds the
    /// old one. Returns the memory that the new frame named: its free was not recorded.
    #[must_use]
    pub(crate) fn rename(&mut self, from: Pfn, to: Option<Pfn>) -> Option<Content> {
        let content = self.take(from);
        self.hold(from, 0);
        match (content?, to) {
            (content, Some(to)) => self.put(to, content),
            (content, None) => {
                self.keep_unnamed(content);
                None
            }
        }
    }

    /// Returns whether the recorded compaction held a frame, which it releases now.
    pub(crate) fn release(&mut self, recorded: Pfn) -> bool {
        self.held.get_mut(recorded.0 as usize).is_some_and(std::mem::take)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_keeps_its_identity_when_the_recorded_compaction_moves_it() {
        let mut names = Names::new(64);
        names.set(Pfn(3), Content::Anon(7));
        names.hold(Pfn(40), 2);
        assert_eq!(names.rename(Pfn(3), Some(Pfn(41))), None);
        assert_eq!(names.take(Pfn(3)), None);
        assert!(names.release(Pfn(3)) && names.release(Pfn(40)));
        assert!(!names.release(Pfn(41)) && !names.release(Pfn(3)));
        assert_eq!(names.take(Pfn(41)), Some(Content::Anon(7)));
        names.set(Pfn(3), Content::File(1));
        assert_eq!(names.rename(Pfn(3), None), None);
        assert_eq!(names.take_unnamed(), Some(Content::File(1)));
        assert_eq!(names.take(Pfn(1 << 20)), None);
    }

    #[test]
    fn memory_whose_frame_another_page_was_moved_to_is_not_lost() {
        let mut names = Names::new(64);
        names.set(Pfn(3), Content::Anon(7));
        names.set(Pfn(41), Content::File(2));
        assert_eq!(names.rename(Pfn(3), Some(Pfn(41))), Some(Content::File(2)));
        assert_eq!(names.take(Pfn(41)), Some(Content::Anon(7)));
    }

    #[test]
    fn every_frame_of_a_block_has_a_name() {
        let mut names = Names::new(64);
        names.set_block(Pfn(8), Pfn(32), 2);
        assert_eq!(names.take(Pfn(11)), Some(Content::Fixed(Pfn(35))));
        assert_eq!(names.take(Pfn(12)), None);
    }
}
