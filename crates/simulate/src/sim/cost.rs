//! What operations cost, in nanoseconds of a CPU of 2018: every figure that is not a count.
//!
//! Simulated times come from this file alone. Marks of sources, as in `docs/experiments/sources.md`:
//! **D** derived from published numbers there (docs/experiments/sources.md#thpfioscale); **M** mmtests' own
//! weights of compaction, and **L** measured by Gorman in 2016 in cycles (docs/experiments/sources.md#costs), at
//! 3.5 GHz here; **K** general knowledge, unchecked: only its order of magnitude means something. **Fitted**: chosen
//! so that a figure that the seed publishes (never an event count) comes out; the figure is named.

use pageblock_vm::work::Work;

use super::Nanos;

/// The cost of everything that takes time. Nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Costs {
    /// What of the costs below is the program's own time; the rest is the kernel's.
    pub user: UserCosts,
    /// A page fault of an anonymous page, zeroing and the program's first write included. (D): 1,150
    /// uncontended, of 512 of them in 588 us; allocation excluded here.
    pub fault_base: Nanos,
    /// A page fault of a huge page, zeroing and the program's writes to all of it included. (D): 127
    /// to 180 us.
    pub fault_huge: Nanos,
    /// Writing 4 KiB to a file through the page cache: system call, copy, file system. (K)
    pub write_page: Nanos,
    /// Reading 4 KiB that are in the page cache. (K)
    pub read_page: Nanos,
    /// Handling of a read that goes to the disk, on both sides of the wait. (K)
    pub read_miss: Nanos,
    /// Opening or creating a file, its objects excluded. (K)
    pub open: Nanos,
    /// An object from or to a slab. (K)
    pub object: Nanos,
    /// A page from the allocator's fast path. (L): 157 to 235 cycles.
    pub alloc: Nanos,
    /// Another walk of the zonelist in the slow path. (L), as above.
    pub attempt: Nanos,
    /// Looking at a page at the end of an LRU list. (K)
    pub scan: Nanos,
    /// Freeing a page that reclaim took: unmapping, index, free. (K); (L) has 80 to 137 cycles for
    /// the allocator's part.
    pub reclaim: Nanos,
    /// Moving a page between LRU lists. (K)
    pub rotate: Nanos,
    /// Looking at an object on a shrinker's list. (K)
    pub shrink: Nanos,
    /// A page that compaction looks at. (M): 7 of the units below.
    pub compact_scan: Nanos,
    /// A page that compaction isolates. (M): 19 units.
    pub isolate: Nanos,
    /// An entry of a page table that khugepaged looks at, with its page. (K)
    pub pte: Nanos,
    /// A page that compaction moves. (M): 1,038 units; a unit is 2 ns so that the copy and the
    /// unmapping take 2 us (K).
    pub migrate: Nanos,
    /// A drain of CPU lists: an interrupt for every CPU and the wait for them. (K)
    pub drain: Nanos,
    /// Compressing a page for swap in memory, LZ4: its README has 780 MB/s on one core of an i7-9700K,
    /// 5,250 ns a page; the rest for the block layer and zsmalloc (K).
    pub compress: Nanos,
    /// Decompressing it: 4,970 MB/s there, 824 ns; the rest (K).
    pub decompress: Nanos,
    /// A page that a fallback looks at in a pageblock, under the zone's lock.
    pub block_look: Nanos,
    /// Submitting a write to a disk, in the flusher. (K)
    pub submit: Nanos,
    /// A switch from one task to another. (K)
    pub switch: Nanos,
    /// Taking a zone's lock and a block of its lists, beyond what a CPU list takes. (L): 48 cycles, by
    /// which order 1 is more expensive than order 0.
    pub zone_lock: Nanos,
    /// The same where another CPU held the lock last: its cache lines come from there. **Fitted** to
    /// `send-8192` of seed 2, by which CPU lists of high orders are faster.
    pub zone_bounce: Nanos,
    /// Sending a datagram, memory excluded. **Fitted** to `send-64` of seed 2's first column.
    pub send: Nanos,
    /// Sending 1024 bytes more in it. **Fitted** to `send-16384` there.
    pub send_kib: Nanos,
    /// Receiving a datagram, memory excluded. (K)
    pub receive: Nanos,
    /// Receiving 1024 bytes more in it. (K)
    pub receive_kib: Nanos,
    /// A get or a set of memcachetest, both programs and the socket between them, memory excluded. **Fitted**
    /// to `memcachetest-0M` of seed 3's first column.
    pub memcached: Nanos,
}

/// The part of a cost that a program spends in its own code. It moves no event: it only tells User
/// from System in mmtests' Duration block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UserCosts {
    /// Of a fault of a small page: the first write to all of it. (D): a 512th of the huge page's.
    pub fault_base: Nanos,
    /// Of a fault of a huge page: the writes to all of it. (D): it is zeroed and written once, at the
    /// same rate.
    pub fault_huge: Nanos,
    /// Of a write to a file: fio's own work. (K)
    pub write_page: Nanos,
    /// Of a read of a file, from memory or not: fio's own work. (K)
    pub read_page: Nanos,
    /// Of a get or a set. **Fitted** to User beside System of seed 3's first column.
    pub memcached: Nanos,
}

/// The CPUs of seed 1's machines.
pub const YEAR_2018: Costs = Costs {
    user: UserCosts {
        fault_base: 124,
        fault_huge: 63_500,
        write_page: 500,
        read_page: 500,
        memcached: 33_600,
    },
    fault_base: 1_080,
    fault_huge: 127_000,
    write_page: 2_500,
    read_page: 1_000,
    read_miss: 5_000,
    open: 4_000,
    object: 60,
    alloc: 65,
    attempt: 150,
    scan: 60,
    reclaim: 200,
    rotate: 60,
    shrink: 100,
    compact_scan: 14,
    isolate: 38,
    pte: 20,
    migrate: 2_076,
    drain: 5_000,
    compress: 6_000,
    decompress: 2_000,
    // Fallbacks that look at much are rare on these machines; what was measured on them is without it.
    block_look: 0,
    submit: 1_500,
    switch: 1_500,
    zone_lock: 14,
    zone_bounce: 128,
    send: 1_831,
    send_kib: 126,
    receive: 1_300,
    receive_kib: 128,
    memcached: 281_000,
};

/// The CPUs of client devices: as [`YEAR_2018`], and a look at a page of a pageblock costs what one of
/// compaction's scanners does, which reads the same: `struct page`, one after the other.
pub const CLIENT: Costs = Costs { block_look: YEAR_2018.compact_scan, ..YEAR_2018 };

impl Costs {
    /// What some work costs.
    #[must_use]
    pub const fn of(&self, work: &Work) -> Nanos {
        work.scanned * self.scan
            + work.reclaimed * self.reclaim
            + work.rotated * self.rotate
            + work.shrunk * self.shrink
            + work.compact_scanned * self.compact_scan
            + work.isolated * self.isolate
            + work.ptes * self.pte
            + work.migrated * self.migrate
            + work.attempts * self.attempt
            + work.drains * self.drain
            + work.compressed * self.compress
            + work.decompressed * self.decompress
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_uncontended_region_takes_what_was_published() {
        let costs = YEAR_2018;
        let base = 512 * (costs.fault_base + costs.alloc);
        assert!((557_000..=600_000).contains(&base), "{base}");
        assert!((127_000..=180_000).contains(&(costs.fault_huge + costs.alloc)));
    }
}
