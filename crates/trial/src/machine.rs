//! An allocator in the state of a machine, and the effect of remedies on it.

use std::cell::Cell;

use pageblock::alloc::Allocator;
use pageblock::alloc_flags::AllocFlags;
use pageblock::frame::{Order, Pfn};
use pageblock::ids::{CpuId, ZoneIndex};
use pageblock::layout::ZoneKind;
use pageblock::mobility::Migratetype::{Movable, Unmovable};
use pageblock::zone::{FrameError, Zone};
use pageblock_kernel::rules::compaction::Compaction;
use pageblock_vm::compact::kcompactd::fragmentation_score;
use pageblock_vm::compact::{Compactor, Content, Goal, Memory, Mode, ZoneCompact, ZoneStep};

use crate::error::Error;
use crate::remedy::{OrderGain, Span};
use crate::state::{DROPPED, State, Use};

/// The assumptions about what a state leaves open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Assumed {
    /// Worst case: pages that may move do not; a folio above order 0 ends a run; nothing on per-CPU lists becomes
    /// free.
    Worst,
    /// Best case: pages that may move do; per-CPU lists are drained, and their pages are where they block the
    /// fewest pageblocks.
    Best,
}

/// The CPU that compacts.
const CPU: CpuId = CpuId(0);

/// An allocator in the state of a machine.
pub(crate) struct Trial<'m> {
    allocator: Allocator<'m>,
    frames: Frames,
    rules: Compaction,
    extfrag_threshold: i64,
    /// The number of pages that were moved.
    pub(crate) moved: u64,
}

/// The use of frames while memory is compacted.
struct Frames {
    uses: Vec<u8>,
    assumed: Assumed,
    moves_folios: bool,
    /// The scanner met a folio that may end the run.
    ends: Cell<bool>,
}

impl Frames {
    fn use_of(&self, pfn: Pfn) -> Use {
        Use::of(self.uses.get(pfn.0 as usize).copied().unwrap_or(0))
    }
}

impl Content for Frames {
    fn is_movable(&self, pfn: Pfn, _: Mode) -> bool {
        match self.use_of(pfn) {
            Use::Moves => true,
            Use::MayMove => self.assumed == Assumed::Best,
            Use::Folio if self.moves_folios => {
                self.ends.set(self.assumed == Assumed::Worst);
                self.assumed == Assumed::Best
            }
            _ => false,
        }
    }

    fn migrate(&mut self, from: Pfn, to: Pfn, _: Mode) -> bool {
        debug_assert_eq!(self.use_of(to), Use::Free, "a page moves to {to}, which is in use");
        self.uses[to.0 as usize] = self.uses[from.0 as usize];
        self.uses[from.0 as usize] = Use::Free as u8;
        true
    }

    fn hold(&mut self, pfn: Pfn, _: Order) {
        debug_assert_eq!(self.use_of(pfn), Use::Free, "{pfn} is a target and in use");
        self.uses[pfn.0 as usize] = Use::Stays as u8;
    }

    fn let_go(&mut self, pfn: Pfn, _: Order) {
        self.uses[pfn.0 as usize] = Use::Free as u8;
    }
}

impl State {
    /// Builds an allocator in this state, and runs `act` on it.
    pub(crate) fn with<T>(
        &self,
        assumed: Assumed,
        act: impl FnOnce(&mut Trial<'_>) -> T,
    ) -> Result<T, Error> {
        let policy = self.kernel.allocator;
        let mut memory = self.machine.table_memory(policy)?;
        let mut allocator = self.machine.allocator(policy, &self.snapshot, &mut memory)?;
        let mut uses = self.uses.clone();
        if assumed == Assumed::Best {
            free_listed(&mut uses, self.on_cpu_lists, 1 << self.pageblock_order());
        }
        for at in 0..allocator.zones().len() {
            if let Some((zone, _)) = allocator.zone_and_cache(ZoneIndex::new(at), CPU) {
                impose(zone, &uses)?;
            }
        }
        let moves_folios = self.moves_folios;
        Ok(act(&mut Trial {
            allocator,
            frames: Frames { uses, assumed, moves_folios, ends: Cell::new(false) },
            rules: self.kernel.compaction,
            extfrag_threshold: self.kernel.sysctl.extfrag_threshold.into(),
            moved: 0,
        }))
    }

    /// Runs a trial under both assumptions.
    pub(crate) fn try_both<T>(&self, act: impl Fn(&mut Trial<'_>) -> T) -> Result<[T; 2], Error> {
        Ok([self.with(Assumed::Worst, &act)?, self.with(Assumed::Best, &act)?])
    }
}

/// Frees pages of unknown use in pageblocks that they alone keep from being free, starting with the pageblocks that
/// have the fewest.
fn free_listed(uses: &mut [u8], mut pages: u64, pageblock: usize) {
    let unknown = |block: &[u8]| -> Option<u64> {
        let stays = block.iter().any(|&used| matches!(Use::of(used), Use::Stays | Use::Absent));
        let unknown = block.iter().filter(|&&used| Use::of(used) == Use::Unknown).count() as u64;
        (!stays && unknown > 0).then_some(unknown)
    };
    let counts = uses.chunks(pageblock).enumerate();
    let mut blocks: Vec<(u64, usize)> =
        counts.filter_map(|(at, block)| Some((unknown(block)?, at))).collect();
    blocks.sort_unstable();
    for (count, at) in blocks {
        let Some(left) = pages.checked_sub(count) else { return };
        pages = left;
        let end = ((at + 1) * pageblock).min(uses.len());
        for used in &mut uses[at * pageblock..end] {
            if Use::of(*used) == Use::Unknown {
                *used = Use::Free as u8;
            }
        }
    }
}

/// Brings a zone into the state of the frames. Free buddies are merged.
fn impose(zone: &mut Zone<'_>, uses: &[u8]) -> Result<(), Error> {
    let span = zone.span();
    let largest = zone.geometry().max_order;
    let used = |at: u64| Use::of(uses.get(at as usize).copied().unwrap_or(0));
    let mut pfn = span.start;
    while pfn < span.end {
        let failed = |source: FrameError| Error::Contradiction { pfn, source };
        match used(pfn.0) {
            Use::Absent => {}
            Use::Free => {
                let rest = &uses[pfn.0 as usize..span.end.0 as usize];
                let free = rest.iter().take(1 << largest);
                let free = free.take_while(|&&used| Use::of(used) == Use::Free).count() as u64;
                let order = (free.ilog2().min(pfn.0.trailing_zeros()) as Order).min(largest);
                let list = zone.block_type(pfn).unwrap_or(Movable);
                zone.impose_free_block(pfn, order, list).map_err(failed)?;
                pfn = Pfn(pfn.0 + (1 << order));
                continue;
            }
            Use::Moves | Use::MayMove | Use::Folio => {
                zone.impose_allocated(pfn, 0, true).map_err(failed)?;
            }
            Use::Unknown | Use::Stays => zone.impose_allocated(pfn, 0, false).map_err(failed)?,
        }
        pfn = Pfn(pfn.0 + 1);
    }
    debug_assert_eq!(
        zone.free_pages(),
        (span.start.0..span.end.0).filter(|&at| used(at) == Use::Free).count() as u64,
        "the zone has other pages free than the state"
    );
    Ok(())
}

impl Trial<'_> {
    /// Returns the number of free blocks of an order; a larger block counts as several.
    pub(crate) fn free_blocks(&self, order: Order) -> u64 {
        let of = |zone: &Zone<'_>| -> u64 {
            (order..=zone.geometry().max_order).map(|o| zone.nr_free(o) << (o - order)).sum()
        };
        self.allocator.zones().iter().map(of).sum()
    }

    /// Returns the number of zones.
    pub(crate) fn zones(&self) -> &[Zone<'_>] {
        self.allocator.zones()
    }

    /// Returns the largest fragmentation score of any node, for proactive compaction.
    pub(crate) fn score(&self) -> u64 {
        let zones = self.allocator.zones();
        let of_node = |zone: &Zone<'_>| {
            let node = zone.node();
            fragmentation_score(zones.iter().filter(move |zone| zone.node() == node))
        };
        zones.iter().map(of_node).max().unwrap_or(0)
    }

    /// Frees the pages that `drop_caches` frees. Returns their number.
    pub(crate) fn drop_caches(&mut self) -> u64 {
        let mut dropped = 0;
        for pfn in 0..self.frames.uses.len() {
            let used = &mut self.frames.uses[pfn];
            if *used & DROPPED == 0 {
                continue;
            }
            if self.allocator.free(CPU, Pfn(pfn as u64), 0, &mut ()).is_ok() {
                *used = Use::Free as u8;
                dropped += 1;
            }
        }
        self.drain();
        dropped
    }

    /// Compacts every zone as far as possible, as `compact_memory` does. The blocks freed last stay on the CPU's
    /// lists until they are drained.
    pub(crate) fn compact_memory(&mut self) {
        for at in 0..self.allocator.zones().len() {
            let goal = Goal { mode: Mode::Sync, ignore_hints: true, ..self.goal(at, None) };
            self.run(goal);
        }
        self.drain();
    }

    /// Drains the CPU lists, in the best case only.
    fn drain(&mut self) {
        if self.frames.assumed == Assumed::Best {
            self.allocator.drain_all(&mut ());
        }
    }

    /// Compacts every zone as kcompactd does by itself, until the score falls to a value.
    pub(crate) fn compact_proactively(&mut self, low: u64) {
        for at in 0..self.allocator.zones().len() {
            let goal = Goal { proactive: Some(low), ignore_hints: true, ..self.goal(at, None) };
            self.run(goal);
        }
        self.drain();
    }

    /// Compacts for a request of an order, from the highest zone down, until a block is free. Returns whether one
    /// is.
    pub(crate) fn compact_for(&mut self, order: Order) -> bool {
        let pageblock = self.allocator.geometry().pageblock_order;
        for at in (0..self.allocator.zones().len()).rev() {
            let goal = Goal {
                order: Some(order),
                // Users ask for huge pages and larger blocks, the kernel for smaller ones.
                migratetype: if order >= pageblock { Movable } else { Unmovable },
                whole_zone: false,
                direct: Some(order),
                ..self.goal(at, Some(order))
            };
            if self.run(goal) {
                return true;
            }
        }
        false
    }

    fn goal(&self, zone: usize, order: Option<Order>) -> Goal {
        Goal {
            zone,
            order,
            migratetype: Movable,
            mode: Mode::SyncLight,
            highest: if order.is_some() { ZoneKind::Movable } else { self.zones()[zone].kind() },
            flags: AllocFlags::WMARK_MIN,
            whole_zone: true,
            ignore_hints: false,
            any_block: false,
            direct: None,
            proactive: None,
            whole_blocks: false,
            extfrag_threshold: self.extfrag_threshold,
        }
    }

    /// Runs a compaction to its end. Returns whether it captured a block or a block of its order is free.
    fn run(&mut self, goal: Goal) -> bool {
        let mut state = ZoneCompact::new(&self.allocator.zones()[goal.zone]);
        let mut compactor = Compactor::new(goal, self.rules);
        self.frames.ends.set(false);
        loop {
            let on = &mut Memory {
                allocator: &mut self.allocator,
                state: &mut state,
                content: &mut self.frames,
            };
            let step = compactor.step(on, CPU.index(), &mut ());
            self.moved += compactor.scanned.moved;
            match step {
                ZoneStep::More if !self.frames.ends.get() => {}
                ZoneStep::Captured(_) => return true,
                _ => break,
            }
        }
        let zone = &self.allocator.zones()[goal.zone];
        goal.order.is_some_and(|order| {
            zone.watermark_ok(order, zone.watermarks().min, goal.highest, AllocFlags(0))
        })
    }
}

/// Returns the free blocks of orders before and after, from a worst-case and a best-case trial.
pub(crate) fn gains(orders: &[Order], [worst, best]: [[&[u64]; 2]; 2]) -> Vec<OrderGain> {
    let change = |[before, after]: [&[u64]; 2], at: usize| after[at] as i64 - before[at] as i64;
    let gain = |at: usize| OrderGain {
        order: orders[at],
        before: worst[0][at],
        after: Span::of(worst[1][at], best[1][at]),
        change: [change(worst, at), change(best, at)],
    };
    (0..orders.len()).map(gain).collect()
}
