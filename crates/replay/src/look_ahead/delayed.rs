//! Reports that come late: a task can be interrupted between reporting that it frees a block and
//! putting it on its CPU's list, or between taking a block from a list and reporting it. The trace
//! point and the list's lock themselves end with a place where it may.
//!
//! Lists are stacks, so what other tasks did meanwhile tells: a block that was on the list is taken
//! before those under it, and given back after them.

use std::collections::BTreeMap;

use pageblock::frame::{Order, Pfn};
use pageblock::mobility::Migratetype;

/// Tasks that are watched while others run; the oldest are given up.
const MOST_ASIDE: usize = 24;

/// Frees that are doubtful after their task came back; the oldest are then taken to be prompt.
const MOST_DOUBTS: usize = 64;

/// Blocks that are watched for one task.
const MOST_ABOVE: usize = 128;

/// The event of a free, and its block.
type Freed = (u64, Pfn, Order);

/// A block that was freed while a task stood aside.
#[derive(Clone, Copy)]
struct Above {
    pfn: Pfn,
    order: Order,
    /// The type of its list, as far as known.
    mt: Option<Migratetype>,
}

/// A task that others run instead of, on the same CPU.
struct Aside {
    pid: u32,
    cpu: u16,
    /// The first event of the others.
    since: u64,
    /// The block that the task had freed just before: its event, frame and order.
    freed: Option<Freed>,
    /// The task that ran instead last.
    other: u32,
    /// Lists of this CPU that gave a block from below, by order and type.
    gave: Vec<(Order, Migratetype)>,
    /// Lists of this CPU that were empty.
    empty: Vec<(Order, Migratetype)>,
    above: Vec<Above>,
    /// Lists that gave some of the blocks above back to the zone.
    drained: Vec<(Order, Migratetype)>,
    /// Where the task ran next, once it has.
    resumed: Option<u16>,
}

impl Aside {
    /// Tells whether the block that the task had freed came to the list only afterwards, now that it
    /// left it.
    fn freed_delayed(
        &self,
        how: LeftBy,
        cpu: u16,
        list: (Order, Migratetype),
        delayed: &[Pfn],
    ) -> bool {
        let Some(resumed) = self.resumed else { return false };
        if self.gave.contains(&list) || self.empty.contains(&list) {
            return true;
        }
        match how {
            LeftBy::Taken => {
                (resumed != self.cpu && cpu == resumed) || self.has_above(list, delayed)
            }
            LeftBy::Drained => self.drained.contains(&list),
        }
    }

    /// Tells whether such blocks are on the list for sure. `delayed` are those whose own frees are
    /// doubtful.
    fn has_above(&self, (order, mt): (Order, Migratetype), delayed: &[Pfn]) -> bool {
        let on_list = |above: &&Above| (above.order, above.mt) == (order, Some(mt));
        self.above.iter().filter(on_list).any(|above| !delayed.contains(&above.pfn))
    }
}

/// How a block left its list.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum LeftBy {
    /// A request took it.
    Taken,
    /// It went back to the zone.
    Drained,
}

/// What an event that takes a block tells of events before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LateReport {
    /// The block's free, at this event, reached its list late.
    FreedLate(u64),
    /// The block was taken before this event.
    TakenBefore(u64),
    /// The block may have been taken before this event; the lists do not tell.
    MaybeTakenBefore(u64),
}

/// Finds the late reports among all.
#[derive(Default)]
pub(super) struct DelayedFinder {
    /// The task that each CPU last ran, and its event if that freed a block.
    last: BTreeMap<u16, (u32, Option<Freed>)>,
    aside: Vec<Aside>,
    doubts: Vec<Aside>,
    /// The task of this event, back after others, if it is.
    back: Option<Aside>,
    /// The type of each pageblock of the start snapshot, plus one; 0 where it is not known.
    types: Vec<u8>,
    pageblock_order: Order,
}

impl DelayedFinder {
    /// Creates a finder for the pageblocks below `end`.
    pub(super) fn new(end: Pfn, pageblock_order: Order) -> Self {
        let types = vec![0; (end.0 >> pageblock_order) as usize + 1];
        Self { types, pageblock_order, ..Self::default() }
    }

    /// Sets the type of a frame's pageblock: the list that its pages are freed to. A frame outside the start
    /// snapshot, which only damage can name, has none.
    pub(super) fn block_type(&mut self, pfn: Pfn, mt: Migratetype) {
        if let Some(slot) = self.types.get_mut((pfn.0 >> self.pageblock_order) as usize) {
            *slot = mt as u8 + 1;
        }
    }

    /// Sets the type of all pageblocks of a block, or of the one that it lies in.
    pub(super) fn range_type(&mut self, pfn: Pfn, order: Order, mt: Migratetype) {
        for block in 0..1u64 << order.saturating_sub(self.pageblock_order) {
            self.block_type(Pfn(pfn.0 + (block << self.pageblock_order)), mt);
        }
    }

    /// Follows any event, before its kind is looked at.
    pub(super) fn event(&mut self, event: u64, cpu: u16, pid: u32) {
        self.keep_doubt();
        let last = self.last.insert(cpu, (pid, None));
        if let Some((by, freed)) = last.filter(|&(by, _)| by != pid) {
            self.set_aside(event, cpu, by, pid, freed);
        }
        if let Some(place) = self.aside.iter().position(|aside| aside.pid == pid) {
            let mut back = self.aside.remove(place);
            back.resumed = Some(cpu);
            self.back = Some(back);
        }
    }

    fn keep_doubt(&mut self) {
        if let Some(back) = self.back.take()
            && back.freed.is_some()
        {
            if self.doubts.len() == MOST_DOUBTS {
                self.doubts.remove(0);
            }
            self.doubts.push(back);
        }
    }

    fn set_aside(&mut self, since: u64, cpu: u16, pid: u32, other: u32, freed: Option<Freed>) {
        self.aside.retain(|aside| aside.pid != pid);
        if self.aside.len() == MOST_ASIDE {
            self.aside.remove(0);
        }
        self.aside.push(Aside {
            pid,
            cpu,
            since,
            freed,
            other,
            gave: Vec::new(),
            empty: Vec::new(),
            above: Vec::new(),
            drained: Vec::new(),
            resumed: None,
        });
    }

    /// Returns the type of a frame's pageblock, as far as known.
    pub(super) fn type_of(&self, pfn: Pfn) -> Option<Migratetype> {
        let block = (pfn.0 >> self.pageblock_order) as usize;
        let place = self.types.get(block).copied().unwrap_or(0);
        usize::from(place).checked_sub(1).and_then(|t| Migratetype::ALL.get(t)).copied()
    }

    /// Follows a free of a block, perhaps in a batch.
    pub(super) fn free(&mut self, event: u64, cpu: u16, pfn: Pfn, order: Order) {
        self.forget(pfn);
        self.last.entry(cpu).or_default().1 = Some((event, pfn, order));
        self.on_top(cpu, pfn, order);
    }

    /// Notes a block that reaches a CPU's list.
    pub(super) fn on_top(&mut self, cpu: u16, pfn: Pfn, order: Order) {
        let mt = self.type_of(pfn);
        for aside in self.aside.iter_mut().filter(|aside| aside.cpu == cpu) {
            if aside.above.len() < MOST_ABOVE && aside.above.iter().all(|a| a.pfn != pfn) {
                aside.above.push(Above { pfn, order, mt });
            }
        }
    }

    /// Follows the end of a batch: the block reaches the list now.
    pub(super) fn batched(&mut self, cpu: u16, pfn: Pfn) {
        self.forget(pfn);
        self.on_top(cpu, pfn, 0);
    }

    /// Forgets what was known of a block.
    fn forget(&mut self, pfn: Pfn) {
        self.doubts.retain(|d| d.freed.is_none_or(|(_, freed, _)| freed != pfn));
        for aside in self.aside.iter_mut().chain(&mut self.back) {
            if aside.freed.is_some_and(|(_, freed, _)| freed == pfn) {
                aside.freed = None;
            }
            aside.above.retain(|above| above.pfn != pfn);
        }
    }

    /// Follows the refill of a list: it was empty.
    pub(super) fn refilled(&mut self, cpu: u16, pid: u32, pfn: Pfn, order: Order, mt: Migratetype) {
        self.forget(pfn);
        let list = (order, mt);
        for aside in self.aside.iter_mut().filter(|aside| aside.cpu == cpu) {
            // What a task does first it may have begun before.
            if std::mem::replace(&mut aside.other, pid) == pid && !aside.empty.contains(&list) {
                aside.empty.push(list);
            }
            // These are behind what was on the list, but on it.
            if aside.above.len() < MOST_ABOVE {
                aside.above.push(Above { pfn, order, mt: None });
            }
        }
    }

    /// Follows a block that left a list; returns what that tells of earlier events.
    pub(super) fn left(
        &mut self,
        how: LeftBy,
        cpu: u16,
        pid: u32,
        pfn: Pfn,
        list: (Order, Migratetype),
    ) -> Option<LateReport> {
        let of_block = |d: &Aside| d.freed.is_some_and(|(_, f, o)| (f, o) == (pfn, list.0));
        let doubt = self.doubts.iter().position(of_block).map(|place| self.doubts.remove(place));
        self.note_left(how, cpu, pid, pfn, list);
        let delayed: Vec<Pfn> = self.aside.iter().filter_map(|a| Some(a.freed?.1)).collect();
        if let Some((free, ..)) =
            doubt.filter(|d| d.freed_delayed(how, cpu, list, &delayed)).and_then(|d| d.freed)
        {
            return Some(LateReport::FreedLate(free));
        }
        let back = self.back.as_ref().filter(|back| how == LeftBy::Taken && back.cpu == cpu)?;
        let above = back.above.iter().any(|above| above.pfn == pfn);
        if above {
            return None;
        }
        let before = back.has_above(list, &delayed) || back.empty.contains(&list);
        let finding = if before { LateReport::TakenBefore } else { LateReport::MaybeTakenBefore };
        Some(finding(back.since))
    }

    fn note_left(&mut self, how: LeftBy, cpu: u16, pid: u32, pfn: Pfn, list: (Order, Migratetype)) {
        for aside in self.aside.iter_mut().chain(&mut self.doubts) {
            let above = aside.above.iter().position(|above| above.pfn == pfn);
            if let Some(above) = above {
                aside.above.remove(above);
                if how == LeftBy::Drained {
                    aside.drained.push(list);
                }
            }
            if aside.resumed.is_none() && aside.cpu == cpu {
                let known = std::mem::replace(&mut aside.other, pid) == pid;
                let below = how == LeftBy::Taken && known && above.is_none();
                if below && !aside.gave.contains(&list) {
                    aside.gave.push(list);
                }
                if aside.freed.is_some_and(|(_, freed, _)| freed == pfn) {
                    aside.freed = None;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Migratetype::Unmovable;

    const BLOCK: Pfn = Pfn(10);
    const OTHER: Pfn = Pfn(20);
    const LIST: (Order, Migratetype) = (0, Unmovable);

    fn finder() -> DelayedFinder {
        let mut finder = DelayedFinder::new(OTHER, 9);
        finder.block_type(BLOCK, Unmovable);
        finder
    }

    fn free(finder: &mut DelayedFinder, event: u64, pid: u32, pfn: Pfn) {
        finder.event(event, 0, pid);
        finder.free(event, 0, pfn, 0);
    }

    fn leave(
        finder: &mut DelayedFinder,
        event: u64,
        how: LeftBy,
        pid: u32,
        pfn: Pfn,
    ) -> Option<LateReport> {
        finder.event(event, 0, pid);
        finder.left(how, 0, pid, pfn, LIST)
    }

    /// One frame number must not decide how much memory is taken.
    #[test]
    fn frames_that_the_machine_lacks_have_no_type() {
        let mut finder = finder();
        finder.range_type(Pfn((1 << 52) - 1), 10, Unmovable);
        assert_eq!(finder.type_of(Pfn((1 << 52) - 1)), None);
        assert_eq!((finder.type_of(BLOCK), finder.types.len()), (Some(Unmovable), 1));
    }

    #[test]
    fn a_block_taken_before_a_later_one_was_freed_late() {
        let mut finder = finder();
        free(&mut finder, 1, 7, BLOCK);
        free(&mut finder, 2, 8, OTHER);
        finder.event(3, 0, 8);
        finder.event(4, 0, 7);
        let found = leave(&mut finder, 5, LeftBy::Taken, 7, BLOCK);
        assert_eq!(found, Some(LateReport::FreedLate(1)));
    }

    #[test]
    fn a_block_given_back_before_an_earlier_one_was_freed_in_time() {
        let mut finder = finder();
        free(&mut finder, 1, 7, BLOCK);
        free(&mut finder, 2, 8, OTHER);
        finder.event(3, 0, 7);
        assert_eq!(leave(&mut finder, 4, LeftBy::Drained, 7, BLOCK), None);
    }

    #[test]
    fn a_block_given_back_after_a_later_one_was_freed_late() {
        let mut finder = finder();
        free(&mut finder, 1, 7, BLOCK);
        free(&mut finder, 2, 8, OTHER);
        finder.event(3, 0, 7);
        assert_eq!(leave(&mut finder, 4, LeftBy::Drained, 7, OTHER), None);
        let found = leave(&mut finder, 5, LeftBy::Drained, 7, BLOCK);
        assert_eq!(found, Some(LateReport::FreedLate(1)));
    }

    #[test]
    fn a_block_from_below_a_later_one_was_taken_before() {
        let mut finder = finder();
        finder.event(1, 0, 7);
        free(&mut finder, 2, 8, OTHER);
        finder.event(3, 0, 8);
        let found = leave(&mut finder, 4, LeftBy::Taken, 7, BLOCK);
        assert_eq!(found, Some(LateReport::TakenBefore(2)));
    }

    #[test]
    fn a_doubtful_free_tells_nothing_of_others() {
        let mut finder = finder();
        finder.event(1, 0, 7);
        free(&mut finder, 2, 8, OTHER);
        let found = leave(&mut finder, 3, LeftBy::Taken, 7, BLOCK);
        assert_eq!(found, Some(LateReport::MaybeTakenBefore(2)));
    }
}
