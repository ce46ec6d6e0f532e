//! Guided replay: the allocator takes every decision that a recorded kernel took, and is compared
//! with it. After each comparison the state follows the kernel, so that one difference is counted
//! once.
//!
//! What a recording does not say is found by looking ahead ([`crate::look_ahead`]). Where a list was
//! rotated without an event (compaction's fast search), the first block that the kernel takes from
//! its middle shows it, and the list is rotated likewise.

mod alloc;
mod delayed;
mod drain;
mod emptied;
mod end;
mod explain;
mod fallback;
mod frees;
mod in_flight;
mod kswapd;
mod limits;
mod refill;
mod search;
mod tally;
mod unseen;
mod words;
mod zone;
mod zone_walk;

use pageblock::ids::{CpuId, ListIndex, NodeId, ZoneIndex};
use std::collections::{BTreeMap, BTreeSet};

use pageblock::alloc::Allocator;
use pageblock::frame::{Order, Pfn};
use pageblock::layout::ZoneKind;
use pageblock::mobility::Migratetype;
use pageblock::request::Request;
use pageblock_measure::Verification;
use pageblock_measure::certificate::verification::KindResult;
use pageblock_recording::{Record, What};

use self::in_flight::{Cpu, Delayed, LastSeen};
use self::limits::Limits;
pub use self::tally::kind;
use self::tally::{Tally, imposed};
pub use self::unseen::Inferred;
pub(crate) use self::unseen::range;
use self::zone_walk::TaskRequest;
use crate::gaps::Seen;
use crate::look_ahead::{Destination, LookAhead, Taken};

/// Limits of per-CPU lists that a snapshot from `/proc` was read with.
struct LimitsRead {
    /// The first event after they were read.
    event: u64,
    /// The CPU, the zone and its limit, in pages.
    limits: Vec<(usize, usize, u32)>,
}

/// A guided replay.
pub struct Guided<'a, 'm> {
    /// The event under way.
    now: u64,
    allocator: &'a mut Allocator<'m>,
    look_ahead: &'a LookAhead,
    cpus: Vec<Cpu>,
    delayed: Vec<Delayed>,
    /// Blocks that went to the zone with the last event of their task: it may have been interrupted
    /// before it put them there.
    just_freed: Vec<Delayed>,
    /// Blocks that compaction was given as their last part became free.
    captured: Vec<Delayed>,
    last_seen: BTreeMap<u32, LastSeen>,
    /// Blocks that a task may have taken already that is to report so when it runs again.
    may_have_taken: Vec<Taken>,
    /// Tasks found to have taken a block by what a CPU list did not give back.
    taken_by_count: u64,
    /// The CPU whose list holds a frame, plus one.
    holder: Vec<u16>,
    /// The bulk allocator takes the block of this event; it may refill a list twice in a row.
    for_bulk: bool,
    /// Tasks that are known to be in the slow path.
    in_slow_path: BTreeSet<u32>,
    /// Refills that the zone had nothing for.
    failed_attempts: u64,
    /// Blocks that bypassed a CPU list because its trylock failed.
    bypassed: u64,
    /// Blocks that reached the zone later than they were reported free.
    freed_delayed: u64,
    /// Pages that left the free lists without an event.
    unseen: u64,
    /// The order that each task compacts for, and the runs under way.
    wanted_order: BTreeMap<u32, Order>,
    runs: BTreeMap<u32, search::Run>,
    /// Pages that compaction took without an event, and the run that did.
    isolated: BTreeMap<Pfn, u64>,
    /// What was inferred of the event under way.
    inferred: Vec<Inferred>,
    /// Fast searches that came to the recorded result, and those that did not.
    searches_followed: u64,
    searches_lost: u64,
    /// Free blocks whose place on their list is not known.
    unplaced: BTreeMap<Pfn, Order>,
    /// Pageblocks whose type was guessed.
    guessed: BTreeSet<Pfn>,
    guesses_corrected: u64,
    /// The boosts that each node's kswapd began its run with.
    boosts: Vec<(u8, ZoneKind, u64)>,
    /// The nodes whose kswapd was woken and does not sleep yet.
    kswapd_woken: u64,
    drains: drain::Drains,
    /// How often a drain told that kswapd had ended its run.
    kswapd_ends: u64,
    /// The limit of a list that was learned last: of which CPU and zone, and whether it is low.
    limit_seen: Option<(usize, usize, bool)>,
    /// How often a drain told that the zone was above its high watermark.
    left_below: u64,
    /// Whether a missing drain showed that the CPUs have `PCPF_FREE_HIGH_BATCH`.
    free_high_batch: u64,
    /// The limits that a start snapshot has of the per-CPU lists.
    limits_read: Option<LimitsRead>,
    limits: Limits,
    seen: Seen,
    tally: Tally,
}

impl<'a, 'm> Guided<'a, 'm> {
    /// Creates a replay from the state that the allocator is in.
    #[must_use]
    pub fn new(
        allocator: &'a mut Allocator<'m>,
        look_ahead: &'a LookAhead,
        mismatches: usize,
    ) -> Self {
        let end = allocator.zones().iter().map(|z| z.span().end.0).max().unwrap_or(0);
        let mut holder = vec![0; end as usize];
        for (at, zone) in allocator.zones().iter().enumerate() {
            for cpu in 0..allocator.cpus() {
                let Some(cache) = allocator.cache(ZoneIndex::new(at), CpuId(cpu)) else { continue };
                for list in 0..cache.nr_lists() {
                    for pfn in cache.blocks(zone, ListIndex::new(list)) {
                        holder[pfn.0 as usize] = cpu as u16 + 1;
                    }
                }
            }
        }
        let cpus = vec![Cpu::default(); allocator.cpus()];
        let limits = Limits::new(allocator, look_ahead.ticks().are_known());
        Self {
            now: 0,
            allocator,
            look_ahead,
            cpus,
            delayed: Vec::new(),
            just_freed: Vec::new(),
            captured: Vec::new(),
            last_seen: BTreeMap::new(),
            may_have_taken: Vec::new(),
            taken_by_count: 0,
            holder,
            for_bulk: false,
            in_slow_path: BTreeSet::new(),
            failed_attempts: 0,
            bypassed: 0,
            freed_delayed: 0,
            unseen: 0,
            wanted_order: BTreeMap::new(),
            runs: BTreeMap::new(),
            isolated: BTreeMap::new(),
            inferred: Vec::new(),
            searches_followed: 0,
            searches_lost: 0,
            unplaced: BTreeMap::new(),
            guessed: BTreeSet::new(),
            guesses_corrected: 0,
            boosts: Vec::new(),
            kswapd_woken: 0,
            drains: drain::Drains::default(),
            kswapd_ends: 0,
            limit_seen: None,
            left_below: 0,
            free_high_batch: 0,
            limits_read: None,
            limits,
            seen: Seen::default(),
            tally: Tally::new(mismatches),
        }
    }

    /// Has decisions counted apart that the places of these frames were inferred from.
    pub fn start_is_inferred(&mut self, frames: &[Pfn]) {
        self.tally.start_is_inferred(frames);
    }

    /// Has a missing drain be no sign that drains were not recorded.
    pub(crate) fn limits_are_inferred(&mut self) {
        self.seen.limits_are_inferred = true;
    }

    /// Returns what was inferred from the last event.
    #[must_use]
    pub fn inferred(&self) -> &[Inferred] {
        &self.inferred
    }

    /// Returns the allocator, in the state after the last event.
    #[must_use]
    pub(crate) fn allocator(&self) -> &Allocator<'m> {
        self.allocator
    }

    /// Returns the decisions so far, of all kinds.
    pub(crate) fn total(&self) -> KindResult {
        self.tally.total()
    }

    /// Follows one event.
    pub fn push(&mut self, event: u64, record: &Record) {
        self.inferred.clear();
        self.seen.push(record);
        let cpu = usize::from(record.cpu);
        if cpu >= self.cpus.len() {
            return;
        }
        self.tally.at(event, record);
        self.now = event;
        self.decay(record.cpu, record.t_us);
        self.impose_limits_read(event);
        let takes = matches!(record.what, What::ZoneLocked { .. } | What::Extfrag(_));
        let drains = matches!(record.what, What::Drain { .. });
        self.for_bulk = takes && self.look_ahead.destination(event) == Destination::ForBulk;
        if !takes {
            let past_lists = match record.what {
                What::Alloc { pfn, .. } => pfn,
                _ => None,
            };
            self.close_refill(cpu, record.pid, past_lists);
        }

        if !drains {
            self.close_drain(cpu, Some(record.pid));
        }
        self.may_have_taken.retain(|taken| taken.pid != record.pid);
        self.just_freed.retain(|just_freed| just_freed.pid != record.pid);
        for &taken in self.look_ahead.taken_before(event) {
            if taken.sure {
                self.take_before(taken);
            } else {
                self.may_have_taken.push(taken);
            }
        }
        for &(pfn, order) in self.look_ahead.bypassed_before(event) {
            self.bypass_list(cpu, record.pid, pfn, order);
        }
        if !self.delayed.is_empty() {
            self.commit_delayed(cpu, record.pid);
        }
        self.decide(event, cpu, record);
        if takes || matches!(record.what, What::Alloc { .. }) {
            self.cpus[cpu].pushed = 0;
        }
        if let Some(pfn) = self.look_ahead.reserve(event) {
            self.follow_type(pfn, Migratetype::HighAtomic);
        }
        self.last_seen.insert(record.pid, LastSeen::of(record));
        if let Some(node) = self.look_ahead.reclaim_end(event) {
            self.end_kswapd(node);
            self.allocator.set_kswapd_running(NodeId(node), false);
        }
    }

    /// Takes the decision of an event, compares it, and imposes the kernel's.
    fn decide(&mut self, event: u64, cpu: usize, record: &Record) {
        if let What::Alloc { pfn, order, gfp, .. } = record.what {
            self.note_below_high(cpu, Request::new(order, gfp), pfn);
        }
        match &record.what {
            What::Alloc { pfn: Some(pfn), order, mt, gfp } => {
                let highest = gfp.highest_zone();
                let (pid, order, mt) = (record.pid, *order, *mt);
                self.alloc(*pfn, TaskRequest { cpu, pid, order, mt, highest });
                self.in_slow_path.remove(&pid);
            }
            What::ZoneLocked { pfn, order, mt, .. } => {
                self.zone_locked(cpu, record.pid, *pfn, *order, *mt);
            }
            What::Extfrag(x) => self.extfrag(cpu, record.pid, x),
            What::Free { pfn, order } => {
                self.free(cpu, record.pid, *pfn, *order, self.look_ahead.destination(event));
            }
            What::FreeBatched { pfn } => {
                self.free_batched(cpu, record.pid, *pfn, self.look_ahead.destination(event));
            }
            What::Drain { pfn, order, mt } => {
                let tick = self.is_new_tick(record);
                self.drain(cpu, record.pid, *pfn, *order, *mt, tick);
                self.complete_capture(record.pid, *pfn);
            }
            What::Isolate { pfn, order, ret } if *ret > 0 => {
                self.isolate(*pfn, *order, self.look_ahead.destination(event));
            }
            What::Bulk { pages } => self.bulk(cpu, record.pid, *pages),
            What::Other(other) => {
                self.other(other);
                self.note_slow_path(record.pid, other);
                self.compaction(event, record.pid, other);
            }
            _ => {}
        }
    }

    /// Imposes another type of a pageblock.
    fn follow_type(&mut self, pfn: Pfn, mt: Migratetype) {
        if let Some(at) = self.zone_of(pfn)
            && let Some((zone, _)) = self.allocator.zone_and_cache(ZoneIndex::new(at), CpuId(0))
        {
            self.tally.imposed(imposed::TYPE, zone.impose_reserve(pfn, mt));
        }
    }

    /// Tells whether a drain belongs to a new vmstat tick: a worker drains at most once in each.
    fn is_new_tick(&self, record: &Record) -> bool {
        self.look_ahead.ticks().is_worker(record.pid)
            && self.last_seen.get(&record.pid).is_none_or(|seen| {
                record.t_us.saturating_sub(seen.t_us) > crate::look_ahead::PERIOD_US / 2
            })
    }

    fn zone_of(&self, pfn: Pfn) -> Option<usize> {
        self.allocator.zone_of(pfn).map(ZoneIndex::index)
    }

    /// Returns the CPU whose list holds a block.
    fn holder(&self, pfn: Pfn) -> Option<usize> {
        usize::from(*self.holder.get(pfn.0 as usize)?).checked_sub(1)
    }

    fn set_holder(&mut self, pfn: Pfn, cpu: Option<usize>) {
        if let Some(slot) = self.holder.get_mut(pfn.0 as usize) {
            *slot = cpu.map_or(0, |c| c as u16 + 1);
        }
    }

    /// Returns the result, after the last event.
    #[must_use]
    pub fn finish(mut self) -> Verification {
        for cpu in 0..self.cpus.len() {
            self.close_refill(cpu, 0, None);
            self.close_drain(cpu, None);
        }
        if let Some(note) = self.drains.note() {
            self.tally.note(note);
        }
        if let Some(ms) = self.limits.found_ms() {
            self.tally.note(format!(
                "inferred: limits of CPU lists decay about {ms} ms into each second of the recorder's clock, as drains tell"
            ));
        }
        for (count, what) in [
            (self.failed_attempts, "attempts to refill a per-CPU list found nothing in the zone"),
            (self.bypassed, "blocks bypassed a per-CPU list because its trylock failed"),
            (self.unseen, "free pages were taken by compaction without an event of their own"),
            (self.searches_followed, "of compaction's fast searches came to what is recorded"),
            (self.searches_lost, "of compaction's fast searches did not come to what is recorded"),
            (self.guesses_corrected, "pageblocks had another type than guessed at the start"),
            (self.kswapd_ends, "ends of a kswapd run were inferred from missing drains"),
            (
                self.left_below,
                "times a zone was found above its high watermark from missing drains",
            ),
            (self.free_high_batch, "missing drain showed that the CPUs have PCPF_FREE_HIGH_BATCH"),
            (
                self.taken_by_count,
                "blocks were taken earlier than reported, inferred from missing drains",
            ),
            (
                self.look_ahead.delayed() + self.freed_delayed,
                "blocks reached or left a per-CPU list earlier or later than reported",
            ),
        ] {
            if count > 0 {
                self.tally.note(format!("inferred: {count} {what}"));
            }
        }
        let seen = self.seen;
        let mut result = self.tally.finish();
        seen.judge(&mut result);
        result
    }
}

#[cfg(test)]
mod tests;
