//! Compaction: migrates movable content from the low end of a zone to its high end, so that large blocks become free.
//!
//! [`Compactor`] has the scanners, [`Content`] the content, so that an embedder can use it without the rest of this crate.
//!
//! Source: `compact_zone` (mm/compaction.c).

mod batch;
mod content;
mod counts;
pub mod defer;
pub mod direct;
mod early;
mod evacuate;
mod fast;
mod free;
mod hints;
pub mod kcompactd;
mod migrate;
pub mod suitable;
mod targets;
#[cfg(test)]
mod testing;

use pageblock::alloc_flags::AllocFlags;
use pageblock::capture::CaptureSlot;
use pageblock::event::Observer;
use pageblock::frame::{Order, Pfn, pages};
use pageblock::ids::{CpuId, ZoneIndex};
use pageblock::layout::ZoneKind;
use pageblock::mobility::Migratetype::{self, Movable};
use pageblock::policy::Capture;
use pageblock::slowpath::CompactResult;
use pageblock::zone::Zone;
use pageblock_kernel::rules::compaction::{Compaction, FinishBlock, FinishMark};

pub use self::content::{Content, Memory};
pub use self::counts::{Scanned, counted};
use self::defer::Deferral;
use self::fast::Searches;
use self::suitable::Suitable;
use self::targets::Targets;

/// Skipped pageblocks that a step passes over, and pages that an evacuation moves in one.
const CLUSTER: usize = 32;

/// What compaction may wait for (`enum migrate_mode`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Mode {
    /// Nothing.
    Async,
    /// Locks.
    SyncLight,
    /// Locks and writes.
    Sync,
}

/// The state of a zone between compactions (fields of `struct zone`).
#[derive(Clone, Copy, Debug)]
pub struct ZoneCompact {
    /// The start of the migration scanner: async, sync (`compact_cached_migrate_pfn`).
    migrate: [u64; 2],
    /// The start of the free scanner (`compact_cached_free_pfn`).
    free: u64,
    /// A compaction that starts up to here counts as one of the whole zone (`compact_init_migrate_pfn`).
    init_migrate: u64,
    /// A fast search for free pages that starts from here on is a first one (`compact_init_free_pfn`).
    init_free: u64,
    /// Deferral after failures.
    deferral: Deferral,
    /// kswapd clears the skip hints when it sleeps (`compact_blockskip_flush`).
    flush: bool,
}

impl ZoneCompact {
    /// Returns the state of a zone that was never compacted.
    #[must_use]
    pub fn new(zone: &Zone<'_>) -> Self {
        let (start, last) = (zone.span().start.0, last_block(zone));
        Self {
            migrate: [start; 2],
            free: last,
            // Linux: both are 0 until hints are first cleared, so that until then every fast search is a first one, and
            // no compaction of a zone above frame 0 counts as one of the whole zone.
            init_migrate: start,
            init_free: last,
            deferral: Deferral::default(),
            flush: false,
        }
    }

    /// Moves the scanners back to the ends of the zone (`reset_cached_positions`).
    fn reset(&mut self, zone: &Zone<'_>) {
        self.migrate = [zone.span().start.0; 2];
        self.free = last_block(zone);
    }
}

/// Returns the start of the last pageblock of a zone.
fn last_block(zone: &Zone<'_>) -> u64 {
    Pfn(zone.span().end.0 - 1).align_down(zone.geometry().pageblock_order).0
}

/// The goal of a compaction (`struct compact_control`).
#[derive(Clone, Copy, Debug)]
pub struct Goal {
    /// The index of the zone in the allocator.
    pub zone: usize,
    /// The order wanted; `None` compacts as far as possible.
    pub order: Option<Order>,
    /// The migratetype of the request.
    pub migratetype: Migratetype,
    /// What it may wait for.
    pub mode: Mode,
    /// The highest zone of the request.
    pub highest: ZoneKind,
    /// The flags of the request's watermark check.
    pub flags: AllocFlags,
    /// The scanners start at the ends of the zone.
    pub whole_zone: bool,
    /// Skip hints are ignored (`ignore_skip_hint`).
    pub ignore_hints: bool,
    /// Free pages of pageblocks of all types are targets (`ignore_block_suitable`).
    pub any_block: bool,
    /// A task compacts for its own request of this order, and may capture a block of it (`capture_control`, which holds
    /// its order from 7.2). It is below `order` where `vm.defrag_mode` has whole pageblocks compacted.
    pub direct: Option<Order>,
    /// Stop when the share of unusable free memory is at most this many percent.
    pub proactive: Option<u64>,
    /// Stop only when whole blocks meet the high watermark (`defrag_mode`'s kcompactd).
    pub whole_blocks: bool,
    /// `extfrag_threshold`.
    pub extfrag_threshold: i64,
}

/// The result of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ZoneStep {
    /// There is more to do.
    More,
    /// It is over.
    Done(CompactResult),
    /// It is over: the task captured its block.
    Captured(Pfn),
}

/// One compaction of a zone.
#[derive(Clone, Debug)]
pub struct Compactor {
    goal: Goal,
    rules: Compaction,
    migrate_pfn: u64,
    free_pfn: u64,
    /// Free pages taken as targets.
    targets: Targets,
    /// Blocks isolated in this step, and their orders.
    batch: Vec<(u32, Order)>,
    /// The pages of the batch (`nr_migratepages`).
    batch_pages: usize,
    /// Content was migrated from here: its pages must be merged when the scanner is past the block
    /// (`last_migrated_pfn`).
    last_migrated: Option<u64>,
    started: bool,
    /// The rest of the pageblock is scanned even after success, as the request would claim it.
    finishing_block: bool,
    /// All of the rest of the pageblock is isolated at once (`finish_pageblock`).
    takes_rest: bool,
    /// The rest of a pageblock is scanned next because a page could not be migrated, whatever is free now.
    rescans: bool,
    /// Pageblocks were passed over since the last search, and none was scanned.
    passes_on: bool,
    /// The sync start of the migration scanner follows the async one (`update_cached`).
    keeps_in_step: bool,
    /// Content was isolated: the start of the migration scanner stays (up to 3.18: `finished_update_migrate`).
    found_content: bool,
    /// Free pages were isolated: the start of the free scanner stays (up to 3.18: `finished_update_free`).
    found_free: bool,
    whole_zone: bool,
    searches: Searches,
    /// The work of the last step.
    pub scanned: Scanned,
}

impl Compactor {
    /// Returns the number of pages that are isolated at a time.
    const fn batch_most(&self) -> usize {
        self.rules.compact_batch as usize
    }

    /// Returns a compaction that has not started.
    #[must_use]
    pub fn new(goal: Goal, rules: Compaction) -> Self {
        Self {
            goal,
            rules,
            migrate_pfn: 0,
            free_pfn: 0,
            targets: Targets::default(),
            batch: Vec::with_capacity(rules.compact_batch as usize),
            batch_pages: 0,
            last_migrated: None,
            started: false,
            finishing_block: false,
            takes_rest: false,
            rescans: false,
            passes_on: false,
            keeps_in_step: false,
            found_content: false,
            found_free: false,
            whole_zone: goal.whole_zone,
            searches: Searches::new(goal.order),
            scanned: Scanned::default(),
        }
    }

    /// Returns its goal.
    #[must_use]
    pub const fn goal(&self) -> &Goal {
        &self.goal
    }

    /// Migrates up to 32 pages on a CPU. After [`ZoneStep::Done`] it holds no page.
    pub fn step<C: Content, O: Observer>(
        &mut self,
        on: &mut Memory<'_, '_, C>,
        cpu: usize,
        observer: &mut O,
    ) -> ZoneStep {
        self.scanned = Scanned::default();
        if !self.started {
            self.started = true;
            if let Some(result) = self.start(on) {
                return ZoneStep::Done(result);
            }
        } else if !self.rescans
            && let Some(result) = self.finished(&on.allocator.zones()[self.goal.zone], on.state)
        {
            self.release(on, cpu, observer);
            return ZoneStep::Done(result);
        }
        let policy = *on.allocator.policy();
        let captures = self.goal.direct.filter(|_| policy.capture != Capture::Off);
        if let (Some(order), Some((zone, _))) =
            (captures, on.allocator.zone_and_cache(ZoneIndex::new(self.goal.zone), CpuId(cpu)))
        {
            zone.start_capture(CaptureSlot::new(order, self.goal.migratetype));
        }
        let aborted = self.move_batch(on, cpu, observer);
        let captured = on
            .allocator
            .zone_and_cache(ZoneIndex::new(self.goal.zone), CpuId(cpu))
            .and_then(|(zone, _)| zone.end_capture())
            .and_then(|slot| slot.pfn);
        if let Some(pfn) = captured {
            self.release(on, cpu, observer);
            return ZoneStep::Captured(pfn);
        }
        if aborted {
            self.release(on, cpu, observer);
            return ZoneStep::Done(CompactResult::Contended);
        }
        ZoneStep::More
    }

    /// Checks whether compaction is suitable, and sets the scanners to where the last compaction stopped.
    fn start<C: Content>(&mut self, on: &mut Memory<'_, '_, C>) -> Option<CompactResult> {
        let goal = self.goal;
        let mut restarting = false;
        let zone = &on.allocator.zones()[goal.zone];
        if let Some(order) = goal.order
            && goal.proactive.is_none()
        {
            let mark = goal.flags.watermark().map_or(0, |mark| zone.watermark(mark));
            match suitable::suitable(
                zone,
                order,
                (mark, goal.flags),
                goal.highest,
                goal.extfrag_threshold,
                &self.rules,
            ) {
                Suitable::Success if !goal.whole_blocks => return Some(CompactResult::Success),
                Suitable::Skipped => return Some(CompactResult::Skipped),
                _ => {}
            }
            restarting = on.state.deferral.is_restarting(order, self.rules.compact_defer_max);
        }
        // Read before hints are cleared, which moves the positions back: old versions start here all the same.
        let positions = (on.state.migrate[usize::from(goal.mode != Mode::Async)], on.state.free);
        if restarting {
            let rule = self.rules.skip_hints;
            hints::reset(on.allocator, goal.zone, on.state, on.content, rule);
        }
        let zone = &on.allocator.zones()[goal.zone];
        let (start, end) = (zone.span().start.0, zone.span().end.0);
        if self.whole_zone {
            (self.migrate_pfn, self.free_pfn) = (start, last_block(zone));
        } else {
            self.migrate_pfn = on.state.migrate[usize::from(goal.mode != Mode::Async)];
            self.free_pfn = on.state.free;
            if !self.rules.reset_before_read {
                (self.migrate_pfn, self.free_pfn) = positions;
            }
            // The span of the zone may have changed since.
            if !(start..end).contains(&self.free_pfn) {
                self.free_pfn = last_block(zone);
                on.state.free = self.free_pfn;
            }
            if !(start..end).contains(&self.migrate_pfn) {
                self.migrate_pfn = start;
                on.state.migrate = [start; 2];
            }
            self.whole_zone = self.migrate_pfn <= on.state.init_migrate;
        }
        self.keeps_in_step = self.rules.positions_in_step
            && goal.mode == Mode::Async
            && on.state.migrate[0] == on.state.migrate[1];
        None
    }

    /// Returns the result if it is over (`compact_finished`).
    fn finished(&mut self, zone: &Zone<'_>, state: &mut ZoneCompact) -> Option<CompactResult> {
        let pageblock = zone.geometry().pageblock_order;
        if self.have_met(pageblock) {
            // The next compaction would meet at once: it starts at the ends again.
            if self.rules.restart_after_meeting {
                state.reset(zone);
            }
            state.flush |= self.goal.direct.is_some();
            // Linux: partial only from 4.8 on. Nothing that follows differs.
            return Some(if self.whole_zone {
                CompactResult::Complete
            } else {
                CompactResult::PartialSkipped
            });
        }
        if let Some(low) = self.goal.proactive {
            // Compaction ahead of need gives way to reclaim.
            if zone.reclaim_active() {
                return Some(CompactResult::PartialSkipped);
            }
            let score = suitable::extfrag_for_order(zone, pageblock);
            return (score <= low).then_some(CompactResult::Success);
        }
        let order = self.goal.order?;
        let at_block = self.migrate_pfn.is_multiple_of(pages(pageblock));
        // Finishing the pageblock leaves fewer fallbacks for later requests.
        if (self.rules.finish_pageblock || self.finishing_block) && !at_block {
            return None;
        }
        if !self.meets_mark(zone, order) {
            return None;
        }
        if self.goal.whole_blocks {
            let high = zone.boost() + zone.watermarks().high;
            let blocks = zone.free_pages_in_blocks();
            let met = zone.watermark_ok_if(blocks, order, high, self.goal.highest, AllocFlags(0));
            return met.then_some(CompactResult::Success);
        }
        self.has_block(zone, order, at_block).then_some(CompactResult::Success)
    }

    /// Returns whether the zone meets the watermark that success requires.
    fn meets_mark(&self, zone: &Zone<'_>, order: Order) -> bool {
        let (low, block) = (zone.watermarks().low, pages(order));
        let Goal { highest, flags, .. } = self.goal;
        match self.rules.finish_mark {
            FinishMark::ZoneLow => {
                zone.watermark_ok(order, low + block, ZoneKind::Dma, AllocFlags(0))
            }
            FinishMark::RequestLow => zone.watermark_ok(order, low, highest, flags),
            FinishMark::RequestLowAndBlock => zone.watermark_ok(order, low + block, highest, flags),
            FinishMark::Off => true,
        }
    }

    /// Returns whether the request would find a block, on its own list or by claiming a pageblock.
    fn has_block(&mut self, zone: &Zone<'_>, order: Order, at_block: bool) -> bool {
        let mt = self.goal.migratetype;
        if self.rules.finish_block == FinishBlock::OwnList {
            let any = order >= zone.geometry().pageblock_order;
            let mut orders = order..=zone.geometry().max_order;
            return orders.any(|at| zone.nr_free_of(at, mt) > 0 || (any && zone.nr_free(at) > 0));
        }
        for at in order..=zone.geometry().max_order {
            if zone.nr_free_of(at, mt) > 0
                || (mt == Movable && zone.nr_free_of(at, Migratetype::Cma) > 0)
            {
                return true;
            }
            if zone.has_claimable_fallback(at, mt) {
                if mt == Movable || self.goal.mode == Mode::Async || at_block {
                    return true;
                }
                // Otherwise the rest of the pageblock would be polluted.
                self.finishing_block = true;
                return false;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use pageblock::FrameState;

    use super::testing::{AllMovable, FRAMES, fill, goal, raise_watermarks, rules, with_allocator};
    use super::*;
    use pageblock::ids::NodeId;

    /// What a compaction meets: nothing, a kswapd that runs after the first step, or a watermark that spares no page.
    #[derive(Clone, Copy, PartialEq, Eq)]
    enum Meets {
        Nothing,
        Kswapd,
        NoRoom,
    }

    /// Returns the first steps of a compaction without a request.
    fn steps(policy: &str, goal: Goal, meets: Meets) -> [ZoneStep; 2] {
        with_allocator(policy, FRAMES, |allocator| {
            fill(allocator);
            if meets == Meets::NoRoom {
                raise_watermarks(allocator);
            }
            let (zone, _) = allocator.zone_and_cache(ZoneIndex(0), CpuId(0)).unwrap();
            let mut state = ZoneCompact::new(zone);
            let mut compactor = Compactor::new(goal, rules(policy));
            [(); 2].map(|()| {
                let step = compactor.step(
                    &mut Memory { allocator, state: &mut state, content: &mut AllMovable },
                    0,
                    &mut (),
                );
                allocator.set_kswapd_running(NodeId(0), meets == Meets::Kswapd);
                step
            })
        })
    }

    /// `__compact_finished`: a proactive compaction ends when kswapd runs.
    #[test]
    fn proactive_compaction_ends_when_kswapd_runs() {
        let goal = Goal {
            proactive: Some(0),
            ignore_hints: true,
            order: None,
            direct: None,
            whole_zone: true,
            ..goal(Movable)
        };
        let ended = ZoneStep::Done(CompactResult::PartialSkipped);
        assert_eq!(steps("linux-6.8", goal, Meets::Kswapd), [ZoneStep::More, ended]);
        assert_eq!(steps("linux-6.8", goal, Meets::Nothing), [ZoneStep::More, ZoneStep::More]);
    }

    /// `compact_zone`: if the watermark allows no free page to be taken, compaction is contended from 4.8 on, not
    /// complete, so that it is not deferred.
    #[test]
    fn without_room_compaction_is_contended() {
        let goal = Goal { order: None, direct: None, whole_zone: true, ..goal(Movable) };
        let steps = |policy| steps(policy, goal, Meets::NoRoom);
        assert_eq!(steps("linux-6.8")[0], ZoneStep::Done(CompactResult::Contended));
        assert_eq!(steps("linux-4.20")[0], ZoneStep::Done(CompactResult::Contended));
        let complete = ZoneStep::Done(CompactResult::Complete);
        assert_eq!(steps("linux-4.4"), [ZoneStep::More, complete]);
    }

    /// `vm.defrag_mode` has whole pageblocks compacted for small requests: such a task captures a block of its own
    /// order (`capture_control`).
    #[test]
    fn a_task_captures_a_block_of_the_order_of_its_request() {
        let policy = "linux-7.3";
        with_allocator(policy, FRAMES, |allocator| {
            fill(allocator);
            // Room for a whole pageblock (`compaction_suitable`).
            for pfn in (1..FRAMES).step_by(2).map(Pfn) {
                if matches!(allocator.zones()[0].state(pfn), Some(FrameState::Allocated { .. })) {
                    allocator.free(CpuId(0), pfn, 0, &mut ()).unwrap();
                }
            }
            allocator.drain_all(&mut ());
            let (zone, _) = allocator.zone_and_cache(ZoneIndex(0), CpuId(0)).unwrap();
            let mut state = ZoneCompact::new(zone);
            let goal = Goal { order: Some(9), direct: Some(3), ..goal(Movable) };
            let mut compactor = Compactor::new(goal, rules(policy));
            let mut step = ZoneStep::More;
            while step == ZoneStep::More {
                step = compactor.step(
                    &mut Memory { allocator, state: &mut state, content: &mut AllMovable },
                    0,
                    &mut (),
                );
            }
            let ZoneStep::Captured(pfn) = step else { panic!("{step:?}") };
            let block = allocator.zones()[0].state(pfn);
            assert_eq!(block, Some(FrameState::Allocated { order: 3, movable: true }));
        });
    }
}
