//! One batch of compaction: content is isolated and moved, and what it left merges.
//!
//! Source: `compact_zone`, `migrate_pages`, `release_freepages` (mm/compaction.c, mm/migrate.c).

use pageblock::alloc::Allocator;
use pageblock::event::Observer;
use pageblock::frame::{Order, Pfn};
use pageblock::policy::{CompactScan, Slowpath};

use super::{Compactor, Content, Mode, ZoneCompact, samples};

impl Compactor {
    /// Isolates content and moves it. Tells whether to give up.
    pub(super) fn move_batch<C: Content, O: Observer>(
        &mut self,
        allocator: &mut Allocator<'_>,
        state: &mut ZoneCompact,
        content: &mut C,
        cpu: usize,
        observer: &mut O,
    ) -> bool {
        let scan = allocator.policy().compact_scan;
        let (before, pageblock) = (self.migrate_pfn, allocator.geometry().pageblock_order);
        let block_of = |pfn: u64| Pfn(pfn).align_down(pageblock).0;
        if !self.rescans {
            self.takes_rest = scan > CompactScan::V41
                && self.last_migrated.is_some_and(|last| block_of(last) == block_of(before));
        }
        self.rescans = false;
        self.isolate_content(allocator, state, content);
        if self.batch.is_empty() {
            if self.keeps_in_step {
                state.migrate[1] = state.migrate[0];
            }
        } else {
            self.keeps_in_step = false;
            self.last_migrated = match scan {
                CompactScan::V51 => Some(before),
                CompactScan::V66 => Some(block_of(self.migrate_pfn - 1)),
                _ => self.last_migrated,
            };
        }
        self.scanned.isolated += self.batch.len() as u64;
        let no_room = self.move_isolated(allocator, state, content, cpu, observer);
        if scan <= CompactScan::V41 && self.scanned.moved > 0 {
            self.last_migrated = Some(before);
        }
        let gives_up = no_room && self.ends_without_room(scan, pageblock);
        let from_4_7 = allocator.policy().slowpath >= Slowpath::G2;
        if self.scanned.failed > 0 && from_4_7 && !gives_up {
            self.after_failure(scan, pageblock);
        }
        if !self.rescans {
            self.merge_left(allocator, cpu, before, observer);
        }
        gives_up
    }

    /// Moves what was isolated; tells whether room ran out.
    fn move_isolated<C: Content, O: Observer>(
        &mut self,
        allocator: &mut Allocator<'_>,
        state: &mut ZoneCompact,
        content: &mut C,
        cpu: usize,
        observer: &mut O,
    ) -> bool {
        let mut no_room = false;
        for at in 0..self.batch.len() {
            if self.targets.is_empty() {
                let wanted = self.batch.len() - at;
                self.isolate_free(allocator, state, content, wanted);
            }
            let Some(to) = self.targets.pop() else {
                // The rest of the batch is not tried. From 4.7 on the page that found no room counts as failed
                // (dfef2ef4027b).
                self.scanned.failed += u64::from(allocator.policy().slowpath >= Slowpath::G2);
                no_room = true;
                break;
            };
            let from = self.batch[at];
            let (from, to) = (Pfn(from.into()), Pfn(to.into()));
            content.hold(to, false);
            let moved = content.migrate(from, to, self.goal.mode);
            *(if moved { &mut self.scanned.moved } else { &mut self.scanned.failed }) += 1;
            // Up to 3.15 the target is freed, too (68711a746345).
            let keeps = allocator.policy().compact_scan > CompactScan::V310;
            if !moved && keeps {
                content.hold(to, true);
                self.targets.push(to.0 as u32);
                continue;
            }
            let freed = if moved { from } else { to };
            if let Err(error) = allocator.free(cpu, freed, 0, observer) {
                panic!("frame {freed} is left over: {error}");
            }
        }
        self.batch.clear();
        no_room
    }

    /// Something could not be moved: a block of the order will not come of it. From 6.6 the rest of the pageblock
    /// is moved all the same, so that no search leads here again; before, a task that does not wait goes on with
    /// the next block (from 4.7: fdd048e12c9a).
    fn after_failure(&mut self, scan: CompactScan, pageblock: Order) {
        let goal = self.goal;
        match scan {
            CompactScan::V41 | CompactScan::V51 => {
                if let (true, Mode::Async, Some(order)) = (goal.direct, goal.mode, goal.order) {
                    self.migrate_pfn = Pfn(self.migrate_pfn).align_up(order).0;
                    self.last_migrated = None;
                }
            }
            CompactScan::V66 => {
                let within = !Pfn(self.migrate_pfn).is_aligned(pageblock);
                let again = within && !goal.ignore_hints && goal.mode < Mode::Sync;
                if again && !self.takes_rest {
                    (self.takes_rest, self.rescans) = (true, true);
                    if goal.order == Some(pageblock) {
                        self.last_migrated = None;
                    }
                }
            }
            _ => {}
        }
    }

    /// Whether the scanners are in one pageblock, or past each other.
    pub(super) const fn have_met(&self, pageblock: Order) -> bool {
        self.free_pfn >> pageblock <= self.migrate_pfn >> pageblock
    }

    /// Whether compaction is over where `migrate_pages` found no room (`-ENOMEM`); from 3.16 on only where the
    /// scanners have not met.
    // Linux: from 4.1 to 4.7 too, where the free scanner goes on to the end without taking anything.
    fn ends_without_room(&self, scan: CompactScan, pageblock: Order) -> bool {
        match scan {
            CompactScan::V310 => true,
            CompactScan::V316 | CompactScan::V319 => self.free_pfn > self.migrate_pfn,
            CompactScan::V41 | CompactScan::V51 | CompactScan::V66 => !self.have_met(pageblock),
        }
    }

    /// The pages that content left lie on CPU lists: where a whole block was emptied, they are
    /// drained so that it merges.
    fn merge_left<O: Observer>(
        &mut self,
        allocator: &mut Allocator<'_>,
        cpu: usize,
        before: u64,
        observer: &mut O,
    ) {
        let (Some(order), Some(last)) = (self.goal.order, self.last_migrated) else { return };
        // Up to 3.18 whoever compacted drains its CPU's lists at the end.
        if allocator.policy().compact_scan <= CompactScan::V316 {
            return;
        }
        let order = order.min(allocator.geometry().pageblock_order);
        let left = if samples(&allocator.zones()[self.goal.zone]) { last } else { before };
        if self.migrate_pfn >> order > left >> order {
            let drained = allocator.drain_cpu(cpu, observer);
            debug_assert!(drained.is_ok(), "{drained:?}");
            self.last_migrated = None;
        }
    }

    /// Gives the targets that were not used back, and lets the free scanner start above them.
    pub(super) fn release<C: Content, O: Observer>(
        &mut self,
        allocator: &mut Allocator<'_>,
        state: &mut ZoneCompact,
        content: &mut C,
        cpu: usize,
        observer: &mut O,
    ) {
        let highest = self.targets.iter().copied().max();
        for pfn in self.targets.drain(..) {
            let pfn = Pfn(pfn.into());
            content.hold(pfn, false);
            if let Err(error) = allocator.free(cpu, pfn, 0, observer) {
                panic!("giving back frame {pfn}: {error}");
            }
        }
        let goes_back = allocator.policy().compact_scan >= CompactScan::V319;
        if let Some(highest) = highest
            && goes_back
        {
            let block = Pfn(highest.into()).align_down(allocator.geometry().pageblock_order).0;
            state.free = state.free.max(block);
        }
    }
}
