//! A disk: reads that wait for one of a few places, and writes that share a bandwidth.

use super::{MILLISECOND, Nanos};

/// What a disk can do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DiskSpec {
    /// How long a read of one page takes, without waiting, in nanoseconds.
    pub read_ns: Nanos,
    /// Reads that are served at a time.
    pub read_places: usize,
    /// Bytes written a second.
    pub write_bytes_per_s: u64,
    /// The size of its file system, by which the log has its own.
    pub bytes: u64,
    /// Writes that may wait for it (`nr_requests`).
    pub queue: usize,
}

/// The turns of reads and of writes where both wait (CFQ: `slice_sync`, `slice_async`). (K)
const READS_TURN: Nanos = 100 * MILLISECOND;
const WRITES_TURN: Nanos = 40 * MILLISECOND;

/// Writes that a task which was let through may send to a full queue (`BLK_BATCH_REQ`).
const BATCH: usize = 32;

/// Bytes of a page.
const PAGE: u64 = 4096;

/// A disk at work.
///
/// One that serves several reads at a time has its writes beside them. One with a single place turns, and has one
/// arm: reads go first, and writes get their turns among them as CFQ gives them.
// Linux: the first kind shares its device too; in the workloads on such machines reads and writes do
// not happen at the same time.
#[derive(Clone, Debug)]
pub struct Disk {
    spec: DiskSpec,
    /// When each place is free.
    places: Vec<Nanos>,
    /// When the last write is done.
    written: Nanos,
    /// How long the arm has served reads while writes waited.
    reads_turn: Nanos,
    /// Writes that are not done.
    pub(crate) outstanding: usize,
    /// So many of them that reclaim had better wait.
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

    /// What it can do.
    #[must_use]
    pub const fn spec(&self) -> &DiskSpec {
        &self.spec
    }

    /// Reads pages that lie together; gives when they are there. `jitter` is how much longer it takes than usual, in
    /// thousandths, or less.
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

    /// How long a read waits for the writes that have their turn now.
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

    /// Writes pages; gives when they are written.
    pub(crate) fn write(&mut self, now: Nanos, pages: u64) -> Nanos {
        self.written = self.written.max(now) + self.write_ns(pages);
        self.outstanding += 1;
        self.pages.1 += pages;
        self.written
    }

    /// How long writing pages takes, without waiting.
    #[must_use]
    pub const fn write_ns(&self, pages: u64) -> Nanos {
        pages * PAGE * super::SECOND / self.spec.write_bytes_per_s
    }

    /// Whether a task that has sent so many writes since it waited would wait with the next one. One that
    /// was let through may send some more to a full queue (`ioc_batching`).
    pub(crate) const fn refuses(&self, batch: usize) -> bool {
        let most = self.spec.queue + self.spec.queue / 2;
        self.outstanding >= most || (batch >= BATCH && self.is_full())
    }

    /// Notes whether the queue is congested; tells whether it stopped being that.
    pub(crate) fn note_congestion(&mut self) -> bool {
        let queue = self.spec.queue;
        // `blk_queue_congestion_threshold`.
        let (on, off) = (queue - queue / 8 + 1, queue - queue / 8 - queue / 16 - 1);
        let was = self.congested;
        self.congested = self.outstanding >= if was { off } else { on };
        was && !self.congested
    }

    /// Whether so many writes wait for it that reclaim had better wait.
    pub(crate) const fn is_congested(&self) -> bool {
        self.congested
    }

    /// Whether another write would wait in vain.
    pub(crate) const fn is_full(&self) -> bool {
        self.outstanding >= self.spec.queue
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_and_bandwidth_are_shared() {
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
    fn one_arm_serves_both() {
        let spec = DiskSpec {
            read_ns: 10 * MILLISECOND,
            read_places: 1,
            write_bytes_per_s: 4_096_000,
            bytes: 0,
            queue: 2,
        };
        let mut disk = Disk::new(spec);
        assert_eq!(disk.write(0, 1000), super::super::SECOND);
        // Ten reads push the next write back by their time; then it is the writes' turn.
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
