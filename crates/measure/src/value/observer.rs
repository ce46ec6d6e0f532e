//! Counts events as they happen.

use pageblock::event::{Event, Extfrag, Observer};
use pageblock::frame::{NR_PAGE_ORDERS, ORDER_LIMIT, Order, Pfn, pages};
use pageblock::mobility::{MIGRATETYPES, Migratetype};

use crate::value::counters::Counters;
use crate::value::extfrag::ExtfragMatrix;
use crate::value::hash::EventHash;
use crate::value::names;

const ORDERS: usize = ORDER_LIMIT as usize + 1;

/// The data of a stream of events: counts, fallbacks and the stream's hash.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    hash: EventHash,
    extfrag: ExtfragMatrix,
    allocs: u64,
    frees: u64,
    frees_batched: u64,
    zone_locked: u64,
    drains: u64,
    served: [u64; ORDERS],
    failed: [u64; ORDERS],
    pages_by_request: [u64; MIGRATETYPES],
    taken: Option<Vec<TakenBlock>>,
    fallbacks: Option<Vec<Extfrag>>,
}

/// A block taken from a free list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TakenBlock {
    /// Its first frame.
    pub pfn: Pfn,
    /// Its order.
    pub order: Order,
    /// The type of the list, if the version's event has it (from 5.18).
    pub list: Migratetype,
}

impl Tally {
    /// Makes an empty tally.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts recording the blocks taken from free lists, for [`take_taken`](Self::take_taken).
    pub fn record_taken(&mut self) {
        self.taken.get_or_insert_default();
    }

    /// Returns the blocks taken from free lists since the last call; none unless they are recorded.
    pub fn take_taken(&mut self) -> Vec<TakenBlock> {
        self.taken.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Starts recording fallbacks, for [`take_fallbacks`](Self::take_fallbacks).
    pub fn record_fallbacks(&mut self) {
        self.fallbacks.get_or_insert_default();
    }

    /// Returns the fallbacks since the last call; none unless they are recorded.
    pub fn take_fallbacks(&mut self) -> Vec<Extfrag> {
        self.fallbacks.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Returns the number of events so far.
    #[must_use]
    pub fn events(&self) -> u64 {
        let fallbacks = self.extfrag.total();
        self.allocs + self.frees + self.frees_batched + self.zone_locked + self.drains + fallbacks
    }

    /// Returns the fallbacks.
    #[must_use]
    pub const fn extfrag(&self) -> &ExtfragMatrix {
        &self.extfrag
    }

    /// Returns the stream's hash as 16 hexadecimal digits (see [`crate::value::hash`]).
    #[must_use]
    pub fn event_hash(&self) -> String {
        self.hash.hex()
    }

    /// Returns the number of failed requests of this order.
    #[must_use]
    pub const fn failed(&self, order: Order) -> u64 {
        self.failed[order as usize]
    }

    /// Returns the counts under the names of [`crate::value::names`]: every tracepoint, served and failed
    /// requests of each order (0 to 10, and larger orders that occurred), and pages allocated by
    /// requested type.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let mut counters: Counters = [
            (names::MM_PAGE_ALLOC, self.allocs),
            (names::MM_PAGE_FREE, self.frees),
            (names::MM_PAGE_FREE_BATCHED, self.frees_batched),
            (names::MM_PAGE_ALLOC_ZONE_LOCKED, self.zone_locked),
            (names::MM_PAGE_PCPU_DRAIN, self.drains),
            (names::MM_PAGE_ALLOC_EXTFRAG, self.extfrag.total()),
        ]
        .into_iter()
        .collect();
        for order in 0..=ORDER_LIMIT {
            let (served, failed) = (self.served[usize::from(order)], self.failed(order));
            if usize::from(order) < NR_PAGE_ORDERS || served + failed > 0 {
                counters.set(names::alloc_served(order), served);
                counters.set(names::alloc_failed(order), failed);
            }
        }
        for (mt, &count) in Migratetype::ALL.iter().zip(&self.pages_by_request) {
            if mt.is_mergeable() || count > 0 {
                counters.set(names::alloc_pages(*mt), count);
            }
        }
        counters
    }
}

impl Observer for Tally {
    // Every caller knows the kind of event at compile time.
    #[inline(always)]
    fn event(&mut self, event: Event) {
        self.hash.event(&event);
        match event {
            Event::PageAlloc { pfn: Some(_), order, migratetype, .. } => {
                self.allocs += 1;
                self.served[usize::from(order)] += 1;
                self.pages_by_request[migratetype as usize] += pages(order);
            }
            Event::PageAlloc { pfn: None, order, .. } => {
                self.allocs += 1;
                self.failed[usize::from(order)] += 1;
            }
            Event::PageFree { .. } => self.frees += 1,
            Event::PageFreeBatched { .. } => self.frees_batched += 1,
            Event::ZoneLocked { pfn, order, migratetype: list, .. } => {
                self.zone_locked += 1;
                if let Some(taken) = &mut self.taken {
                    taken.push(TakenBlock { pfn, order, list });
                }
            }
            Event::PcpuDrain { .. } => self.drains += 1,
            Event::Extfrag(fallback) => {
                self.extfrag.record(&fallback);
                if let Some(fallbacks) = &mut self.fallbacks {
                    fallbacks.push(fallback);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use pageblock::frame::Pfn;
    use pageblock::request::Gfp;

    use super::*;

    const MOVABLE: Migratetype = Migratetype::Movable;

    fn alloc(pfn: Option<u64>, order: Order) -> Event {
        Event::PageAlloc { pfn: pfn.map(Pfn), order, migratetype: MOVABLE, gfp: Gfp::NONE }
    }

    #[test]
    fn each_event_is_counted_once_under_its_name() {
        let mut tally = Tally::new();
        let fallback = Extfrag {
            pfn: Pfn(0),
            alloc_order: 0,
            fallback_order: 4,
            alloc_migratetype: MOVABLE,
            fallback_migratetype: Migratetype::Unmovable,
            change_ownership: false,
        };
        let pfn = Pfn(8);
        let events = [
            alloc(Some(0), 3),
            alloc(Some(8), 0),
            alloc(None, 9),
            alloc(None, 12),
            Event::PageFree { pfn, order: 0 },
            Event::PageFreeBatched { pfn },
            Event::ZoneLocked { pfn, order: 0, migratetype: MOVABLE, percpu_refill: true },
            Event::PcpuDrain { pfn, order: 0, migratetype: MOVABLE },
            Event::Extfrag(fallback),
        ];
        for event in events {
            tally.event(event);
        }
        assert_eq!(tally.events(), 9);
        let counters = tally.counters();
        let expect = [
            ("mm_page_alloc", 4),
            ("mm_page_free", 1),
            ("mm_page_free_batched", 1),
            ("mm_page_alloc_zone_locked", 1),
            ("mm_page_pcpu_drain", 1),
            ("mm_page_alloc_extfrag", 1),
            ("alloc_order_3", 1),
            ("alloc_failed_order_9", 1),
            ("alloc_failed_order_10", 0),
            ("alloc_failed_order_12", 1),
            ("alloc_pages_Movable", 9),
            ("alloc_pages_Unmovable", 0),
        ];
        for (name, count) in expect {
            assert_eq!(counters.get(name), Some(count), "{name}");
        }
        assert_eq!(counters.get("alloc_failed_order_11"), None);
        assert_eq!(tally.extfrag().harm(crate::Harm::Steal), 1);
    }

    #[test]
    fn the_hash_is_that_of_the_stream() {
        let (mut tally, mut hash) = (Tally::new(), EventHash::new());
        for pfn in 0..1000 {
            tally.event(alloc(Some(pfn), 0));
            hash.event(&alloc(Some(pfn), 0));
        }
        assert_eq!(tally.event_hash(), hash.hex());
    }
}
