//! A slab cache: what CPUs and nodes keep of its slabs.

use pageblock::frame::Order;

use super::order::PAGE_SIZE;
use super::sheaves::{Sheaf, Sheaves, detach};
use crate::base::list::List;
use crate::page::table::{PageFlags, PageTable};

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
    /// Objects in use; those in sheaves are not.
    pub objects: u64,
    /// Slabs.
    pub slabs: u64,
    pub(super) cpus: Vec<CpuSlabs>,
    pub(super) partial: Vec<List>,
    pub(super) min_partial: u32,
    /// Free objects on a CPU's partial slabs from which on they go to the node; 0: CPUs have no partial slabs.
    pub(super) cpu_partial: u32,
    /// The same in slabs, if these are counted.
    pub(super) cpu_partial_slabs: Option<u32>,
    /// The arrays of free objects, if CPUs have those instead of slabs.
    pub(super) sheaves: Option<Sheaves>,
}

/// The slabs of a cache that belong to a CPU.
#[derive(Clone, Debug)]
pub(super) struct CpuSlabs {
    /// The slab that it allocates from; [`NIL`] for none.
    pub(super) slab: u32,
    /// Partial slabs; the last is used first.
    pub(super) partial: Vec<u32>,
    /// Free objects on the partial slabs when they were added.
    pub(super) objects: u32,
}

impl Cache {
    pub(super) fn capacity(&self, order: Order) -> u32 {
        (PAGE_SIZE << order) / self.spec.size
    }

    pub(super) fn free_objects(&self, pages: &PageTable, slab: u32) -> u32 {
        self.capacity(pages[slab].order()) - pages[slab].index
    }

    /// Returns the number of free objects in sheaves, which slabs count as in use.
    pub(crate) fn in_sheaves(&self) -> u64 {
        self.sheaves.as_ref().map_or(0, Sheaves::objects)
    }

    /// Moves objects of a node's partial slabs to a sheaf that misses some; a slab that keeps free objects goes to the tail
    /// (`__refill_objects_node`).
    fn fill_from_partial(
        partial: &mut List,
        capacity: impl Fn(Order) -> u32,
        pages: &mut PageTable,
        sheaf: &mut Sheaf,
        mut missing: u32,
    ) {
        while missing > 0
            && let Some(slab) = partial.head()
        {
            partial.remove(pages.entries_mut(), slab);
            let free = capacity(pages[slab].order()) - pages[slab].index;
            let taken = free.min(missing);
            fill(pages, sheaf, slab, taken);
            if taken < free {
                partial.push_tail(pages.entries_mut(), slab);
            }
            missing -= taken;
        }
    }

    /// Takes an object from the CPU's sheaves; `None` if a new slab is needed to fill one.
    pub(super) fn take_from_sheaves(
        &mut self,
        pages: &mut PageTable,
        cpu: usize,
        node: usize,
    ) -> Option<u32> {
        let size = self.spec.size;
        let sheaves = self.sheaves.as_mut()?;
        if let Some(object) = sheaves.take(cpu, node) {
            return Some(object);
        }
        let (sheaf, missing, begun) = sheaves.filling(cpu, node);
        if begun {
            let capacity = |order| (PAGE_SIZE << order) / size;
            let partial = &mut self.partial[node];
            Self::fill_from_partial(partial, capacity, pages, sheaf, missing as u32);
            sheaves.end_filling(cpu, node);
        }
        sheaves.take(cpu, node)
    }

    /// Frees objects of a slab of a node to it. Returns the slab if it is empty and the node has enough partial ones
    /// (`__slab_free`, from 3.17 on by 8a5b20aebaa3).
    pub(super) fn free_to_slab(
        &mut self,
        pages: &mut PageTable,
        slab: u32,
        count: u32,
        node: usize,
    ) -> Option<EmptySlab> {
        let full = self.free_objects(pages, slab) == 0;
        pages[slab].index -= count;
        if pages[slab].index == 0 && self.partial[node].len() >= self.min_partial {
            if !full {
                self.partial[node].remove(pages.entries_mut(), slab);
            }
            return Some(self.discard(pages, slab));
        }
        if full {
            self.partial[node].push_tail(pages.entries_mut(), slab);
        }
        None
    }

    /// Frees the objects of a sheaf to their slabs. Returns the empty slabs to be freed.
    pub(super) fn flush(
        &mut self,
        pages: &mut PageTable,
        mut sheaf: Sheaf,
        node_of_slab: impl Fn(&PageTable, u32) -> usize,
    ) -> Vec<EmptySlab> {
        let mut empty = Vec::new();
        while let Some((slab, count)) = detach(&mut sheaf) {
            let node = node_of_slab(pages, slab);
            empty.extend(self.free_to_slab(pages, slab, count, node));
        }
        empty
    }

    /// Takes a partial slab of the CPU, or else the node's first; then the CPU also takes more of the node's
    /// slabs, up to half the free objects that it may keep (`get_partial_node`).
    pub(super) fn next_slab(
        &mut self,
        pages: &mut PageTable,
        cpu: usize,
        node: usize,
    ) -> Option<u32> {
        if let Some(slab) = self.cpus[cpu].partial.pop() {
            let free = self.free_objects(pages, slab);
            let own = &mut self.cpus[cpu];
            own.objects = own.objects.saturating_sub(free);
            return Some(slab);
        }
        let first = self.partial[node].head()?;
        self.partial[node].remove(pages.entries_mut(), first);
        let mut more = 0;
        while self.takes_more(cpu, more) {
            more += 1;
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

    /// Returns whether a CPU takes another of its node's slabs after the first and `taken` more.
    fn takes_more(&self, cpu: usize, taken: u32) -> bool {
        match self.cpu_partial_slabs {
            Some(most) => taken <= most / 2,
            None => self.cpu_partial > 0 && self.cpus[cpu].objects <= self.cpu_partial / 2,
        }
    }

    /// Returns whether a CPU's partial slabs go to the node before one more is added.
    fn is_cpu_full(&self, cpu: usize) -> bool {
        let own = &self.cpus[cpu];
        match self.cpu_partial_slabs {
            Some(most) => own.partial.len() >= most as usize,
            None => own.objects > self.cpu_partial,
        }
    }

    /// Adds a partial slab to a CPU. If the CPU's partial slabs have too many free objects, they move to their
    /// nodes first (`put_cpu_partial`, `unfreeze_partials`). Returns the empty slabs to be freed.
    pub(super) fn add_cpu_partial(
        &mut self,
        pages: &mut PageTable,
        cpu: usize,
        slab: u32,
        node_of_slab: impl Fn(&PageTable, u32) -> usize,
    ) -> Vec<EmptySlab> {
        let mut empty = Vec::new();
        if self.is_cpu_full(cpu) {
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
    pub(super) fn discard(&mut self, pages: &mut PageTable, slab: u32) -> EmptySlab {
        debug_assert_eq!(pages[slab].index, 0, "objects of the slab are in use");
        let order = pages[slab].order();
        self.slabs -= 1;
        pages[slab].disown();
        EmptySlab { pfn: slab, order }
    }
}

/// Moves free objects of a slab to a sheaf.
pub(super) fn fill(pages: &mut PageTable, sheaf: &mut Sheaf, slab: u32, objects: u32) {
    pages[slab].index += objects;
    sheaf.extend(std::iter::repeat_n(slab, objects as usize));
}

/// An empty slab, to be freed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct EmptySlab {
    pub(crate) pfn: u32,
    pub(crate) order: Order,
}
