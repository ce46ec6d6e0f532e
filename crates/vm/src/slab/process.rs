//! Processes: the kernel's memory for each, besides the memory that it maps.
//!
//! Source: `copy_process`, `dup_mm` (kernel/fork.c), `load_elf_binary`, `pgd_alloc`
//! (arch/x86/mm/pgtable.c). How many page tables a small program has is measured
//! (docs/experiments/sources.md#compile-jobs).

use pageblock::event::Observer;
use pageblock::frame::Order;
use pageblock::request::{Gfp, Request};
use pageblock_kernel::rules::memory::Memory;

use super::cache::{CacheId, CacheSpec};
use super::caches::Slabs;
use crate::vm::Vm;

/// The part of a process that an object belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// The task, from fork to exit.
    Task,
    /// The address space; exec creates a new one.
    Mm,
}

/// An object that each process needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProcessObject {
    /// The cache.
    pub cache: CacheSpec,
    /// The number of such objects.
    pub count: u32,
    /// The part that they belong to.
    pub part: Part,
}

const fn object(name: &'static str, size: u32, count: u32, part: Part) -> ProcessObject {
    ProcessObject { cache: CacheSpec { name, size, reclaimable: false }, count, part }
}

/// The objects of a small program on x86-64. (K): sizes as `/proc/slabinfo` of such kernels shows
/// them; they depend on the configuration and on the CPU.
pub const OBJECTS: &[ProcessObject] = &[
    object("task_struct", 6400, 1, Part::Task),
    object("sighand_cache", 2112, 1, Part::Task),
    object("signal_cache", 1088, 1, Part::Task),
    object("files_cache", 704, 1, Part::Task),
    object("cred_jar", 192, 2, Part::Task),
    object("mm_struct", 2048, 1, Part::Mm),
    object("vm_area_struct", 208, 24, Part::Mm),
    object("anon_vma", 80, 12, Part::Mm),
];

/// Page tables of a small program below the top level. Measured: 26.6 for fork and exec together, including the two
/// of the top level.
const TABLES: u32 = 12;
/// Pages that gather what exit unmaps (`struct mmu_gather`): 6 for fork and exec together.
const GATHER: u32 = 3;

/// Returns the requests for a kernel stack of 16 KiB: one block up to 4.8, four single pages from 4.9 on
/// (`CONFIG_VMAP_STACK`).
pub fn stack_requests(memory: &Memory) -> impl Iterator<Item = Request> + use<> {
    let (order, blocks) = if memory.vmap_stack { (0, 4) } else { (2, 1) };
    std::iter::repeat_n(Request::new(order, Gfp::GFP_KERNEL_ACCOUNT | Gfp::ZERO), blocks)
}

/// Returns the requests for the page tables of an address space. The first is the top level, which is a block of two
/// pages with page-table isolation.
pub fn table_requests(memory: &Memory) -> impl Iterator<Item = Request> + use<> {
    let request = |order: Order| Request::new(order, Gfp::GFP_KERNEL_ACCOUNT | Gfp::ZERO);
    let top = Order::from(memory.page_table_isolation);
    std::iter::once(request(top)).chain(std::iter::repeat_n(request(0), TABLES as usize))
}

/// Returns the requests for the pages that gather what exit unmaps.
pub fn gather_requests() -> impl Iterator<Item = Request> + use<> {
    std::iter::repeat_n(Request::new(0, Gfp::GFP_NOWAIT | Gfp::NOWARN), GATHER as usize)
}

impl Slabs {
    /// Creates the caches of [`OBJECTS`].
    pub(crate) fn create_process_caches(&mut self) {
        self.process_caches = OBJECTS.iter().map(|object| self.create(object.cache)).collect();
    }
}

impl<O: Observer> Vm<'_, O> {
    /// Returns the cache of each object of a part of a process, one entry an object.
    #[must_use]
    pub fn process_objects(&self, part: Part) -> Vec<CacheId> {
        let caches = OBJECTS.iter().zip(&self.slabs.process_caches).filter(|(o, _)| o.part == part);
        caches.flat_map(|(o, &id)| std::iter::repeat_n(id, o.count as usize)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pageblock_kernel::{Kernel, preset};

    #[test]
    fn what_a_process_needs_together_depends_on_the_version() {
        let orders = |name| {
            let memory = Kernel::from(preset::find(name).unwrap()).memory;
            let stack: Vec<Order> = stack_requests(&memory).map(|r| r.order).collect();
            let tables: Vec<Order> = table_requests(&memory).map(|r| r.order).collect();
            (stack, tables[0], tables[1..].to_vec())
        };
        let tables = vec![0; TABLES as usize];
        assert_eq!(orders("linux-3.16"), (vec![2], 0, tables.clone()));
        assert_eq!(orders("linux-4.12"), (vec![0; 4], 0, tables.clone()));
        assert_eq!(orders("linux-4.20"), (vec![0; 4], 1, tables));
    }
}
