//! The map of this machine, a part at a time: reading what every frame is used for takes longer than a moment.

use std::ops::Range;
use std::time::Duration;

use pageblock_doctor::forecast::{FrameTable, KINDS, Kind, Movable, Rules, Run, Sink};
use pageblock_measure::value::history::{Cell, Content};
use rustix::time::{ClockId, clock_gettime};

use crate::error::Error;

/// The pageblocks that are read at a time.
const CHUNK: u64 = 32;

/// The frames of a zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Span {
    /// The first frame, and the one after the last.
    pub(super) frames: (u64, u64),
    /// The number of its first pageblock in physical memory.
    pub(super) first: u64,
    /// The number of its pageblocks.
    pub(super) blocks: u64,
}

/// What every pageblock is, as it was last read.
pub(super) struct Scan {
    table: FrameTable,
    spans: Vec<Span>,
    order: u8,
    rules: Rules,
    /// The frames of memory, where the machine says them: some kernels have words for holes that say nothing.
    memory: Vec<(u64, u64)>,
    /// The frames of each zone that can be uninitialised.
    later: Vec<Range<u64>>,
    /// Every pageblock of every zone.
    pub(super) cells: Vec<Option<Cell>>,
    /// Which of them only pages hold that may be free on per-CPU lists.
    pub(super) unsure: Vec<bool>,
    /// The next zone and the next pageblock in it.
    next: (usize, u64),
    /// How often everything was read, and when that was last finished, in milliseconds.
    pub(super) laps: u64,
    lap_began_ms: u64,
    /// How long the last lap took, in milliseconds.
    pub(super) lap_ms: u64,
}

impl Scan {
    pub(super) fn new(
        table: FrameTable,
        spans: Vec<Span>,
        order: u8,
        rules: Rules,
        memory: Vec<(u64, u64)>,
    ) -> Self {
        let blocks = spans.iter().map(|span| span.blocks as usize).sum();
        Self {
            table,
            spans,
            order,
            rules,
            memory,
            later: Vec::new(),
            cells: vec![None; blocks],
            unsure: vec![false; blocks],
            next: (0, 0),
            laps: 0,
            lap_began_ms: 0,
            lap_ms: 0,
        }
    }

    /// Sets the frames of each zone that can be uninitialised; none where all memory is the zones'.
    pub(super) fn set_later(&mut self, later: Vec<Range<u64>>) {
        self.later = later;
    }

    /// Returns the share of pageblocks that this lap has read, in percent.
    pub(super) fn percent(&self) -> u64 {
        let before: u64 = self.spans[..self.next.0].iter().map(|span| span.blocks).sum();
        (before + self.next.1) * 100 / (self.cells.len() as u64).max(1)
    }

    /// Reads on where it ended before, until so much of a CPU's time is used up or everything was read.
    pub(super) fn go_on(&mut self, budget: Duration, now_ms: u64) -> Result<(), Error> {
        let end = cpu_time() + budget;
        let laps = self.laps;
        while laps == self.laps && !self.cells.is_empty() {
            let (zone, from) = self.next;
            let span = self.spans[zone];
            let to = (from + CHUNK).min(span.blocks);
            self.read(zone, from, to)?;
            self.next = (zone, to);
            if to == span.blocks {
                self.next = ((zone + 1) % self.spans.len(), 0);
                if self.next.0 == 0 {
                    self.laps += 1;
                    self.lap_ms = now_ms.saturating_sub(self.lap_began_ms);
                    self.lap_began_ms = now_ms;
                }
            }
            if cpu_time() >= end {
                break;
            }
        }
        Ok(())
    }

    /// Reads the pageblock that has a number in physical memory.
    pub(super) fn read_number(&mut self, number: u64) -> Result<(), Error> {
        let holds = |span: &Span| (span.first..span.first + span.blocks).contains(&number);
        let Some(zone) = self.spans.iter().position(holds) else { return Ok(()) };
        let block = number - self.spans[zone].first;
        self.read(zone, block, block + 1)
    }

    fn read(&mut self, zone: usize, from: u64, to: u64) -> Result<(), Error> {
        let counted = self.count(zone, from, to)?;
        let before: usize = self.spans[..zone].iter().map(|span| span.blocks as usize).sum();
        let pages = 1 << self.order;
        for (kinds, at) in counted.iter().zip(before + from as usize..) {
            let cell = cell(kinds, pages, self.rules);
            let unknown = kinds[Kind::KernelOrFree as usize];
            self.unsure[at] = unknown > 0 && u32::from(cell.stuck) == unknown;
            self.cells[at] = Some(cell);
        }
        Ok(())
    }

    /// Counts what the frames of pageblocks of a zone are used for.
    pub(super) fn count(
        &mut self,
        zone: usize,
        from: u64,
        to: u64,
    ) -> Result<Vec<[u32; KINDS]>, Error> {
        let span = self.spans[zone];
        let pages = 1_u64 << self.order;
        let first = (span.first + from) << self.order;
        let begin = first.max(span.frames.0);
        let end = ((span.first + to) << self.order).min(span.frames.1);
        let mut sink = Counter { pages, filled: 0, kinds: Vec::new() };
        sink.add(Kind::Hole, begin - first);
        self.table.read((begin, end), pages, &mut sink)?;
        sink.kinds.resize(((to - from) as usize).max(sink.kinds.len()), [0; KINDS]);
        sink.kinds.truncate((to - from) as usize);
        for (kinds, block) in sink.kinds.iter_mut().zip(span.first + from..) {
            let frames = (block << self.order, (block + 1) << self.order);
            let holds = |memory: &(u64, u64)| memory.0 < frames.1 && frames.0 < memory.1;
            let later = self.later.get(zone);
            let is_later = later.is_some_and(|l| l.start <= frames.0 && frames.1 <= l.end)
                && u64::from(kinds[Kind::KernelOrFree as usize]) == pages;
            if is_later || (!self.memory.is_empty() && !self.memory.iter().any(holds)) {
                kinds[Kind::Hole as usize] +=
                    std::mem::take(&mut kinds[Kind::KernelOrFree as usize]);
            }
            // What the file does not have is a hole too.
            let counted: u32 = kinds.iter().sum();
            kinds[Kind::Hole as usize] += (pages as u32).saturating_sub(counted);
        }
        Ok(sink.kinds)
    }
}

/// Counts the frames of each pageblock by kind.
struct Counter {
    pages: u64,
    filled: u64,
    kinds: Vec<[u32; KINDS]>,
}

impl Counter {
    fn add(&mut self, kind: Kind, mut frames: u64) {
        while frames > 0 {
            if self.filled == 0 {
                self.kinds.push([0; KINDS]);
            }
            let now = frames.min(self.pages - self.filled);
            if let Some(last) = self.kinds.last_mut() {
                last[kind as usize] += now as u32;
            }
            self.filled = (self.filled + now) % self.pages;
            frames -= now;
        }
    }
}

impl Sink for Counter {
    fn push(&mut self, run: Run) {
        self.add(run.kind, run.frames);
    }
}

/// Returns a pageblock from the use of its frames. Which of the kernel's pages can be reclaimed, and the block's type, are not
/// known.
pub(super) fn cell(kinds: &[u32; KINDS], pages: u64, rules: Rules) -> Cell {
    let (mut moved, mut fixed, mut reserved) = (0, 0, 0);
    for kind in Kind::ALL {
        let count = kinds[kind as usize];
        match (kind, kind.movable(rules)) {
            (Kind::Reserved | Kind::Offline | Kind::Poison, _) => reserved += count,
            (Kind::Hole, _) | (_, Movable::Free) => {}
            (_, Movable::Yes | Movable::Maybe) => moved += count,
            (_, Movable::Unknown | Movable::No) => fixed += count,
        }
    }
    let free = kinds[Kind::Free as usize];
    let content = match (moved > 0, fixed > 0) {
        (true, false) => Content::Movable,
        (false, true) => Content::Unmovable,
        (true, true) => Content::Mixed,
        (false, false) if free > 0 => Content::Free,
        (false, false) if reserved > 0 => Content::Reserved,
        (false, false) => Content::Hole,
    };
    Cell {
        migratetype: 0,
        content,
        free_eighths: (u64::from(free) * 8 / pages) as u8,
        foreign: false,
        stuck: u16::try_from(fixed + reserved).unwrap_or(u16::MAX),
    }
}

/// Returns the time of a CPU that this thread used.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_become_pageblocks() {
        let mut counter = Counter { pages: 8, filled: 0, kinds: Vec::new() };
        for (kind, frames) in [(Kind::Hole, 4), (Kind::Free, 4), (Kind::Anon, 15), (Kind::Slab, 1)]
        {
            counter.push(Run { kind, frames, dropped: false });
        }
        let cells: Vec<Cell> =
            counter.kinds.iter().map(|kinds| cell(kinds, 8, Rules::default())).collect();
        let contents: Vec<Content> = cells.iter().map(|cell| cell.content).collect();
        assert_eq!(contents, [Content::Free, Content::Movable, Content::Mixed]);
        assert_eq!((cells[0].free_eighths, cells[2].stuck), (4, 1));
    }
}
