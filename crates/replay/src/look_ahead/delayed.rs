//! Late reports: a task can be interrupted between reporting that it frees a block and putting it on its CPU's
//! list, or between taking a block from a list and reporting it. Both the tracepoint and the release of the list's
//! lock are places where that can happen.
//!
//! Lists are stacks, so what other tasks did meanwhile shows it: a block that was on the list is taken before those
//! below it, and drained after them.

use std::collections::BTreeMap;

use pageblock::frame::{Order, Pfn};
use pageblock::mobility::Migratetype;

/// The number of interrupted tasks that are watched; the oldest are dropped.
const MOST_ASIDE: usize = 24;

/// The number of frees still in doubt after their task came back; the oldest then count as prompt.
const MOST_DOUBTS: usize = 64;

/// The number of blocks that are watched per task.
const MOST_ABOVE: usize = 128;

/// The event of a free, and its block.
type Freed = (u64, Pfn, Order);

/// A block that was freed while a task was interrupted.
#[derive(Clone, Copy)]
struct Above {
    pfn: Pfn,
    order: Order,
    /// The type of its list, if known.
    mt: Option<Migratetype>,
}

/// A task that was interrupted, while others run on its CPU.
struct Aside {
    pid: u32,
    cpu: u16,
    /// The first event of the other tasks.
    since: u64,
    /// The block that the task had freed just before: event, frame and order.
    freed: Option<Freed>,
    /// The last other task.
    other: u32,
    /// Lists of this CPU that yielded a block from below, by order and type.
    gave: Vec<(Order, Migratetype)>,
    /// Lists of this CPU that were empty.
    empty: Vec<(Order, Migratetype)>,
    above: Vec<Above>,
    /// Lists that drained some of the blocks above.
    drained: Vec<(Order, Migratetype)>,
    /// The CPU on which the task ran next, once it has.
    resumed: Option<u16>,
}

impl Aside {
    /// Returns whether the block that the task had freed reached the list only afterwards, now that it left the
    /// list.
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

    /// Returns whether such blocks are certainly on the list. The frees of `delayed` blocks are in doubt
    /// themselves.
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
    /// It was drained to the zone.
    Drained,
}

/// What an event that takes a block tells about earlier events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LateReport {
    /// The free of the block, at this event, reached its list late.
    FreedLate(u64),
    /// The block was taken before this event.
    TakenBefore(u64),
    /// The block may have been taken before this event; the lists do not tell.
    MaybeTakenBefore(u64),
}

/// Finds the late reports.
#[derive(Default)]
pub(super) struct DelayedFinder {
    /// By CPU: the last task, and its event if that freed a block.
    last: BTreeMap<u16, (u32, Option<Freed>)>,
    aside: Vec<Aside>,
    doubts: Vec<Aside>,
    /// The task of this event, if it came back after others.
    back: Option<Aside>,
    /// The type of each pageblock of the start snapshot, plus one; 0 if it is not known.
    types: Vec<u8>,
    pageblock_order: Order,
}

impl DelayedFinder {
    /// Creates a finder for the pageblocks below `end`.
    pub(super) fn new(end: Pfn, pageblock_order: Order) -> Self {
        let types = vec![0; (end.0 >> pageblock_order) as usize + 1];
        Self { types, pageblock_order, ..Self::default() }
    }

    /// Sets the type of a frame's pageblock: the list to which its pages are freed. A frame outside the start
    /// snapshot, which only damage can name, has no type.
    pub(super) fn block_type(&mut self, pfn: Pfn, mt: Migratetype) {
        if let Some(slot) = self.types.get_mut((pfn.0 >> self.pageblock_order) as usize) {
            *slot = mt as u8 + 1;
        }
    }

    /// Sets the type of all pageblocks of a block, or of the pageblock that contains it.
    pub(super) fn range_type(&mut self, pfn: Pfn, order: Order, mt: Migratetype) {
        for block in 0..1u64 << order.saturating_sub(self.pageblock_order) {
            self.block_type(Pfn(pfn.0 + (block << self.pageblock_order)), mt);
        }
    }

    /// Follows any event, before its kind is considered.
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

    /// Returns the type of a frame's pageblock, if known.
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

    /// Follows the refill of a list, which was empty.
    pub(super) fn refilled(&mut self, cpu: u16, pid: u32, pfn: Pfn, order: Order, mt: Migratetype) {
        self.forget(pfn);
        let list = (order, mt);
        for aside in self.aside.iter_mut().filter(|aside| aside.cpu == cpu) {
            // A task may have begun its first operation before.
            if std::mem::replace(&mut aside.other, pid) == pid && !aside.empty.contains(&list) {
                aside.empty.push(list);
            }
            // These are behind the blocks that were on the list, but on it.
            if aside.above.len() < MOST_ABOVE {
                aside.above.push(Above { pfn, order, mt: None });
            }
        }
    }

    /// Follows a block that left a list. Returns what that tells about earlier events.
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

    /// A single frame number must not decide how much memory is taken.
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
