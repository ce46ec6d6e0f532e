//! Maps the blocks of a recording to frames of a replay.

use pageblock::FrameState;
use pageblock::alloc::Allocator;
use pageblock::frame::{Order, Pfn};
use pageblock::ids::CpuId;
use pageblock::mobility::Migratetype;
use pageblock::zone::Zone;
use pageblock_measure::value::blocks::BlockCensus;

use crate::census::Requested;
use crate::demand::assumed_type;

/// The frame in the replay for each frame of the recording, and the type with which each was requested.
pub(super) struct Placement {
    /// By recorded frame: the frame here plus one; 0 if the recorded frame is free.
    of: Vec<u32>,
    /// By frame here: the recorded frame plus one; 0 if it is free or not known.
    recorded: Vec<u32>,
    /// By frame here.
    requested: Requested,
    /// Pages allocated in bulk, whose recorded frames are not known.
    unknown: Vec<Pfn>,
}

/// The place of a block.
pub(super) enum Placed {
    Block(Pfn),
    Pages(Vec<Pfn>),
}

impl Placement {
    /// Creates a placement in which every block in use is where the recording has it.
    pub(super) fn of(allocator: &Allocator<'_>) -> Self {
        let end = allocator.zones().iter().map(|z| z.span().end.0).max().unwrap_or(0) as usize;
        let mut placement = Self {
            of: vec![0; end],
            recorded: vec![0; end],
            requested: Requested::of(allocator),
            unknown: Vec::new(),
        };
        for zone in allocator.zones() {
            for pfn in zone.span().start.0..zone.span().end.0 {
                let pfn = Pfn(pfn);
                if let Some(FrameState::Allocated { order, .. }) = zone.state(pfn) {
                    placement.place(pfn, pfn, order);
                }
            }
        }
        placement
    }

    pub(super) fn place(&mut self, recorded: Pfn, here: Pfn, order: Order) {
        let start = recorded.0 as usize;
        let end = (start + (1 << order)).min(self.of.len());
        for (n, slot) in self.of.get_mut(start..end).unwrap_or_default().iter_mut().enumerate() {
            *slot = (here.0 + n as u64) as u32 + 1;
        }
        let from = here.0 as usize;
        let to = (from + (1 << order)).min(self.recorded.len());
        for (n, slot) in self.recorded.get_mut(from..to).unwrap_or_default().iter_mut().enumerate()
        {
            *slot = (recorded.0 + n as u64) as u32 + 1;
        }
    }

    /// Follows a move by compaction from one recorded frame to another. Here it moves the content of that frame, if
    /// that can be moved: the two pages exchange places first. If it cannot be moved, nothing moves: the page stays
    /// where it is, and the target is freed.
    pub(super) fn move_away(&mut self, allocator: &Allocator<'_>, pfn: Pfn, to: Option<Pfn>) {
        let Some(here) = self.frame_of(pfn) else { return };
        if here == pfn || !is_movable(allocator, here) {
            return;
        }
        if is_movable(allocator, pfn) {
            let Some(other) = self.content_of(pfn) else { return };
            self.place(pfn, pfn, 0);
            self.place(other, here, 0);
            self.requested.swap(pfn, here);
        } else if let Some(to) = to
            && let Some(target) = self.frame_of(to).filter(|&target| is_movable(allocator, target))
        {
            self.place(pfn, target, 0);
            self.place(to, here, 0);
        }
    }

    /// Gives a page another recorded frame.
    pub(super) fn rename(&mut self, from: Pfn, to: Pfn) {
        if let Some(here) = self.frame_of(from) {
            self.of[from.0 as usize] = 0;
            self.place(to, here, 0);
        }
    }

    /// Returns whether compaction, emptying this frame, finds a page to move here but found none in the recording.
    pub(super) fn is_in_the_way(&self, allocator: &Allocator<'_>, pfn: Pfn) -> bool {
        self.content_of(pfn).is_some()
            && is_movable(allocator, pfn)
            && self.frame_of(pfn).is_none_or(|here| !is_movable(allocator, here))
    }

    /// Moves a page to another frame here.
    pub(super) fn relocate(&mut self, from: Pfn, to: Pfn) {
        if let Some(content) = self.content_of(from) {
            self.place(content, to, 0);
            self.recorded[from.0 as usize] = 0;
            self.requested.relocate(from, to);
        }
    }

    /// Returns the frame here of a recorded frame's page.
    pub(super) fn frame_of(&self, recorded: Pfn) -> Option<Pfn> {
        self.of.get(recorded.0 as usize)?.checked_sub(1).map(|here| Pfn(u64::from(here)))
    }

    /// Returns the recorded frame of the page in a frame here.
    fn content_of(&self, here: Pfn) -> Option<Pfn> {
        self.recorded.get(here.0 as usize)?.checked_sub(1).map(|recorded| Pfn(u64::from(recorded)))
    }

    pub(super) fn request(&mut self, here: Pfn, order: Order, mt: Migratetype) {
        self.requested.note(here, order, mt);
    }

    /// Notes that a block here without a recorded frame is free again.
    pub(super) fn end_request(&mut self, here: Pfn, order: Order) {
        self.requested.end(here, order);
    }

    /// Returns the type with which the page in a frame here, not known to be movable, was requested; if that is not
    /// known, the most likely one.
    pub(super) fn requested(&self, here: Pfn, block: Migratetype) -> Migratetype {
        self.requested.get(here).unwrap_or_else(|| assumed_type(false, block))
    }

    /// Notes that a recorded frame is allocated that was not known to be free. Its old content stays in place.
    pub(super) fn forget(&mut self, recorded: Pfn, order: Order) {
        let start = recorded.0 as usize;
        let end = (start + (1 << order)).min(self.of.len());
        for slot in self.of.get_mut(start..end).unwrap_or_default() {
            if let Some(here) = std::mem::take(slot).checked_sub(1) {
                self.recorded[here as usize] = 0;
                self.unknown.push(Pfn(u64::from(here)));
            }
        }
    }

    pub(super) fn place_unknown(&mut self, here: Pfn) {
        self.unknown.push(here);
    }

    pub(super) fn take_unknown(&mut self) -> Option<Pfn> {
        self.unknown.pop()
    }

    /// Returns where a recorded block that is freed is, as one block or as pages; `None` if nothing of it is known.
    pub(super) fn take(
        &mut self,
        allocator: &mut Allocator<'_>,
        recorded: Pfn,
        order: Order,
    ) -> Option<Placed> {
        let start = recorded.0 as usize;
        let range = start..(start + (1 << order)).min(self.of.len());
        let first = self.of.get(start)?.checked_sub(1)?;
        let here = Pfn(u64::from(first));
        let slots = self.of.get_mut(range)?;
        let whole = here.is_aligned(order)
            && slots.iter().enumerate().all(|(n, &slot)| slot == first + 1 + n as u32);
        let pages: Vec<Pfn> = if whole {
            Vec::new()
        } else {
            let known = slots.iter().filter_map(|slot| slot.checked_sub(1));
            known.map(|page| Pfn(u64::from(page))).collect()
        };
        slots.fill(0);
        if whole && as_block(allocator, here, order) {
            self.requested.end(here, order);
            self.recorded[here.0 as usize..][..1 << order].fill(0);
            return Some(Placed::Block(here));
        }
        let pages = if whole { (here.0..here.0 + (1 << order)).map(Pfn).collect() } else { pages };
        for page in &pages {
            as_block(allocator, *page, 0);
            self.requested.end(*page, 0);
            self.recorded[page.0 as usize] = 0;
        }
        Some(Placed::Pages(pages))
    }

    /// Returns the pageblocks of a zone by type, and which of them are mixed.
    pub(super) fn census(&self, allocator: &Allocator<'_>) -> BlockCensus {
        self.requested.census(allocator)
    }
}

/// Returns whether a frame holds a separate page that compaction can move.
fn is_movable(allocator: &Allocator<'_>, pfn: Pfn) -> bool {
    let zone = allocator.zone_of(pfn).map(|at| &allocator.zones()[at.index()]);
    let state = zone.and_then(|zone| zone.state(pfn));
    matches!(state, Some(FrameState::Allocated { order: 0, movable: true }))
}

/// Makes the frames one allocated block of this order: splits a larger block, joins pages that were allocated
/// before the recording. Returns whether they are one block.
fn as_block(allocator: &mut Allocator<'_>, pfn: Pfn, order: Order) -> bool {
    let Some(at) = allocator.zone_of(pfn) else { return false };
    let max = allocator.geometry().max_order;
    for larger in order..=max {
        let head = pfn.align_down(larger);
        match allocator.zones()[at.index()].state(head) {
            Some(FrameState::Allocated { order: has, .. }) if has == order && head == pfn => {
                return true;
            }
            Some(FrameState::Allocated { order: has, .. }) if has > order && has >= larger => {
                return allocator.split_allocated(head, has, order).is_ok();
            }
            _ => {}
        }
    }
    let movable = matches!(
        allocator.zones()[at.index()].state(pfn),
        Some(FrameState::Allocated { movable: true, .. })
    );
    allocator
        .zone_and_cache(at, CpuId(0))
        .is_some_and(|(zone, _)| zone.impose_allocated(pfn, order, movable).is_ok())
}

/// Returns the highest free page of a movable pageblock at or below a frame.
pub(super) fn free_page_below(zone: &Zone<'_>, pfn: Pfn) -> Option<Pfn> {
    let pageblock_order = zone.geometry().pageblock_order;
    let pages = zone.geometry().pageblock_pages() as usize;
    let first = zone.span().start.align_down(pageblock_order).0;
    let here = pfn.align_down(pageblock_order).0;
    (first..=here).rev().step_by(pages).find_map(|block| {
        let start = Pfn(block).max(zone.span().start);
        let movable = zone.block_type(start) == Some(Migratetype::Movable);
        movable.then(|| zone.last_free_page_of(start)).flatten()
    })
}
