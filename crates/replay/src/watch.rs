//! Counts the events of a replay, and records when fallbacks happen.

use pageblock::event::{Event, Observer};
use pageblock::frame::Order;
use pageblock_measure::certificate::Course;
use pageblock_measure::{ExtfragKey, Tally};

/// The events of a replay so far.
pub struct Watch {
    /// Their counts.
    pub tally: Tally,
    /// When fragmenting fallbacks happened; `None` before the first demand.
    pub fallbacks: Option<Course>,
    pageblock_order: Order,
    now_ms: u32,
}

impl Watch {
    /// Returns an empty watch for pageblocks of this order.
    #[must_use]
    pub fn new(pageblock_order: Order) -> Self {
        Self { tally: Tally::new(), fallbacks: None, pageblock_order, now_ms: 0 }
    }

    /// Notes the time of the next demand, in milliseconds.
    #[inline]
    pub fn at(&mut self, t_ms: u32) {
        self.now_ms = t_ms;
        if self.fallbacks.is_none() {
            self.fallbacks = Some(Course::starting(t_ms.into()));
        }
    }
}

impl Observer for Watch {
    #[inline]
    fn event(&mut self, event: Event) {
        if let Event::Extfrag(extfrag) = &event
            && ExtfragKey::from(extfrag).fragmenting(self.pageblock_order)
            && let Some(fallbacks) = &mut self.fallbacks
        {
            fallbacks.push(self.now_ms.into());
        }
        self.tally.event(event);
    }
}
