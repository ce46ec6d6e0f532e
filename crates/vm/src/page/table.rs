//! The entry of each page frame beside the allocator's own tables: its owner and its state.
//!
//! Source: `struct page` and its flags (include/linux/mm_types.h, page-flags.h).

use pageblock::frame::{Order, Pfn};

use super::age::Ages;
use crate::base::list::{Linked, Links};

/// Who owns an allocated block.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
#[repr(u8)]
pub enum Owner {
    /// Nobody: the frame is free, a hole, or not the first of its block.
    None = 0,
    /// An anonymous mapping.
    Anon,
    /// A file: the page cache.
    File,
    /// A slab cache.
    Slab,
    /// Page tables.
    PageTable,
    /// A kernel stack.
    Stack,
    /// A driver's buffer, or other kernel memory.
    Driver,
    /// Compaction: a free page that was isolated as a migration target.
    Compaction,
    /// A file system's metadata.
    Buffer,
    /// The pool of hugetlb pages.
    Hugetlb,
    /// zsmalloc: compressed pages.
    Zsmalloc,
}

impl Owner {
    /// The owners by number, one for each value of a tag, so that no lookup is out of bounds.
    const ALL: [Self; 16] = [
        Self::None,
        Self::Anon,
        Self::File,
        Self::Slab,
        Self::PageTable,
        Self::Stack,
        Self::Driver,
        Self::Compaction,
        Self::Buffer,
        Self::Hugetlb,
        Self::Zsmalloc,
        Self::None,
        Self::None,
        Self::None,
        Self::None,
        Self::None,
    ];

    /// Returns whether such pages are on LRU lists, and so can be reclaimed or migrated.
    #[must_use]
    pub const fn is_lru(self) -> bool {
        matches!(self, Self::Anon | Self::File)
    }
}

/// Flags of a page.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PageFlags(pub u16);

impl PageFlags {
    /// Its content is newer than the disk's (`PG_dirty`).
    pub const DIRTY: Self = Self(1);
    /// Used since reclaim last scanned it.
    pub const REFERENCED: Self = Self(2);
    /// Being written to disk (`PG_writeback`).
    pub const WRITEBACK: Self = Self(4);
    /// In a process's page tables.
    pub const MAPPED: Self = Self(8);
    /// On an active list.
    pub const ACTIVE: Self = Self(16);
    /// To be reclaimed as soon as it is written (`PG_reclaim`).
    pub const RECLAIM: Self = Self(32);
    /// Was active when it was reclaimed before (`PG_workingset`).
    pub const WORKINGSET: Self = Self(64);
    /// On an LRU list.
    pub const LRU: Self = Self(128);
    /// Locked in memory (`PG_mlocked`).
    pub const UNEVICTABLE: Self = Self(256);
    /// A slab that belongs to a CPU (`frozen`).
    pub const FROZEN: Self = Self(512);

    /// Returns whether every bit of `bits` is set.
    #[must_use]
    pub const fn has(self, bits: Self) -> bool {
        self.0 & bits.0 == bits.0
    }
}

/// The entry of a frame. In all but a block's first frame only the zone is meaningful.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    links: Links,
    /// The number of the mapping, file or slab cache, by the kind of owner.
    pub owner: u32,
    /// The page's index in its mapping or file; objects in use in a slab.
    pub index: u32,
    /// What the page cache keeps of it (`page->private`), plus one; 0 for nothing: the swap slot of an anonymous page, the
    /// slab of the buffer head of a file's, with [`HELD`].
    private: u32,
    /// Flags.
    pub flags: PageFlags,
    tag: u8,
    /// The index of its zone in the allocator; [`NO_ZONE`] for a hole.
    pub zone: u8,
}

/// Set beside a buffer head that the journal holds.
const HELD: u32 = 1 << 31;

/// The frame is in no zone.
pub const NO_ZONE: u8 = u8::MAX;

// At most 24 bytes a page beside the allocator's nine.
const _: () = assert!(size_of::<Page>() == 24);

impl Page {
    const BLANK: Self = Self {
        links: Links::NONE,
        owner: 0,
        index: 0,
        private: 0,
        flags: PageFlags(0),
        tag: 0,
        zone: NO_ZONE,
    };

    /// Returns its owner.
    #[must_use]
    pub const fn kind(&self) -> Owner {
        Owner::ALL[(self.tag & 15) as usize]
    }

    /// Returns the order of its block.
    #[must_use]
    pub const fn order(&self) -> Order {
        self.tag >> 4
    }

    /// Returns whether every one of the flags is set.
    #[must_use]
    pub const fn has(&self, flags: PageFlags) -> bool {
        self.flags.has(flags)
    }

    pub(crate) const fn set(&mut self, flags: PageFlags) {
        self.flags.0 |= flags.0;
    }

    pub(crate) const fn clear(&mut self, flags: PageFlags) {
        self.flags.0 &= !flags.0;
    }

    /// Clears a flag and returns whether it was set.
    pub(crate) const fn test_and_clear(&mut self, flag: PageFlags) -> bool {
        let was = self.has(flag);
        self.clear(flag);
        was
    }

    /// Sets the owner of a block and clears its flags.
    pub(crate) const fn own(&mut self, kind: Owner, order: Order, owner: u32, index: u32) {
        self.tag = kind as u8 | order << 4;
        self.owner = owner;
        self.index = index;
        self.flags = PageFlags(0);
        self.private = 0;
    }

    /// Returns the slab of the buffer head of a file's page.
    pub(crate) fn buffer_head(&self) -> Option<u32> {
        (self.private & !HELD).checked_sub(1)
    }

    /// Gives a file's page a buffer head, or takes it.
    pub(crate) fn set_buffer_head(&mut self, slab: Option<u32>) {
        debug_assert!(slab.is_none_or(|slab| slab < HELD - 1));
        self.private = slab.map_or(0, |slab| slab + 1);
    }

    /// Returns whether the journal holds the buffer head of a file's page, which then can neither be migrated nor freed.
    pub(crate) fn is_held(&self) -> bool {
        self.kind() == Owner::File && self.private & HELD != 0
    }

    /// Sets whether the journal holds the buffer head of a page.
    pub(crate) fn set_held(&mut self, held: bool) {
        debug_assert!(self.buffer_head().is_some(), "the journal holds a buffer head");
        self.private = self.private & !HELD | if held { HELD } else { 0 };
    }

    /// Takes what the page cache keeps of a page, for [`set_private`](Self::set_private) on the page that takes its place.
    pub(crate) fn take_private(&mut self) -> u32 {
        std::mem::take(&mut self.private)
    }

    pub(crate) fn set_private(&mut self, private: u32) {
        self.private = private;
    }

    /// Returns the swap slot of an anonymous page that has one (`PageSwapCache`).
    pub(crate) fn swap_slot(&self) -> Option<u32> {
        self.private.checked_sub(1).filter(|_| self.kind() == Owner::Anon)
    }

    /// Sets the swap slot of an anonymous page, or that it has none.
    pub(crate) fn set_swap_slot(&mut self, slot: Option<u32>) {
        debug_assert_eq!(self.kind(), Owner::Anon);
        self.private = slot.map_or(0, |slot| slot + 1);
    }

    /// Leaves the block without an owner.
    pub(crate) const fn disown(&mut self) {
        self.own(Owner::None, 0, 0, 0);
    }
}

impl Linked for Page {
    #[inline]
    fn links(&self) -> &Links {
        &self.links
    }
    #[inline]
    fn links_mut(&mut self) -> &mut Links {
        &mut self.links
    }
}

/// The entries of all frames, by frame number.
#[derive(Debug)]
pub struct PageTable {
    entries: Vec<Page>,
    pub(super) ages: Option<Box<Ages>>,
    /// The time in milliseconds.
    pub(super) now_ms: u64,
    /// The flag of a page that its user's page tables set (the accessed bit).
    accessed: PageFlags,
}

impl PageTable {
    /// Returns entries of frames without owners.
    pub(crate) fn new(frames: usize) -> Self {
        let accessed = PageFlags::REFERENCED;
        Self { entries: vec![Page::BLANK; frames], ages: None, now_ms: 0, accessed }
    }

    /// Tells uses by page tables from those by files, as the multi-generational LRU does.
    pub(crate) const fn tell_young(&mut self) {
        self.accessed = PageFlags::YOUNG;
    }

    /// Returns the flag of a page that its user's page tables set by being used.
    pub(crate) const fn accessed(&self) -> PageFlags {
        self.accessed
    }

    /// Returns the time in milliseconds.
    pub(crate) const fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// Returns every entry; lists are linked through them.
    #[inline]
    pub(crate) fn entries(&self) -> &[Page] {
        &self.entries
    }

    /// Returns every entry, to link lists through them.
    #[inline]
    pub(crate) fn entries_mut(&mut self) -> &mut [Page] {
        &mut self.entries
    }

    /// Returns the entry of a frame; a blank one past the end.
    #[must_use]
    pub fn get(&self, pfn: Pfn) -> &Page {
        self.entries.get(pfn.0 as usize).unwrap_or(&Page::BLANK)
    }

    /// Returns the number of frames.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether there is no frame.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl std::ops::Index<u32> for PageTable {
    type Output = Page;
    #[inline]
    fn index(&self, pfn: u32) -> &Page {
        &self.entries[pfn as usize]
    }
}

impl std::ops::IndexMut<u32> for PageTable {
    #[inline]
    fn index_mut(&mut self, pfn: u32) -> &mut Page {
        &mut self.entries[pfn as usize]
    }
}
