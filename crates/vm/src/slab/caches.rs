//! Slab caches: objects of one size on blocks of pages.
//!
//! A cache has a slab for each CPU, from which it allocates, a few partial slabs for each CPU, and a list of
//! partial slabs for each node. When an object of a full slab is freed, the slab becomes a partial slab of the
//! CPU that freed it; when the CPU's partial slabs have too many free objects, all of them move to the node's
//! list. An empty slab is freed unless the node has few partial slabs. That is SLUB (mm/slub.c). SLAB is
//! modelled by its slab sizes only: CPUs have no partial slabs, and there are no per-CPU arrays of objects.

use pageblock::frame::Order;
use pageblock::request::{Gfp, Request};

use super::order::{PAGE_SIZE, SlabAllocator, covering, cpu_partial, min_partial};
use crate::base::list::{List, NIL};
use crate::page::table::{Owner, PageFlags, PageTable};

/// The number of a cache.
pub type CacheId = u32;

/// The parameters with which a cache is created.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CacheSpec {
    /// Its name in `/proc/slabinfo`.
    pub name: &'static str,
    /// Bytes of an object, with padding.
    pub size: u32,
    /// A shrinker can free its objects (`SLAB_RECLAIM_ACCOUNT`).
    pub reclaimable: bool,
}

/// A cache.
#[derive(Clone, Debug)]
pub struct Cache {
    /// The parameters with which it was created.
    pub spec: CacheSpec,
    /// The preferred order of new slabs.
    pub order: Order,
    /// The smallest order that an object fits in, tried if the preferred order fails.
    pub min_order: Order,
    /// Objects in use.
    pub objects: u64,
    /// Slabs.
    pub slabs: u64,
    cpus: Vec<CpuSlabs>,
    partial: Vec<List>,
    min_partial: u32,
    /// 0: CPUs have no partial slabs.
    cpu_partial: u32,
}

/// The slabs of a cache that belong to a CPU.
#[derive(Clone, Debug)]
struct CpuSlabs {
    /// The slab that it allocates from; [`NIL`] for none.
    slab: u32,
    /// Partial slabs; the last is used first.
    partial: Vec<u32>,
    /// Free objects on the partial slabs when they were added.
    objects: u32,
}

impl Cache {
    fn capacity(&self, order: Order) -> u32 {
        (PAGE_SIZE << order) / self.spec.size
    }

    fn free_objects(&self, pages: &PageTable, slab: u32) -> u32 {
        self.capacity(pages[slab].order()) - pages[slab].index
    }

    /// Takes a partial slab of the CPU, or else the node's first; then the CPU also takes more of the node's
    /// slabs, up to half the free objects that it may keep (`get_partial_node`).
    fn next_slab(&mut self, pages: &mut PageTable, cpu: usize, node: usize) -> Option<u32> {
        if let Some(slab) = self.cpus[cpu].partial.pop() {
            let free = self.free_objects(pages, slab);
            let own = &mut self.cpus[cpu];
            own.objects = own.objects.saturating_sub(free);
            return Some(slab);
        }
        let first = self.partial[node].head()?;
        self.partial[node].remove(pages.entries_mut(), first);
        while self.cpu_partial > 0 && self.cpus[cpu].objects <= self.cpu_partial / 2 {
            let Some(slab) = self.partial[node].head() else { break };
            self.partial[node].remove(pages.entries_mut(), slab);
            pages[slab].set(PageFlags::FROZEN);
            let free = self.free_objects(pages, slab);
            let own = &mut self.cpus[cpu];
            own.objects += free;
            own.partial.push(slab);
        }
        Some(first)
    }

    /// Adds a partial slab to a CPU. If the CPU's partial slabs have too many free objects, they move to their
    /// nodes first (`put_cpu_partial`, `unfreeze_partials`). Returns the empty slabs to be freed.
    fn add_cpu_partial(
        &mut self,
        pages: &mut PageTable,
        cpu: usize,
        slab: u32,
        node_of_slab: impl Fn(&PageTable, u32) -> usize,
    ) -> Vec<EmptySlab> {
        let mut empty = Vec::new();
        if self.cpus[cpu].objects > self.cpu_partial {
            for slab in std::mem::take(&mut self.cpus[cpu].partial) {
                pages[slab].clear(PageFlags::FROZEN);
                let node = node_of_slab(pages, slab);
                if pages[slab].index == 0 && self.partial[node].len() >= self.min_partial {
                    empty.push(self.discard(pages, slab));
                } else {
                    self.partial[node].push_tail(pages.entries_mut(), slab);
                }
            }
            self.cpus[cpu].objects = 0;
        }
        pages[slab].set(PageFlags::FROZEN);
        self.cpus[cpu].partial.push(slab);
        self.cpus[cpu].objects += 1;
        empty
    }

    /// Removes an empty slab that is on no list.
    fn discard(&mut self, pages: &mut PageTable, slab: u32) -> EmptySlab {
        debug_assert_eq!(pages[slab].index, 0, "objects of the slab are in use");
        let order = pages[slab].order();
        self.slabs -= 1;
        pages[slab].disown();
        EmptySlab { pfn: slab, order }
    }
}

/// All caches.
#[derive(Debug)]
pub struct Slabs {
    allocator: SlabAllocator,
    cpus: usize,
    nodes: usize,
    /// A request for a slab of the preferred order may reclaim and compact.
    preferred_reclaims: bool,
    caches: Vec<Cache>,
    /// The caches of [`process::OBJECTS`](super::process::OBJECTS).
    pub(super) process_caches: Vec<CacheId>,
}

/// An empty slab, to be freed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct EmptySlab {
    pub(crate) pfn: u32,
    pub(crate) order: Order,
}

impl Slabs {
    /// Returns a machine without caches. `preferred_reclaims`: a request for a slab of the preferred order may
    /// reclaim and compact (up to 4.2).
    pub(crate) fn new(
        allocator: SlabAllocator,
        cpus: usize,
        nodes: usize,
        preferred_reclaims: bool,
    ) -> Self {
        let (caches, process_caches) = (Vec::new(), Vec::new());
        Self { allocator, cpus, nodes, preferred_reclaims, caches, process_caches }
    }

    /// Creates a cache.
    pub(crate) fn create(&mut self, spec: CacheSpec) -> CacheId {
        let order = self.allocator.order(spec.size, self.cpus as u32);
        self.caches.push(Cache {
            spec,
            order,
            min_order: covering(spec.size).min(order),
            objects: 0,
            slabs: 0,
            cpus: vec![CpuSlabs { slab: NIL, partial: Vec::new(), objects: 0 }; self.cpus],
            partial: vec![List::default(); self.nodes],
            min_partial: min_partial(spec.size),
            cpu_partial: match self.allocator {
                SlabAllocator::Slab => 0,
                SlabAllocator::Slub => cpu_partial(spec.size),
            },
        });
        self.caches.len() as u32 - 1
    }

    /// Returns the cache with these parameters; creates it if there is none.
    pub(crate) fn find_or_create(&mut self, spec: CacheSpec) -> CacheId {
        let known = self.caches.iter().position(|cache| cache.spec == spec);
        known.map_or_else(|| self.create(spec), |id| id as CacheId)
    }

    /// Returns every cache.
    #[must_use]
    pub fn caches(&self) -> &[Cache] {
        &self.caches
    }

    /// Returns the size of a cache's objects in bytes.
    pub(crate) fn size(&self, id: CacheId) -> u32 {
        self.caches[id as usize].spec.size
    }

    /// Takes an object from the CPU's slab or from a partial slab of the CPU or the node; `None` if a new slab is
    /// needed. An object is named by its slab's first frame.
    pub(crate) fn take(
        &mut self,
        pages: &mut PageTable,
        id: CacheId,
        cpu: usize,
        node: usize,
    ) -> Option<u32> {
        let cache = &mut self.caches[id as usize];
        let mut slab = cache.cpus[cpu].slab;
        if slab == NIL || cache.free_objects(pages, slab) == 0 {
            if slab != NIL {
                // It is full, and on no list until one of its objects is freed.
                pages[slab].clear(PageFlags::FROZEN);
                cache.cpus[cpu].slab = NIL;
            }
            slab = cache.next_slab(pages, cpu, node)?;
            pages[slab].set(PageFlags::FROZEN);
            cache.cpus[cpu].slab = slab;
        }
        debug_assert!(cache.free_objects(pages, slab) > 0, "an object of a full slab");
        pages[slab].index += 1;
        cache.objects += 1;
        Some(slab)
    }

    /// Returns the request for a new slab: at the preferred order without retries (from 4.3, 45eb00cd3a03,
    /// without reclaim too), or at the smallest order. `flags` are the caller's, beyond the type.
    #[must_use]
    pub fn request(&self, id: CacheId, flags: Gfp, preferred: bool) -> Request {
        let cache = &self.caches[id as usize];
        let gfp = if cache.spec.reclaimable { flags | Gfp::RECLAIMABLE } else { flags };
        if !preferred || cache.order == cache.min_order {
            return Request::new(cache.min_order, gfp);
        }
        let light = Gfp::NOWARN | Gfp::NORETRY | Gfp::NOMEMALLOC | Gfp::COMP;
        let without =
            if self.preferred_reclaims { Gfp::NOFAIL } else { Gfp::NOFAIL | Gfp::DIRECT_RECLAIM };
        Request::new(cache.order, gfp.without(without) | light)
    }

    /// Makes a new block the slab of a CPU; the CPU's old slab becomes a partial slab of its node.
    pub(crate) fn add(
        &mut self,
        pages: &mut PageTable,
        id: CacheId,
        cpu: usize,
        pfn: u32,
        order: Order,
        node_of_slab: impl Fn(&PageTable, u32) -> usize,
    ) {
        debug_assert_eq!(pages[pfn].kind(), Owner::None, "the block has an owner");
        pages[pfn].own(Owner::Slab, order, id, 0);
        pages[pfn].set(PageFlags::FROZEN);
        let cache = &mut self.caches[id as usize];
        cache.slabs += 1;
        let old = std::mem::replace(&mut cache.cpus[cpu].slab, pfn);
        if old != NIL {
            pages[old].clear(PageFlags::FROZEN);
            if cache.free_objects(pages, old) > 0 {
                let node = node_of_slab(pages, old);
                cache.partial[node].push_head(pages.entries_mut(), old);
            }
        }
    }

    /// Frees an object on a CPU. Returns the slabs that are empty now and to be freed.
    pub(crate) fn put(
        &mut self,
        pages: &mut PageTable,
        slab: u32,
        cpu: usize,
        node_of_slab: impl Fn(&PageTable, u32) -> usize,
    ) -> Vec<EmptySlab> {
        let cache = &mut self.caches[pages[slab].owner as usize];
        debug_assert_eq!(pages[slab].kind(), Owner::Slab, "the block is no slab");
        let full = cache.free_objects(pages, slab) == 0;
        pages[slab].index -= 1;
        cache.objects -= 1;
        if pages[slab].has(PageFlags::FROZEN) {
            return Vec::new();
        }
        if full && cache.cpu_partial > 0 {
            return cache.add_cpu_partial(pages, cpu, slab, node_of_slab);
        }
        let node = node_of_slab(pages, slab);
        if full {
            cache.partial[node].push_tail(pages.entries_mut(), slab);
        }
        if pages[slab].index > 0 || cache.partial[node].len() <= cache.min_partial {
            return Vec::new();
        }
        cache.partial[node].remove(pages.entries_mut(), slab);
        vec![cache.discard(pages, slab)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 45eb00cd3a03 (4.3).
    #[test]
    fn a_high_order_was_once_worth_reclaim() {
        let mut slabs = Slabs::new(SlabAllocator::Slub, 8, 1, false);
        let spec = CacheSpec { name: "fuse_inode", size: 896, reclaimable: true };
        let id = slabs.create(spec);
        let reclaims = |slabs: &Slabs, preferred| {
            let request = slabs.request(id, Gfp::GFP_NOFS, preferred);
            (request.order, request.gfp.has(Gfp::DIRECT_RECLAIM))
        };
        assert_eq!((reclaims(&slabs, true), reclaims(&slabs, false)), ((3, false), (0, true)));
        slabs.preferred_reclaims = true;
        assert_eq!((reclaims(&slabs, true), reclaims(&slabs, false)), ((3, true), (0, true)));
    }

    #[test]
    fn one_object_pins_its_slab() {
        let mut pages = PageTable::new(64);
        let mut slabs = Slabs::new(SlabAllocator::Slab, 1, 1, false);
        let spec = CacheSpec { name: "kmalloc-1k", size: 1024, reclaimable: false };
        let id = slabs.create(spec);
        let mut objects = Vec::new();
        for slab in 0..10 {
            assert_eq!(slabs.take(&mut pages, id, 0, 0), None);
            slabs.add(&mut pages, id, 0, slab, 0, |_, _| 0);
            objects.extend((0..4).map(|_| slabs.take(&mut pages, id, 0, 0).unwrap()));
        }
        assert_eq!((slabs.caches()[0].objects, slabs.caches()[0].slabs), (40, 10));
        // One object of each slab is in use: no slab is freed.
        for &slab in &objects[..36] {
            if pages[slab].index > 1 {
                assert_eq!(slabs.put(&mut pages, slab, 0, |_, _| 0), []);
            }
        }
        assert_eq!(slabs.caches()[0].slabs, 10);
        // Now all are freed but those that the node keeps.
        let freed: usize = (0..9).map(|s| slabs.put(&mut pages, s, 0, |_, _| 0).len()).sum();
        assert_eq!(freed, 4);
        assert_eq!(slabs.caches()[0].slabs, 6);
    }

    /// Objects that one CPU allocates and another frees: the other CPU keeps their slabs until they have too many
    /// free objects, the node keeps empty slabs up to its minimum, and only then slabs are freed.
    #[test]
    fn slabs_that_another_cpu_frees_come_back_through_the_node() {
        let mut pages = PageTable::new(1024);
        let mut slabs = Slabs::new(SlabAllocator::Slub, 2, 1, false);
        let spec = CacheSpec { name: "kmalloc-4k", size: 4096, reclaimable: false };
        let id = slabs.create(spec);
        let take = |slabs: &mut Slabs, pages: &mut PageTable, fresh: &mut u32| loop {
            if let Some(object) = slabs.take(pages, id, 0, 0) {
                return object;
            }
            slabs.add(pages, id, 0, *fresh, 3, |_, _| 0);
            *fresh += 8;
        };
        let mut fresh = 0;
        let objects: Vec<u32> =
            (0..20 * 8).map(|_| take(&mut slabs, &mut pages, &mut fresh)).collect();
        assert_eq!((fresh, slabs.caches()[0].slabs), (160, 20));
        let freed: usize =
            objects.iter().map(|&o| slabs.put(&mut pages, o, 1, |_, _| 0).len()).sum();
        // The node keeps six, the CPU that freed keeps one, and the CPU that allocated keeps one.
        assert_eq!((freed, slabs.caches()[0].slabs), (12, 8));
        for _ in 0..6 * 8 {
            take(&mut slabs, &mut pages, &mut fresh);
        }
        assert_eq!(fresh, 160, "the node's slabs serve before new ones");
    }
}
