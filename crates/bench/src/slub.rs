//! Objects on slabs, for real threads: the protocol of SLUB (mm/slub.c of 5.13) between the CPU that
//! allocates and the CPU that frees.
//!
//! A CPU allocates from its own slab. An object that another CPU frees goes back to its slab. A full slab that
//! gets its first free object joins the partial slabs of the freeing CPU. When these hold too many free
//! objects, all of them move to the node's list, from which a CPU that runs out is served before it allocates a
//! new slab. Slabs that are empty then are freed once the node has enough. Objects are counted, not addressed.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};

use pageblock::frame::Order;
use pageblock_vm::slab::{self, SlabAllocator};
use parking_lot::Mutex;

use crate::netperf::Pages;

/// The slab belongs to a CPU: no other CPU puts it on a list.
const FROZEN: u32 = 1 << 31;

/// A cache of objects of one size.
pub struct Slub {
    order: Order,
    /// Objects per slab.
    objects: u32,
    /// The limit of free objects on a CPU's partial slabs, beyond which the slabs go to the node.
    cpu_partial: u32,
    /// Empty slabs are kept while the node has fewer partial slabs.
    min_partial: usize,
    /// For each slab, by its first frame: its free objects, and [`FROZEN`].
    slabs: Vec<AtomicU32>,
    node: Mutex<VecDeque<u32>>,
}

/// A CPU's part of a cache.
#[derive(Default)]
pub struct SlubCpu {
    active: Option<u32>,
    /// Objects of the active slab that only this CPU can allocate.
    free: u32,
    partial: Vec<u32>,
    partial_objects: u32,
}

impl Slub {
    /// Makes a cache for objects of `size` bytes on a machine with `cpus` CPUs and `frames` frames.
    #[must_use]
    pub fn new(size: u32, cpus: u32, frames: u64) -> Self {
        let order = SlabAllocator::Slub.order(size, cpus);
        Self {
            order,
            objects: (4096 << order) / size,
            cpu_partial: slab::cpu_partial(size),
            min_partial: slab::min_partial(size) as usize,
            slabs: (0..frames).map(|_| AtomicU32::new(0)).collect(),
            node: Mutex::new(VecDeque::new()),
        }
    }

    fn slab(&self, slab: u32) -> &AtomicU32 {
        &self.slabs[slab as usize]
    }

    /// Allocates an object; returns the first frame of its slab, or `None` if memory is exhausted.
    pub fn alloc(&self, cpu: &mut SlubCpu, pages: &mut Pages) -> Option<u32> {
        while cpu.free == 0 {
            if !self.refill(cpu) {
                let slab = pages.alloc(self.order)?;
                self.slab(slab).store(FROZEN, Ordering::Release);
                (cpu.active, cpu.free) = (Some(slab), self.objects);
            }
        }
        cpu.free -= 1;
        cpu.active
    }

    /// Finds free objects on existing slabs: the active one (`get_freelist`), the CPU's partial ones, the
    /// node's (`get_partial_node`). Returns whether there may be some.
    fn refill(&self, cpu: &mut SlubCpu) -> bool {
        if let Some(active) = cpu.active {
            let emptied =
                self.slab(active).compare_exchange(FROZEN, 0, Ordering::AcqRel, Ordering::Acquire);
            match emptied {
                // It is full, and on no list until an object is freed.
                Ok(_) => cpu.active = None,
                Err(_) => cpu.free = self.slab(active).swap(FROZEN, Ordering::AcqRel) & !FROZEN,
            }
            return true;
        }
        let taken = cpu.partial.pop();
        if let Some(slab) = taken.or_else(|| self.take_from_node(cpu)) {
            let free = self.slab(slab).swap(FROZEN, Ordering::AcqRel) & !FROZEN;
            cpu.partial_objects = cpu.partial_objects.saturating_sub(free);
            (cpu.active, cpu.free) = (Some(slab), free);
            return true;
        }
        false
    }

    /// Takes the first of the node's partial slabs; further slabs go to the CPU's partial slabs until these
    /// have half of the allowed free objects.
    fn take_from_node(&self, cpu: &mut SlubCpu) -> Option<u32> {
        let mut node = self.node.lock();
        let first = node.pop_front()?;
        self.slab(first).fetch_or(FROZEN, Ordering::AcqRel);
        while cpu.partial_objects <= self.cpu_partial / 2 {
            let Some(slab) = node.pop_front() else { break };
            cpu.partial_objects += self.slab(slab).fetch_or(FROZEN, Ordering::AcqRel) & !FROZEN;
            cpu.partial.push(slab);
        }
        Some(first)
    }

    /// Frees an object to its slab (`__slab_free`).
    pub fn free(&self, cpu: &mut SlubCpu, slab: u32, pages: &mut Pages) {
        if cpu.active == Some(slab) {
            cpu.free += 1;
            return;
        }
        let state = self.slab(slab);
        let set = |old, new| {
            state.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire).is_ok()
        };
        loop {
            let old = state.load(Ordering::Acquire);
            if old == 0 {
                if set(old, FROZEN | 1) {
                    return self.keep(cpu, slab, pages);
                }
            } else if old + 1 == self.objects {
                let mut node = self.node.lock();
                if set(old, old + 1) {
                    if node.len() > self.min_partial {
                        node.retain(|&other| other != slab);
                        drop(node);
                        pages.free(slab, self.order);
                    }
                    return;
                }
            } else if set(old, old + 1) {
                return;
            }
        }
    }

    /// Adds a slab to the CPU's partial slabs, which first go to the node if they have too many free objects
    /// (`put_cpu_partial`, `unfreeze_partials`).
    fn keep(&self, cpu: &mut SlubCpu, slab: u32, pages: &mut Pages) {
        if cpu.partial_objects > self.cpu_partial {
            let mut empty = Vec::new();
            let mut node = self.node.lock();
            for slab in cpu.partial.drain(..) {
                let free = self.slab(slab).fetch_and(!FROZEN, Ordering::AcqRel) & !FROZEN;
                if free == self.objects && node.len() >= self.min_partial {
                    empty.push(slab);
                } else {
                    node.push_back(slab);
                }
            }
            drop(node);
            cpu.partial_objects = 0;
            for slab in empty {
                pages.free(slab, self.order);
            }
        }
        cpu.partial.push(slab);
        cpu.partial_objects += 1;
    }

    /// Frees all slabs, which must be empty.
    ///
    /// # Panics
    /// If an object was lost.
    pub fn destroy(&self, cpus: &mut [SlubCpu], pages: &mut Pages) {
        let mut slabs: Vec<u32> = self.node.lock().drain(..).collect();
        for cpu in cpus {
            if let Some(active) = cpu.active {
                self.slab(active).fetch_add(cpu.free, Ordering::AcqRel);
            }
            slabs.extend(cpu.active);
            slabs.append(&mut cpu.partial);
            *cpu = SlubCpu::default();
        }
        for slab in slabs {
            let free = self.slab(slab).swap(0, Ordering::AcqRel) & !FROZEN;
            assert_eq!(free, self.objects, "slab {slab} of order {}", self.order);
            pages.free(slab, self.order);
        }
    }
}
