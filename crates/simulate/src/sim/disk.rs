//! A disk: reads that compete for a limited number of slots, and writes that share a bandwidth.

use super::{MILLISECOND, Nanos};

/// The properties of a disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DiskSpec {
    /// The latency of a read of one page without queueing, in nanoseconds.
    pub read_ns: Nanos,
    /// The number of reads served at a time.
    pub read_places: usize,
    /// Write bandwidth in bytes a second.
    pub write_bytes_per_s: u64,
    /// The size of its file system, which determines the size of the log.
    pub bytes: u64,
    /// The number of writes that may be queued (`nr_requests`).
    pub queue: usize,
}

/// The time slices of reads and of writes when both wait (CFQ: `slice_sync`, `slice_async`). (K)
const READS_TURN: Nanos = 100 * MILLISECOND;
const WRITES_TURN: Nanos = 40 * MILLISECOND;

/// Writes that a batching task may still send to a full queue (`BLK_BATCH_REQ`).
const BATCH: usize = 32;

/// The bytes of a page.
const PAGE: u64 = 4096;

/// A disk at work.
///
/// A disk that serves several reads at a time serves writes independently of them. A disk with a single read
/// slot is rotational: reads go first, and writes get their time slices among them as in CFQ.
// Linux: the first kind shares its device too; in the workloads on such machines reads and writes do not
// overlap.
#[derive(Clone, Debug)]
pub struct Disk {
    spec: DiskSpec,
    /// The time at which each read slot becomes free.
    places: Vec<Nanos>,
    /// The time at which the last write completes.
    written: Nanos,
    /// How long reads have been served while writes waited.
    reads_turn: Nanos,
    /// Writes that have not completed.
    pub(crate) outstanding: usize,
    /// Whether the queue is congested, so that reclaim should wait.
    congested: bool,
    /// Pages read and written.
    pub pages: (u64, u64),
}

impl Disk {
    pub(crate) fn new(spec: DiskSpec) -> Self {
        let places = vec![0; spec.read_places.max(1)];
        Self {
            spec,
            places,
            written: 0,
            reads_turn: 0,
            outstanding: 0,
            congested: false,
            pages: (0, 0),
        }
    }

    /// Returns its properties.
    #[must_use]
    pub const fn spec(&self) -> &DiskSpec {
        &self.spec
    }

    /// Reads contiguous pages; returns the completion time. `jitter` is the deviation from the usual duration,
    /// in thousandths, and may be negative.
    pub(crate) fn read(&mut self, now: Nanos, jitter: i64, pages: u64) -> Nanos {
        let turn = self.turn_of_writes(now);
        let place = self.places.iter_mut().min().unwrap_or(&mut self.written);
        let time = self.spec.read_ns as i64 * (1000 + jitter) / 1000;
        let time = time.max(1) as u64;
        *place = (*place).max(now) + turn + time;
        let done = *place;
        self.pages.0 += pages;
        if self.places.len() == 1 && self.written > now {
            self.written += time;
            self.reads_turn += time;
        }
        done
    }

    /// Returns how long a read waits for the writes whose time slice it is.
    fn turn_of_writes(&mut self, now: Nanos) -> Nanos {
        if self.written <= now {
            self.reads_turn = 0;
        }
        if self.reads_turn < READS_TURN {
            return 0;
        }
        self.reads_turn = 0;
        WRITES_TURN.min(self.written - now)
    }

    /// Writes pages; returns the completion time.
    pub(crate) fn write(&mut self, now: Nanos, pages: u64) -> Nanos {
        self.written = self.written.max(now) + self.write_ns(pages);
        self.outstanding += 1;
        self.pages.1 += pages;
        self.written
    }

    /// Returns the duration of a write without queueing.
    #[must_use]
    pub const fn write_ns(&self, pages: u64) -> Nanos {
        pages * PAGE * super::SECOND / self.spec.write_bytes_per_s
    }

    /// Reports whether a task's next write would block after `batch` writes since it last waited. A batching
    /// task may send some more to a full queue (`ioc_batching`).
    pub(crate) const fn refuses(&self, batch: usize) -> bool {
        let most = self.spec.queue + self.spec.queue / 2;
        self.outstanding >= most || (batch >= BATCH && self.is_full())
    }

    /// Updates the congestion state; returns whether congestion just ended.
    pub(crate) fn note_congestion(&mut self) -> bool {
        let queue = self.spec.queue;
        // `blk_queue_congestion_threshold`.
        let (on, off) = (queue - queue / 8 + 1, queue - queue / 8 - queue / 16 - 1);
        let was = self.congested;
        self.congested = self.outstanding >= if was { off } else { on };
        was && !self.congested
    }

    /// Reports whether the queue is congested, so that reclaim should wait.
    pub(crate) const fn is_congested(&self) -> bool {
        self.congested
    }

    /// Reports whether the queue is full.
    pub(crate) const fn is_full(&self) -> bool {
        self.outstanding >= self.spec.queue
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_and_bandwidth_are_shared() {
        let spec = DiskSpec {
            read_ns: 100,
            read_places: 2,
            write_bytes_per_s: 4_096_000_000,
            bytes: 0,
            queue: 2,
        };
        let mut disk = Disk::new(spec);
        let reads: Vec<_> = (0..4).map(|_| disk.read(1000, 0, 1)).collect();
        assert_eq!(reads, [1100, 1100, 1200, 1200]);
        assert_eq!(disk.write(5000, 3), 8000);
        assert_eq!(disk.write(5000, 1), 9000);
        assert!(disk.is_full());
    }

    #[test]
    fn a_rotational_disk_serves_reads_and_writes_in_turn() {
        let spec = DiskSpec {
            read_ns: 10 * MILLISECOND,
            read_places: 1,
            write_bytes_per_s: 4_096_000,
            bytes: 0,
            queue: 2,
        };
        let mut disk = Disk::new(spec);
        assert_eq!(disk.write(0, 1000), super::super::SECOND);
        // Ten reads delay the next write by their duration; then it is the writes' turn.
        let mut now = 0;
        for _ in 0..10 {
            now = disk.read(now, 0, 8);
        }
        assert_eq!(now, READS_TURN);
        assert_eq!(disk.read(now, 0, 1), READS_TURN + WRITES_TURN + spec.read_ns);
        assert_eq!(disk.write(now, 0), super::super::SECOND + READS_TURN + spec.read_ns);
        assert_eq!(disk.pages, (81, 1000));
    }
}
