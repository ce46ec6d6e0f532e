//! Finds the positions of the snapshots in the event stream.
//!
//! A snapshot is taken between two markers, `S1` and `S2` (`E1` and `E2` at the end), while events may still
//! occur. An exact snapshot is the state at one point of that window. Each event of the window implies the
//! states of its pages before and after it; each touched page votes for the points at which the snapshot agrees
//! with these states. A snapshot gathered from `/proc` has no such point; the events of its window are excluded
//! from the replay.

use std::collections::HashMap;
use std::ops::Range;

use pageblock::frame::{Order, Pfn, pages};

use crate::record::event::{Record, What};
use crate::state::recording::Recording;
use crate::state::snapshot::Snapshot;

/// The positions of the snapshots in the event stream. Events are counted from 0, including markers and other
/// events.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Windows {
    /// The position of the start snapshot.
    pub start: Window,
    /// The position of the end snapshot; `None` if the recording has none.
    pub end: Option<Window>,
    /// The total number of events.
    pub events: u64,
}

/// The position of one snapshot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Window {
    /// The index of the first event after the snapshot. For a snapshot that is not exact: of the first event
    /// that can be replayed (start), or of the first that cannot (end).
    pub event: u64,
    /// The indexes of the two markers; equal and meaningless if the markers are missing.
    pub markers: Range<u64>,
    /// The number of pages that agree with the events at this point.
    pub votes: u64,
    /// The number of pages that the events of the window touch.
    pub voters: u64,
}

impl Windows {
    /// Returns the index of the first event after the start snapshot.
    #[must_use]
    pub fn start_event(&self) -> u64 {
        self.start.event
    }

    /// Returns the index of the first event after the end snapshot, or the end of the stream if there is no end
    /// snapshot.
    #[must_use]
    pub fn end_event(&self) -> u64 {
        self.end.as_ref().map_or(self.events, |window| window.event)
    }
}

/// Finds the positions of the snapshots in a stream that is pushed through it.
pub struct WindowFinder {
    events: u64,
    start: Poll,
    end: Option<Poll>,
}

impl WindowFinder {
    /// Makes a finder for the snapshots of a recording.
    #[must_use]
    pub fn new(recording: &Recording) -> Self {
        let end = recording.end.as_ref();
        Self {
            events: 0,
            start: Poll::new(&recording.start, ["S1", "S2"], Side::After),
            end: end.map(|end| Poll::new(end, ["E1", "E2"], Side::Before)),
        }
    }

    /// Takes the next event of the stream.
    #[inline]
    pub fn push(&mut self, record: &Record) {
        self.start.push(self.events, &record.what);
        if let Some(end) = &mut self.end {
            end.push(self.events, &record.what);
        }
        self.events += 1;
    }

    /// Returns the positions, after the last event.
    #[must_use]
    pub fn finish(self) -> Windows {
        let events = self.events;
        Windows { start: self.start.finish(0), end: self.end.map(|end| end.finish(events)), events }
    }
}

/// The end of the window that is used as the position of a snapshot that is not exact.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Before,
    After,
}

/// A set of states that a page may be in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct States(u8);

impl States {
    const BUDDY: Self = Self(1);
    const PCP: Self = Self(2);
    const USED: Self = Self(4);
    const ANY: Self = Self(7);

    const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// The states before and after an event that it implies for the pages of a block.
struct Implied {
    pfn: Pfn,
    order: Order,
    before: States,
    after: States,
}

fn implied(what: &What) -> Option<Implied> {
    let (pfn, order, before, after) = match *what {
        // A block that was allocated directly from the buddy lists is on no list between the two events.
        What::Alloc { pfn: Some(pfn), order, .. } => {
            (pfn, order, States::PCP.or(States::USED), States::USED)
        }
        What::Free { pfn, order } => (pfn, order, States::USED, States::PCP.or(States::BUDDY)),
        What::ZoneLocked { pfn, order, refill, .. } => {
            (pfn, order, States::BUDDY, if refill { States::PCP } else { States::USED })
        }
        What::Drain { pfn, order, .. } => (pfn, order, States::PCP, States::BUDDY),
        What::Extfrag(x) => (x.pfn, x.alloc_order, States::BUDDY, States::ANY),
        What::Isolate { pfn, order, ret: 1.. } => (pfn, order, States::BUDDY, States::USED),
        _ => return None,
    };
    Some(Implied { pfn, order, before, after })
}

/// The vote on the position in one window.
struct Poll {
    markers: [&'static str; 2],
    side: Side,
    exact: bool,
    state: PageStates,
    opened: Option<u64>,
    closed: Option<u64>,
    /// For each touched page: the first point after its last event, and its possible states since.
    pages: HashMap<u64, (u64, States)>,
    /// The change of the number of agreeing pages from each point to the next.
    changes: Vec<i64>,
}

impl Poll {
    fn new(snapshot: &Snapshot, markers: [&'static str; 2], side: Side) -> Self {
        Self {
            markers,
            side,
            exact: snapshot.exact,
            state: PageStates::new(snapshot),
            opened: None,
            closed: None,
            pages: HashMap::new(),
            changes: Vec::new(),
        }
    }

    #[inline]
    fn push(&mut self, index: u64, what: &What) {
        if let What::Marker(name) = what {
            self.mark(index, name);
        } else if let (Some(opened), None) = (self.opened, self.closed) {
            self.vote(index - opened - 1, what);
        }
    }

    fn mark(&mut self, index: u64, name: &str) {
        if name == self.markers[0] && self.opened.is_none() {
            self.opened = Some(index);
        } else if name == self.markers[1] && self.opened.is_some() && self.closed.is_none() {
            self.closed = Some(index);
        }
    }

    /// Takes the votes of event `n`'s pages; point `n` is before event `n` of the window.
    fn vote(&mut self, n: u64, what: &What) {
        let Some(Implied { pfn, order, before, after }) = implied(what) else { return };
        if !self.exact {
            return;
        }
        for page in pfn.0..pfn.0 + pages(order) {
            let (from, since) = match self.pages.get(&page) {
                Some(&known) => known,
                None if matches!(what, What::Alloc { .. }) => (0, States::PCP),
                None => (0, States::ANY),
            };
            self.agree(page, from, n, since.and(before));
            self.pages.insert(page, (n + 1, after));
        }
    }

    /// Adds the page's vote to the points `from` to `to` if the snapshot has it in one of the states.
    fn agree(&mut self, page: u64, from: u64, to: u64, states: States) {
        debug_assert!(from <= to, "a page votes for a point twice");
        if self.state.of(page).and(states).is_empty() {
            return;
        }
        let (from, to) = (from as usize, to as usize);
        if self.changes.len() < to + 2 {
            self.changes.resize(to + 2, 0);
        }
        self.changes[from] += 1;
        self.changes[to + 1] -= 1;
    }

    fn finish(mut self, without_markers: u64) -> Window {
        let (Some(opened), Some(closed)) = (self.opened, self.closed) else {
            let event = self.opened.unwrap_or(without_markers);
            return Window { event, markers: event..event, votes: 0, voters: 0 };
        };
        let markers = opened..closed;
        if !self.exact {
            let event = if self.side == Side::Before { opened } else { closed + 1 };
            return Window { event, markers, votes: 0, voters: 0 };
        }
        let last = closed - opened - 1;
        let touched: Vec<_> = self.pages.iter().map(|(&page, &since)| (page, since)).collect();
        for &(page, (from, states)) in &touched {
            self.agree(page, from, last, states);
        }
        let mut agreeing = 0;
        let mut best = (0, 0);
        for point in 0..=last {
            agreeing += self.changes.get(point as usize).copied().unwrap_or(0);
            if agreeing >= best.0 {
                best = (agreeing, point);
            }
        }
        let event = opened + 1 + best.1;
        Window { event, markers, votes: best.0 as u64, voters: touched.len() as u64 }
    }
}

/// The state of every page in a snapshot.
struct PageStates {
    /// First frame, end frame (exclusive), state; sorted.
    ranges: Vec<(u64, u64, States)>,
    /// The state of pages outside all ranges.
    otherwise: States,
}

impl PageStates {
    fn new(snapshot: &Snapshot) -> Self {
        let free = snapshot.free.iter().map(|b| (b.pfn.0, b.order, States::BUDDY));
        let pcp = snapshot.pcp.iter().map(|p| (p.pfn.0, p.order, States::PCP));
        let mut ranges: Vec<_> =
            free.chain(pcp).map(|(pfn, order, state)| (pfn, pfn + pages(order), state)).collect();
        ranges.sort_unstable_by_key(|&(start, ..)| start);
        let exact = snapshot.exact;
        let otherwise = if exact { States::USED } else { States::USED.or(States::PCP) };
        Self { ranges, otherwise }
    }

    fn of(&self, page: u64) -> States {
        let after = self.ranges.partition_point(|&(start, ..)| start <= page);
        match after.checked_sub(1).map(|at| self.ranges[at]) {
            Some((_, end, state)) if page < end => state,
            _ => self.otherwise,
        }
    }
}
