//! Guided replay: the allocator takes every decision that a recorded kernel took, and is compared with it. After
//! each comparison the state follows the kernel, so that one difference is counted once.
//!
//! What a recording does not say is found by looking ahead ([`crate::look_ahead`]). A list that was rotated without an
//! event (by compaction's fast search) shows this when the kernel takes a block from its middle; the list is then
//! rotated likewise.

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
mod state;
mod tally;
mod unseen;
mod words;
mod zone;
mod zone_walk;

use pageblock::alloc::Allocator;
use pageblock::frame::Pfn;
use pageblock::ids::{CpuId, NodeId, ZoneIndex};
use pageblock::mobility::Migratetype;
use pageblock::request::Request;
use pageblock_measure::Verification;
use pageblock_measure::certificate::verification::KindResult;
use pageblock_recording::{Record, What};

use self::in_flight::{Cpu, LastSeen};
use self::state::{Compaction, Counts, CurrentEvent, Kswapd, ListState, StartState, Tasks};
pub use self::tally::kind;
use self::tally::{Tally, imposed};
pub use self::unseen::Inferred;
pub(crate) use self::unseen::range;
use self::zone_walk::TaskRequest;
use crate::gaps::Seen;
use crate::look_ahead::{Destination, LookAhead};

/// A guided replay.
pub struct Guided<'a, 'm> {
    allocator: &'a mut Allocator<'m>,
    look_ahead: &'a LookAhead,
    event: CurrentEvent,
    cpus: Vec<Cpu>,
    tasks: Tasks,
    lists: ListState,
    kswapd: Kswapd,
    compaction: Compaction,
    start: StartState,
    /// What the recording has and the replay does not follow, and the reverse.
    seen: Seen,
    counts: Counts,
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
        Self {
            event: CurrentEvent::default(),
            cpus: vec![Cpu::default(); allocator.cpus()],
            tasks: Tasks::default(),
            lists: ListState::of(allocator, look_ahead),
            kswapd: Kswapd::default(),
            compaction: Compaction::default(),
            start: StartState::default(),
            seen: Seen::default(),
            counts: Counts::default(),
            tally: Tally::new(mismatches),
            allocator,
            look_ahead,
        }
    }

    /// Counts the decisions from which the places of these frames were inferred separately.
    pub fn start_is_inferred(&mut self, frames: &[Pfn]) {
        self.tally.start_is_inferred(frames);
    }

    /// Notes that limits are inferred, so that a missing drain does not mean that drains were not recorded.
    pub(crate) fn limits_are_inferred(&mut self) {
        self.seen.limits_are_inferred = true;
    }

    /// Returns what was inferred from the last event.
    #[must_use]
    pub fn inferred(&self) -> &[Inferred] {
        &self.event.inferred
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

    /// Follows one event: compares the decision that the allocator takes with the kernel's, and imposes the kernel's.
    ///
    /// An event shows more than its own decision. The steps before the decision bring the state to where the kernel
    /// was when it decided, in this order:
    ///
    /// 1. *Limits*: decay and limits that were read, as every later step may ask a list how much it drains.
    /// 2. *Operations that the event ends*: a refill ends with the first event that takes nothing from a zone, and
    ///    a drain of a task with its next event that is no drain. The refill comes first, because it puts its
    ///    last block on the list by which the drain is judged. Both precede step 3: a block that this task has
    ///    taken and reports only now may explain a missing drain.
    /// 3. *What the task has now reported*: it runs again, so it can no longer be in the middle of an earlier
    ///    allocation or free.
    /// 4. *Blocks that left a list* before the event, by the look-ahead: after the refill that may have brought
    ///    them, and before the frees below, which would cover them at the head of the list.
    /// 5. *Frees that precede the event*: pages that bypassed a list, then late blocks of this task. A task puts
    ///    them on a list before anything else that it does, and so before the decision.
    ///
    /// The steps after the decision change what only later events may see: the reserve takes a pageblock after its
    /// block was handed out; `last_seen` must still be the task's previous event while the decision asks for it;
    /// and a run of kswapd without a reported end ends after the last drain that shows it.
    pub fn push(&mut self, event: u64, record: &Record) {
        debug_assert!(event >= self.event.now, "event {event} follows event {}", self.event.now);
        self.event.inferred.clear();
        self.seen.push(record);
        let cpu = usize::from(record.cpu);
        // A CPU that the start state does not have: its lists are not known.
        if cpu >= self.cpus.len() {
            return;
        }
        // Before the first comparison, as mismatches name this event.
        self.tally.at(event, record);
        self.event.now = event;
        self.prepare_state(event, cpu, record);
        self.decide(event, cpu, record);
        // Only frees after the CPU's last allocation can lie before a block that was taken and is reported later.
        if takes_from_zone(record) || matches!(record.what, What::Alloc { .. }) {
            self.cpus[cpu].pushed = 0;
        }
        if let Some(pfn) = self.look_ahead.reserve(event) {
            self.follow_type(pfn, Migratetype::HighAtomic);
        }
        self.tasks.last_seen.insert(record.pid, LastSeen::of(record));
        if let Some(node) = self.look_ahead.reclaim_end(event) {
            self.end_kswapd(node);
            self.allocator.set_kswapd_running(NodeId(node), false);
        }
    }

    /// Brings the state to where the kernel was when it took the decision of an event; see [`push`](Self::push).
    fn prepare_state(&mut self, event: u64, cpu: usize, record: &Record) {
        self.decay(record.cpu, record.t_us);
        // After the decay, which is contained in limits that were read.
        self.impose_limits_read(event);
        let takes = takes_from_zone(record);
        self.event.for_bulk = takes && self.look_ahead.destination(event) == Destination::ForBulk;
        if !takes {
            let past_lists = match record.what {
                What::Alloc { pfn, .. } => pfn,
                _ => None,
            };
            self.close_refill(cpu, record.pid, past_lists);
        }
        if !matches!(record.what, What::Drain { .. }) {
            self.close_drain(cpu, Some(record.pid));
        }
        // The task runs again: it has reported what it took, and what it freed has arrived.
        self.tasks.may_have_taken.retain(|taken| taken.pid != record.pid);
        self.tasks.just_freed.retain(|just_freed| just_freed.pid != record.pid);
        for &taken in self.look_ahead.taken_before(event) {
            if taken.sure {
                self.take_before(taken);
            } else {
                self.tasks.may_have_taken.push(taken);
            }
        }
        for &(pfn, order) in self.look_ahead.bypassed_before(event) {
            self.bypass_list(cpu, record.pid, pfn, order);
        }
        if !self.tasks.delayed.is_empty() {
            self.commit_delayed(cpu, record.pid);
        }
        debug_assert!(
            takes || self.cpus[cpu].refill.is_none(),
            "a refill goes on beyond an event that takes nothing"
        );
        debug_assert!(
            self.tasks.delayed.iter().all(|delayed| delayed.pid != record.pid),
            "a task does something before its block reaches the list"
        );
    }

    /// Takes the decision of an event, compares it with the kernel's, and imposes the kernel's.
    fn decide(&mut self, event: u64, cpu: usize, record: &Record) {
        if let What::Alloc { pfn, order, gfp, .. } = record.what {
            self.note_below_high(cpu, Request::new(order, gfp), pfn);
        }
        match &record.what {
            What::Alloc { pfn: Some(pfn), order, mt, gfp } => {
                let highest = gfp.highest_zone();
                let (pid, order, mt) = (record.pid, *order, *mt);
                self.alloc(*pfn, TaskRequest { cpu, pid, order, mt, highest });
                self.tasks.in_slow_path.remove(&pid);
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

    /// Returns whether a drain belongs to a new vmstat tick. A worker drains at most once per tick.
    fn is_new_tick(&self, record: &Record) -> bool {
        self.look_ahead.ticks().is_worker(record.pid)
            && self.tasks.last_seen.get(&record.pid).is_none_or(|seen| {
                record.t_us.saturating_sub(seen.t_us) > crate::look_ahead::PERIOD_US / 2
            })
    }

    fn zone_of(&self, pfn: Pfn) -> Option<usize> {
        self.allocator.zone_of(pfn).map(ZoneIndex::index)
    }

    /// Returns the CPU whose list holds a block.
    fn holder(&self, pfn: Pfn) -> Option<usize> {
        usize::from(*self.lists.holder.get(pfn.0 as usize)?).checked_sub(1)
    }

    fn set_holder(&mut self, pfn: Pfn, cpu: Option<usize>) {
        debug_assert!(cpu.is_none_or(|cpu| cpu < self.cpus.len()), "no list of such a CPU");
        if let Some(slot) = self.lists.holder.get_mut(pfn.0 as usize) {
            debug_assert!(cpu.is_none() || *slot == 0, "{pfn} is on a CPU list already");
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
        if let Some(note) = self.lists.drains.note() {
            self.tally.note(note);
        }
        if let Some(ms) = self.lists.limits.found_ms() {
            self.tally.note(format!(
                "inferred: limits of CPU lists decay about {ms} ms into each second of the recorder's clock, as drains show"
            ));
        }
        for (count, what) in [
            (
                self.counts.failed_attempts,
                "attempts to refill a per-CPU list found nothing in the zone",
            ),
            (self.counts.bypassed, "blocks bypassed a per-CPU list because its trylock failed"),
            (
                self.counts.unseen,
                "free pages were taken by compaction without an event of their own",
            ),
            (
                self.counts.searches_followed,
                "of compaction's fast searches came to what is recorded",
            ),
            (
                self.counts.searches_lost,
                "of compaction's fast searches did not come to what is recorded",
            ),
            (
                self.counts.guesses_corrected,
                "pageblocks had another type than guessed at the start",
            ),
            (self.counts.kswapd_ends, "ends of a kswapd run were inferred from missing drains"),
            (
                self.counts.left_below,
                "times a zone was found above its high watermark from missing drains",
            ),
            (
                self.counts.free_high_batch,
                "missing drain showed that the CPUs have PCPF_FREE_HIGH_BATCH",
            ),
            (
                self.counts.taken_by_count,
                "blocks were taken earlier than reported, inferred from missing drains",
            ),
            (
                self.look_ahead.delayed() + self.counts.freed_delayed,
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

/// Returns whether an event reports a block that was taken from a zone.
fn takes_from_zone(record: &Record) -> bool {
    matches!(record.what, What::ZoneLocked { .. } | What::Extfrag(_))
}

#[cfg(test)]
mod tests;
