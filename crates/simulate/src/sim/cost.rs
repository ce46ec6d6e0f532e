//! The cost of operations in nanoseconds, on a CPU of 2018 and on an emulated one: every figure that is not a count.
//!
//! All simulated times come from this file. Sources are marked as in `docs/experiments/sources.md`: **D**
//! derived from published numbers there (docs/experiments/sources.md#thpfioscale); **M** mmtests' own weights
//! for compaction; **L** measured by Gorman in 2016 in cycles (docs/experiments/sources.md#costs), at 3.5 GHz
//! here; **H** measured on a Xeon of 2023, whose fault of a small page takes what (D) has (the least of 41
//! rounds, six times; `pageblock-guest costs FOLDER` does it on any host); **E** measured by `pageblock guest costs`; **K** general knowledge, unchecked: only the order of magnitude is
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
    /// Starting a program and ending it, without its memory. Workloads of 2018 have it in the time of their programs.
    pub program: Nanos,
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
    program: 0,
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

/// The CPU of a guest whose instructions QEMU runs, each in a nanosecond. (E) with Debian's 6.12.117; 7.2.13 clears a huge
/// page in half the time. What was not measured takes as many times as long as on [`YEAR_2018`] as the median of what was. No
/// cache line is transferred between CPUs on one thread.
pub const EMULATED: Costs = Costs {
    user: UserCosts {
        fault_base: slower(YEAR_2018.user.fault_base),
        fault_huge: slower(YEAR_2018.user.fault_huge),
        write_page: slower(YEAR_2018.user.write_page),
        read_page: slower(YEAR_2018.user.read_page),
        memcached: YEAR_2018.user.memcached,
    },
    // Together with an allocation 4,439.
    fault_base: 4_205,
    fault_huge: 759_593,
    // With an allocation 7,592.
    write_page: 7_358,
    read_page: 2_108,
    read_miss: slower(YEAR_2018.read_miss),
    open: 6_179,
    // With the faults of its 42 pages 1,776,880.
    program: 1_590_000,
    object: slower(YEAR_2018.object),
    alloc: slower(YEAR_2018.alloc),
    attempt: slower(YEAR_2018.attempt),
    scan: slower(YEAR_2018.scan),
    // With its scan 2,145.
    reclaim: 1_929,
    rotate: slower(YEAR_2018.rotate),
    shrink: slower(YEAR_2018.shrink),
    // All of compaction takes 2.45 times as long.
    compact_scan: 34,
    isolate: 92,
    pte: slower(YEAR_2018.pte),
    migrate: 5_086,
    drain: slower(YEAR_2018.drain),
    compress: slower(YEAR_2018.compress),
    decompress: slower(YEAR_2018.decompress),
    block_look: 0,
    submit: slower(YEAR_2018.submit),
    switch: slower(YEAR_2018.switch),
    zone_lock: slower(YEAR_2018.zone_lock),
    zone_bounce: 0,
    send: slower(YEAR_2018.send),
    send_kib: slower(YEAR_2018.send_kib),
    receive: slower(YEAR_2018.receive),
    receive_kib: slower(YEAR_2018.receive_kib),
    // With its two objects and a quarter of an allocation 2,822.
    message: 2_332,
    message_free: 1_084,
    // With an allocation 3,191.
    pipe_page: 2_957,
    // With the fault and two allocations 5,440.
    table: 767,
    // A time that guests wait, not work.
    memcached: YEAR_2018.memcached,
};

/// The median of eleven operations measured under 6.12.117.
const fn slower(ns: Nanos) -> Nanos {
    ns * 36 / 10
}

/// What runs a machine's instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Cpu {
    /// CPUs of 2018.
    #[default]
    Year2018,
    /// QEMU by instructions: all CPUs on one thread of the host, so that each waits while another works.
    Emulated,
}

impl Cpu {
    /// Every kind.
    pub const ALL: [Self; 2] = [Self::Year2018, Self::Emulated];

    /// Returns its name in machine files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Year2018 => "2018",
            Self::Emulated => "emulated",
        }
    }

    /// Returns what operations cost on it.
    #[must_use]
    pub const fn costs(self) -> Costs {
        match self {
            Self::Year2018 => YEAR_2018,
            Self::Emulated => EMULATED,
        }
    }
}

impl Costs {
    /// Returns the costs of client devices: a fallback pays as much for each page of a pageblock as a compaction scanner,
    /// which reads the same `struct page`s in sequence.
    #[must_use]
    pub const fn of_client(self) -> Self {
        Self { block_look: self.compact_scan, ..self }
    }

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
