//! zsmalloc: compressed pages in groups of single pages (zspages), by size class.
//!
//! A class has objects of one size; its zspages have the number of pages that wastes least. An object is stored in
//! the fullest zspage that has room, and a zspage is freed with its last object. From 4.8 on its pages can be
//! migrated (48b4800a1c6a). Source: mm/zsmalloc.c.

use std::collections::BTreeSet;

use crate::base::list::NIL;

/// Bytes of a page.
const PAGE: u32 = 4096;
/// The smallest object in bytes.
const MIN_SIZE: u32 = 32;
/// Bytes between two classes.
const STEP: u32 = PAGE >> 8;
/// Bytes of an object's handle, which is stored with it.
const HANDLE: u32 = 8;
/// The most pages of a zspage (`CONFIG_ZSMALLOC_CHAIN_SIZE`; four at most before 6.3).
pub const CHAIN_MAX: usize = 8;
/// Zspages are sorted by how full they are, in tenths (`ZS_INUSE_RATIO_*`).
const TENTHS: u32 = 10;

/// The number of a zspage.
pub type ZspageId = u32;

/// Objects of one size.
#[derive(Clone, Debug)]
struct Class {
    size: u32,
    /// Pages of a zspage.
    chain: u32,
    /// Objects of a zspage.
    objects: u32,
    /// Zspages with room: tenths in use, and number.
    partial: BTreeSet<(u32, ZspageId)>,
}

/// A group of pages that hold objects of a class.
#[derive(Clone, Copy, Debug)]
struct Zspage {
    class: u32,
    /// Objects in use.
    used: u32,
    pages: [u32; CHAIN_MAX],
}

/// A pool.
#[derive(Clone, Debug, Default)]
pub struct Zsmalloc {
    /// Classes, the smallest first.
    classes: Vec<Class>,
    zspages: Vec<Zspage>,
    unused: Vec<ZspageId>,
    pages: u64,
    objects: u64,
}

/// Returns the pages and objects of a class's zspages: the chain that wastes least.
fn chain_of(size: u32, longest: u32) -> (u32, u32) {
    let chain = (1..=longest).min_by_key(|chain| (chain * PAGE % size, *chain)).unwrap_or(1);
    (chain, chain * PAGE / size)
}

impl Zsmalloc {
    /// Returns an empty pool whose zspages have at most `longest` pages, 1 to [`CHAIN_MAX`].
    pub(crate) fn new(longest: u32) -> Self {
        let mut classes: Vec<Class> = Vec::new();
        for size in (MIN_SIZE..=PAGE).step_by(STEP as usize) {
            let (chain, objects) = chain_of(size, longest.clamp(1, CHAIN_MAX as u32));
            match classes.last_mut() {
                // Classes with equal zspages are merged.
                Some(last) if (last.chain, last.objects) == (chain, objects) => last.size = size,
                _ => classes.push(Class { size, chain, objects, partial: BTreeSet::new() }),
            }
        }
        Self { classes, ..Self::default() }
    }

    /// Returns the number of pages in use.
    #[must_use]
    pub const fn pages(&self) -> u64 {
        self.pages
    }

    /// Returns the number of objects in use.
    #[must_use]
    pub const fn objects(&self) -> u64 {
        self.objects
    }

    /// Returns the class of an object of `bytes` bytes. An object of nearly a page is stored as a whole page.
    pub(crate) fn class_of(&self, bytes: u32) -> u32 {
        let size = (bytes + HANDLE).min(PAGE);
        self.classes.partition_point(|class| class.size < size) as u32
    }

    /// Returns the number of pages of a class's zspages.
    pub(crate) fn chain(&self, class: u32) -> usize {
        self.classes[class as usize].chain as usize
    }

    /// Stores an object in a zspage with room; `None` if the class needs a new zspage.
    pub(crate) fn store(&mut self, class: u32) -> Option<ZspageId> {
        let (_, id) = *self.classes[class as usize].partial.last()?;
        self.resize(id, 1);
        Some(id)
    }

    /// Adds a zspage of [`chain`](Self::chain) pages, and stores an object in it.
    pub(crate) fn add(&mut self, class: u32, pages: &[u32]) -> ZspageId {
        debug_assert_eq!(pages.len(), self.chain(class), "a zspage of another size");
        let mut zspage = Zspage { class, used: 1, pages: [NIL; CHAIN_MAX] };
        zspage.pages[..pages.len()].copy_from_slice(pages);
        self.pages += pages.len() as u64;
        self.objects += 1;
        let id = match self.unused.pop() {
            Some(id) => {
                self.zspages[id as usize] = zspage;
                id
            }
            None => {
                self.zspages.push(zspage);
                self.zspages.len() as u32 - 1
            }
        };
        let class = &mut self.classes[class as usize];
        if class.objects > 1 {
            class.partial.insert((TENTHS / class.objects, id));
        }
        id
    }

    /// Returns the number that the next zspage will have.
    pub(crate) fn next_id(&self) -> ZspageId {
        self.unused.last().copied().unwrap_or(self.zspages.len() as u32)
    }

    /// Changes the number of objects of a zspage by `by`. Returns the new number.
    fn resize(&mut self, id: ZspageId, by: i32) -> u32 {
        let zspage = &mut self.zspages[id as usize];
        let class = &mut self.classes[zspage.class as usize];
        let tenth = |used: u32| (used * TENTHS / class.objects, id);
        class.partial.remove(&tenth(zspage.used));
        zspage.used = zspage.used.wrapping_add_signed(by);
        debug_assert!(zspage.used <= class.objects, "{} of {} objects", zspage.used, class.objects);
        self.objects = self.objects.wrapping_add_signed(by.into());
        if zspage.used > 0 && zspage.used < class.objects {
            class.partial.insert(tenth(zspage.used));
        }
        zspage.used
    }

    /// Frees an object of a zspage. Returns the pages to be freed if it was the last.
    pub(crate) fn free(&mut self, id: ZspageId) -> Vec<u32> {
        if self.resize(id, -1) > 0 {
            return Vec::new();
        }
        let zspage = self.zspages[id as usize];
        let chain = self.chain(zspage.class);
        self.pages -= chain as u64;
        self.unused.push(id);
        zspage.pages[..chain].to_vec()
    }

    /// Notes that a page of a zspage was migrated.
    pub(crate) fn move_page(&mut self, id: ZspageId, at: u32, to: u32) {
        self.zspages[id as usize].pages[at as usize] = to;
    }

    /// Returns the page at a place of a zspage; `None` if there is none.
    pub(crate) fn page(&self, id: ZspageId, at: u32) -> Option<u32> {
        let zspage = self.zspages.get(id as usize).filter(|zspage| zspage.used > 0)?;
        (at < self.classes[zspage.class as usize].chain).then_some(zspage.pages[at as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_waste_least_and_equal_classes_are_merged() {
        // 3,264 bytes: four objects on five pages waste 7,424, five on four pages 64.
        assert_eq!(chain_of(3264, 4), (4, 5));
        assert_eq!(chain_of(2048, 8), (1, 2));
        let pool = Zsmalloc::new(8);
        assert!(pool.classes.len() < 254);
        assert!(pool.classes.is_sorted_by_key(|class| class.size));
        let class = &pool.classes[pool.class_of(4096) as usize];
        assert_eq!((class.size, class.chain, class.objects), (4096, 1, 1));
        for bytes in 1..=4096 {
            let class = &pool.classes[pool.class_of(bytes) as usize];
            assert!(class.size >= (bytes + HANDLE).min(PAGE), "{bytes}");
        }
    }

    #[test]
    fn the_fullest_zspage_is_filled_and_an_empty_one_is_freed() {
        let mut pool = Zsmalloc::new(8);
        let class = pool.class_of(2000);
        assert_eq!((pool.chain(class), pool.store(class)), (1, None));
        let a = pool.add(class, &[70]);
        assert_eq!(pool.store(class), Some(a));
        assert_eq!(pool.store(class), None, "two of two");
        let b = pool.add(class, &[71]);
        assert_eq!((pool.pages(), pool.objects()), (2, 3));
        assert_eq!(pool.free(a), []);
        // Both are half full now.
        assert_eq!(pool.store(class), Some(b));
        pool.move_page(a, 0, 99);
        assert_eq!(pool.free(a), [99]);
        assert_eq!((pool.pages(), pool.objects(), pool.page(a, 0)), (1, 2, None));
        assert_eq!(pool.page(b, 0), Some(71));
    }
}
