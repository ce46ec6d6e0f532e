//! LLFree and the allocator behind the traits of the patterns.

use std::sync::Arc;

use llfree::{Alloc, Classing, FrameId, HUGE_ORDER, Init, LLFree, MetaData, Request};
use pageblock::frame::Order;
use pageblock::ids::ZoneIndex;
use pageblock_bench::subject::{PageblockCpu, PageblockPackedCpu, SharedSubject, Subject};

/// What LLFree's program on fragmentation counts.
pub trait Huge: SharedSubject {
    /// Returns the free blocks of 2 MiB, after this thread's caches were drained.
    fn free_huge(&mut self) -> u64;

    /// Returns the bytes of all tables.
    fn tables(frames: u64, threads: usize) -> u64;
}

/// LLFree with its simple classes: single frames and huge ones, a reserved tree of each for each thread.
pub struct Llfree {
    shared: Arc<LLFree<'static>>,
    thread: usize,
}

impl Llfree {
    /// What `Classing::simple` makes of an order and thread.
    #[inline]
    fn request(&self, order: Order) -> Request {
        let class = llfree::Class(u8::from(usize::from(order) >= HUGE_ORDER));
        Request::new(order.into(), class, Some(self.thread))
    }
}

impl Subject for Llfree {
    const NAME: &'static str = "llfree";

    fn new(frames: u64) -> Self {
        Self::handles(frames, 1).remove(0)
    }

    #[inline]
    fn alloc(&mut self, order: Order) -> Option<u64> {
        Some(self.shared.get(None, self.request(order)).ok()?.0.0 as u64)
    }

    #[inline]
    fn free(&mut self, frame: u64, order: Order) {
        self.shared.put(FrameId(frame as usize), self.request(order)).expect("it was allocated");
    }

    fn drain(&mut self) {
        self.shared.drain();
    }
}

impl SharedSubject for Llfree {
    fn handles(frames: u64, threads: usize) -> Vec<Self> {
        let (classing, _) = Classing::simple(threads);
        let meta = MetaData::alloc(&LLFree::metadata_size(&classing, frames as usize));
        let made = LLFree::new(frames as usize, Init::FreeAll, &classing, meta);
        let shared = Arc::new(made.expect("the tables suffice"));
        (0..threads).map(|thread| Self { shared: Arc::clone(&shared), thread }).collect()
    }
}

impl Huge for Llfree {
    fn free_huge(&mut self) -> u64 {
        self.shared.stats().free_huge as u64
    }

    fn tables(frames: u64, threads: usize) -> u64 {
        let (classing, _) = Classing::simple(threads);
        let size = LLFree::metadata_size(&classing, frames as usize);
        (size.local + size.trees + size.lower) as u64
    }
}

macro_rules! pageblock {
    ($($subject:ty: $policy:literal),*) => {
        $(impl Huge for $subject {
            fn free_huge(&mut self) -> u64 {
                self.drain();
                let count = |zone: &mut pageblock::zone::Zone<'_>| {
                    zone.nr_free(9) + 2 * zone.nr_free(10)
                };
                self.cpu().shared().with_zone(ZoneIndex(0), count).expect("there is a zone")
            }

            fn tables(frames: u64, threads: usize) -> u64 {
                pageblock_bench::subject::metadata(frames, $policy, threads) as u64
            }
        })*
    };
}

pageblock!(PageblockCpu: "linux-6.12", PageblockPackedCpu: "linux-6.12,placement=packed");
