//! Free replay: the demands of a recording under any policy, from the same start state.
//!
//! The loop is open. Reclaim and compaction do what they did in the recording: the same pages are freed, and as
//! many are taken. Only the allocator decides by itself.

mod draw;
mod history;
mod placement;
mod result;
mod run;
mod start;

use pageblock::alloc::{AllocError, Allocator};
use pageblock::alloc_flags::AllocFlags;
use pageblock::frame::{Order, Pfn};
use pageblock::ids::{CpuId, NodeId, ZoneIndex};
use pageblock::mobility::Migratetype;
use pageblock::policy::Fair;
use pageblock::request::{Gfp, Request};
use pageblock::reserve::Unreserve;
use pageblock::zone::Zone;
use pageblock_measure::value::mismatch::TypeMismatch;

use self::history::FreeHistory;
use self::placement::Placement;
pub use self::result::Replayed;
pub use self::run::{demands, describe, replay, replay_with_history};
pub use self::start::start;
use crate::demand::{Demand, Instead, SINGLE, Timed};
use crate::watch::Watch;

/// A free replay in progress.
pub struct Replay<'a, 'm> {
    allocator: &'a mut Allocator<'m>,
    tally: Watch,
    mismatch: TypeMismatch,
    placement: Placement,
    instead: Instead,
    /// By zone: the boost when kswapd's run or the second began.
    boosts: Vec<u64>,
    outcome: Outcome,
    /// Where the search for a page to isolate last ended, and the pageblock where the recorded search did.
    scanner: Option<Pfn>,
    isolated: Pfn,
    /// Where the search for a page to move to last ended, and up to where pages were moved away: the two scanners
    /// of a run of compaction, which approach each other.
    targets: Pfn,
    evacuated: Pfn,
    /// The history of its memory, if requested.
    history: Option<Box<FreeHistory>>,
}

/// The counts of a replay, beside those of events.
#[derive(Clone, Copy, Default)]
struct Outcome {
    /// Requests that the fast path did not serve.
    slow: u64,
    /// Requests that got the same frame as in the recording.
    same_frame: u64,
    /// Requests that failed in the recording, and that the policy would serve.
    rescued: u64,
    /// Frees of frames whose allocation was not recorded, and for which no unnamed block was left.
    unknown_frees: u64,
    /// Pages that compaction took in the recording, and for which no free page was found.
    not_isolated: u64,
}

impl<'a, 'm> Replay<'a, 'm> {
    /// Creates a replay from the allocator's state, which must be that of the recording's start.
    #[must_use]
    pub fn new(allocator: &'a mut Allocator<'m>) -> Self {
        let placement = Placement::of(allocator);
        let pageblock_order = allocator.geometry().pageblock_order;
        let boosts = allocator.zones().iter().map(pageblock::zone::Zone::boost).collect();
        Self {
            allocator,
            tally: Watch::new(pageblock_order),
            mismatch: TypeMismatch::new(),
            placement,
            instead: Instead::new(pageblock_order),
            boosts,
            outcome: Outcome::default(),
            scanner: None,
            isolated: Pfn(0),
            targets: Pfn(u64::MAX),
            evacuated: Pfn(0),
            history: None,
        }
    }

    /// Serves one demand.
    pub fn push(&mut self, timed: Timed) {
        let cpu = usize::from(timed.cpu).min(self.allocator.cpus() - 1);
        self.watch_history(timed.t_ms);
        self.tally.at(timed.t_ms);
        match timed.demand {
            Demand::Alloc { pfn, order, gfp, past_list, instead_of } => {
                self.placement.forget(pfn, order);
                self.release(Some(cpu), pfn, order);
                match instead_of.filter(|&fault| self.instead.has(fault)) {
                    Some(fault) => {
                        if let Some(block) = self.instead.stand_for(fault, pfn, order) {
                            self.placement.place(pfn, block, order);
                        }
                    }
                    None => self.serve(cpu, pfn, order, gfp, past_list),
                }
            }
            Demand::Failed { order, gfp, fault } => {
                if !fault.is_some_and(|fault| self.instead.has(fault)) {
                    self.alloc_again(cpu, order, gfp, (fault, timed.t_ms));
                }
            }
            Demand::Free { pfn, order, past_list, .. } => {
                // The allocator frees past the lists as for a CPU without lists.
                let cpu = (!past_list).then_some(cpu);
                if self.release(cpu, pfn, order) == 0 {
                    self.free(cpu, pfn, order);
                }
            }
            // Reclaim is as recorded.
            Demand::Reuse { .. } => {}
            Demand::Evacuate { pfn, pages } => self.evacuate(cpu, pfn, pages),
            Demand::MoveAway { pfn, to } => {
                if !self.instead.relocate(pfn, to) {
                    self.placement.move_away(self.allocator, pfn, to);
                } else if let Some(to) = to {
                    // Nothing moves here: the target is freed next.
                    self.placement.rename(to, pfn);
                }
            }
            Demand::Isolate { pfn, order } => self.isolate(pfn, order),
            Demand::Bulk { pages } => {
                // A bulk request ends with the first page that it does not get.
                for _ in 0..pages {
                    let Some(placed) = self.alloc(cpu, 0, Gfp::GFP_KERNEL, false) else { break };
                    self.placement.place_unknown(placed);
                }
            }
            Demand::Drain { pfn } => {
                if let Some(zone) = self.allocator.zone_of(pfn) {
                    let drained = self.allocator.drain_zone(CpuId(cpu), zone, &mut self.tally);
                    debug_assert!(drained.is_ok(), "{drained:?}");
                }
            }
            Demand::Tick => {
                self.tick(cpu);
                for block in self.instead.unused(timed.t_ms) {
                    self.give_back(Some(cpu), block, self.huge());
                }
            }
            Demand::Kswapd { node, running } => self.kswapd(node, running),
        }
    }

    /// Begins or ends a run of kswapd. The boosts with which a run began are gone at its end.
    fn kswapd(&mut self, node: u8, running: bool) {
        self.allocator.set_kswapd_running(NodeId(node), running);
        self.end_boosts(|zone| zone.node() == NodeId(node));
        for (zone, boost) in self.allocator.zones().iter().zip(&mut self.boosts) {
            if zone.node() == NodeId(node) {
                *boost = zone.boost();
            }
        }
    }

    /// Removes the rest of the noted boosts of some zones.
    fn end_boosts(&mut self, of: impl Fn(&Zone<'_>) -> bool) {
        for at in 0..self.boosts.len() {
            if let Some((zone, _)) = self.allocator.zone_and_cache(ZoneIndex::new(at), CpuId(0))
                && of(zone)
            {
                zone.end_boost(self.boosts[at]);
                self.boosts[at] = zone.boost();
            }
        }
    }

    /// Does the vmstat work of a CPU. Boosts that the recorded kernel did not have, so that its kswapd did not run
    /// for them, are removed within a second or two.
    fn tick(&mut self, cpu: usize) {
        let ticked = self.allocator.vmstat_tick(CpuId(cpu), &mut self.tally);
        debug_assert!(ticked.is_ok(), "{ticked:?}");
        if cpu == 0 {
            self.end_boosts(|zone| !zone.reclaim_active());
        }
    }

    /// Serves a recorded request. A page fault that gets no huge page here takes single pages.
    fn serve(&mut self, cpu: usize, pfn: Pfn, order: Order, gfp: Gfp, past_list: bool) {
        if let Some(placed) = self.alloc(cpu, order, gfp, past_list) {
            self.outcome.same_frame += u64::from(placed == pfn);
            self.placement.place(pfn, placed, order);
        } else if order == self.huge() && gfp.migratetype() == Some(Migratetype::Movable) {
            for page in (0..1 << order).map(|n| pfn.plus(n)) {
                if let Some(placed) = self.alloc(cpu, 0, SINGLE, false) {
                    self.placement.place(page, placed, 0);
                }
            }
        }
    }

    fn alloc(&mut self, cpu: usize, order: Order, gfp: Gfp, past_list: bool) -> Option<Pfn> {
        let request = Request::new(order, gfp);
        let served = if past_list {
            self.allocator.alloc_past_lists(CpuId(cpu), &request, None, &mut self.tally)
        } else {
            self.allocator.alloc(CpuId(cpu), &request, &mut self.tally)
        };
        let served = match served {
            Err(AllocError::NoMemory) => {
                self.outcome.slow += 1;
                self.alloc_slow(cpu, &request)
            }
            served => served.ok(),
        };
        match served {
            Some(pfn) => self.note(pfn, order, gfp),
            None => {
                let _ = self.allocator.report_failure(CpuId(cpu), &request, &mut self.tally);
            }
        }
        served
    }

    /// Serves a request that the fast path did not serve. Memory that reclaim freed in the recording is free here
    /// too, so only the allocator's own resorts are left: lower watermarks, the CPU lists, the reserve. Where the
    /// recorded kernel found memory above its watermarks, this policy may use what is below them, as it cannot
    /// reclaim.
    fn alloc_slow(&mut self, cpu: usize, request: &Request) -> Option<Pfn> {
        let gfp = request.gfp;
        if matches!(self.allocator.policy().fair, Fair::AllZones | Fair::LocalNode) {
            // Those kernels start a new fair round here, and only here.
            let _ = self.allocator.reset_fair_batches(CpuId(cpu), request);
        }
        let mut flags = AllocFlags::WMARK_MIN;
        if gfp.has(Gfp::KSWAPD_RECLAIM) {
            flags = flags.with(AllocFlags::KSWAPD);
        }
        if gfp.migratetype() == Some(Migratetype::Movable) {
            flags = flags.with(AllocFlags::CMA);
        }
        if gfp.has(Gfp::HIGH) {
            flags = flags.with(AllocFlags::MIN_RESERVE);
        }
        if !gfp.has(Gfp::DIRECT_RECLAIM) {
            flags = flags.with(AllocFlags::NON_BLOCK);
        }
        let attempt = |this: &mut Self, flags| {
            this.allocator.alloc_with(CpuId(cpu), request, flags, &mut this.tally).ok()
        };
        let unlimited = flags.with(AllocFlags::NO_WATERMARKS);
        if let Some(pfn) = attempt(self, flags).or_else(|| attempt(self, unlimited)) {
            return Some(pfn);
        }
        if !gfp.has(Gfp::DIRECT_RECLAIM) {
            return None;
        }
        self.allocator.drain_all(&mut self.tally);
        let mt = gfp.migratetype().unwrap_or(Migratetype::Unmovable);
        for at in 0..self.allocator.zones().len() {
            if let Some((zone, _)) = self.allocator.zone_and_cache(ZoneIndex::new(at), CpuId(cpu)) {
                zone.unreserve_highatomic(mt, Unreserve::KeepOne);
            }
        }
        attempt(self, unlimited)
    }

    /// Tries a request that failed in the recording. Only for huge pages is it known what the task would have done
    /// with it ([`Instead`]); all others are freed at once.
    fn alloc_again(
        &mut self,
        cpu: usize,
        order: Order,
        gfp: Gfp,
        (fault, t_ms): (Option<u32>, u32),
    ) {
        let request = Request::new(order, gfp);
        let Ok(pfn) = self.allocator.alloc(CpuId(cpu), &request, &mut self.tally) else {
            let _ = self.allocator.report_failure(CpuId(cpu), &request, &mut self.tally);
            return;
        };
        self.outcome.rescued += 1;
        self.note(pfn, order, gfp);
        match fault {
            Some(fault) => self.instead.hold(fault, pfn, t_ms),
            None => self.give_back(None, pfn, order),
        }
    }

    fn huge(&self) -> Order {
        self.allocator.geometry().pageblock_order
    }

    /// Ends the use of a recorded block. Returns the number of its pages for which huge pages stood.
    fn release(&mut self, cpu: Option<usize>, pfn: Pfn, order: Order) -> u32 {
        let mut gone = Vec::new();
        let pages = self.instead.release(pfn, order, &mut gone);
        for block in gone {
            self.give_back(cpu, block, self.huge());
        }
        pages
    }

    /// Frees the block of a request that failed in the recording.
    fn give_back(&mut self, cpu: Option<usize>, block: Pfn, order: Order) {
        self.placement.end_request(block, order);
        self.free_block(cpu, block, order);
    }

    /// Counts where a request of a type was placed.
    fn note(&mut self, pfn: Pfn, order: Order, gfp: Gfp) {
        let Some(at) = self.allocator.zone_of(pfn) else { return };
        let Some(block) = self.allocator.zones()[at.index()].block_type(pfn) else { return };
        let requested = gfp.migratetype().unwrap_or(Migratetype::Unmovable);
        self.mismatch.record(requested, block, order);
        self.placement.request(pfn, order, requested);
    }

    fn free(&mut self, cpu: Option<usize>, pfn: Pfn, order: Order) {
        let Some(placed) = self.placement.take(self.allocator, pfn, order) else {
            match self.placement.take_unknown() {
                Some(page) if order == 0 => self.free_block(cpu, page, 0),
                _ => self.outcome.unknown_frees += 1,
            }
            return;
        };
        match placed {
            placement::Placed::Block(block) => self.free_block(cpu, block, order),
            placement::Placed::Pages(pages) => {
                for page in pages {
                    self.free_block(cpu, page, 0);
                }
            }
        }
    }

    fn free_block(&mut self, cpu: Option<usize>, pfn: Pfn, order: Order) {
        let freed = match cpu {
            Some(cpu) => self.allocator.free(CpuId(cpu), pfn, order, &mut self.tally),
            None => self.allocator.free_past_lists(pfn, order, &mut self.tally),
        };
        if freed.is_err() {
            self.outcome.unknown_frees += 1;
        }
    }

    /// Takes pages for compaction: the recorded ones if they are free here and in movable pageblocks; otherwise as
    /// many of the highest free pages of movable pageblocks below.
    fn isolate(&mut self, pfn: Pfn, order: Order) {
        self.placement.forget(pfn, order);
        for page in pfn.0..pfn.0 + (1 << order) {
            let page = Pfn(page);
            let taken = self.isolate_page(page);
            match taken {
                Some(taken) => self.placement.place(page, taken, 0),
                None => self.outcome.not_isolated += 1,
            }
        }
    }

    /// Moves the pages away that are in compaction's way: movable pages, even where the recording had none that it
    /// could move. Pages that it moved in the recording follow one by one.
    fn evacuate(&mut self, cpu: usize, start: Pfn, pages: u32) {
        if start < self.evacuated {
            self.targets = Pfn(u64::MAX);
        }
        self.evacuated = start;
        for pfn in (start.0..start.0 + u64::from(pages)).map(Pfn) {
            if !self.placement.is_in_the_way(self.allocator, pfn) {
                continue;
            }
            let Some(at) = self.allocator.zone_of(pfn) else { continue };
            let Some((zone, _)) = self.allocator.zone_and_cache(at, CpuId(cpu)) else { continue };
            let from = self.targets.min(Pfn(zone.span().end.0 - 1));
            let target = placement::free_page_below(zone, from).unwrap_or(zone.span().start);
            self.targets = target;
            // The scanners have met.
            if target.0 < start.0 + u64::from(pages) || zone.impose_take(target, 0, true).is_err() {
                return;
            }
            self.placement.relocate(pfn, target);
            self.free_block(Some(cpu), pfn, 0);
        }
    }

    /// Finds a page to isolate. Like the kernel's, the search does not go back up while the recorded one goes down.
    fn isolate_page(&mut self, pfn: Pfn) -> Option<Pfn> {
        let at = self.allocator.zone_of(pfn)?;
        let (zone, _) = self.allocator.zone_and_cache(at, CpuId(0))?;
        // From one pageblock to the next it goes down, within a pageblock up.
        let block = pfn.align_down(zone.geometry().pageblock_order);
        if block > self.isolated {
            self.scanner = None;
        }
        self.isolated = block;
        // Compaction fills only movable pageblocks.
        let suits = zone.block_type(pfn) == Some(Migratetype::Movable);
        let page = if suits && zone.free_block_of(pfn).is_some() {
            pfn
        } else {
            let page = placement::free_page_below(zone, self.scanner.unwrap_or(pfn))
                .or_else(|| placement::free_page_below(zone, Pfn(zone.span().end.0 - 1)))?;
            self.scanner = Some(page);
            page
        };
        zone.impose_take(page, 0, true).ok()?;
        self.placement.request(page, 0, Migratetype::Movable);
        Some(page)
    }
}

#[cfg(test)]
mod tests;
