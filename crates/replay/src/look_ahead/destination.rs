//! The destination of each freed page.

use std::collections::BTreeMap;

use pageblock::frame::{Order, Pfn};

use super::bypass::PossibleBypass;
use super::tick::Ticks;
use super::untraced::Untraced;

/// Where a freed page goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Destination {
    /// It goes to the CPU list at once.
    Listed,
    /// It goes to the CPU list with its batch.
    Batched,
    /// It goes to the buddy lists at once, although its order has a CPU list.
    Direct,
    /// For a freed page: it stays with the compaction that freed it. See [`Destination::Sought`] for others.
    Kept,
    /// It goes to a CPU list when its task is next seen, on that task's CPU at the time.
    Delayed,
    /// It goes to a list as part of a block whose last page is freed later.
    Part,
    /// It is the last page of a block of this order, at least 1, that goes to the CPU list at once.
    Joined(Order),
}

impl Destination {
    /// For a page that compaction isolates: its fast search found it on the list, and moved the blocks that it
    /// passed behind it (`fast_isolate_freepages`).
    #[allow(non_upper_case_globals, reason = "reads as a variant")]
    pub const Sought: Self = Self::Kept;
    /// For a block that refills a list: the bulk allocator refills it.
    #[allow(non_upper_case_globals, reason = "reads as a variant")]
    pub const ForBulk: Self = Self::Kept;

    /// Encodes the destination in four bits.
    fn to_bits(self) -> u8 {
        match self {
            Self::Listed => 0,
            Self::Batched => 1,
            Self::Direct => 2,
            Self::Kept => 3,
            Self::Delayed => 4,
            Self::Part => 5,
            Self::Joined(order) => 5 + order.min(10),
        }
    }

    fn of_bits(bits: u8) -> Self {
        match bits & 15 {
            0 => Self::Listed,
            1 => Self::Batched,
            2 => Self::Direct,
            3 => Self::Kept,
            4 => Self::Delayed,
            5 => Self::Part,
            joined => Self::Joined(joined - 5),
        }
    }
}

/// The destinations of all freed pages of a recording: four bits per event.
#[derive(Default)]
pub struct LookAhead {
    pub(super) isolation: bool,
    bits: Vec<u8>,
    /// By event: blocks that were taken before it, and reported after it.
    pub(super) taken: BTreeMap<u64, Vec<Taken>>,
    pub(super) ticks: Ticks,
    pub(super) reclaim_ends: BTreeMap<u64, u8>,
    pub(super) reserves: BTreeMap<u64, Pfn>,
    pub(super) reused: Vec<u64>,
    pub(super) freed_delayed: u64,
    pub(super) untraced: Untraced,
    /// Pages that left CPU lists silently, as the bulk allocator takes pages without an event.
    pub(super) untraced_listed: Untraced,
    /// By event: pages of batches that bypassed a CPU list before it.
    pub(super) bypassed: BTreeMap<u64, Vec<(Pfn, Order)>>,
}

/// A block that a task had taken from a list before another task ran, and reported afterwards.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Taken {
    /// The task.
    pub pid: u32,
    /// The block.
    pub pfn: Pfn,
    /// Whether the lists prove it; if not, it may also have been taken afterwards.
    pub sure: bool,
}

impl LookAhead {
    /// Returns whether the recording shows what compaction isolates.
    #[must_use]
    pub fn has_isolation(&self) -> bool {
        self.isolation
    }

    /// Returns the destination of the page that the event of this index frees, or whose batch it ends.
    #[must_use]
    pub fn destination(&self, event: u64) -> Destination {
        let byte = self.bits.get((event / 2) as usize).copied().unwrap_or(0);
        Destination::of_bits(byte >> (event % 2 * 4))
    }

    /// Returns the blocks that were taken before this event and are reported after it.
    #[must_use]
    pub fn taken_before(&self, event: u64) -> &[Taken] {
        self.taken.get(&event).map_or(&[], Vec::as_slice)
    }

    /// Returns how many blocks reached a CPU list later than they were reported free, or left it earlier than
    /// they were reported allocated.
    #[must_use]
    pub fn delayed(&self) -> u64 {
        let taken = self.taken.values().flatten().filter(|taken| taken.sure).count();
        self.freed_delayed + taken as u64
    }

    /// Returns the pages of a batch that bypassed a CPU list before this event.
    #[must_use]
    pub fn bypassed_before(&self, event: u64) -> &[(Pfn, Order)] {
        self.bypassed.get(&event).map_or(&[], Vec::as_slice)
    }

    /// Returns when pages left the free lists without an event, if isolation is not recorded.
    #[must_use]
    pub fn untraced(&self) -> &Untraced {
        &self.untraced
    }

    /// Returns when pages left CPU lists without an event.
    #[must_use]
    pub fn untraced_listed(&self) -> &Untraced {
        &self.untraced_listed
    }

    /// Returns the node whose kswapd stopped reclaiming after this event.
    #[must_use]
    pub fn reclaim_end(&self, event: u64) -> Option<u8> {
        self.reclaim_ends.get(&event).copied()
    }

    /// Returns a frame of the pageblock that the allocation of this event added to the highatomic reserve.
    #[must_use]
    pub fn reserve(&self, event: u64) -> Option<Pfn> {
        self.reserves.get(&event).copied()
    }

    /// Returns whether the block that the allocation of this event adds to a file is used again.
    #[must_use]
    pub fn is_reused(&self, event: u64) -> bool {
        self.reused.binary_search(&event).is_ok()
    }

    /// Returns when the limits of CPU lists decay.
    #[must_use]
    pub fn ticks(&self) -> &Ticks {
        &self.ticks
    }

    /// Notes a page of a batch that bypasses its CPU list.
    pub(super) fn bypass(&mut self, pfn: Pfn, doubt: PossibleBypass) {
        self.set(doubt.freed, Destination::Batched);
        self.bypassed.entry(doubt.before).or_default().push((pfn, doubt.order));
    }

    pub(crate) fn set(&mut self, event: u64, destination: Destination) {
        let at = (event / 2) as usize;
        if at >= self.bits.len() {
            self.bits.resize(at + 1, 0);
        }
        let shift = event % 2 * 4;
        self.bits[at] = self.bits[at] & !(15 << shift) | destination.to_bits() << shift;
    }
}
