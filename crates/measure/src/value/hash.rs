//! A hash over a whole stream of events.
//!
//! Two runs whose hashes are equal took the same decisions in the same order. The hash is XXH3 (64
//! bits, seed 0, its default secret: a frozen definition) of the concatenated events, each encoded as
//! one tag byte and its fields, in little-endian order:
//!
//! | tag | event | fields |
//! |---|---|---|
//! | 1 | `mm_page_alloc` | pfn u64 (all ones: failed), order u8, type u8, flags u32 |
//! | 2 | `mm_page_free` | pfn u64, order u8 |
//! | 3 | `mm_page_free_batched` | pfn u64 |
//! | 4 | `mm_page_alloc_zone_locked` | pfn u64, order u8, type u8, refill u8 |
//! | 5 | `mm_page_pcpu_drain` | pfn u64, order u8, type u8 |
//! | 6 | `mm_page_alloc_extfrag` | pfn u64, orders u8 u8 (requested, found), types u8 u8 (requested, found), ownership u8 |
//!
//! Types and flags have the numbers of [`Migratetype`](pageblock::mobility::Migratetype) and
//! [`Gfp`](pageblock::request::Gfp), which are the same for every kernel version.

use pageblock::event::Event;
use xxhash_rust::xxh3::Xxh3Default;

/// Bytes that are hashed at a time: a call for each event would cost more than the hash.
const BATCH: usize = 2048;

/// The running hash of a stream of events.
#[derive(Clone)]
pub struct EventHash {
    state: Xxh3Default,
    /// Encoded events that are not hashed yet.
    batch: [u8; BATCH],
    len: usize,
}

impl Default for EventHash {
    fn default() -> Self {
        Self { state: Xxh3Default::default(), batch: [0; BATCH], len: 0 }
    }
}

impl EventHash {
    /// Returns the hash of an empty stream.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the next event.
    #[inline(always)]
    pub fn event(&mut self, event: &Event) {
        let (bytes, len) = encode(event);
        if let Some(room) = self.batch[self.len..].first_chunk_mut() {
            // Bytes beyond the event are overwritten by the next one.
            *room = bytes.to_le_bytes();
            self.len += len;
        }
        if self.len > BATCH - size_of::<u128>() {
            self.flush();
        }
    }

    #[inline(never)]
    fn flush(&mut self) {
        self.state.update(&self.batch[..self.len]);
        self.len = 0;
    }

    /// Returns the hash of the events so far.
    #[must_use]
    pub fn value(&self) -> u64 {
        let mut state = self.state.clone();
        state.update(&self.batch[..self.len]);
        state.digest()
    }

    /// Returns the hash of the events so far as 16 hexadecimal digits.
    #[must_use]
    pub fn hex(&self) -> String {
        format!("{:016x}", self.value())
    }
}

impl std::fmt::Debug for EventHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "EventHash({:016x})", self.value())
    }
}

/// Returns the bytes of an event, the first one lowest, and their number.
#[inline(always)]
fn encode(event: &Event) -> (u128, usize) {
    let start = |tag: u128, pfn: u64| tag | u128::from(pfn) << 8;
    // The bytes after the frame.
    let rest = |bytes: [u8; 3]| {
        let [a, b, c] = bytes.map(u128::from);
        a << 72 | b << 80 | c << 88
    };
    match *event {
        Event::PageAlloc { pfn, order, migratetype, gfp } => {
            let head = start(1, pfn.map_or(u64::MAX, |pfn| pfn.0));
            (head | rest([order, migratetype as u8, 0]) | u128::from(gfp.0) << 88, 15)
        }
        Event::PageFree { pfn, order } => (start(2, pfn.0) | rest([order, 0, 0]), 10),
        Event::PageFreeBatched { pfn } => (start(3, pfn.0), 9),
        Event::ZoneLocked { pfn, order, migratetype, percpu_refill } => {
            let rest = rest([order, migratetype as u8, u8::from(percpu_refill)]);
            (start(4, pfn.0) | rest, 12)
        }
        Event::PcpuDrain { pfn, order, migratetype } => {
            (start(5, pfn.0) | rest([order, migratetype as u8, 0]), 11)
        }
        Event::Extfrag(e) => {
            let rest = rest([e.alloc_order, e.fallback_order, e.alloc_migratetype as u8]);
            let found = u128::from(e.fallback_migratetype as u8) << 96;
            (start(6, e.pfn.0) | rest | found | u128::from(e.change_ownership) << 104, 14)
        }
    }
}

#[cfg(test)]
mod tests {
    use pageblock::event::{Event, Extfrag};
    use pageblock::frame::Pfn;
    use pageblock::mobility::Migratetype;
    use pageblock::request::Gfp;

    use super::EventHash;

    fn every_kind() -> Vec<Event> {
        let pfn = Pfn(0x1234);
        let migratetype = Migratetype::Reclaimable;
        vec![
            Event::PageAlloc { pfn: Some(pfn), order: 3, migratetype, gfp: Gfp::GFP_KERNEL },
            Event::PageAlloc { pfn: None, order: 9, migratetype, gfp: Gfp::NONE },
            Event::PageFree { pfn, order: 3 },
            Event::PageFreeBatched { pfn },
            Event::ZoneLocked { pfn, order: 3, migratetype, percpu_refill: true },
            Event::PcpuDrain { pfn, order: 3, migratetype },
            Event::Extfrag(Extfrag {
                pfn,
                alloc_order: 0,
                fallback_order: 5,
                alloc_migratetype: Migratetype::Unmovable,
                fallback_migratetype: Migratetype::Movable,
                change_ownership: true,
            }),
        ]
    }

    fn hash(events: &[Event]) -> u64 {
        let mut hash = EventHash::new();
        events.iter().for_each(|e| hash.event(e));
        hash.value()
    }

    /// Checks an independent implementation of encoding and hash.
    #[test]
    fn the_definition_is_pinned() {
        let mut bytes = Vec::new();
        let pfn = [0x34, 0x12, 0, 0, 0, 0, 0, 0];
        let kernel = Gfp::GFP_KERNEL.0.to_le_bytes();
        bytes.extend([&[1][..], &pfn, &[3, 2], &kernel].concat());
        bytes.extend([&[1][..], &[255; 8], &[9, 2], &[0; 4]].concat());
        bytes.extend([&[2][..], &pfn, &[3]].concat());
        bytes.extend([&[3][..], &pfn].concat());
        bytes.extend([&[4][..], &pfn, &[3, 2, 1]].concat());
        bytes.extend([&[5][..], &pfn, &[3, 2]].concat());
        bytes.extend([&[6][..], &pfn, &[0, 5, 0, 1, 1]].concat());
        assert_eq!(hash(&every_kind()), xxhash_rust::xxh3::xxh3_64(&bytes));
        // The published value of XXH3_64bits for no input.
        assert_eq!(EventHash::new().hex(), "2d06800538d394c2");
    }

    #[test]
    fn order_and_every_event_matter() {
        let events = every_kind();
        let whole = hash(&events);
        for skipped in 0..events.len() {
            let mut fewer = events.clone();
            fewer.remove(skipped);
            assert_ne!(hash(&fewer), whole);
        }
        let mut swapped = events.clone();
        swapped.swap(2, 3);
        assert_ne!(hash(&swapped), whole);
    }
}
