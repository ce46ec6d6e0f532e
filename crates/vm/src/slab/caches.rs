//! Slab caches: objects of one size on blocks of pages.
//!
//! A cache has a slab for each CPU, from which it allocates, a few partial slabs for each CPU, and a list of
//! partial slabs for each node. When an object of a full slab is freed, the slab becomes a partial slab of the
//! CPU that freed it; when the CPU's partial slabs have too many free objects, all of them move to the node's
//! list. An empty slab is freed unless the node has few partial slabs. That is SLUB (mm/slub.c) up to 6.19; from 7.0 on
//! CPUs have no slabs but arrays of objects ([`super::sheaves`]). SLAB is modelled by its slab sizes only: CPUs have no
//! partial slabs, and there are no per-CPU arrays of objects.

use pageblock::frame::Order;
use pageblock::request::{Gfp, Request};
use pageblock_kernel::rules::memory::{Memory, SlabCpu, SlabPartial};

use super::cache::{Cache, CacheId, CacheSpec, CpuSlabs, EmptySlab, fill};
use super::order::{
    PAGE_SIZE, SlabAllocator, covering, cpu_partial, cpu_partial_slabs, min_partial,
};
use super::sheaves::Sheaves;
use crate::base::list::{List, NIL};
use crate::page::table::{Owner, PageFlags, PageTable};

/// All caches.
#[derive(Debug)]
pub struct Slabs {
    allocator: SlabAllocator,
    /// The node of each CPU.
    cpus: Vec<usize>,
    nodes: usize,
    rules: Memory,
    caches: Vec<Cache>,
    /// The caches of [`process::OBJECTS`](super::process::OBJECTS).
    pub(super) process_caches: Vec<CacheId>,
}

impl Slabs {
    /// Returns a machine of CPUs on these nodes, without caches.
    pub(crate) fn new(
        allocator: SlabAllocator,
        cpus: Vec<usize>,
        nodes: usize,
        rules: &Memory,
    ) -> Self {
        Self {
            allocator,
            cpus,
            nodes,
            rules: *rules,
            caches: Vec::new(),
            process_caches: Vec::new(),
        }
    }

    fn has_sheaves(&self) -> bool {
        self.allocator == SlabAllocator::Slub && self.rules.slab_cpu == SlabCpu::Sheaves
    }

    fn counts_slabs(&self) -> bool {
        self.allocator == SlabAllocator::Slub && self.rules.slab_partial == SlabPartial::Slabs
    }

    /// Creates a cache.
    pub(crate) fn create(&mut self, spec: CacheSpec) -> CacheId {
        let cpus = self.cpus.len();
        let order = self.allocator.order(spec.size, cpus as u32);
        let objects = (PAGE_SIZE << order) / spec.size;
        self.caches.push(Cache {
            spec,
            order,
            min_order: covering(spec.size).min(order),
            objects: 0,
            slabs: 0,
            cpus: vec![CpuSlabs { slab: NIL, partial: Vec::new(), objects: 0 }; cpus],
            partial: vec![List::default(); self.nodes],
            min_partial: min_partial(spec.size),
            cpu_partial_slabs: self.counts_slabs().then(|| cpu_partial_slabs(spec.size, objects)),
            cpu_partial: match self.allocator {
                SlabAllocator::Slab => 0,
                SlabAllocator::Slub => cpu_partial(spec.size),
            },
            sheaves: self.has_sheaves().then(|| Sheaves::new(spec.size, cpus, self.nodes)),
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

    /// Takes an object from the CPU's sheaves, or from its slab or a partial slab of the CPU or the node; `None` if a new
    /// slab is needed. An object is named by its slab's first frame.
    pub(crate) fn take(
        &mut self,
        pages: &mut PageTable,
        id: CacheId,
        cpu: usize,
        node: usize,
    ) -> Option<u32> {
        let cache = &mut self.caches[id as usize];
        if cache.sheaves.is_some() {
            let object = cache.take_from_sheaves(pages, cpu, node)?;
            cache.objects += 1;
            return Some(object);
        }
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
    /// without direct reclaim, from 4.6 without kswapd too), or at the smallest order. `flags` are the caller's, beyond the type.
    #[must_use]
    pub fn request(&self, id: CacheId, flags: Gfp, preferred: bool) -> Request {
        let cache = &self.caches[id as usize];
        let gfp = if cache.spec.reclaimable { flags | Gfp::RECLAIMABLE } else { flags };
        let gfp = if cache.sheaves.is_some() { gfp | Gfp::NOMEMALLOC | Gfp::NOWARN } else { gfp };
        if !preferred || cache.order == cache.min_order {
            return Request::new(cache.min_order, gfp);
        }
        let light = Gfp::NOWARN | Gfp::NORETRY | Gfp::NOMEMALLOC | Gfp::COMP;
        let mut without = Gfp::NOFAIL;
        if !self.rules.slab_waits && gfp.has(Gfp::DIRECT_RECLAIM) {
            without |= Gfp::DIRECT_RECLAIM;
            if !self.rules.slab_wakes {
                without |= Gfp::KSWAPD_RECLAIM;
            }
        }
        Request::new(cache.order, gfp.without(without) | light)
    }

    /// Makes a new block the slab of a CPU; the CPU's old slab becomes a partial slab of its node. If the CPU has sheaves,
    /// the block fills the one that misses objects, and becomes a partial slab if it has more
    /// (`alloc_from_new_slab`).
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
        let cache = &mut self.caches[id as usize];
        cache.slabs += 1;
        let capacity = cache.capacity(order);
        if let Some(sheaves) = &mut cache.sheaves {
            let own = self.cpus[cpu];
            let (sheaf, missing, _) = sheaves.filling(cpu, own);
            let taken = capacity.min(missing as u32);
            fill(pages, sheaf, pfn, taken);
            if taken < capacity {
                let node = node_of_slab(pages, pfn);
                cache.partial[node].push_head(pages.entries_mut(), pfn);
            }
            sheaves.end_filling(cpu, own);
            return;
        }
        pages[pfn].set(PageFlags::FROZEN);
        let old = std::mem::replace(&mut cache.cpus[cpu].slab, pfn);
        if old != NIL {
            pages[old].clear(PageFlags::FROZEN);
            if cache.free_objects(pages, old) > 0 {
                let node = node_of_slab(pages, old);
                cache.partial[node].push_head(pages.entries_mut(), old);
            }
        }
    }

    /// Gives up the sheaf that a CPU was filling because there is no memory for a slab, and takes an object from a partial
    /// slab of its node if there is one (`__pcs_replace_empty_main`, `___slab_alloc`). Returns the object, and the
    /// slabs that are empty now and to be freed.
    pub(crate) fn give_up(
        &mut self,
        pages: &mut PageTable,
        id: CacheId,
        cpu: usize,
        node_of_slab: impl Fn(&PageTable, u32) -> usize,
    ) -> (Option<u32>, Vec<EmptySlab>) {
        let cache = &mut self.caches[id as usize];
        let Some(sheaves) = &mut cache.sheaves else { return (None, Vec::new()) };
        let objects = sheaves.give_up(cpu);
        let empty = cache.flush(pages, objects, node_of_slab);
        let node = self.cpus[cpu];
        let Some(slab) = cache.partial[node].head() else { return (None, empty) };
        pages[slab].index += 1;
        if cache.free_objects(pages, slab) == 0 {
            cache.partial[node].remove(pages.entries_mut(), slab);
        }
        cache.objects += 1;
        (Some(slab), empty)
    }

    /// Frees an object on a CPU; an object of another node does not go to the CPU's sheaves. Returns the slabs that are
    /// empty now and to be freed.
    pub(crate) fn put(
        &mut self,
        pages: &mut PageTable,
        slab: u32,
        cpu: usize,
        node_of_slab: impl Fn(&PageTable, u32) -> usize,
    ) -> Vec<EmptySlab> {
        let cache = &mut self.caches[pages[slab].owner as usize];
        debug_assert_eq!(pages[slab].kind(), Owner::Slab, "the block is no slab");
        if let Some(sheaves) = &mut cache.sheaves {
            cache.objects -= 1;
            let (own, node) = (self.cpus[cpu], node_of_slab(pages, slab));
            if node != own {
                return Vec::from_iter(cache.free_to_slab(pages, slab, 1, node));
            }
            let flushed = sheaves.put(cpu, node, slab);
            return cache.flush(pages, flushed, node_of_slab);
        }
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
    use pageblock_kernel::Named;

    fn slabs(allocator: SlabAllocator, cpus: usize, kernel: &str) -> Slabs {
        let rules = Named::parse(kernel).unwrap().kernel.memory;
        Slabs::new(allocator, vec![0; cpus], 1, &rules)
    }

    /// 45eb00cd3a03 (4.3).
    #[test]
    fn a_high_order_was_once_worth_reclaim() {
        let mut slabs = slabs(SlabAllocator::Slub, 8, "linux-4.4");
        let spec = CacheSpec { name: "fuse_inode", size: 896, reclaimable: true };
        let id = slabs.create(spec);
        let reclaims = |slabs: &Slabs, preferred| {
            let request = slabs.request(id, Gfp::GFP_NOFS, preferred);
            (request.order, request.gfp.has(Gfp::DIRECT_RECLAIM))
        };
        assert_eq!((reclaims(&slabs, true), reclaims(&slabs, false)), ((3, false), (0, true)));
        slabs.rules.slab_waits = true;
        assert_eq!((reclaims(&slabs, true), reclaims(&slabs, false)), ((3, true), (0, true)));
        let wakes = |slabs: &Slabs, flags| {
            [true, false]
                .map(|preferred| slabs.request(id, flags, preferred).gfp.has(Gfp::KSWAPD_RECLAIM))
        };
        (slabs.rules.slab_waits, slabs.rules.slab_wakes) = (false, false);
        assert_eq!(wakes(&slabs, Gfp::GFP_NOFS), [false, true]);
        assert_eq!(wakes(&slabs, Gfp::GFP_ATOMIC), [true, true]);
        slabs.rules.slab_wakes = true;
        assert_eq!(wakes(&slabs, Gfp::GFP_NOFS), [true, true]);
    }

    #[test]
    fn one_object_pins_its_slab() {
        let mut pages = PageTable::new(64);
        let mut slabs = slabs(SlabAllocator::Slab, 1, "linux-4.4");
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
        let mut slabs = slabs(SlabAllocator::Slub, 2, "linux-4.4");
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

    /// The same with sheaves (7.0): the other CPU fills its two and the ten of the barn, which the first takes whole; the
    /// rest goes back to slabs. The node keeps some empty ones. Sheaves pin the slabs of their objects.
    #[test]
    fn sheaves_that_another_cpu_fills_come_back_through_the_barn() {
        let mut pages = PageTable::new(1024);
        let mut slabs = slabs(SlabAllocator::Slub, 2, "linux-7.0");
        let spec = CacheSpec { name: "kmalloc-4k", size: 4096, reclaimable: false };
        let id = slabs.create(spec);
        let mut fresh = 0;
        let mut take = |slabs: &mut Slabs, pages: &mut PageTable| loop {
            if let Some(object) = slabs.take(pages, id, 0, 0) {
                return (object, fresh);
            }
            slabs.add(pages, id, 0, fresh, 3, |_, _| 0);
            fresh += 8;
        };
        let objects: Vec<u32> = (0..20 * 8).map(|_| take(&mut slabs, &mut pages).0).collect();
        assert_eq!((slabs.caches()[0].slabs, slabs.caches()[0].in_sheaves()), (20, 0));
        let freed: usize =
            objects.iter().map(|&o| slabs.put(&mut pages, o, 1, |_, _| 0).len()).sum();
        let cache = &slabs.caches()[0];
        assert_eq!((freed, cache.slabs, cache.objects, cache.in_sheaves()), (10, 10, 0, 48));
        let fresh = (0..48).map(|_| take(&mut slabs, &mut pages).1).max();
        assert_eq!(fresh, Some(160), "the barn and the node's slabs serve before new ones");
    }

    /// Without memory for a new slab the sheaf that was being filled goes back to slabs, and one object is used.
    #[test]
    fn a_partial_slab_serves_where_a_sheaf_cannot_be_filled() {
        let mut pages = PageTable::new(64);
        let mut slabs = slabs(SlabAllocator::Slub, 1, "linux-7.0");
        let id = slabs.create(CacheSpec { name: "kmalloc-2k", size: 2048, reclaimable: false });
        assert_eq!(slabs.take(&mut pages, id, 0, 0), None);
        // A slab of two objects, where a sheaf needs twelve.
        slabs.add(&mut pages, id, 0, 8, 0, |_, _| 0);
        assert_eq!(slabs.take(&mut pages, id, 0, 0), None);
        assert_eq!(slabs.give_up(&mut pages, id, 0, |_, _| 0), (Some(8), vec![]));
        let cache = &slabs.caches()[0];
        assert_eq!((pages[8].index, cache.objects, cache.in_sheaves()), (1, 1, 0));
        assert_eq!(slabs.give_up(&mut pages, id, 0, |_, _| 0).0, Some(8));
        assert_eq!(slabs.give_up(&mut pages, id, 0, |_, _| 0).0, None);
    }

    /// An object of another node goes to its slab at once (`can_free_to_pcs`).
    #[test]
    fn objects_of_other_nodes_are_not_kept() {
        let mut pages = PageTable::new(64);
        let rules = Named::parse("linux-7.0").unwrap().kernel.memory;
        let mut slabs = Slabs::new(SlabAllocator::Slub, vec![0, 1], 2, &rules);
        let id = slabs.create(CacheSpec { name: "kmalloc-4k", size: 4096, reclaimable: false });
        slabs.add(&mut pages, id, 0, 0, 3, |_, _| 0);
        let objects: Vec<u32> = (0..4).map(|_| slabs.take(&mut pages, id, 0, 0).unwrap()).collect();
        let in_sheaves = |slabs: &Slabs| slabs.caches()[0].in_sheaves();
        slabs.put(&mut pages, objects[0], 1, |_, _| 0);
        assert_eq!((in_sheaves(&slabs), pages[0].index), (0, 3));
        slabs.put(&mut pages, objects[1], 0, |_, _| 0);
        assert_eq!((in_sheaves(&slabs), pages[0].index), (1, 3));
    }
}
