//! Slab caches: objects of one size on blocks of pages.
//!
//! A cache has a slab for each CPU, from which it allocates, and a list of partial slabs for each
//! node; an empty slab goes back to the allocator unless few partial ones are left. That is SLUB
//! (mm/slub.c). For SLAB only the sizes of slabs differ here: its per-CPU arrays of objects are
//! not modelled.

use pageblock::frame::Order;
use pageblock::request::{Gfp, Request};

use crate::list::{List, NIL};
use crate::page::{Owner, PageTable};

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
    /// The slab that each CPU allocates from; [`NIL`] for none.
    cpu_slabs: Vec<u32>,
    partial: Vec<List>,
    min_partial: u32,
}

impl Cache {
    fn capacity(&self, order: Order) -> u32 {
        (PAGE_SIZE << order) / self.spec.size
    }
}

/// All caches.
#[derive(Debug, Default)]
pub struct Slabs {
    caches: Vec<Cache>,
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
        let min_partial = (spec.size.ilog2() / 2).clamp(PARTIAL.0, PARTIAL.1);
        self.caches.push(Cache {
            spec,
            order,
            min_order: covering(spec.size).min(order),
            objects: 0,
            slabs: 0,
            cpu_slabs: vec![NIL; cpus],
            partial: vec![List::default(); nodes],
            min_partial,
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

    /// Takes an object from the CPU's slab or a partial one of the node; `None` where a new slab is
    /// needed. An object is named by its slab's first frame.
    pub(crate) fn take(
        &mut self,
        pages: &mut PageTable,
        id: CacheId,
        cpu: usize,
        node: usize,
    ) -> Option<u32> {
        let cache = &mut self.caches[id as usize];
        let mut slab = cache.cpu_slabs[cpu];
        if slab == NIL || pages[slab].index >= cache.capacity(pages[slab].order()) {
            slab = cache.partial[node].head()?;
            cache.partial[node].remove(&mut pages.0, slab);
            cache.cpu_slabs[cpu] = slab;
        }
        pages[slab].index += 1;
        cache.objects += 1;
        Some(slab)
    }

    /// The request for a new slab: at the preferred order without effort, or at the smallest.
    /// `flags` are those of the caller beyond the type.
    #[must_use]
    pub fn request(&self, id: CacheId, flags: Gfp, preferred: bool) -> Request {
        let cache = &self.caches[id as usize];
        let gfp = if cache.spec.reclaimable { flags | Gfp::RECLAIMABLE } else { flags };
        if !preferred || cache.order == cache.min_order {
            return Request::new(cache.min_order, gfp);
        }
        let light = Gfp::NOWARN | Gfp::NORETRY | Gfp::NOMEMALLOC | Gfp::COMP;
        Request::new(cache.order, gfp.without(Gfp::NOFAIL | Gfp::DIRECT_RECLAIM) | light)
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
        let cache = &mut self.caches[id as usize];
        cache.slabs += 1;
        let old = std::mem::replace(&mut cache.cpu_slabs[cpu], pfn);
        if old != NIL && pages[old].index < cache.capacity(pages[old].order()) {
            let node = node_of_slab(pages, old);
            cache.partial[node].push_head(&mut pages.0, old);
        }
    }

    /// Gives an object back; the slab that it leaves empty, if it goes.
    pub(crate) fn put(
        &mut self,
        pages: &mut PageTable,
        slab: u32,
        node: usize,
    ) -> Option<EmptySlab> {
        let (id, order) = (pages[slab].owner, pages[slab].order());
        let cache = &mut self.caches[id as usize];
        let full = pages[slab].index >= cache.capacity(order);
        pages[slab].index -= 1;
        cache.objects -= 1;
        if cache.cpu_slabs.contains(&slab) {
            return None;
        }
        if full {
            cache.partial[node].push_tail(&mut pages.0, slab);
        }
        if pages[slab].index > 0 || cache.partial[node].len() <= cache.min_partial {
            return None;
        }
        cache.partial[node].remove(&mut pages.0, slab);
        cache.slabs -= 1;
        pages[slab].disown();
        Some(EmptySlab { pfn: slab, order })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The orders of facts/benchmarks.md 4.1 (measured on 2 CPUs, a desktop's for 8).
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
                assert_eq!(slabs.put(&mut pages, slab, 0), None);
            }
        }
        assert_eq!(slabs.caches()[0].slabs, 10);
        // Now they go, but for those that the node keeps.
        let gone = (0..9).filter(|&slab| slabs.put(&mut pages, slab, 0).is_some()).count();
        assert_eq!(gone, 4);
        assert_eq!(slabs.caches()[0].slabs, 6);
    }
}
