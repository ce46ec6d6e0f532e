//! A disk: reads that wait for one of a few places, and writes that share a bandwidth.

use super::Nanos;

/// What a disk can do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DiskSpec {
    /// How long a read of one page takes, without waiting, in nanoseconds.
    pub read_ns: Nanos,
    /// Reads that are served at a time.
    pub read_places: usize,
    /// Bytes written a second.
    pub write_bytes_per_s: u64,
    /// Writes that may wait for it (`nr_requests`).
    pub queue: usize,
}

/// Bytes of a page.
const PAGE: u64 = 4096;

/// A disk at work.
// Linux: reads and writes share the device. Here they do not: in the workloads so far they do not
// happen at the same time.
#[derive(Clone, Debug)]
pub struct Disk {
    spec: DiskSpec,
    /// When each place is free.
    places: Vec<Nanos>,
    /// When the last write is done.
    written: Nanos,
    /// Writes that are not done.
    pub(crate) outstanding: usize,
    /// Pages read and written.
    pub pages: (u64, u64),
}

impl Disk {
    pub(crate) fn new(spec: DiskSpec) -> Self {
        let places = vec![0; spec.read_places.max(1)];
        Self { spec, places, written: 0, outstanding: 0, pages: (0, 0) }
    }

    /// What it can do.
    #[must_use]
    pub const fn spec(&self) -> &DiskSpec {
        &self.spec
    }

    /// Reads a page; gives when it is there. `jitter` is how much longer it takes than usual, in
    /// thousandths, or less.
    pub(crate) fn read(&mut self, now: Nanos, jitter: i64) -> Nanos {
        let place = self.places.iter_mut().min().unwrap_or(&mut self.written);
        let time = self.spec.read_ns as i64 * (1000 + jitter) / 1000;
        *place = (*place).max(now) + time.max(1) as u64;
        self.pages.0 += 1;
        *place
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
        let spec =
            DiskSpec { read_ns: 100, read_places: 2, write_bytes_per_s: 4_096_000_000, queue: 2 };
        let mut disk = Disk::new(spec);
        let reads: Vec<_> = (0..4).map(|_| disk.read(1000, 0)).collect();
        assert_eq!(reads, [1100, 1100, 1200, 1200]);
        assert_eq!(disk.write(5000, 3), 8000);
        assert_eq!(disk.write(5000, 1), 9000);
        assert!(disk.is_full());
    }
}
