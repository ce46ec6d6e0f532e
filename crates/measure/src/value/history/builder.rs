//! A history as it is made.

use std::collections::BTreeMap;
use std::ops::Range;

use pageblock::alloc::Allocator;
use pageblock::event::Extfrag;
use pageblock::frame::Pfn;
use pageblock::mobility::Migratetype;
use pageblock::zone::Zone;

use super::cell::{Cell, Content};
use super::counters::is_kept;
use super::fallbacks::Fallbacks;
use super::planes::Planes;
use super::{History, ZoneHistory};

/// The samples of a history, where a machine has no more than [`CELLS`] / [`SAMPLES`] pageblocks.
const SAMPLES: usize = 96;
/// The most cells of a history: what a browser holds.
const CELLS: usize = 16 << 20;
/// The fewest samples, whatever the machine's size.
const SAMPLES_MIN: usize = 8;

/// Makes a history of one allocator.
pub struct HistoryBuilder {
    history: History,
    planes: Planes,
    /// Every pageblock at the last sample.
    cells: Vec<Cell>,
    fallbacks: Fallbacks,
    fallbacks_seen: u64,
    first: Option<BTreeMap<String, u64>>,
    /// Frames that are no memory as long as all of a pageblock of them looks like the kernel's.
    later: Vec<Range<u64>>,
}

impl HistoryBuilder {
    /// Creates a history without samples.
    #[must_use]
    pub fn new(allocator: &Allocator<'_>) -> Self {
        let order = allocator.geometry().pageblock_order;
        let zone = |zone: &Zone<'_>| {
            let span = zone.span();
            let (start, end) = (span.start.align_down(order).0, span.end.align_up(order).0);
            ZoneHistory {
                node: zone.node().0,
                zone: zone.kind().name().to_owned(),
                start,
                blocks: if span.start == span.end { 0 } else { (end - start) >> order },
                free: vec![Vec::new(); usize::from(zone.geometry().max_order) + 1],
                ..ZoneHistory::default()
            }
        };
        let history = History {
            layout: History::LAYOUT,
            pageblock_order: order,
            types: Migratetype::ALL.map(|mt| mt.name().to_owned()).to_vec(),
            contents: Content::ALL.map(|content| content.name().to_owned()).to_vec(),
            zones: allocator.zones().iter().map(zone).collect(),
            ..History::default()
        };
        let blocks = history.blocks();
        Self {
            history,
            planes: Planes::new(blocks),
            cells: vec![Cell::default(); blocks],
            fallbacks: Fallbacks::default(),
            fallbacks_seen: 0,
            first: None,
            later: Vec::new(),
        }
    }

    /// Returns how many samples a history of this machine should have.
    #[must_use]
    pub fn samples(&self) -> usize {
        (CELLS / self.cells.len().max(1)).clamp(SAMPLES_MIN, SAMPLES)
    }

    /// Makes frames that are not initialised yet holes: whole pageblocks of them, if no page there moves or is free.
    pub fn leave_out(&mut self, frames: Range<u64>) {
        self.later.push(frames);
    }

    /// Adds a note for readers.
    pub fn note(&mut self, note: String) {
        self.history.notes.push(note);
    }

    /// Counts a fallback by who asked for memory.
    pub fn fallback(&mut self, fallback: &Extfrag, command: &str, site: Option<&str>) {
        self.fallbacks_seen += 1;
        self.fallbacks.push(fallback, self.block(fallback.pfn), command, site);
    }

    /// Returns the number of the pageblock that holds a frame.
    fn block(&self, pfn: Pfn) -> Option<usize> {
        let order = self.history.pageblock_order;
        let mut before = 0;
        for zone in &self.history.zones {
            let at = pfn.0.checked_sub(zone.start).map(|from| from >> order);
            if let Some(at) = at.filter(|&at| at < zone.blocks) {
                return Some((before + at) as usize);
            }
            before += zone.blocks;
        }
        None
    }

    /// Takes a sample at a time of the machine. `requested` returns the type that the pages at a frame were requested
    /// as, of those that the allocator does not know as movable; it gets their pageblock's type. `counters` are counts
    /// since a common beginning.
    pub fn sample<'n>(
        &mut self,
        time_us: u64,
        allocator: &Allocator<'_>,
        mut requested: impl FnMut(Pfn, Migratetype) -> Migratetype,
        counters: impl IntoIterator<Item = (&'n str, u64)>,
    ) {
        let before = self.history.samples();
        let order = self.history.pageblock_order;
        let mut at = 0;
        for (zone, of) in allocator.zones().iter().zip(&mut self.history.zones) {
            for block in 0..of.blocks {
                let first = of.start + (block << order);
                let mut cell = Cell::of(zone, Pfn(first), &mut requested);
                let end = first + (1 << order);
                let is_later = |frames: &Range<u64>| frames.start <= first && end <= frames.end;
                let is_kernel = cell.content == Content::Unmovable;
                if is_kernel
                    && u64::from(cell.stuck) == end - first
                    && self.later.iter().any(is_later)
                {
                    cell = Cell { migratetype: cell.migratetype, ..Cell::default() };
                }
                if cell.stuck == 0 {
                    self.fallbacks.recovered(at);
                }
                self.cells[at] = cell;
                at += 1;
            }
            let marks = zone.watermarks();
            of.managed = zone.managed();
            of.watermarks = [marks.min, marks.low, marks.high];
            of.boost.push(zone.boost());
            for (order, free) in (0..).zip(&mut of.free) {
                free.push(zone.nr_free(order));
            }
        }
        self.planes.push(&self.cells);
        self.history.times_us.push(time_us);
        self.history.fallbacks_until.push(self.fallbacks_seen);
        self.count(before, counters);
    }

    /// Appends the counters of a sample; one that was not there before was 0.
    fn count<'n>(&mut self, before: usize, counters: impl IntoIterator<Item = (&'n str, u64)>) {
        let is_first = self.first.is_none();
        let first = self.first.get_or_insert_default();
        for (name, count) in counters.into_iter().filter(|(name, _)| is_kept(name)) {
            if is_first {
                first.insert(name.to_owned(), count);
            }
            let since = count.saturating_sub(first.get(name).copied().unwrap_or(0));
            match self.history.counters.get_mut(name) {
                Some(list) => list.push(since),
                None => {
                    let mut list = vec![0; before];
                    list.push(since);
                    self.history.counters.insert(name.to_owned(), list);
                }
            }
        }
        for list in self.history.counters.values_mut() {
            list.resize(before + 1, list.last().copied().unwrap_or(0));
        }
    }

    /// Returns the history. Counters that never changed are left out.
    #[must_use]
    pub fn finish(self) -> History {
        let mut history = self.history;
        history.counters.retain(|_, counts| counts.iter().any(|&count| count > 0));
        (history.fallbacks, history.takers) = self.fallbacks.finish(&self.cells);
        history.cells = self.planes.finish();
        history
    }
}
