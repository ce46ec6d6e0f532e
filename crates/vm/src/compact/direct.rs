//! Direct compaction: a task compacts the zones that its request may use.
//!
//! Source: `try_to_compact_pages`, `__alloc_pages_direct_compact` (mm/compaction.c,
//! mm/page_alloc.c).

use pageblock::alloc_flags::AllocFlags;
use pageblock::event::Observer;
use pageblock::frame::{Order, Pfn};
use pageblock::ids::{CpuId, ZoneIndex};
use pageblock::layout::ZoneKind;
use pageblock::mobility::Migratetype;
use pageblock::request::{Gfp, Request};
use pageblock::slowpath::{CompactPriority, CompactResult, Contention};
use pageblock_kernel::rules::compaction::{Deferral, DirectEnd, StallCount};

use super::content::Pages;
use super::{Compactor, Goal, Memory, Mode, ZoneCompact, ZoneStep, counted, hints};
use crate::vm::{Vm, with_hook};

/// The result of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CompactStep {
    More,
    Done(CompactResult, Contention),
    Captured(Pfn),
}

/// A compaction that was not skipped: the next attempt of the slow path shows whether it helped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Compacted {
    priority: CompactPriority,
    preferred: Option<usize>,
}

/// One direct compaction.
#[derive(Clone, Debug)]
pub(crate) struct DirectCompact {
    zones: Vec<usize>,
    goal: Goal,
    priority: CompactPriority,
    fs: bool,
    compactor: Option<Compactor>,
    result: CompactResult,
    /// The request permits compaction.
    permitted: bool,
    /// The first zone of the request, whose deferral may count for all zones.
    preferred: Option<usize>,
    started: bool,
}

/// Returns the rank of a result: the highest of all zones counts.
const fn rank(result: CompactResult) -> u8 {
    match result {
        CompactResult::Skipped => 0,
        CompactResult::Deferred => 1,
        CompactResult::Complete => 2,
        CompactResult::PartialSkipped => 3,
        CompactResult::Contended => 4,
        CompactResult::Success => 5,
    }
}

impl DirectCompact {
    pub(crate) fn new<O: Observer>(
        vm: &Vm<'_, O>,
        cpu: usize,
        request: &Request,
        order: Order,
        priority: CompactPriority,
        flags: AllocFlags,
    ) -> Self {
        let needs_fs = vm.kernel.compaction.needs_fs;
        let permitted = request.gfp.has(Gfp::IO) && (!needs_fs || request.gfp.has(Gfp::FS));
        let zones = vm.allocator.zones_for(CpuId(cpu), request).ok();
        let hardest = priority == CompactPriority::SyncFull;
        let goal = Goal {
            zone: 0,
            order: Some(order),
            migratetype: request.gfp.migratetype().unwrap_or(Migratetype::Unmovable),
            mode: if priority == CompactPriority::Async { Mode::Async } else { Mode::SyncLight },
            highest: request.gfp.highest_zone(),
            flags,
            whole_zone: hardest,
            ignore_hints: hardest,
            any_block: hardest,
            direct: Some(request.order),
            proactive: None,
            whole_blocks: false,
            extfrag_threshold: vm.kernel.sysctl.extfrag_threshold.into(),
        };
        // Popped from the end: the preferred zone comes first.
        let mut zones: Vec<usize> =
            zones.map(|zones| zones.map(ZoneIndex::index).collect()).unwrap_or_default();
        let preferred = zones.first().copied();
        zones.reverse();
        Self {
            zones,
            permitted,
            preferred,
            started: false,
            goal,
            priority,
            fs: request.gfp.has(Gfp::FS),
            compactor: None,
            result: CompactResult::Skipped,
        }
    }

    /// Compacts a little further.
    pub(crate) fn step<O: Observer>(&mut self, vm: &mut Vm<'_, O>, cpu: usize) -> CompactStep {
        let Some(compactor) = &mut self.compactor else { return self.next_zone(vm) };
        match vm.step_compactor(compactor, cpu, self.fs) {
            ZoneStep::More => CompactStep::More,
            // The slow path gets the block without another attempt, so the attempt's counts are made here.
            ZoneStep::Captured(pfn) => {
                let order = self.goal.order.unwrap_or(0);
                vm.compact[compactor.goal().zone].serve(order);
                vm.stat.compact_stall += 1;
                vm.stat.compact_success += 1;
                vm.stalls.note_compaction(order);
                vm.stalls.note_compacted(order);
                CompactStep::Captured(pfn)
            }
            ZoneStep::Done(result) => self.end_zone(vm, result),
        }
    }

    /// Returns what an attempt after this compaction must know.
    pub(crate) const fn outcome(&self) -> Compacted {
        Compacted { priority: self.priority, preferred: self.preferred }
    }

    /// Starts, unless the request does not permit it or the preferred zone defers it for all.
    fn start<O: Observer>(&mut self, vm: &mut Vm<'_, O>) -> Result<(), CompactResult> {
        let order = self.goal.order.unwrap_or(0);
        self.started = true;
        let rules = vm.kernel.compaction;
        if rules.deferral == Deferral::PreferredZone
            && let Some(zone) = self.preferred
            && vm.compact[zone].deferral.is_deferred(order)
        {
            return Err(CompactResult::Deferred);
        }
        // Asked after the deferral, which counts the attempt: the caller of `try_to_compact_pages` asks that first.
        if !self.permitted {
            return Err(CompactResult::Skipped);
        }
        if rules.stall_count == StallCount::OnEntry {
            vm.stat.compact_stall += 1;
            vm.stalls.note_compaction(order);
        }
        Ok(())
    }

    /// Chooses the next zone, unless it is deferred.
    fn next_zone<O: Observer>(&mut self, vm: &mut Vm<'_, O>) -> CompactStep {
        if !self.started
            && let Err(result) = self.start(vm)
        {
            return CompactStep::Done(result, Contention::None);
        }
        let Some(zone) = self.zones.pop() else {
            return CompactStep::Done(self.result, Contention::None);
        };
        let order = self.goal.order.unwrap_or(0);
        let deferral = &mut vm.compact[zone].deferral;
        // The highest priority tries every zone, so that a request is not given up for a deferral.
        if vm.kernel.compaction.deferral == Deferral::EachZone
            && self.priority != CompactPriority::SyncFull
            && deferral.is_deferred(order)
        {
            self.note(CompactResult::Deferred);
            return CompactStep::More;
        }
        self.compactor = Some(Compactor::new(Goal { zone, ..self.goal }, vm.kernel.compaction));
        CompactStep::More
    }

    /// Keeps the highest result so far.
    fn note(&mut self, result: CompactResult) {
        if rank(result) > rank(self.result) {
            self.result = result;
        }
    }

    /// Ends the compaction of a zone, and of all if the result suffices.
    fn end_zone<O: Observer>(&mut self, vm: &mut Vm<'_, O>, result: CompactResult) -> CompactStep {
        let zone = self.compactor.take().map_or(0, |c| c.goal().zone);
        let order = self.goal.order.unwrap_or(0);
        self.note(result);
        if vm.kernel.compaction.deferral == Deferral::EachZone {
            match result {
                CompactResult::Success => vm.compact[zone].deferral.succeed(order),
                CompactResult::Complete | CompactResult::PartialSkipped
                    // Asynchronous compaction skips too much for its failure to say that the zone is hopeless.
                    if self.priority != CompactPriority::Async =>
                {
                    let most = vm.kernel.compaction.compact_defer_max;
                    vm.compact[zone].deferral.defer(order, most);
                }
                _ => {}
            }
        }
        let ends = match vm.kernel.compaction.direct_end {
            DirectEnd::Success => result == CompactResult::Success,
            DirectEnd::LowWatermark => self.meets_low(vm, zone),
        };
        if ends { CompactStep::Done(self.result, Contention::None) } else { CompactStep::More }
    }

    /// Returns whether a zone has a block of the order at its low watermark.
    fn meets_low<O: Observer>(&self, vm: &Vm<'_, O>, zone: usize) -> bool {
        let cma = self.goal.migratetype == Migratetype::Movable;
        let flags = if cma { AllocFlags::CMA } else { AllocFlags(0) };
        let (zone, order) = (&vm.allocator.zones()[zone], self.goal.order.unwrap_or(0));
        zone.watermark_ok(order, zone.watermarks().low, ZoneKind::Dma, flags)
    }
}

impl ZoneCompact {
    /// Notes that a compaction led to a block of an order: its hints are not stale.
    fn serve(&mut self, order: Order) {
        self.deferral.serve(order);
        self.flush = false;
    }
}

impl<O: Observer> Vm<'_, O> {
    /// Notes in which zone an attempt of the slow path found a block after a compaction, if it did
    /// (`__alloc_pages_direct_compact`).
    pub(crate) fn note_attempt(
        &mut self,
        compacted: Compacted,
        order: Order,
        zone_of_page: Option<usize>,
    ) {
        let served = zone_of_page.is_some();
        self.stat.compact_success += u64::from(served);
        self.stat.compact_fail += u64::from(!served);
        if served {
            self.stalls.note_compacted(order);
        }
        let Compacted { priority, preferred } = compacted;
        // Failures of zones were counted when each ended.
        if self.kernel.compaction.deferral != Deferral::PreferredZone {
            if let Some(zone) = zone_of_page {
                self.compact[zone].serve(order);
            }
        } else if let Some(zone) = preferred {
            let state = &mut self.compact[zone];
            if served {
                state.serve(order);
            } else if priority != CompactPriority::Async {
                state.deferral.defer(order, self.kernel.compaction.compact_defer_max);
            }
        }
    }

    /// Runs one step of a compaction, and counts its work.
    pub(crate) fn step_compactor(
        &mut self,
        compactor: &mut Compactor,
        cpu: usize,
        fs: bool,
    ) -> ZoneStep {
        let state = &mut self.compact[compactor.goal().zone];
        let content = &mut Pages {
            pages: &mut self.pages,
            pagecache: &mut self.pagecache,
            swap: &mut self.swap,
            inject: &mut self.inject,
            fs,
        };
        let step = with_hook!(self, allocator, hook => {
            compactor.step(&mut Memory { allocator, state, content }, cpu, hook)
        });
        let scanned = compactor.scanned;
        let (migrate, free) = counted(&scanned, self.kernel.compaction.compact_counts);
        self.stat.compact_migrate_scanned += migrate;
        self.stat.compact_free_scanned += free;
        self.stat.compact_isolated += scanned.isolated;
        self.stat.pgmigrate_success += scanned.moved;
        self.stat.pgmigrate_fail += scanned.failed;
        self.work.compact_scanned += scanned.migrate + scanned.free;
        self.work.isolated += scanned.isolated;
        self.work.migrated += scanned.moved;
        step
    }

    /// Compacts every zone as far as possible (`/proc/sys/vm/compact_memory`).
    pub fn compact_memory(&mut self, cpu: usize) {
        self.drain_all();
        for zone in 0..self.allocator.zones().len() {
            let goal = Goal {
                zone,
                order: None,
                migratetype: Migratetype::Movable,
                mode: Mode::Sync,
                highest: self.allocator.zones()[zone].kind(),
                flags: AllocFlags(0),
                whole_zone: true,
                ignore_hints: true,
                any_block: false,
                direct: None,
                proactive: None,
                whole_blocks: false,
                extfrag_threshold: self.kernel.sysctl.extfrag_threshold.into(),
            };
            let mut compactor = Compactor::new(goal, self.kernel.compaction);
            while self.step_compactor(&mut compactor, cpu, true) == ZoneStep::More {}
            self.drain_cpu(cpu);
        }
    }

    /// Clears the skip hints of a node's zones that a direct compaction made stale; kswapd does so when it sleeps
    /// (`reset_isolation_suitable`).
    pub(crate) fn reset_skip_hints(&mut self, node: usize) {
        for zone in 0..self.compact.len() {
            if self.nodes.of_zone(zone) == node && self.compact[zone].flush {
                let content = &Pages {
                    pages: &mut self.pages,
                    pagecache: &mut self.pagecache,
                    swap: &mut self.swap,
                    inject: &mut self.inject,
                    fs: true,
                };
                let rule = self.kernel.compaction.skip_hints;
                let (allocator, state) = (&mut self.allocator, &mut self.compact[zone]);
                hints::reset(allocator, zone, state, content, rule);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compact::testing::with_allocator;

    #[test]
    fn a_block_after_compaction_keeps_the_hints() {
        with_allocator("linux-6.12", 2048, |allocator| {
            let mut state = ZoneCompact::new(&allocator.zones()[0]);
            state.flush = true;
            state.serve(9);
            assert!(!state.flush);
        });
    }
}
