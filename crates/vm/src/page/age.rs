//! How old pages are when reclaim takes them, by zone: what fairness between zones is about.
//!
//! A page's age counts from its allocation, or from when it was last activated.

use pageblock::event::Observer;

use crate::vm::Vm;

/// The ages of pages. Kept where somebody asked for it only: four bytes a page.
#[derive(Clone, Debug)]
pub struct Ages {
    now_ms: u32,
    /// When each page was allocated or last activated.
    since_ms: Vec<u32>,
    taken: Vec<Taken>,
}

/// The pages that reclaim took from a zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Taken {
    /// How many.
    pub pages: u64,
    /// The sum of their ages in milliseconds.
    pub age_ms: u64,
}

impl Taken {
    /// The mean age in milliseconds; `None` without a page.
    #[must_use]
    pub const fn mean_ms(&self) -> Option<u64> {
        self.age_ms.checked_div(self.pages)
    }
}

impl<O: Observer> Vm<'_, O> {
    /// Keeps ages from here on.
    pub fn keep_ages(&mut self) {
        let ages = Ages {
            now_ms: 0,
            since_ms: vec![0; self.pages.len()],
            taken: vec![Taken::default(); self.node_of_zone.len()],
        };
        self.ages = Some(Box::new(ages));
    }

    /// Tells the time, in milliseconds; nothing else here has a clock.
    pub fn set_age_clock(&mut self, now_ms: u64) {
        if let Some(ages) = &mut self.ages {
            ages.now_ms = u32::try_from(now_ms).unwrap_or(u32::MAX);
        }
    }

    /// What reclaim took from each zone since the last call, in the order of the allocator's zones;
    /// empty where no ages are kept.
    pub fn take_ages(&mut self) -> Vec<Taken> {
        let Some(ages) = &mut self.ages else { return Vec::new() };
        let zones = ages.taken.len();
        std::mem::replace(&mut ages.taken, vec![Taken::default(); zones])
    }

    /// A page was allocated or activated.
    pub(crate) fn note_young(&mut self, pfn: u32) {
        if let Some(ages) = &mut self.ages {
            ages.since_ms[pfn as usize] = ages.now_ms;
        }
    }

    /// Reclaim frees a page.
    pub(crate) fn note_reclaimed(&mut self, pfn: u32, pages: u64) {
        let zone = usize::from(self.pages[pfn].zone);
        if let Some(ages) = &mut self.ages {
            let age = ages.now_ms.saturating_sub(ages.since_ms[pfn as usize]);
            let taken = &mut ages.taken[zone];
            taken.pages += pages;
            taken.age_ms += pages * u64::from(age);
        }
    }
}
