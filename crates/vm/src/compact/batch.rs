//! One batch of compaction: content is isolated and migrated, and its old pages are merged.
//!
//! Source: `compact_zone`, `migrate_pages`, `release_freepages` (mm/compaction.c, mm/migrate.c).

use std::collections::VecDeque;

use pageblock::alloc::Allocator;
use pageblock::event::Observer;
use pageblock::frame::{Order, Pfn, pages};
use pageblock::ids::CpuId;
use pageblock_kernel::rules::compaction::{
    AfterFailure, DrainLists, LastMigrated, Meeting, WithoutRoom,
};

use super::{Compactor, Content, Memory, Mode};

impl Compactor {
    /// Isolates content and migrates it. Returns whether to give up.
    pub(super) fn move_batch<C: Content, O: Observer>(
        &mut self,
        on: &mut Memory<'_, '_, C>,
        cpu: usize,
        observer: &mut O,
    ) -> bool {
        let (before, pageblock) = (self.migrate_pfn, on.allocator.geometry().pageblock_order);
        let block_of = |pfn: u64| Pfn(pfn).align_down(pageblock).0;
        // A rescan was ordered because of a failure, and keeps taking the rest.
        if !self.rescans {
            self.takes_rest = self.rules.take_rest
                && self.last_migrated.is_some_and(|last| block_of(last) == block_of(before));
        }
        self.rescans = false;
        self.isolate_content(on);
        if self.batch.is_empty() {
            if self.keeps_in_step {
                on.state.migrate[1] = on.state.migrate[0];
            }
        } else {
            self.keeps_in_step = false;
            self.last_migrated = match self.rules.last_migrated {
                LastMigrated::Start => Some(before),
                LastMigrated::Block => Some(block_of(self.migrate_pfn - 1)),
                LastMigrated::Moved => self.last_migrated,
            };
        }
        debug_assert_eq!(
            self.batch_pages as u64,
            self.batch.iter().map(|&(_, order)| pages(order)).sum::<u64>(),
            "the batch has other pages than are counted"
        );
        self.scanned.isolated += self.batch_pages as u64;
        let no_room = self.move_isolated(on, cpu, observer);
        if self.rules.last_migrated == LastMigrated::Moved && self.scanned.moved > 0 {
            self.last_migrated = Some(before);
        }
        let gives_up = no_room && self.ends_without_room(pageblock);
        if self.scanned.failed > 0 && !gives_up {
            self.after_failure(pageblock);
        }
        // The pageblock is not done: nothing of it merges yet.
        if !self.rescans {
            self.merge_left(on.allocator, cpu, before, observer);
        }
        gives_up
    }

    /// Migrates the isolated blocks, the last one first. Returns whether free pages ran out.
    fn move_isolated<C: Content, O: Observer>(
        &mut self,
        on: &mut Memory<'_, '_, C>,
        cpu: usize,
        observer: &mut O,
    ) -> bool {
        let mut no_room = false;
        let mut left = self.batch_pages;
        // The pages of blocks that are split, which are moved after the rest.
        let mut parts = VecDeque::new();
        while let Some((from, order)) = self.batch.pop().or_else(|| parts.pop_front()) {
            let from = Pfn(from.into());
            let Some(to) = self.target(on, order, left) else {
                // Its pages fit where the block does not; they come after the rest of the batch (`split_folios`).
                if order > 0 && split(on.allocator, on.content, from, order) {
                    parts.extend((0..pages(order)).map(|n| (from.plus(n).0 as u32, 0)));
                    continue;
                }
                // The rest of the batch stays where it is.
                self.scanned.failed += u64::from(self.rules.no_room_counts);
                no_room = true;
                break;
            };
            debug_assert!(pages(order) <= left as u64, "a page that was not isolated");
            left -= 1 << order;
            let moved = on.content.migrate(from, to, self.goal.mode);
            *(if moved { &mut self.scanned.moved } else { &mut self.scanned.failed }) +=
                pages(order);
            // The unused target is kept for the next page (`compaction_free`).
            if !moved && self.rules.keep_target {
                on.content.hold(to, order);
                self.targets.push_next(to, order);
                left += 1 << order;
                continue;
            }
            let freed = if moved { from } else { to };
            if let Err(error) = on.allocator.free(CpuId(cpu), freed, order, observer) {
                panic!("freeing frame {freed} after migration: {error}");
            }
        }
        debug_assert!(no_room || self.batch.is_empty(), "isolated content was left behind");
        self.batch.clear();
        self.batch_pages = 0;
        no_room
    }

    /// Returns a target of an order; `left` pages are still needed.
    fn target<C: Content>(
        &mut self,
        on: &mut Memory<'_, '_, C>,
        order: Order,
        left: usize,
    ) -> Option<Pfn> {
        self.targets.take(on.allocator, on.content, order).or_else(|| {
            self.isolate_free(on, left);
            self.targets.take(on.allocator, on.content, order)
        })
    }

    /// Decides how to go on after a page could not be migrated, so that its block will not become free.
    fn after_failure(&mut self, pageblock: Order) {
        let goal = self.goal;
        match self.rules.after_failure {
            AfterFailure::NextBlock => {
                if let (true, Mode::Async, Some(order)) =
                    (goal.direct.is_some(), goal.mode, goal.order)
                {
                    self.migrate_pfn = Pfn(self.migrate_pfn).align_up(order).0;
                    self.last_migrated = None;
                }
            }
            AfterFailure::FinishPageblock => {
                let within = !Pfn(self.migrate_pfn).is_aligned(pageblock);
                let again = within && !goal.ignore_hints && goal.mode < Mode::Sync;
                if again && !self.takes_rest {
                    (self.takes_rest, self.rescans) = (true, true);
                    if goal.order == Some(pageblock) {
                        self.last_migrated = None;
                    }
                }
            }
            AfterFailure::GoOn => {}
        }
    }

    /// Returns whether the scanners have met or passed each other.
    pub(super) const fn have_met(&self, pageblock: Order) -> bool {
        match self.rules.meeting {
            Meeting::ByFrame => self.free_pfn <= self.migrate_pfn,
            Meeting::ByPageblock => self.free_pfn >> pageblock <= self.migrate_pfn >> pageblock,
        }
    }

    /// Returns whether compaction is over after `migrate_pages` found no free page (`-ENOMEM`).
    // Linux: from 4.1 to 4.7 too, as the free scanner goes on to the end without taking anything.
    fn ends_without_room(&self, pageblock: Order) -> bool {
        match self.rules.without_room {
            WithoutRoom::Ends => true,
            WithoutRoom::EndsUnlessMet => !self.have_met(pageblock),
        }
    }

    /// Drains the CPU's lists, which hold the old pages of migrated content, when a whole block was emptied, so that it
    /// merges.
    fn merge_left<O: Observer>(
        &mut self,
        allocator: &mut Allocator<'_>,
        cpu: usize,
        before: u64,
        observer: &mut O,
    ) {
        let (Some(order), Some(last)) = (self.goal.order, self.last_migrated) else { return };
        // These versions drain once, at the end of the zone's compaction.
        if self.rules.drain_lists == DrainLists::AtEnd {
            return;
        }
        let order = order.min(allocator.geometry().pageblock_order);
        let left = if self.rules.last_migrated == LastMigrated::Moved { before } else { last };
        if self.migrate_pfn >> order > left >> order {
            let drained = allocator.drain_cpu(CpuId(cpu), observer);
            debug_assert!(drained.is_ok(), "{drained:?}");
            self.last_migrated = None;
        }
    }

    /// Frees the targets that were not used, and lets the free scanner start above them (`release_freepages`).
    pub(super) fn release<C: Content, O: Observer>(
        &mut self,
        on: &mut Memory<'_, '_, C>,
        cpu: usize,
        observer: &mut O,
    ) {
        let highest = self.targets.highest();
        while let Some((pfn, order)) = self.targets.take_any() {
            on.content.let_go(pfn, order);
            if let Err(error) = on.allocator.free(CpuId(cpu), pfn, order, observer) {
                panic!("freeing the unused target {pfn}: {error}");
            }
        }
        debug_assert!(self.targets.is_empty(), "targets are still held");
        // The targets are free again, so the next compaction finds them where this one did.
        if let Some(highest) = highest
            && self.rules.free_scanner_goes_back
        {
            let block = highest.align_down(on.allocator.geometry().pageblock_order).0;
            on.state.free = on.state.free.max(block);
        }
    }
}

/// Splits a block for which there is no target (`try_split_folio`). Returns whether it was.
fn split<C: Content>(
    allocator: &mut Allocator<'_>,
    content: &mut C,
    pfn: Pfn,
    order: Order,
) -> bool {
    let splits = content.split(pfn);
    if splits && let Err(error) = allocator.split_allocated(pfn, order, 0) {
        panic!("splitting the block at {pfn}: {error}");
    }
    splits
}
