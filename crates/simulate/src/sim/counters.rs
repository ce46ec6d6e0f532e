//! The machine's counters, under the kernel's names, counted from the start of the workload.

use pageblock::ids::ZoneIndex;
use pageblock::tuning::KBYTES_PER_PAGE;
use pageblock_kernel::rules::reclaim::LruLists;
use pageblock_measure::Counters;
use pageblock_measure::value::mismatch::TypeMismatch;
use pageblock_measure::value::names;
use pageblock_vm::placed::Placed;
use pageblock_vm::stalls::Stalls;

use super::world::World;
use super::{MICROSECOND, MILLISECOND};

impl World<'_> {
    /// Starts counting: the workload begins.
    pub fn start_counting(&mut self) {
        self.restart_tally();
        self.vm.stalls = Stalls::default();
        self.vm.placed = Placed::default();
        self.start_counting_looks();
        self.counted_before = self.counters_since_boot();
    }

    /// Returns the counts since [`start_counting`](Self::start_counting).
    #[must_use]
    pub fn counters(&self) -> Counters {
        let mut counters = self.counters_since_boot().since(&self.counted_before);
        let (most, waited) = self.looks();
        counters.set(names::BLOCK_LOOKS_MOST, most);
        counters.set(names::LOCK_WAIT_US, waited / MICROSECOND);
        self.vm.stalls.iter().for_each(|(name, count)| counters.set(name, count));
        counters.extend(&TypeMismatch::of_pages(self.vm.placed.iter()).counters());
        counters
    }

    pub(super) fn counters_since_boot(&self) -> Counters {
        let mut counters: Counters = self.vm.stat.iter().collect();
        let allocator = self.vm.allocator();
        for (at, zone) in allocator.zones().iter().enumerate() {
            // The allocator has every zone that it lists.
            let Some(counted) = allocator.counters(ZoneIndex::new(at)) else { continue };
            let name = zone.kind().name().to_lowercase();
            counters.add(format!("pgalloc_{name}"), counted.pgalloc);
            counters.add("pgfree", counted.pgfree);
            if self.vm.kernel().reclaim.lru == LruLists::Zone {
                let scanned = self.vm.lru().vecs()[self.vm.lru().of_zone(at)].scanned;
                counters.add(names::pgscan_zone(&name), scanned);
            }
            counters.add(names::ZONE_LOCK_ACQUIRED, counted.lock_acquired);
            counters.add(names::LIST_PROBES, counted.list_probes);
            counters.add(names::BLOCK_LOOKS, zone.block_looks());
        }
        // The kernel counts KiB in these two.
        counters.set("pgpgin", self.disk.pages.0 * KBYTES_PER_PAGE);
        counters.set("pgpgout", self.disk.pages.1 * KBYTES_PER_PAGE);
        let cpu = self.cpu_time();
        counters.set(names::SIMULATED_USER_MS, cpu.user / MILLISECOND);
        counters.set(names::SIMULATED_SYSTEM_MS, cpu.system / MILLISECOND);
        counters
    }
}
