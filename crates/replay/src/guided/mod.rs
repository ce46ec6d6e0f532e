//! Guided replay: the allocator takes every decision that a recorded kernel took, and is compared
//! with it. After each comparison the state follows the kernel, so that one difference is counted
//! once.
//!
//! What a recording does not say is found by looking ahead ([`crate::look_ahead`]). Where a list was
//! rotated without an event (compaction's fast search), the first block that the kernel takes from
//! its middle shows it, and the list is rotated likewise.

mod attempts;
mod delayed;
mod emptied;
mod end;
mod frees;
mod search;
mod takes;
mod tally;
mod unseen;
mod words;

use std::collections::{BTreeMap, BTreeSet};

use pageblock::alloc::Allocator;
use pageblock::alloc_flags::AllocFlags;
use pageblock::cpu_cache::Drain;
use pageblock::fallback::{Fallback, Mode};
use pageblock::frame::{Order, Pfn};
use pageblock::layout::ZoneKind;
use pageblock::mobility::Migratetype;
use pageblock::request::Request;
use pageblock_measure::Verification;
use pageblock_recording::{Other, Record, What};

use self::attempts::Wanted;
pub use self::tally::kind;
use self::tally::{Tally, imposed};
pub use self::unseen::Inferred;
pub(crate) use self::unseen::range;
use crate::gaps::Seen;
use crate::look_ahead::{Destination, LookAhead, Taken};

/// A refill of a CPU list under way.
#[derive(Clone, Copy)]
struct Refill {
    zone: usize,
    order: Order,
    mt: Migratetype,
    want: u32,
    got: u32,
    mode: Mode,
    /// What it may take from other types.
    flags: AllocFlags,
    /// What the size was decided from.
    before: frees::Tuning,
    /// The task that refills.
    pid: u32,
    /// Blocks that the model still had on the list.
    unseen: u32,
    /// The first block, held back while it may be for a request past the list.
    first: Option<Pfn>,
    /// The zone had nothing after the last block.
    dry: bool,
}

/// Pages on their way from a CPU list to the zone.
#[derive(Clone, Copy)]
struct Draining {
    /// The task that drains; others may run between, but not on the same list.
    pid: u32,
    zone: usize,
    /// The CPU whose lists are drained.
    owner: usize,
    drain: Drain,
    /// The list that it began with.
    list: usize,
    /// Pages that the model gives back; `None` where the kernel drains for a reason of its own.
    want: Option<u32>,
    got: u32,
    /// More was given back than the model would.
    exceeded: bool,
    /// The order of the block that was freed.
    order: Order,
    /// What the list's decision came from.
    before: frees::Tuning,
    /// What it left.
    after: frees::Tuning,
    /// The list that gave the last block.
    last: Option<usize>,
}

/// A block that left a CPU list before the report of its allocation.
#[derive(Clone, Copy)]
struct Promise {
    pfn: Pfn,
    to: Task,
    /// It left the list as an interruption or the look-ahead explains; else by the model's own rule.
    explained: bool,
}

/// Who a block is promised to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Task {
    /// The task that refilled the list.
    Is(u32),
    /// Some task that was interrupted by this one.
    Not(u32),
    Any,
}

/// A block that a task reported free before it put it on a list.
#[derive(Clone, Copy)]
struct Delayed {
    cpu: usize,
    pid: u32,
    pfn: Pfn,
    order: Order,
    /// Where it goes.
    destination: Destination,
}

impl Delayed {
    /// Whether it goes to a list of this CPU.
    fn is_for(&self, cpu: usize) -> bool {
        self.cpu == cpu && self.destination == Destination::Listed
    }
}

/// What a task did last, and where.
#[derive(Clone, Copy)]
struct LastSeen {
    cpu: usize,
    t_us: u64,
    /// It ended a compaction.
    compacted: bool,
}

impl LastSeen {
    fn of(record: &Record) -> Self {
        let compacted = matches!(&record.what, What::Other(o) if &*o.name == "mm_compaction_end");
        Self { cpu: usize::from(record.cpu), t_us: record.t_us, compacted }
    }
}

/// What a CPU is in the middle of.
#[derive(Clone, Default)]
struct Cpu {
    refill: Option<Refill>,
    drains: Vec<Draining>,
    /// The claim that the last block taken came with; its event is still to come (6.10 and later).
    claim: Option<(Option<Fallback>, bool)>,
    /// Blocks taken from the zone for a request, past the CPU lists.
    in_flight: Vec<Pfn>,
    /// Blocks that the list gave to a request that is still to be reported.
    promised: Vec<Promise>,
    /// Blocks that came to this CPU's lists since it last took one.
    pushed: u32,
    /// The block at a list's end that the kernel passed over last.
    passed_over: Option<Pfn>,
    /// The second in which its lists' limits decayed last; 0 before its first event.
    second: u64,
    /// Pages that the bulk allocator took before a refill, still to be reported.
    taken_unseen: u32,
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
    fresh: Vec<Delayed>,
    /// Blocks that compaction was given as their last part became free.
    captured: Vec<Delayed>,
    last_seen: BTreeMap<u32, LastSeen>,
    /// Blocks that a task may have taken already that is to report so when it runs again.
    perhaps: Vec<Taken>,
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
    /// Blocks that went past a CPU list whose lock was taken.
    past_lists: u64,
    /// Blocks that reached the zone later than they were reported free.
    freed_delayed: u64,
    /// Pages that left the free lists unseen.
    unseen: u64,
    /// The order that each task compacts for, and the runs under way.
    wanted_order: BTreeMap<u32, Order>,
    runs: BTreeMap<u32, search::Run>,
    /// Pages that compaction took unseen, and the run that did.
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
    drains: frees::Drains,
    /// How often a drain told that kswapd had ended its run.
    kswapd_ends: u64,
    /// The limit of a list that was learned last: of which CPU and zone, and whether it is low.
    limit_seen: Option<(usize, usize, bool)>,
    /// How often a drain told that the zone was above its high watermark.
    left_below: u64,
    /// Whether a missing drain showed that the CPUs have `PCPF_FREE_HIGH_BATCH`.
    free_high_batch: u64,
    seen: Seen,
    tally: Tally,
}

impl<'a, 'm> Guided<'a, 'm> {
    /// A replay from the state that the allocator is in.
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
                let Some(cache) = allocator.cache(at, cpu) else { continue };
                for list in 0..cache.nr_lists() {
                    for pfn in cache.blocks(zone, list) {
                        holder[pfn.0 as usize] = cpu as u16 + 1;
                    }
                }
            }
        }
        let cpus = vec![Cpu::default(); allocator.cpus()];
        Self {
            now: 0,
            allocator,
            look_ahead,
            cpus,
            delayed: Vec::new(),
            fresh: Vec::new(),
            captured: Vec::new(),
            last_seen: BTreeMap::new(),
            perhaps: Vec::new(),
            taken_by_count: 0,
            holder,
            for_bulk: false,
            in_slow_path: BTreeSet::new(),
            failed_attempts: 0,
            past_lists: 0,
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
            drains: frees::Drains::default(),
            kswapd_ends: 0,
            limit_seen: None,
            left_below: 0,
            free_high_batch: 0,
            seen: Seen::default(),
            tally: Tally::new(mismatches),
        }
    }

    /// Has decisions counted apart that the places of these frames were inferred from.
    pub fn start_is_inferred(&mut self, frames: &[Pfn]) {
        self.tally.start_is_inferred(frames);
    }

    /// What the last event told that it does not say.
    #[must_use]
    pub fn inferred(&self) -> &[Inferred] {
        &self.inferred
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
        self.perhaps.retain(|taken| taken.pid != record.pid);
        self.fresh.retain(|fresh| fresh.pid != record.pid);
        for &taken in self.look_ahead.taken_before(event) {
            if taken.sure {
                self.take_before(taken);
            } else {
                self.perhaps.push(taken);
            }
        }
        for &(pfn, order) in self.look_ahead.bypassed_before(event) {
            self.pass_list(cpu, record.pid, pfn, order);
        }
        if !self.delayed.is_empty() {
            self.commit_delayed(cpu, record.pid);
        }
        if let What::Alloc { pfn, order, gfp, .. } = record.what {
            self.note_below_high(cpu, Request::new(order, gfp), pfn);
        }
        match &record.what {
            What::Alloc { pfn: Some(pfn), order, mt, gfp } => {
                let highest = gfp.highest_zone();
                let (pid, order, mt) = (record.pid, *order, *mt);
                self.alloc(*pfn, Wanted { cpu, pid, order, mt, highest });
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
        if takes || matches!(record.what, What::Alloc { .. }) {
            self.cpus[cpu].pushed = 0;
        }
        if let Some(pfn) = self.look_ahead.reserve(event) {
            self.follow_type(pfn, Migratetype::HighAtomic);
        }
        self.last_seen.insert(record.pid, LastSeen::of(record));
        if let Some(node) = self.look_ahead.reclaim_end(event) {
            self.end_kswapd(node);
            self.allocator.set_kswapd_running(node, false);
        }
    }

    /// Once a second the limits of a CPU's lists decay.
    fn decay(&mut self, cpu: u16, now: u64) {
        let Some(second) = self.look_ahead.ticks().second(cpu, now) else { return };
        let cpu = usize::from(cpu);
        let last = std::mem::replace(&mut self.cpus[cpu].second, second);
        if last == 0 || last >= second {
            return;
        }
        let policy = *self.allocator.policy();
        for zone in 0..self.allocator.zones().len() {
            let Some((_, cache)) = self.allocator.zone_and_cache(zone, cpu) else { continue };
            for _ in last..second.min(last + 64) {
                let _ = cache.decay(&policy);
            }
        }
    }

    /// kswapd's running is a flag that CPU lists look at; at its end, the boost of the watermarks
    /// that it began with is gone (`balance_pgdat`).
    fn other(&mut self, other: &Other) {
        let running = match &*other.name {
            "mm_vmscan_kswapd_wake" => true,
            "mm_vmscan_kswapd_sleep" => false,
            _ => return,
        };
        let node = other.number("nid").and_then(|nid| u8::try_from(nid).ok());
        let Some(node) = node.filter(|&node| node < 64) else { return };
        self.end_kswapd(node);
        self.allocator.set_kswapd_running(node, running);
        let bit = 1 << node;
        self.kswapd_woken = self.kswapd_woken & !bit | if running { bit } else { 0 };
        if running {
            let zones = self.allocator.zones().iter();
            self.boosts
                .extend(zones.filter(|z| z.node() == node).map(|z| (node, z.kind(), z.boost())));
        }
    }

    /// kswapd ends its run.
    fn end_kswapd(&mut self, node: u8) {
        for (of, kind, boost) in std::mem::take(&mut self.boosts) {
            if of != node {
                self.boosts.push((of, kind, boost));
                continue;
            }
            for at in 0..self.allocator.zones().len() {
                if let Some((zone, _)) = self.allocator.zone_and_cache(at, 0)
                    && (zone.node(), zone.kind()) == (node, kind)
                {
                    zone.end_boost(boost);
                }
            }
        }
    }

    /// The pageblock of a frame has another type than was known.
    fn follow_type(&mut self, pfn: Pfn, mt: Migratetype) {
        if let Some(at) = self.zone_of(pfn)
            && let Some((zone, _)) = self.allocator.zone_and_cache(at, 0)
        {
            self.tally.imposed(imposed::TYPE, zone.impose_reserve(pfn, mt));
        }
    }

    /// A worker drains at most once a vmstat tick: what comes later belongs to another.
    fn is_new_tick(&self, record: &Record) -> bool {
        self.look_ahead.ticks().is_worker(record.pid)
            && self.last_seen.get(&record.pid).is_none_or(|seen| {
                record.t_us.saturating_sub(seen.t_us) > crate::look_ahead::PERIOD_US / 2
            })
    }

    fn zone_of(&self, pfn: Pfn) -> Option<usize> {
        self.allocator.zone_of(pfn)
    }

    /// The CPU whose list holds a block.
    fn holder(&self, pfn: Pfn) -> Option<usize> {
        usize::from(*self.holder.get(pfn.0 as usize)?).checked_sub(1)
    }

    fn set_holder(&mut self, pfn: Pfn, cpu: Option<usize>) {
        if let Some(slot) = self.holder.get_mut(pfn.0 as usize) {
            *slot = cpu.map_or(0, |c| c as u16 + 1);
        }
    }

    /// The result, after the last event.
    #[must_use]
    pub fn finish(mut self) -> Verification {
        for cpu in 0..self.cpus.len() {
            self.close_refill(cpu, 0, None);
            self.close_drain(cpu, None);
        }
        if let Some(note) = self.drains.note() {
            self.tally.note(note);
        }
        for (count, what) in [
            (self.failed_attempts, "attempts to refill a per-CPU list found nothing in the zone"),
            (self.past_lists, "blocks bypassed a per-CPU list because its trylock failed"),
            (self.unseen, "free pages were taken by compaction without an event of their own"),
            (self.searches_followed, "of compaction's fast searches came to what is recorded"),
            (self.searches_lost, "of compaction's fast searches did not come to what is recorded"),
            (self.guesses_corrected, "pageblocks had another type than guessed at the start"),
            (self.kswapd_ends, "ends of a kswapd run were inferred from missing drains"),
            (
                self.left_below,
                "times a zone was found above its high watermark from missing drains",
            ),
            (
                self.free_high_batch,
                "missing drain showed that the CPUs have PCPF_FREE_HIGH_BATCH",
            ),
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
