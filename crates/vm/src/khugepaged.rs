//! khugepaged: looks through mappings for places where small pages could be a huge one, and makes it
//! one.
//!
//! It goes a place at a time; the caller allocates the huge page that it asks for, by the slow path
//! as any task, and gives it back to [`Vm::collapse_or_free`].
//!
//! Source: `khugepaged_do_scan`, `hpage_collapse_scan_pmd`, `hpage_collapse_find_target_node`,
//! `collapse_huge_page` (mm/khugepaged.c).

use pageblock::event::Observer;
use pageblock::frame::Pfn;
use pageblock::ids::NodeId;
use pageblock::request::{Gfp, Request};
use pageblock_kernel::rules::huge::ThpEnabled;

use crate::page::{Owner, PageFlags};
use crate::space::{Slot, SpaceId, SpaceKind};
use crate::thp::HPAGE_PMD_ORDER;
use crate::vm::Vm;

const MILLISECOND_NS: u64 = 1_000_000;

/// Where khugepaged stands (`struct khugepaged_scan`).
#[derive(Clone, Debug, Default)]
pub struct Khugepaged {
    /// Mappings that it looks through, in the order in which they came.
    spaces: Vec<SpaceId>,
    at: usize,
    index: u32,
    /// Pages looked at since it slept, and how often it was at the list's beginning.
    scanned: u32,
    beginnings: u32,
    /// The node that was taken last, where several had as many pages.
    last_node: Option<usize>,
}

/// What khugepaged does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KhugepagedStep {
    /// It looked at a place in vain.
    Ran,
    /// It wants this block, for this place.
    Wants(Place, Request),
    /// It sleeps so long, in nanoseconds.
    Sleep(u64),
}

/// Where a huge page would be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// The mapping.
    pub space: SpaceId,
    /// The first page.
    pub index: u32,
}

impl Khugepaged {
    /// A mapping goes.
    pub(crate) fn leave(&mut self, space: SpaceId) {
        let Some(at) = self.spaces.iter().position(|&s| s == space) else { return };
        self.spaces.remove(at);
        if at < self.at {
            self.at -= 1;
        } else if at == self.at {
            self.index = 0;
        }
    }

    /// The place to look at; goes on to the next. `None` when the list was gone through from its
    /// beginning (`pass_through_head`).
    fn advance(&mut self, size: u32, len: impl Fn(SpaceId) -> u32) -> Option<Place> {
        if self.scanned == 0 && (self.at, self.index) == (0, 0) {
            self.beginnings = 1;
        }
        loop {
            let Some(&space) = self.spaces.get(self.at) else {
                (self.at, self.index) = (0, 0);
                self.beginnings += 1;
                if self.beginnings >= 2 {
                    return None;
                }
                continue;
            };
            if self.index + size <= len(space) {
                let place = Place { space, index: self.index };
                self.index += size;
                return Some(place);
            }
            (self.at, self.index) = (self.at + 1, 0);
        }
    }
}

impl<O: Observer> Vm<'_, O> {
    /// A fault wanted a huge page: khugepaged looks after the mapping from now on
    /// (`khugepaged_enter`).
    pub fn enter_khugepaged(&mut self, space: SpaceId) {
        if !self.khugepaged.spaces.contains(&space) {
            self.khugepaged.spaces.push(space);
        }
    }

    /// Goes a place further.
    pub fn step_khugepaged(&mut self) -> KhugepagedStep {
        let settings = self.kernel.huge;
        let size = 1 << HPAGE_PMD_ORDER;
        let thread = &mut self.khugepaged;
        let place = (settings.thp_enabled != ThpEnabled::Never
            && thread.scanned < settings.khugepaged_pages_to_scan)
            .then(|| thread.advance(size, |space| self.spaces.get(space).len()))
            .flatten();
        let Some(place) = place else {
            (thread.scanned, thread.beginnings) = (0, 0);
            return KhugepagedStep::Sleep(
                u64::from(settings.khugepaged_scan_sleep_ms) * MILLISECOND_NS,
            );
        };
        thread.scanned += size;
        self.work.ptes += u64::from(size);
        if !self.is_worth_it(place) {
            return KhugepagedStep::Ran;
        }
        let node = self.target_node(place, size);
        self.khugepaged.last_node = Some(node);
        let gfp =
            if settings.khugepaged_defrag { Gfp::GFP_TRANSHUGE } else { Gfp::GFP_TRANSHUGE_LIGHT };
        let order = HPAGE_PMD_ORDER;
        let request = Request::new(order, gfp | Gfp::THISNODE).on_node(NodeId(self.nodes[node].id));
        KhugepagedStep::Wants(place, request)
    }

    /// The node with the most of the pages; of several the one after that of the last time.
    fn target_node(&self, place: Place, size: u32) -> usize {
        let mut load = vec![0u32; self.nodes.len()];
        for index in place.index..place.index + size {
            if let Slot::Page(pfn) = self.spaces.slot(place.space, index) {
                load[self.node_of(pfn)] += 1;
            }
        }
        let most = load.iter().copied().max().unwrap_or(0);
        let best = |at: &usize| load[*at] == most;
        let after = self.khugepaged.last_node.map_or(0, |last| last + 1);
        (after..load.len()).find(best).or_else(|| (0..load.len()).find(best)).unwrap_or(0)
    }

    /// Whether the pages at a place are to be one: all small, none busy, one used of late, not too
    /// many missing.
    fn is_worth_it(&self, place: Place) -> bool {
        let order = HPAGE_PMD_ORDER;
        let indexes = place.index..place.index + (1 << order);
        let slots = || indexes.clone().map(|at| self.spaces.slot(place.space, at));
        let used = slots().any(
            |slot| matches!(slot, Slot::Page(pfn) if self.pages[pfn].has(PageFlags::REFERENCED)),
        );
        let missing = slots().filter(|slot| *slot == Slot::Empty).count();
        used && missing <= self.kernel.huge.khugepaged_max_ptes_none as usize
            && self.can_collapse(place)
    }

    /// Whether the pages at a place can be one: at least one is there, and none is huge, off its
    /// list, being written, or in swap.
    // Linux: from 4.8 up to 64 pages are read back from swap for that.
    fn can_collapse(&self, place: Place) -> bool {
        let order = HPAGE_PMD_ORDER;
        let Place { space, index } = place;
        let entry = self.spaces.get(space);
        if entry.kind != SpaceKind::Anon || entry.killed || index + (1 << order) > entry.len() {
            return false;
        }
        let mut present = false;
        (index..index + (1 << order)).all(|at| match self.spaces.slot(space, at) {
            Slot::Page(pfn) => {
                let page = &self.pages[pfn];
                present = true;
                page.kind() == Owner::Anon
                    && page.order() == 0
                    && page.has(PageFlags::LRU)
                    && !page.has(PageFlags::WRITEBACK)
            }
            Slot::Empty => true,
            Slot::Shadow(_) | Slot::Swap(_) => false,
        }) && present
    }

    /// Puts the huge page that khugepaged asked for in the place of small ones, which are copied and
    /// freed; frees it where that is not possible any more. Tells which.
    pub fn collapse_or_free(&mut self, cpu: usize, place: Place, huge: Pfn) -> bool {
        let order = HPAGE_PMD_ORDER;
        self.stat.thp_collapse_alloc += 1;
        // While the page was allocated the mapping may have gone.
        let registered = self.khugepaged.spaces.contains(&place.space);
        if !registered || !self.can_collapse(place) {
            self.own(huge, order, Owner::Driver, 0);
            self.disown(cpu, huge);
            return false;
        }
        let Place { space, index } = place;
        for at in index..index + (1 << order) {
            if let Slot::Page(pfn) = self.spaces.slot(space, at) {
                self.drop_page(cpu, pfn, Slot::Empty);
                self.work.migrated += 1;
            }
        }
        self.add_page(space, index, huge, order);
        true
    }

    /// khugepaged got no huge page; gives how long it sleeps, in nanoseconds.
    pub fn collapse_failed(&mut self) -> u64 {
        self.stat.thp_collapse_alloc_failed += 1;
        u64::from(self.kernel.huge.khugepaged_alloc_sleep_ms) * MILLISECOND_NS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(thread: &mut Khugepaged, len: impl Fn(SpaceId) -> u32) -> Vec<(SpaceId, u32)> {
        std::iter::from_fn(|| thread.advance(512, &len)).map(|p| (p.space, p.index)).collect()
    }

    #[test]
    fn it_goes_through_every_mapping_once() {
        let len = |space| if space == 7 { 1100 } else { 100 };
        let mut thread = Khugepaged { spaces: vec![3, 7], ..Khugepaged::default() };
        assert_eq!(places(&mut thread, len), [(7, 0), (7, 512)]);
        // From the middle: the rest, and the list once.
        let thread =
            &mut Khugepaged { spaces: vec![3, 7], at: 1, index: 512, ..Khugepaged::default() };
        assert_eq!(places(thread, len), [(7, 512), (7, 0), (7, 512)]);
        assert_eq!(places(&mut Khugepaged::default(), len), []);
    }

    #[test]
    fn a_mapping_that_goes_is_not_looked_at() {
        let mut thread = Khugepaged { spaces: vec![1, 2, 3], ..Khugepaged::default() };
        let len = |_| 1024;
        let next = |thread: &mut Khugepaged| thread.advance(512, len).map(|p| (p.space, p.index));
        assert_eq!(next(&mut thread), Some((1, 0)));
        thread.leave(1);
        assert_eq!(next(&mut thread), Some((2, 0)));
        thread.leave(3);
        assert_eq!(next(&mut thread), Some((2, 512)));
        thread.leave(2);
        assert_eq!(next(&mut thread), None);
    }
}
