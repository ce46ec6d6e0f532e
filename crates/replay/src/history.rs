//! The history of a recorded machine's memory: of the recorded kernel by guided replay, and of a free replay.

use std::cell::Cell;

use pageblock::alloc::Allocator;
use pageblock::event::Extfrag;
use pageblock::frame::{Order, Pfn};
use pageblock::mobility::Migratetype;
use pageblock_measure::value::uninitialised::{Uninitialised, frames};
use pageblock_measure::{Counters, History, HistoryBuilder};
use pageblock_recording::{Columnar, MemInfo, Other, Record, Recording, STACK, Snapshot, What};

use crate::call_sites::{Stacks, may_have_stack, site};
use crate::demand::assumed_type;
use crate::error::Error;
use crate::infer;
use crate::machine::{Machine, recorded_kernel};
use crate::verify::{Pass, cpu_list_orders, find_look_ahead, guide};

/// The moments, equally spaced in time, at which samples of a recording are taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moments {
    first_us: u64,
    last_us: u64,
    count: u64,
    taken: u64,
    next_us: u64,
}

impl Moments {
    pub(crate) fn of(columnar: &Columnar, samples: usize) -> Self {
        let (first_us, last_us) = (columnar.first_t_us, columnar.last_t_us);
        Self { first_us, last_us, count: samples.max(2) as u64, taken: 0, next_us: first_us }
    }

    /// Returns the next moment, if it is before this time.
    #[inline]
    pub(crate) fn before(&mut self, t_us: u64) -> Option<u64> {
        let next = self.next_us;
        if next >= t_us {
            return None;
        }
        self.taken += 1;
        let span = u128::from(self.last_us.saturating_sub(self.first_us));
        let passed = span * u128::from(self.taken) / u128::from(self.count - 1);
        let more = self.taken < self.count;
        self.next_us = if more { self.first_us + passed as u64 } else { u64::MAX };
        Some(next)
    }

    /// Returns the remaining moments, at the end.
    pub(crate) fn rest(&mut self) -> Option<u64> {
        self.before(u64::MAX)
    }

    /// Returns the time since the first moment.
    pub(crate) fn since_first(&self, t_us: u64) -> u64 {
        t_us.saturating_sub(self.first_us)
    }
}

/// Returns what happened in a recording, by a guided replay under the recorded policy. `progress` is called with
/// the number of events done and their total, over two passes. If it returns `false`, the replay stops without a
/// history.
///
/// # Errors
/// If the recording cannot be read, or no machine fits its start state.
pub fn recorded(
    recording: &Recording,
    columnar: &Columnar,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Option<History>, Error> {
    let policy = recorded_kernel(recording).allocator;
    let machine = Machine::of(recording)?;
    let start = infer::start(recording, columnar, cpu_list_orders(recording, &policy))?;
    let total = 2 * columnar.events;
    let look_ahead = find_look_ahead(recording, columnar, &policy, &mut |done| {
        progress(done, total);
    })?;
    let mut memory = machine.table_memory(policy)?;
    let mut allocator = machine.allocator(policy, &start.snapshot, &mut memory)?;
    let mut watch = RecordedWatch::new(&allocator, recording, columnar);
    let mut guided = guide(&mut allocator, recording, &start, &look_ahead, 0);
    let pass = Pass::of(recording, columnar, None);
    let going = Cell::new(true);
    pass.run(
        columnar,
        &mut |event, record| {
            if going.get() {
                watch.before(record, guided.allocator());
                guided.push(event, record);
                watch.after(record);
            }
        },
        &mut |done| going.set(going.get() && progress(columnar.events + done, total)),
    )?;
    Ok(going.get().then(|| watch.finish(guided.allocator())))
}

/// Returns a history of a recorded machine, without its memory that was not initialised at the start.
pub(crate) fn builder(allocator: &Allocator<'_>, start: &Snapshot) -> HistoryBuilder {
    let mut builder = HistoryBuilder::new(allocator);
    builder.note(START_NOTE.to_owned());
    let total_kb = start
        .texts
        .get("meminfo")
        .and_then(|text| MemInfo::parse(text).get("MemTotal"))
        .unwrap_or(0);
    let managed: u64 = start.zones.iter().map(|zone| zone.managed).sum();
    let found = Uninitialised::find(total_kb, allocator.geometry().kbytes(managed));
    if let Some(found) = found {
        builder.note(found.to_string());
        for zone in start.zones.iter().filter(|zone| zone.managed > 0) {
            builder.leave_out(frames(zone.span().end.0, zone.present, zone.managed));
        }
    }
    builder
}

/// A history under construction beside a guided replay.
struct RecordedWatch<'r> {
    builder: HistoryBuilder,
    moments: Moments,
    recording: &'r Recording,
    /// By frame: the requested type, plus one; 0 if it is not known.
    requested: Vec<u8>,
    counters: Counters,
    /// By CPU: the last requests and fallbacks, whose stacks may follow.
    pending: Stacks<Option<(u32, Extfrag)>>,
}

impl<'r> RecordedWatch<'r> {
    fn new(allocator: &Allocator<'_>, recording: &'r Recording, columnar: &Columnar) -> Self {
        let builder = builder(allocator, &recording.start);
        let moments = Moments::of(columnar, builder.samples());
        let end = allocator.zones().iter().map(|z| z.span().end.0).max().unwrap_or(0) as usize;
        let (counters, pending) = (Counters::new(), Stacks::default());
        Self { builder, moments, recording, requested: vec![0; end], counters, pending }
    }

    /// Takes the samples that are due before an event.
    #[inline]
    fn before(&mut self, record: &Record, allocator: &Allocator<'_>) {
        while let Some(at) = self.moments.before(record.t_us) {
            self.sample(at, allocator);
        }
    }

    fn sample(&mut self, at: u64, allocator: &Allocator<'_>) {
        let requested = &self.requested;
        let kind = |pfn: Pfn, block| {
            let known = requested.get(pfn.0 as usize).and_then(|mt| mt.checked_sub(1));
            known
                .and_then(|mt| Migratetype::from_index(usize::from(mt)))
                .unwrap_or_else(|| assumed_type(false, block))
        };
        let at = self.moments.since_first(at);
        self.builder.sample(at, allocator, kind, self.counters.iter());
    }

    /// Follows an event that the replay has followed.
    fn after(&mut self, record: &Record) {
        match &record.what {
            What::Alloc { pfn: Some(pfn), order, gfp, .. } => {
                let mt = gfp.migratetype().unwrap_or(Migratetype::Unmovable);
                self.request(*pfn, *order, mt as u8 + 1);
                self.wait_for_stack(record.cpu, None);
            }
            What::Alloc { pfn: None, order, .. } => {
                self.counters.add(pageblock_measure::value::names::alloc_failed(*order), 1);
            }
            What::Free { pfn, order } => self.request(*pfn, *order, 0),
            What::Isolate { pfn, order, ret } if *ret > 0 => self.request(*pfn, *order, 0),
            What::Extfrag(fallback) => {
                self.wait_for_stack(record.cpu, Some((record.pid, *fallback)));
            }
            What::Other(other) if &*other.name == STACK => {
                if let Some((pid, fallback)) = self.pending.take(record.cpu).flatten() {
                    let functions = site(&other.args).join(" < ");
                    self.fallback(pid, &fallback, Some(&functions));
                }
            }
            What::Other(other) => {
                self.count(record.pid, other);
                if may_have_stack(&record.what) {
                    self.wait_for_stack(record.cpu, None);
                }
            }
            _ => {}
        }
    }

    fn request(&mut self, pfn: Pfn, order: Order, value: u8) {
        let start = pfn.0 as usize;
        let end = (start + (1 << order)).min(self.requested.len());
        self.requested.get_mut(start..end).unwrap_or_default().fill(value);
    }

    fn wait_for_stack(&mut self, cpu: u16, fallback: Option<(u32, Extfrag)>) {
        let oldest = self.pending.wait(cpu, fallback).flatten();
        if let Some((pid, fallback)) = oldest {
            self.fallback(pid, &fallback, None);
        }
    }

    fn fallback(&mut self, pid: u32, fallback: &Extfrag, site: Option<&str>) {
        match self.recording.comms.get(&pid) {
            Some(command) => self.builder.fallback(fallback, command, site),
            None => self.builder.fallback(fallback, &format!("pid {pid}"), site),
        }
    }

    /// Counts the events of reclaim and compaction under their names in `/proc/vmstat`.
    fn count(&mut self, pid: u32, other: &Other) {
        let number = |key| other.arg(key).and_then(|value| value.parse().ok()).unwrap_or(0);
        let by_kswapd = || {
            let command = self.recording.comms.get(&pid);
            command.is_some_and(|command| command.starts_with("kswapd"))
        };
        let counts: &[(&str, u64)] = match &*other.name {
            "mm_vmscan_direct_reclaim_begin" => &[("allocstall", 1)],
            "mm_vmscan_direct_reclaim_end" => &[("pgsteal_direct", number("nr_reclaimed"))],
            "mm_vmscan_kswapd_wake" => &[("pageoutrun", 1)],
            "mm_vmscan_lru_shrink_inactive" if by_kswapd() => &[
                ("pgscan_kswapd", number("nr_scanned")),
                ("pgsteal_kswapd", number("nr_reclaimed")),
            ],
            "mm_vmscan_lru_shrink_inactive" => &[("pgscan_direct", number("nr_scanned"))],
            "mm_compaction_try_to_compact_pages" => &[("compact_stall", 1)],
            "mm_compaction_isolate_migratepages" => {
                &[("compact_migrate_scanned", number("nr_scanned"))]
            }
            "mm_compaction_isolate_freepages" => &[("compact_free_scanned", number("nr_scanned"))],
            "mm_compaction_kcompactd_wake" => &[("compact_daemon_wake", 1)],
            "mm_migrate_pages" => &[
                ("pgmigrate_success", number("nr_succeeded")),
                ("pgmigrate_fail", number("nr_failed")),
            ],
            _ => &[],
        };
        for &(name, count) in counts {
            self.counters.add(name, count);
        }
    }

    fn finish(mut self, allocator: &Allocator<'_>) -> History {
        let rest: Vec<(u32, Extfrag)> = self.pending.rest().flatten().collect();
        for (pid, fallback) in rest {
            self.fallback(pid, &fallback, None);
        }
        while let Some(at) = self.moments.rest() {
            self.sample(at, allocator);
        }
        self.builder.finish()
    }
}

/// The note on every history of a recording.
const START_NOTE: &str = "What a page was requested as is known from its allocation on. Pages in use since \
before the recording count as movable where the state at the start has them as user memory or page cache, else as the \
type of their pageblock, in movable ones as unmovable.";
