//! What the flags of a page say under the multi-generational LRU: its generation, the list that it is on, and its uses.
//!
//! A generation is named by its number modulo four. A walk of page tables gives a page another one without moving it: until
//! reclaim comes to it, it is on the list of the one that it had.
//!
//! Source: `LRU_GEN_MASK`, `LRU_REFS_MASK` (include/linux/mmzone.h).

use super::table::{Page, PageFlags};

/// Generations that a kind of pages may have (`MAX_NR_GENS`).
pub(crate) const MAX_GENS: usize = 4;
/// The most that the counter of uses says (`LRU_REFS_WIDTH`, two bits).
pub(crate) const MAX_USES: u16 = 3;

/// The lowest bit of the generation.
const GENERATION: u32 = 11;
/// The lowest bit of the counter of uses.
const USES: u32 = 13;
/// The lower bit of the list that it is on: only slabs have [`PageFlags::FROZEN`].
const LIST_LOW: u32 = 9;
/// The higher one.
const LIST_HIGH: u32 = 15;

impl PageFlags {
    /// Used by a program since reclaim last looked: the accessed bit of its page tables.
    pub const YOUNG: Self = Self(1 << 10);
}

impl Page {
    /// Returns its generation, modulo four; meaningless off the lists.
    pub(crate) const fn generation(&self) -> usize {
        (self.flags.0 >> GENERATION & 3) as usize
    }

    pub(crate) const fn set_generation(&mut self, generation: usize) {
        self.flags.0 = self.flags.0 & !(3 << GENERATION) | (generation as u16) << GENERATION;
    }

    /// Returns the generation whose list it is on.
    pub(crate) const fn list_generation(&self) -> usize {
        (self.flags.0 >> LIST_LOW & 1 | self.flags.0 >> LIST_HIGH << 1) as usize
    }

    pub(crate) const fn set_list_generation(&mut self, generation: usize) {
        let generation = generation as u16;
        let bits = (generation & 1) << LIST_LOW | (generation >> 1) << LIST_HIGH;
        self.flags.0 = self.flags.0 & !(1 << LIST_LOW | 1 << LIST_HIGH) | bits;
    }

    /// Returns the counter of uses after the first one or two, which have flags of their own.
    pub(crate) const fn counted_uses(&self) -> u16 {
        self.flags.0 >> USES & MAX_USES
    }

    pub(crate) const fn set_counted_uses(&mut self, uses: u16) {
        self.flags.0 = self.flags.0 & !(MAX_USES << USES) | uses << USES;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::{Owner, PageTable};

    #[test]
    fn fields_of_the_flags_are_apart() {
        let mut table = PageTable::new(1);
        let page = &mut table[0];
        page.own(Owner::File, 0, 0, 0);
        page.set(PageFlags::LRU);
        for value in 0..4 {
            page.set_generation(value);
            page.set_list_generation(3 - value);
            page.set_counted_uses(value as u16);
            let read = (page.generation(), page.list_generation(), page.counted_uses());
            assert_eq!(read, (value, 3 - value, value as u16));
            assert!(page.has(PageFlags::LRU) && !page.has(PageFlags::YOUNG));
        }
    }
}
