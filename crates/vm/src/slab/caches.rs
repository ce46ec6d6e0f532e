//! Slab caches: objects of one size on blocks of pages.
//!
//! A cache has a slab for each CPU, from which it allocates, a few partial slabs for each CPU, and a
//! list of partial slabs for each node. A full slab that gets an object back goes to the partial ones
//! of the CPU that frees it; when these have too many free objects, all go to the node's list. An empty
//! slab goes back to the allocator unless few partial ones are left. That is SLUB (mm/slub.c). For SLAB
//! only the sizes of slabs differ here, and CPUs have no partial slabs: its per-CPU arrays of objects
//! are not modelled.

use pageblock::frame::Order;
use pageblock::request::{Gfp, Request};

use crate::base::list::{List, NIL};
use crate::page::table::{Owner, PageFlags, PageTable};

/// The number of a cache.
pub type CacheId = u32;

/// Which allocator sizes the slabs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SlabAllocator {
    /// SLAB, the choice of SUSE and others up to the years 2018 to 2023: orders 0 and 1.
    Slab,
    /// SLUB: orders up to 3, larger with more CPUs.
    #[default]
    Slub,
}

/// Bytes of a page.
const PAGE_SIZE: u32 = 4096;
/// The largest order of slabs under SLUB (`slub_max_order`).
const SLUB_MAX_ORDER: Order = 3;
/// The largest order under SLAB on machines of more than 32 MiB (`slab_max_order`).
const SLAB_MAX_ORDER: Order = 1;
/// Partial slabs that a node keeps, even empty: bounds of half the size's logarithm
/// (`MIN_PARTIAL`, `MAX_PARTIAL`).
const PARTIAL: (u32, u32) = (5, 10);

impl SlabAllocator {
    /// The order of slabs for objects of `size` bytes on a machine of `cpus` CPUs
    /// (`calculate_order` of mm/slub.c, `calculate_slab_order` of mm/slab.c).
    #[must_use]
    pub fn order(self, size: u32, cpus: u32) -> Order {
        match self {
            Self::Slab => (0..=SLAB_MAX_ORDER)
                .find(|&order| {
                    let slab = PAGE_SIZE << order;
                    slab >= size && (slab % size) * 8 <= slab
                })
                .unwrap_or(SLAB_MAX_ORDER.max(covering(size))),
            Self::Slub => slub_order(size, cpus),
        }
    }
}

/// Free objects on a CPU's partial slabs beyond which they go to the node (`set_cpu_partial` of 3.2 to
/// 5.15).
#[must_use]
pub const fn cpu_partial(size: u32) -> u32 {
    match size {
        PAGE_SIZE.. => 2,
        1024.. => 6,
        256.. => 13,
        _ => 30,
    }
}

/// Partial slabs that a node keeps, even empty (`set_min_partial`).
#[must_use]
pub fn min_partial(size: u32) -> u32 {
    (size.ilog2() / 2).clamp(PARTIAL.0, PARTIAL.1)
}

fn covering(size: u32) -> Order {
    (size.div_ceil(PAGE_SIZE)).next_power_of_two().ilog2() as Order
}

/// As many objects as four times the logarithm of the number of CPUs, with a waste of a sixteenth,
/// else an eighth, else a quarter; else fewer objects.
fn slub_order(size: u32, cpus: u32) -> Order {
    let wanted = 4 * (cpus.max(1).ilog2() + 2);
    let fit = (PAGE_SIZE << SLUB_MAX_ORDER) / size;
    for objects in (2..=wanted.min(fit)).rev() {
        for fraction in [16, 8, 4] {
            let first = covering(size * objects);
            let found = (first..=SLUB_MAX_ORDER).find(|&order| {
                let slab = PAGE_SIZE << order;
                (slab % size) * fraction <= slab
            });
            if let Some(order) = found {
                return order;
            }
        }
    }
    covering(size)
}

/// A cache as a file system or subsystem makes it.
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
    /// What it was made as.
    pub spec: CacheSpec,
    /// The order that new slabs are asked for with.
    pub order: Order,
    /// The smallest order that an object fits in, tried where the other fails.
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

/// What a CPU has of a cache.
#[derive(Clone, Debug)]
struct CpuSlabs {
    /// The slab that it allocates from; [`NIL`] for none.
    slab: u32,
    /// Partial slabs, the last one first.
    partial: Vec<u32>,
    /// Free objects on them, as far as the CPU knows.
    objects: u32,
}

impl Cache {
    fn capacity(&self, order: Order) -> u32 {
        (PAGE_SIZE << order) / self.spec.size
    }

    fn free_objects(&self, pages: &PageTable, slab: u32) -> u32 {
        self.capacity(pages[slab].order()) - pages[slab].index
    }

    /// A partial slab of the CPU; else the node's first, with as many more for the CPU as have half the
    /// free objects that it may keep (`get_partial_node`).
    fn next_slab(&mut self, pages: &mut PageTable, cpu: usize, node: usize) -> Option<u32> {
        if let Some(slab) = self.cpus[cpu].partial.pop() {
            let free = self.free_objects(pages, slab);
            let own = &mut self.cpus[cpu];
            own.objects = own.objects.saturating_sub(free);
            return Some(slab);
        }
        let first = self.partial[node].head()?;
        self.partial[node].remove(&mut pages.0, first);
        while self.cpu_partial > 0 && self.cpus[cpu].objects <= self.cpu_partial / 2 {
            let Some(slab) = self.partial[node].head() else { break };
            self.partial[node].remove(&mut pages.0, slab);
            pages[slab].set(PageFlags::FROZEN);
            let free = self.free_objects(pages, slab);
            let own = &mut self.cpus[cpu];
            own.objects += free;
            own.partial.push(slab);
        }
        Some(first)
    }

    /// Keeps a slab for a CPU; all that it has kept go to their nodes first where they have too many
    /// free objects (`put_cpu_partial`, `unfreeze_partials`). Those that are empty may go.
    fn keep(
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
                    self.partial[node].push_tail(&mut pages.0, slab);
                }
            }
            self.cpus[cpu].objects = 0;
        }
        pages[slab].set(PageFlags::FROZEN);
        self.cpus[cpu].partial.push(slab);
        self.cpus[cpu].objects += 1;
        empty
    }

    /// An empty slab that is on no list goes.
    fn discard(&mut self, pages: &mut PageTable, slab: u32) -> EmptySlab {
        let order = pages[slab].order();
        self.slabs -= 1;
        pages[slab].disown();
        EmptySlab { pfn: slab, order }
    }
}

/// All caches.
#[derive(Debug, Default)]
pub struct Slabs {
    caches: Vec<Cache>,
    /// A new slab of the preferred order is worth reclaim and compaction.
    pub(crate) waits: bool,
}

/// A slab is empty and goes back to the allocator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct EmptySlab {
    pub(crate) pfn: u32,
    pub(crate) order: Order,
}

impl Slabs {
    /// Makes a cache.
    pub(crate) fn create(
        &mut self,
        spec: CacheSpec,
        allocator: SlabAllocator,
        cpus: usize,
        nodes: usize,
    ) -> CacheId {
        let order = allocator.order(spec.size, cpus as u32);
        self.caches.push(Cache {
            spec,
            order,
            min_order: covering(spec.size).min(order),
            objects: 0,
            slabs: 0,
            cpus: vec![CpuSlabs { slab: NIL, partial: Vec::new(), objects: 0 }; cpus],
            partial: vec![List::default(); nodes],
            min_partial: min_partial(spec.size),
            cpu_partial: match allocator {
                SlabAllocator::Slab => 0,
                SlabAllocator::Slub => cpu_partial(spec.size),
            },
        });
        self.caches.len() as u32 - 1
    }

    /// Every cache.
    #[must_use]
    pub fn caches(&self) -> &[Cache] {
        &self.caches
    }

    /// Bytes of an object of a cache.
    pub(crate) fn size(&self, id: CacheId) -> u32 {
        self.caches[id as usize].spec.size
    }

    /// Takes an object from the CPU's slab or a partial one of the CPU or the node; `None` where a new
    /// slab is needed. An object is named by its slab's first frame.
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
                // It is full and on no list until an object comes back.
                pages[slab].clear(PageFlags::FROZEN);
                cache.cpus[cpu].slab = NIL;
            }
            slab = cache.next_slab(pages, cpu, node)?;
            pages[slab].set(PageFlags::FROZEN);
            cache.cpus[cpu].slab = slab;
        }
        pages[slab].index += 1;
        cache.objects += 1;
        Some(slab)
    }

    /// The request for a new slab: at the preferred order without retries (from 4.3, 45eb00cd3a03,
    /// without reclaim either), or at the smallest.
    /// `flags` are those of the caller beyond the type.
    #[must_use]
    pub fn request(&self, id: CacheId, flags: Gfp, preferred: bool) -> Request {
        let cache = &self.caches[id as usize];
        let gfp = if cache.spec.reclaimable { flags | Gfp::RECLAIMABLE } else { flags };
        if !preferred || cache.order == cache.min_order {
            return Request::new(cache.min_order, gfp);
        }
        let light = Gfp::NOWARN | Gfp::NORETRY | Gfp::NOMEMALLOC | Gfp::COMP;
        let without = if self.waits { Gfp::NOFAIL } else { Gfp::NOFAIL | Gfp::DIRECT_RECLAIM };
        Request::new(cache.order, gfp.without(without) | light)
    }

    /// Makes a new block the slab of a CPU, which gives its old one to the partial ones.
    pub(crate) fn add(
        &mut self,
        pages: &mut PageTable,
        id: CacheId,
        cpu: usize,
        pfn: u32,
        order: Order,
        node_of_slab: impl Fn(&PageTable, u32) -> usize,
    ) {
        pages[pfn].give(Owner::Slab, order, id, 0);
        pages[pfn].set(PageFlags::FROZEN);
        let cache = &mut self.caches[id as usize];
        cache.slabs += 1;
        let old = std::mem::replace(&mut cache.cpus[cpu].slab, pfn);
        if old != NIL {
            pages[old].clear(PageFlags::FROZEN);
            if cache.free_objects(pages, old) > 0 {
                let node = node_of_slab(pages, old);
                cache.partial[node].push_head(&mut pages.0, old);
            }
        }
    }

    /// A CPU gives an object back; the slabs that go with it.
    pub(crate) fn put(
        &mut self,
        pages: &mut PageTable,
        slab: u32,
        cpu: usize,
        node_of_slab: impl Fn(&PageTable, u32) -> usize,
    ) -> Vec<EmptySlab> {
        let cache = &mut self.caches[pages[slab].owner as usize];
        let full = cache.free_objects(pages, slab) == 0;
        pages[slab].index -= 1;
        cache.objects -= 1;
        if pages[slab].has(PageFlags::FROZEN) {
            return Vec::new();
        }
        if full && cache.cpu_partial > 0 {
            return cache.keep(pages, cpu, slab, node_of_slab);
        }
        let node = node_of_slab(pages, slab);
        if full {
            cache.partial[node].push_tail(&mut pages.0, slab);
        }
        if pages[slab].index > 0 || cache.partial[node].len() <= cache.min_partial {
            return Vec::new();
        }
        cache.partial[node].remove(&mut pages.0, slab);
        vec![cache.discard(pages, slab)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The orders of docs/experiments/sources.md#slab-orders (measured on 2 CPUs, a desktop's for 8).
    #[test]
    fn slub_orders_are_those_of_real_machines() {
        let check = |size, expect: [Order; 4]| {
            let orders = [2, 4, 8, 48].map(|cpus| SlabAllocator::Slub.order(size, cpus));
            assert_eq!(orders, expect, "size {size}");
        };
        check(960, [2, 2, 3, 3]);
        check(192, [0, 0, 0, 1]);
        check(576, [1, 2, 2, 2]);
        check(208, [0, 0, 1, 1]);
        check(104, [0, 0, 0, 0]);
        check(512, [1, 1, 2, 2]);
        check(1024, [2, 2, 3, 3]);
    }

    /// 45eb00cd3a03 (4.3).
    #[test]
    fn a_high_order_was_once_worth_reclaim() {
        let mut slabs = Slabs::default();
        let spec = CacheSpec { name: "fuse_inode", size: 896, reclaimable: true };
        let id = slabs.create(spec, SlabAllocator::Slub, 8, 1);
        let reclaims = |slabs: &Slabs, preferred| {
            let request = slabs.request(id, Gfp::GFP_NOFS, preferred);
            (request.order, request.gfp.has(Gfp::DIRECT_RECLAIM))
        };
        assert_eq!((reclaims(&slabs, true), reclaims(&slabs, false)), ((3, false), (0, true)));
        slabs.waits = true;
        assert_eq!((reclaims(&slabs, true), reclaims(&slabs, false)), ((3, true), (0, true)));
    }

    #[test]
    fn slab_orders_stay_small() {
        for size in [192, 208, 512, 576, 960, 1024, 2048] {
            assert_eq!(SlabAllocator::Slab.order(size, 48), 0, "{size}");
        }
        assert_eq!(SlabAllocator::Slab.order(3000, 8), 1);
        assert_eq!(SlabAllocator::Slab.order(9000, 8), 2);
    }

    #[test]
    fn one_object_pins_its_slab() {
        let mut pages = PageTable::new(64);
        let mut slabs = Slabs::default();
        let spec = CacheSpec { name: "kmalloc-1k", size: 1024, reclaimable: false };
        let id = slabs.create(spec, SlabAllocator::Slab, 1, 1);
        let mut objects = Vec::new();
        for slab in 0..10 {
            assert_eq!(slabs.take(&mut pages, id, 0, 0), None);
            slabs.add(&mut pages, id, 0, slab, 0, |_, _| 0);
            objects.extend((0..4).map(|_| slabs.take(&mut pages, id, 0, 0).unwrap()));
        }
        assert_eq!((slabs.caches()[0].objects, slabs.caches()[0].slabs), (40, 10));
        // One object of each slab stays: no slab goes.
        for &slab in &objects[..36] {
            if pages[slab].index > 1 {
                assert_eq!(slabs.put(&mut pages, slab, 0, |_, _| 0), []);
            }
        }
        assert_eq!(slabs.caches()[0].slabs, 10);
        // Now they go, but for those that the node keeps.
        let gone: usize = (0..9).map(|s| slabs.put(&mut pages, s, 0, |_, _| 0).len()).sum();
        assert_eq!(gone, 4);
        assert_eq!(slabs.caches()[0].slabs, 6);
    }

    /// What one CPU allocates and another frees: the other keeps slabs until they have too many free
    /// objects, the node keeps the empty ones up to its minimum, and only then slabs go.
    #[test]
    fn slabs_that_another_cpu_frees_come_back_through_the_node() {
        let mut pages = PageTable::new(1024);
        let mut slabs = Slabs::default();
        let spec = CacheSpec { name: "kmalloc-4k", size: 4096, reclaimable: false };
        let id = slabs.create(spec, SlabAllocator::Slub, 2, 1);
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
        let gone: usize =
            objects.iter().map(|&o| slabs.put(&mut pages, o, 1, |_, _| 0).len()).sum();
        // Six stay with the node, one with the CPU that freed, one with the CPU that took.
        assert_eq!((gone, slabs.caches()[0].slabs), (12, 8));
        for _ in 0..6 * 8 {
            take(&mut slabs, &mut pages, &mut fresh);
        }
        assert_eq!(fresh, 160, "the node's slabs serve before new ones");
    }
}
