//! khugepaged: scans mappings for places where small pages can be collapsed into a huge page.
//!
//! Each step scans one place. The caller allocates the huge page that a step asks for, like any task, and hands it to
//! [`Vm::collapse_or_free`].
//!
//! Source: `khugepaged_do_scan`, `hpage_collapse_scan_pmd`, `hpage_collapse_find_target_node`,
//! `collapse_huge_page` (mm/khugepaged.c).

use pageblock::event::Observer;
use pageblock::frame::Pfn;
use pageblock::ids::NodeId;
use pageblock::request::{Gfp, Request};
use pageblock_kernel::rules::huge::ThpEnabled;

use super::thp::HPAGE_PMD_ORDER;
use crate::page::{Owner, PageFlags};
use crate::pagecache::space::{Slot, SpaceId, SpaceKind};
use crate::vm::Vm;

const MILLISECOND_NS: u64 = 1_000_000;

/// The state of khugepaged (`struct khugepaged_scan`).
#[derive(Clone, Debug, Default)]
pub struct Khugepaged {
    /// The mappings that it scans, in the order of registration.
    spaces: Vec<SpaceId>,
    /// The place of the next mapping to scan.
    at: usize,
    /// The next index of that mapping.
    index: u32,
    /// Pages scanned since it slept.
    scanned: u32,
    /// Times since it slept that a scan started at the first mapping.
    starts: u32,
    /// The node of the last huge page; ties go to the node after it.
    last_node: Option<usize>,
}

/// What khugepaged does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KhugepagedStep {
    /// It scanned a place that cannot be collapsed.
    Ran,
    /// It wants this block for this place.
    Wants(Place, Request),
    /// It sleeps for this many nanoseconds.
    Sleep(u64),
}

/// A place for a huge page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// The mapping.
    pub space: SpaceId,
    /// The index of the first page.
    pub index: u32,
}

impl Khugepaged {
    /// Unregisters a mapping (`khugepaged_exit`).
    fn leave(&mut self, space: SpaceId) {
        let Some(at) = self.spaces.iter().position(|&s| s == space) else { return };
        self.spaces.remove(at);
        if at < self.at {
            self.at -= 1;
        } else if at == self.at {
            self.index = 0;
        }
    }

    /// Returns the place to scan, and advances to the next. `None` after the list was scanned from its first mapping
    /// to its last (`pass_through_head`).
    fn advance(&mut self, size: u32, len: impl Fn(SpaceId) -> u32) -> Option<Place> {
        if self.scanned == 0 && (self.at, self.index) == (0, 0) {
            self.starts = 1;
        }
        loop {
            let Some(&space) = self.spaces.get(self.at) else {
                (self.at, self.index) = (0, 0);
                self.starts += 1;
                if self.starts >= 2 {
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
    /// Registers a mapping in which a fault wanted a huge page (`khugepaged_enter`).
    pub fn enter_khugepaged(&mut self, space: SpaceId) {
        let khugepaged = &mut self.huge.khugepaged;
        if !khugepaged.spaces.contains(&space) {
            khugepaged.spaces.push(space);
        }
    }

    /// Unregisters a mapping that is removed.
    pub(crate) fn leave_khugepaged(&mut self, space: SpaceId) {
        self.huge.khugepaged.leave(space);
    }

    /// Scans the next place.
    pub fn step_khugepaged(&mut self) -> KhugepagedStep {
        let settings = self.kernel.huge;
        let size = 1 << HPAGE_PMD_ORDER;
        let spaces = self.pagecache.spaces();
        let thread = &mut self.huge.khugepaged;
        let place = (settings.thp_enabled != ThpEnabled::Never
            && thread.scanned < settings.khugepaged_pages_to_scan)
            .then(|| thread.advance(size, |space| spaces.get(space).len()))
            .flatten();
        let Some(place) = place else {
            (thread.scanned, thread.starts) = (0, 0);
            return KhugepagedStep::Sleep(
                u64::from(settings.khugepaged_scan_sleep_ms) * MILLISECOND_NS,
            );
        };
        thread.scanned += size;
        self.work.ptes += u64::from(size);
        if !self.should_collapse(place) {
            return KhugepagedStep::Ran;
        }
        let node = self.target_node(place, size);
        self.huge.khugepaged.last_node = Some(node);
        let gfp =
            if settings.khugepaged_defrag { Gfp::GFP_TRANSHUGE } else { Gfp::GFP_TRANSHUGE_LIGHT };
        let order = HPAGE_PMD_ORDER;
        let request = Request::new(order, gfp | Gfp::THISNODE).on_node(NodeId(self.nodes[node].id));
        KhugepagedStep::Wants(place, request)
    }

    /// Returns the node with the most pages of a place; of several, the first after the last huge page's node.
    fn target_node(&self, place: Place, size: u32) -> usize {
        let mut load = vec![0u32; self.nodes.len()];
        for index in place.index..place.index + size {
            if let Slot::Page(pfn) = self.spaces().slot(place.space, index) {
                load[self.node_of(pfn)] += 1;
            }
        }
        let most = load.iter().copied().max().unwrap_or(0);
        let best = |at: &usize| load[*at] == most;
        let after = self.huge.khugepaged.last_node.map_or(0, |last| last + 1);
        (after..load.len()).find(best).or_else(|| (0..load.len()).find(best)).unwrap_or(0)
    }

    /// Returns whether the pages at a place should be collapsed: it is possible, one was used recently, and not too many
    /// are missing.
    fn should_collapse(&self, place: Place) -> bool {
        let order = HPAGE_PMD_ORDER;
        let indexes = place.index..place.index + (1 << order);
        let slots = || indexes.clone().map(|at| self.spaces().slot(place.space, at));
        let accessed = self.pages.accessed();
        let used =
            slots().any(|slot| matches!(slot, Slot::Page(pfn) if self.pages[pfn].has(accessed)));
        let missing = slots().filter(|slot| *slot == Slot::Empty).count();
        used && missing <= self.kernel.huge.khugepaged_max_ptes_none as usize
            && self.can_collapse(place)
    }

    /// Returns whether the pages at a place can be collapsed: at least one is present, and none is huge, off its list,
    /// under writeback, or in swap.
    // Linux: from 4.8 up to 64 pages are read back from swap.
    fn can_collapse(&self, place: Place) -> bool {
        let order = HPAGE_PMD_ORDER;
        let Place { space, index } = place;
        let entry = self.spaces().get(space);
        if entry.kind != SpaceKind::Anon || entry.is_killed() || index + (1 << order) > entry.len()
        {
            return false;
        }
        let mut present = false;
        (index..index + (1 << order)).all(|at| match self.spaces().slot(space, at) {
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

    /// Collapses a place into the huge page that khugepaged asked for: the small pages are copied and freed. Frees the
    /// huge page if that is no longer possible. Returns whether it collapsed.
    pub fn collapse_or_free(&mut self, cpu: usize, place: Place, huge: Pfn) -> bool {
        let order = HPAGE_PMD_ORDER;
        self.stat.thp_collapse_alloc += 1;
        // The mapping may have been removed during the allocation.
        let registered = self.huge.khugepaged.spaces.contains(&place.space);
        if !registered || !self.can_collapse(place) {
            self.own(huge, order, Owner::Driver, 0);
            self.disown(cpu, huge);
            return false;
        }
        let Place { space, index } = place;
        for at in index..index + (1 << order) {
            if let Slot::Page(pfn) = self.spaces().slot(space, at) {
                self.drop_page(cpu, pfn, Slot::Empty);
                self.work.migrated += 1;
            }
        }
        self.add_page_as(space, index, huge, order, false);
        true
    }

    /// Notes that khugepaged got no huge page. Returns how long it sleeps, in nanoseconds.
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
    fn every_mapping_is_scanned_once() {
        let len = |space| if space == 7 { 1100 } else { 100 };
        let mut thread = Khugepaged { spaces: vec![3, 7], ..Khugepaged::default() };
        assert_eq!(places(&mut thread, len), [(7, 0), (7, 512)]);
        // From the middle: the rest, and then the list once.
        let thread =
            &mut Khugepaged { spaces: vec![3, 7], at: 1, index: 512, ..Khugepaged::default() };
        assert_eq!(places(thread, len), [(7, 512), (7, 0), (7, 512)]);
        assert_eq!(places(&mut Khugepaged::default(), len), []);
    }

    #[test]
    fn a_removed_mapping_is_not_scanned() {
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
