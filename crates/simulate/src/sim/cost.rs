//! The cost of operations, in nanoseconds on a CPU of 2018: every figure that is not a count.
//!
//! All simulated times come from this file. Sources are marked as in `docs/experiments/sources.md`: **D**
//! derived from published numbers there (docs/experiments/sources.md#thpfioscale); **M** mmtests' own weights
//! for compaction; **L** measured by Gorman in 2016 in cycles (docs/experiments/sources.md#costs), at 3.5 GHz
//! here; **H** measured by `crates/guest/examples/held_costs.rs` on a Xeon of 2023, whose fault of a small page takes what
//! (D) has (the least of 41 rounds, six times); **K** general knowledge, unchecked: only the order of magnitude is
//! meaningful. **Fitted**: chosen to
//! reproduce a published figure, which is named and is never an event count.

use pageblock_vm::work::Work;

use super::Nanos;

/// The cost of everything that takes time, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Costs {
    /// The part of the costs below that is user time; the rest is system time.
    pub user: UserCosts,
    /// A fault of an anonymous page, including zeroing and the program's first write. (D): 1,150 uncontended,
    /// from 588 us for 512 of them; excludes the allocation.
    pub fault_base: Nanos,
    /// A fault of a huge page, including zeroing and the program's writes to all of it. (D): 127 to 180 us.
    pub fault_huge: Nanos,
    /// Writing 4 KiB to a file through the page cache: system call, copy, file system. (K)
    pub write_page: Nanos,
    /// Reading 4 KiB from the page cache. (K)
    pub read_page: Nanos,
    /// Issuing and completing a read from the disk, without the wait. (K)
    pub read_miss: Nanos,
    /// Opening or creating a file, without its slab objects. (K)
    pub open: Nanos,
    /// Allocating or freeing a slab object. (K)
    pub object: Nanos,
    /// A page from the allocator's fast path. (L): 157 to 235 cycles.
    pub alloc: Nanos,
    /// Each further walk of the zonelist in the slow path. (L), as above.
    pub attempt: Nanos,
    /// Scanning a page at the tail of an LRU list. (K)
    pub scan: Nanos,
    /// Freeing a reclaimed page: unmapping, removing it from the index, freeing. (K); (L) has 80 to 137 cycles
    /// for the allocator's part.
    pub reclaim: Nanos,
    /// Moving a page between LRU lists. (K)
    pub rotate: Nanos,
    /// Scanning an object on a shrinker's list. (K)
    pub shrink: Nanos,
    /// Scanning a page in compaction. (M): 7 of the units below.
    pub compact_scan: Nanos,
    /// Isolating a page in compaction. (M): 19 units.
    pub isolate: Nanos,
    /// Scanning a page-table entry and its page in khugepaged. (K)
    pub pte: Nanos,
    /// Migrating a page. (M): 1,038 units; a unit is 2 ns so that copying and unmapping take 2 us (K).
    pub migrate: Nanos,
    /// A drain of per-CPU lists: an interrupt to every CPU and the wait for all of them. (K)
    pub drain: Nanos,
    /// Compressing a page for zram with LZ4: its README has 780 MB/s on one core of an i7-9700K, 5,250 ns a
    /// page; the rest is the block layer and zsmalloc (K).
    pub compress: Nanos,
    /// Decompressing it: 4,970 MB/s there, 824 ns; the rest is (K).
    pub decompress: Nanos,
    /// A page of a pageblock that a fallback scans under the zone's lock.
    pub block_look: Nanos,
    /// Submitting a write to a disk in the flusher. (K)
    pub submit: Nanos,
    /// A context switch. (K)
    pub switch: Nanos,
    /// Taking a zone's lock and a block from its lists, beyond the cost of a per-CPU list. (L): 48 cycles, the
    /// difference between order 1 and order 0.
    pub zone_lock: Nanos,
    /// The same if another CPU held the lock last and the cache lines have to be transferred. **Fitted** to
    /// `send-8192` of netperf-udp, where per-CPU lists of high orders are faster.
    pub zone_bounce: Nanos,
    /// Sending a datagram, without its memory. **Fitted** to `send-64` of netperf-udp's first published column.
    pub send: Nanos,
    /// Each further 1024 bytes of it. **Fitted** to `send-16384` there.
    pub send_kib: Nanos,
    /// Receiving a datagram, without its memory. (K)
    pub receive: Nanos,
    /// Each further 1024 bytes of it. (K)
    pub receive_kib: Nanos,
    /// A message of 640 bytes through a socket, without its two objects and their page. (H): 520 with them.
    pub message: Nanos,
    /// Freeing it. (H): 300.
    pub message_free: Nanos,
    /// A page through a pipe: system call and copy, without its allocation. (H): 545 with it.
    pub pipe_page: Nanos,
    /// A table of pages: zeroing it and linking it, without its allocation. (H): a fault takes 1,600 with a table and 1,150
    /// without.
    pub table: Nanos,
    /// A get or a set of memcachetest: both programs and the socket between them, without memory. **Fitted** to
    /// `memcachetest-0M` of parallelio's first published column.
    pub memcached: Nanos,
}

/// The part of a cost that a program spends in its own code. It changes no event: it only separates User from
/// System in mmtests' Duration block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UserCosts {
    /// A fault of a small page: the first write to all of it. (D): a 512th of the huge page's.
    pub fault_base: Nanos,
    /// A fault of a huge page: the writes to all of it. (D): it is zeroed and written once, at the same rate.
    pub fault_huge: Nanos,
    /// A write to a file: fio's own work. (K)
    pub write_page: Nanos,
    /// A read of a file, cached or not: fio's own work. (K)
    pub read_page: Nanos,
    /// A get or a set. **Fitted** to User beside System of parallelio's first published column.
    pub memcached: Nanos,
}

/// The CPUs of Mel Gorman's machines of 2018.
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
    // Fallbacks rarely scan many pages on these machines, and the measured costs do not include the scan.
    block_look: 0,
    submit: 1_500,
    switch: 1_500,
    zone_lock: 14,
    zone_bounce: 128,
    message: 385,
    message_free: 300,
    pipe_page: 480,
    table: 385,
    send: 1_831,
    send_kib: 126,
    receive: 1_300,
    receive_kib: 128,
    memcached: 281_000,
};

/// The CPUs of client devices: as [`YEAR_2018`], and a fallback pays as much for each page of a pageblock as a
/// compaction scanner, which reads the same `struct page`s in sequence.
pub const CLIENT: Costs = Costs { block_look: YEAR_2018.compact_scan, ..YEAR_2018 };

impl Costs {
    /// Returns the cost of some work.
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
    fn an_uncontended_region_takes_the_published_time() {
        let costs = YEAR_2018;
        let base = 512 * (costs.fault_base + costs.alloc);
        assert!((557_000..=600_000).contains(&base), "{base}");
        assert!((127_000..=180_000).contains(&(costs.fault_huge + costs.alloc)));
    }
}
