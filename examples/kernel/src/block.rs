//! A block in use, whose pages say so.

use pageblock::frame::{Order, Pfn};

use crate::memory::{self, PAGE_SIZE};

/// A block in one word: its frame, order, CPU and number, so that no two blocks have the same. The word
/// is written to each of its pages: a frame in two blocks would have the wrong word in one of them.
pub struct Block(u64);

impl Block {
    /// Writes a new block's word to its pages.
    pub fn stamp(pfn: Pfn, order: Order, cpu: usize, number: u32) -> Self {
        assert!(pfn.0 < 1 << 26 && number < 1 << 30 && order < 16);
        let block =
            Self(pfn.0 << 38 | u64::from(order) << 34 | (cpu as u64) << 30 | u64::from(number));
        for place in block.places() {
            // SAFETY: the frame is the caller's, by the allocator's word, which is what is checked here:
            // if it was wrong, only another block's stamp is overwritten, as the allocator never had
            // frames of tables or of the kernel (`self_check`).
            unsafe { place.write_volatile(block.0) };
        }
        block
    }

    /// Panics where a page of the block has another word.
    pub fn check(&self) {
        for place in self.places() {
            // SAFETY: as above.
            let found = unsafe { place.read_volatile() };
            assert_eq!(found, self.0, "the block at frame {} was overwritten", self.pfn());
        }
    }

    /// Its first frame.
    pub fn pfn(&self) -> Pfn {
        Pfn(self.0 >> 38)
    }

    /// Its order.
    pub fn order(&self) -> Order {
        (self.0 >> 34 & 0xf) as Order
    }

    /// The word.
    pub fn word(&self) -> u64 {
        self.0
    }

    /// The block of a word; 0 is none, as no block starts at frame 0.
    pub fn from_word(word: u64) -> Option<Self> {
        (word != 0).then_some(Self(word))
    }

    /// The first and the last word of each page.
    fn places(&self) -> impl Iterator<Item = *mut u64> {
        let pages = (0..1 << self.order()).map(|n| memory::address(self.pfn().plus(n)));
        pages
            .flat_map(|page| [page, page.wrapping_add(PAGE_SIZE as usize - 8)])
            .map(<*mut u8>::cast)
    }
}
