//! The age of pages when reclaim takes them, by zone: the measure of fairness between zones.
//!
//! A page's age counts from its allocation, or from its last activation.

use pageblock::event::Observer;

use super::table::PageTable;
use crate::vm::Vm;

/// The ages of pages: four bytes a page, kept on request only.
#[derive(Clone, Debug)]
pub(super) struct Ages {
    now_ms: u32,
    /// When each page was allocated or last activated.
    since_ms: Vec<u32>,
    taken: Vec<Taken>,
}

/// The pages that reclaim took from a zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Taken {
    /// Their number.
    pub pages: u64,
    /// The sum of their ages in milliseconds.
    pub age_ms: u64,
}

impl Taken {
    /// Returns the mean age in milliseconds; `None` without a page.
    #[must_use]
    pub const fn mean_ms(&self) -> Option<u64> {
        self.age_ms.checked_div(self.pages)
    }
}

impl PageTable {
    /// Starts the age of a page that was allocated or activated.
    pub(crate) fn note_young(&mut self, pfn: u32) {
        if let Some(ages) = &mut self.ages {
            ages.since_ms[pfn as usize] = ages.now_ms;
        }
    }

    /// Counts a block of `pages` pages that reclaim is about to free.
    pub(crate) fn note_reclaimed(&mut self, pfn: u32, pages: u64) {
        let zone = usize::from(self[pfn].zone);
        if let Some(ages) = &mut self.ages {
            let age = ages.now_ms.saturating_sub(ages.since_ms[pfn as usize]);
            let taken = &mut ages.taken[zone];
            taken.pages += pages;
            taken.age_ms += pages * u64::from(age);
        }
    }
}

impl<O: Observer> Vm<'_, O> {
    /// Starts to keep ages.
    pub fn keep_ages(&mut self) {
        let ages = Ages {
            now_ms: 0,
            since_ms: vec![0; self.pages.len()],
            taken: vec![Taken::default(); self.allocator.zones().len()],
        };
        self.pages.ages = Some(Box::new(ages));
    }

    /// Sets the clock of the ages of pages and generations to a time in milliseconds. Nothing else here has a clock.
    pub fn set_age_clock(&mut self, now_ms: u64) {
        self.pages.now_ms = now_ms;
        if let Some(ages) = &mut self.pages.ages {
            ages.now_ms = u32::try_from(now_ms).unwrap_or(u32::MAX);
        }
    }

    /// Returns what reclaim took from each zone since the last call, in the order of the allocator's zones;
    /// empty if no ages are kept.
    pub fn take_ages(&mut self) -> Vec<Taken> {
        let Some(ages) = &mut self.pages.ages else { return Vec::new() };
        let zones = ages.taken.len();
        std::mem::replace(&mut ages.taken, vec![Taken::default(); zones])
    }
}
