//! The consistency check: every page has exactly one owner, and every owner has its pages.

use std::fmt;

use pageblock::FrameState;
use pageblock::check::Violation;
use pageblock::event::Observer;
use pageblock::frame::{Order, Pfn, pages};

use crate::fs::inode::InodeId;
use crate::page::{Owner, Page, PageFlags};
use crate::pagecache::lru::{Lru, LruList};
use crate::pagecache::mglru::{Kind, MIN_GENS};
use crate::pagecache::space::{Slot, SpaceId};
use crate::slab::CacheId;
use crate::vm::Vm;

/// An inconsistency: a defect of the simulation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Broken {
    /// The allocator is inconsistent.
    Allocator(Violation),
    /// A block in use has no owner: it is leaked.
    Lost(Pfn, Order),
    /// A frame has an owner, but for the allocator it is free or in a block of another order.
    Stolen(Pfn, Owner),
    /// A page is not at its index in its file or mapping.
    NotThere(Pfn, SpaceId, u32),
    /// A file or mapping has a page that it does not own.
    NotItsPage(SpaceId, u32, Pfn),
    /// A counter differs from the pages.
    Count {
        /// The counter.
        name: &'static str,
        /// Its value.
        counted: u64,
        /// The number found.
        found: u64,
    },
    /// A file has an object that is not in use.
    Object(InodeId, u32),
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Allocator(violation) => write!(f, "the allocator: {violation}"),
            Self::Lost(pfn, order) => write!(f, "the block at {pfn} of order {order} has no owner"),
            Self::Stolen(pfn, owner) => write!(f, "frame {pfn} of {owner:?} is not allocated"),
            Self::NotThere(pfn, space, index) => {
                write!(f, "frame {pfn} is not page {index} of space {space}")
            }
            Self::NotItsPage(space, index, pfn) => {
                write!(f, "page {index} of space {space} is frame {pfn}, which it does not own")
            }
            Self::Count { name, counted, found } => {
                write!(f, "{name} is {counted}, but {found} were found")
            }
            Self::Object(inode, slab) => write!(f, "inode {inode} has an object on frame {slab}"),
        }
    }
}

impl std::error::Error for Broken {}

fn equal(name: &'static str, counted: u64, found: u64) -> Result<(), Broken> {
    if counted == found { Ok(()) } else { Err(Broken::Count { name, counted, found }) }
}

/// What the pages were found to be.
struct Found {
    /// Pages on each LRU list of each lruvec.
    lists: Vec<[u64; 5]>,
    /// Pages of files and mappings.
    mapped: u64,
    dirty: u64,
    writeback: u64,
    buffers: u64,
    /// Objects and slabs of each cache.
    slabs: Vec<(u64, u64)>,
}

impl Found {
    fn new(vecs: usize, caches: usize) -> Self {
        let (lists, slabs) = (vec![[0; 5]; vecs], vec![(0, 0); caches]);
        Self { lists, mapped: 0, dirty: 0, writeback: 0, buffers: 0, slabs }
    }

    /// Counts a block in use; `vec` is the index of its zone's lruvec.
    #[inline(always)]
    fn count(&mut self, page: &Page, vec: usize, lru: &Lru) {
        if page.has(PageFlags::LRU) {
            self.lists[vec][lru.counted_list(vec, page) as usize] += pages(page.order());
        }
        match page.kind() {
            Owner::File => {
                self.mapped += pages(page.order());
                self.dirty += u64::from(page.has(PageFlags::DIRTY)) << page.order();
                self.writeback += u64::from(page.has(PageFlags::WRITEBACK)) << page.order();
            }
            Owner::Anon => self.mapped += pages(page.order()),
            Owner::Slab => {
                let (objects, slabs) = &mut self.slabs[page.owner as usize];
                *objects += u64::from(page.index);
                *slabs += 1;
            }
            Owner::Buffer => self.buffers += 1,
            _ => {}
        }
    }
}

impl<O: Observer> Vm<'_, O> {
    /// Checks the allocator, that every block in use has exactly one owner that has it, and every counter. Takes time
    /// linear in the size of memory.
    ///
    /// # Errors
    /// Returns the first inconsistency.
    pub fn check(&self) -> Result<(), Broken> {
        self.allocator.check().map_err(Broken::Allocator)?;
        let found = self.check_owners()?;
        self.check_counts(&found)?;
        self.check_generations()?;
        let mapped = self.check_spaces()?;
        if mapped != found.mapped {
            self.check_places()?;
        }
        equal("the pages of files and mappings", mapped, found.mapped)?;
        self.check_objects()?;
        self.check_buffer_heads()?;
        equal("inodes on a wrong list", self.misplaced_inodes(), 0)?;
        self.check_zram()
    }

    /// Checks that every page of zsmalloc is in its zspage, and that every page in swap is stored once.
    fn check_zram(&self) -> Result<(), Broken> {
        let Some(zram) = self.zram() else { return Ok(()) };
        let mut pages = 0;
        for pfn in 0..self.pages.len() as u32 {
            let page = &self.pages[pfn];
            if page.kind() == Owner::Zsmalloc {
                pages += 1;
                if zram.pool().page(page.owner, page.index) != Some(pfn) {
                    return Err(Broken::NotItsPage(page.owner, page.index, Pfn(pfn.into())));
                }
            }
        }
        let (stored, same) = zram.stored();
        let (free, slots) = self.swap_places();
        equal("zsmalloc's pages", zram.pool().pages(), pages)?;
        equal("zsmalloc's objects", zram.pool().objects(), stored)?;
        equal("the swap slots in use", slots - free, stored + same)
    }

    /// Checks that every block in use has an owner, and no other frame. Returns what was found.
    fn check_owners(&self) -> Result<Found, Broken> {
        let mut found = Found::new(self.lru().vecs().len(), self.slabs.caches().len());
        for (at, zone) in self.allocator.zones().iter().enumerate() {
            let mut pfn = zone.span().start.0;
            while pfn < zone.span().end.0 {
                let page = &self.pages[pfn as u32];
                let owned = page.kind() != Owner::None;
                let here = Pfn(pfn);
                let order = match zone.state(here) {
                    Some(FrameState::Allocated { order, .. }) => {
                        if !owned {
                            return Err(Broken::Lost(here, order));
                        }
                        if page.order() != order {
                            return Err(Broken::Stolen(here, page.kind()));
                        }
                        found.count(page, self.lru().of_zone(at), self.lru());
                        order
                    }
                    _ if owned => return Err(Broken::Stolen(here, page.kind())),
                    Some(FrameState::Free { order, .. } | FrameState::CpuList { order, .. }) => {
                        order
                    }
                    _ => 0,
                };
                let next = pfn + pages(order);
                let tails = &self.pages.entries()[pfn as usize + 1..next as usize];
                if let Some(at) = tails.iter().position(|page| page.kind() != Owner::None) {
                    return Err(Broken::Stolen(Pfn(pfn + 1 + at as u64), tails[at].kind()));
                }
                pfn = next;
            }
        }
        Ok(found)
    }

    /// Checks every counter against what was found.
    fn check_counts(&self, found: &Found) -> Result<(), Broken> {
        for (vec, found) in self.lru().vecs().iter().zip(&found.lists) {
            for list in LruList::EVICTABLE {
                equal("an LRU list's size", vec.size(list), found[list as usize])?;
            }
        }
        equal("nr_dirty", self.nr_dirty().0, found.dirty)?;
        equal("nr_writeback", self.nr_dirty().1, found.writeback)?;
        equal("the buffers' pages", self.fs.buffer_pages(), found.buffers)?;
        for (cache, &(objects, slabs)) in self.slabs.caches().iter().zip(&found.slabs) {
            equal("a cache's objects", cache.objects + cache.in_sheaves(), objects)?;
            equal("a cache's slabs", cache.slabs, slabs)?;
        }
        Ok(())
    }

    /// Checks that every page of a generation is on one list, and the sizes of generations and lists in each zone.
    fn check_generations(&self) -> Result<(), Broken> {
        if !self.lru().has_generations() {
            return Ok(());
        }
        for (at, zone) in self.allocator.zones().iter().enumerate() {
            let mut found = [[(0, 0); 4]; 2];
            for pfn in zone.span().start.0..zone.span().end.0 {
                let page = &self.pages[pfn as u32];
                let listed = page.kind().is_lru() && page.has(PageFlags::LRU);
                if !listed || page.has(PageFlags::UNEVICTABLE) {
                    continue;
                }
                equal("a listed page's active flag", page.has(PageFlags::ACTIVE).into(), 0)?;
                let of_kind = &mut found[Kind::of(page) as usize];
                of_kind[page.generation()].0 += pages(page.order());
                of_kind[page.list_generation()].1 += 1;
            }
            let of = self.lru().generations(self.lru().of_zone(at));
            for kind in Kind::ALL {
                let (sizes, found) = (of.sizes(at)[kind as usize], found[kind as usize]);
                for (counted, found) in sizes.into_iter().zip(found) {
                    equal("a generation's pages", counted.0, found.0)?;
                    equal("the folios on a generation's list", counted.1, found.1)?;
                }
                let len = of.len(kind);
                equal("generations", len, len.clamp(MIN_GENS, 4))?;
            }
            let lists = of.count_listed(at, self.pages.entries());
            equal("the folios that lists link", lists.0, lists.1)?;
        }
        Ok(())
    }

    /// Checks that every file or mapping owns its pages. Returns their number: if it is the number of all such pages,
    /// each is at its index.
    fn check_spaces(&self) -> Result<u64, Broken> {
        let mut mapped = 0;
        for (id, space) in self.spaces().iter() {
            let (mut present, mut shadows, mut dirty, mut writeback) = (0, 0, 0, 0);
            let mut index = 0;
            while index < space.len() {
                let pfn = match self.spaces().slot(id, index) {
                    Slot::Page(pfn) => pfn,
                    slot => {
                        shadows += u64::from(matches!(slot, Slot::Shadow(_)));
                        index += 1;
                        continue;
                    }
                };
                let page = &self.pages[pfn];
                if !page.kind().is_lru() || page.owner != id || page.index != index {
                    return Err(Broken::NotItsPage(id, index, Pfn(pfn.into())));
                }
                if page.order() > 0 {
                    self.check_place(pfn)?;
                }
                if page.kind() == Owner::File {
                    dirty += u64::from(page.has(PageFlags::DIRTY)) << page.order();
                    writeback += u64::from(page.has(PageFlags::WRITEBACK)) << page.order();
                }
                present += pages(page.order());
                index += 1 << page.order();
            }
            equal("a space's pages", space.present.into(), present)?;
            equal("a space's shadow entries", space.shadows.into(), shadows)?;
            equal("a space's dirty pages", space.dirty.into(), dirty)?;
            equal("a space's pages under writeback", space.writeback.into(), writeback)?;
            mapped += present;
        }
        Ok(mapped)
    }

    /// Checks that every page of a file or mapping is at its index.
    fn check_places(&self) -> Result<(), Broken> {
        let of_spaces = |pfn: &u32| self.pages[*pfn].kind().is_lru();
        (0..self.pages.len() as u32).filter(of_spaces).try_for_each(|pfn| self.check_place(pfn))
    }

    /// Checks that every page of a block is at its index in its file or mapping.
    fn check_place(&self, pfn: u32) -> Result<(), Broken> {
        let page = &self.pages[pfn];
        for offset in 0..1 << page.order() {
            let index = page.index + offset;
            if index >= self.spaces().get(page.owner).len()
                || self.spaces().slot(page.owner, index) != Slot::Page(pfn + offset)
            {
                return Err(Broken::NotThere(Pfn(pfn.into()), page.owner, index));
            }
        }
        Ok(())
    }

    /// Checks that every buffer head in use belongs to a page of a file.
    fn check_buffer_heads(&self) -> Result<(), Broken> {
        let Some(cache) = self.pagecache.buffer_heads() else { return Ok(()) };
        let mut found = 0;
        for (pfn, head) in self.pages.entries().iter().enumerate() {
            if head.kind() != Owner::File {
                continue;
            }
            for page in &self.pages.entries()[pfn..pfn + (1 << head.order())] {
                let Some(slab) = page.buffer_head() else { continue };
                let on = &self.pages[slab];
                if on.kind() != Owner::Slab || on.owner != cache {
                    return Err(Broken::Object(self.spaces().get(head.owner).inode, slab));
                }
                found += 1;
            }
        }
        equal("the buffer heads", self.slabs.caches()[cache as usize].objects, found)
    }

    /// Checks that every object of a file is in use in one of its caches.
    fn check_objects(&self) -> Result<(), Broken> {
        let is_valid = |slab: u32, caches: &[CacheId]| {
            let page = &self.pages[slab];
            page.kind() == Owner::Slab && caches.contains(&page.owner)
        };
        match self.fs.held_objects().find(|held| !is_valid(held.slab, held.caches)) {
            Some(held) => Err(Broken::Object(held.inode, held.slab)),
            None => Ok(()),
        }
    }
}
