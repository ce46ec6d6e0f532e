//! Puts demands in the order in which the kernel served them: a report may come later, after others.

use std::collections::VecDeque;

use super::Timed;

/// At most this many demands wait for one that is still to be reported.
const MOST: usize = 4096;

/// A place reserved for a demand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place(u64);

enum Slot {
    Ready(Timed),
    Kept,
    Empty,
}

/// Demands in order, with places reserved for some.
#[derive(Default)]
pub(super) struct Queue {
    slots: VecDeque<Slot>,
    /// The number of the first demand.
    first: u64,
}

impl Queue {
    /// Adds a demand that was served now.
    pub(super) fn push(&mut self, timed: Timed) {
        self.slots.push_back(Slot::Ready(timed));
    }

    /// Reserves a place for a demand that is served now and reported later.
    pub(super) fn keep_place(&mut self) -> Place {
        self.slots.push_back(Slot::Kept);
        Place(self.first + self.slots.len() as u64 - 1)
    }

    /// Adds the demand for which a place was reserved; at the end, if it took too long.
    pub(super) fn fill(&mut self, place: Place, timed: Timed) {
        match self.slot(place) {
            Some(slot) => {
                debug_assert!(matches!(slot, Slot::Kept), "no demand is awaited here");
                *slot = Slot::Ready(timed);
            }
            None => self.push(timed),
        }
    }

    /// Gives up a reserved place: there is no such demand.
    pub(super) fn give_up(&mut self, place: Place) {
        if let Some(slot) = self.slot(place) {
            debug_assert!(matches!(slot, Slot::Kept), "no demand is awaited here");
            *slot = Slot::Empty;
        }
    }

    fn slot(&mut self, place: Place) -> Option<&mut Slot> {
        let at = usize::try_from(place.0.checked_sub(self.first)?).ok()?;
        debug_assert!(at < self.slots.len(), "{place:?} was not reserved");
        self.slots.get_mut(at)
    }

    /// Appends the demands before the first reserved place to `out`; with `all`, every demand.
    pub(super) fn take(&mut self, all: bool, out: &mut Vec<Timed>) {
        while let Some(slot) = self.slots.front() {
            if matches!(slot, Slot::Kept) && !all && self.slots.len() <= MOST {
                return;
            }
            if let Some(Slot::Ready(timed)) = self.slots.pop_front() {
                out.push(timed);
            }
            self.first += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demand::Demand;

    fn tick(t_ms: u32) -> Timed {
        Timed { t_ms, cpu: 0, demand: Demand::Tick }
    }

    fn taken(queue: &mut Queue, all: bool) -> Vec<u32> {
        let mut out = Vec::new();
        queue.take(all, &mut out);
        out.iter().map(|timed| timed.t_ms).collect()
    }

    #[test]
    fn what_is_reported_late_stands_where_it_was_served() {
        let mut queue = Queue::default();
        queue.push(tick(1));
        let (late, none) = (queue.keep_place(), queue.keep_place());
        queue.push(tick(3));
        assert_eq!(taken(&mut queue, false), [1]);
        queue.give_up(none);
        queue.fill(late, tick(2));
        assert_eq!(taken(&mut queue, false), [2, 3]);
    }

    #[test]
    fn what_is_never_reported_holds_nothing_up_for_ever() {
        let mut queue = Queue::default();
        let place = queue.keep_place();
        (0..MOST as u32).for_each(|n| queue.push(tick(n)));
        assert_eq!(taken(&mut queue, false).len(), MOST);
        queue.fill(place, tick(7));
        queue.keep_place();
        assert_eq!(taken(&mut queue, true), [7]);
    }
}
