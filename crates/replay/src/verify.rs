//! Verification: a recording replayed under its kernel's own policy, every decision compared.

use std::collections::BTreeSet;

use pageblock::alloc::Allocator;
use pageblock::policy::{PcpOrders, Policy};
use pageblock_measure::Verification;
use pageblock_measure::certificate::verification::KindResult;
use pageblock_recording::{Columnar, Record, Recording};

use crate::error::Error;
use crate::gaps;
use crate::guided::Guided;
use crate::infer::{self, Start};
use crate::look_ahead::{CpuListOrders, LookAhead, LookAheadFinder};
use crate::machine::{self, Machine};

/// The parts of a recording whose decisions are counted apart.
const TENTHS: u64 = 10;

/// What a verification keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VerifyOptions {
    /// How many mismatches are kept, the first ones.
    pub mismatches: usize,
    /// The number of events after which to stop; the end states are compared only without it.
    pub limit: Option<u64>,
}

impl Default for VerifyOptions {
    fn default() -> Self {
        Self { mismatches: 20, limit: None }
    }
}

/// Replays a recording under a policy and compares every decision with the recorded one.
/// `progress` is called now and then with the events done and their number, over two passes.
///
/// # Errors
/// Where the recording cannot be read, or no machine fits its start snapshot.
pub fn verify(
    recording: &Recording,
    columnar: &Columnar,
    policy: &Policy,
    preset_name: &str,
    options: VerifyOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Verification, Error> {
    let machine = Machine::of(recording)?;
    let pass = Pass::of(recording, columnar, options.limit);
    let mut result = if pass.start == pass.end || recording.requests_only {
        let mut nothing = Verification::default();
        gaps::nothing_is_judged(&mut nothing);
        nothing
    } else {
        follow(recording, columnar, &machine, policy, options, &pass, progress)?
    };
    result.recording.clone_from(&recording.name);
    preset_name.clone_into(&mut result.preset);
    result.end_state_recorded = recording.end.is_some();
    result.gaps.splice(0..0, gaps::known(recording, columnar, pass.start..pass.end));
    Ok(result)
}

/// Compares every decision of the events of the pass.
fn follow(
    recording: &Recording,
    columnar: &Columnar,
    machine: &Machine,
    policy: &Policy,
    options: VerifyOptions,
    pass: &Pass,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Verification, Error> {
    let total = 2 * (pass.end - pass.start);
    let look_ahead =
        look_ahead_of(recording, columnar, policy, pass, &mut |done| progress(done, total))?;
    let mut memory = machine.table_memory(*policy)?;
    let start = infer::start(recording, columnar, cpu_list_orders(recording, policy))?;
    let mut allocator = machine.allocator(*policy, &start.snapshot, &mut memory)?;
    let mut guided = guide(&mut allocator, recording, &start, &look_ahead, options.mismatches);
    let half = total / 2;
    let tenth = (pass.end - pass.start).div_ceil(TENTHS);
    let mut tenths = vec![KindResult::default()];
    let mut each = |event: u64, record: &Record| {
        guided.push(event, record);
        if (event + 1 - pass.start).is_multiple_of(tenth) {
            tenths.push(guided.total());
        }
    };
    pass.run(columnar, &mut each, &mut |done| progress(half + done, total))?;
    if !(pass.end - pass.start).is_multiple_of(tenth) {
        tenths.push(guided.total());
    }
    if pass.whole
        && options.limit.is_none()
        && let Some(end) = &recording.end
    {
        guided.compare_end(end);
    }
    let mut result = guided.finish();
    result.notes.splice(0..0, start.notes);
    if result.not_judged.is_empty() {
        result.drift = tenths.windows(2).map(|pair| pair[1].since(&pair[0])).collect();
    }
    Ok(result)
}

/// Creates a guided replay of a recording from its start state, which the allocator is in.
pub(crate) fn guide<'a, 'm>(
    allocator: &'a mut Allocator<'m>,
    recording: &Recording,
    start: &Start,
    look_ahead: &'a LookAhead,
    mismatches: usize,
) -> Guided<'a, 'm> {
    let infos = start.snapshot.pcpinfo.iter();
    let limits = infos.filter_map(|info| {
        let zone = machine::zone_at(allocator, &start.snapshot, info.zone)?;
        Some((usize::from(info.cpu), zone, u32::try_from(info.high).unwrap_or(u32::MAX)))
    });
    let limits: Vec<_> = limits.collect();
    let mut guided = Guided::new(allocator, look_ahead, mismatches);
    if let Some(event) = start.limits_read_before {
        guided.limits_are_read_before(event, limits);
    }
    guided.start_is_inferred(&start.inferred);
    guided.types_are_guessed(&start.guessed);
    if !recording.start_known {
        guided.limits_are_inferred();
    }
    if !recording.start.exact {
        let blocks = start.snapshot.free.iter().map(|block| (block.pfn, block.order));
        guided.places_are_unknown(blocks);
    }
    guided
}

/// Finds what becomes of each page that the recording frees.
///
/// # Errors
/// Where the recording cannot be read.
pub(crate) fn find_look_ahead(
    recording: &Recording,
    columnar: &Columnar,
    policy: &Policy,
    progress: &mut dyn FnMut(u64),
) -> Result<LookAhead, Error> {
    look_ahead_of(recording, columnar, policy, &Pass::of(recording, columnar, None), progress)
}

fn look_ahead_of(
    recording: &Recording,
    columnar: &Columnar,
    policy: &Policy,
    pass: &Pass,
    progress: &mut dyn FnMut(u64),
) -> Result<LookAhead, Error> {
    let orders = cpu_list_orders(recording, policy);
    let keeps = recording.kernel.reports_kept_targets();
    let (start, pageblock_order) = (&recording.start, recording.pageblock_order);
    let mut finder =
        LookAheadFinder::new(start, pageblock_order, orders, keeps, workers(recording));
    let pass = Pass { end: pass.last_told(recording, columnar), ..*pass };
    pass.run(columnar, &mut |event, record| finder.push(event, record), progress)?;
    Ok(finder.finish(recording.end.as_ref().filter(|_| pass.whole)))
}

pub(crate) fn cpu_list_orders(recording: &Recording, policy: &Policy) -> CpuListOrders {
    match policy.pcp_orders {
        PcpOrders::Order0 => CpuListOrders { up_to: 0, and: None },
        PcpOrders::CostlyAndThp => CpuListOrders { up_to: 3, and: Some(recording.pageblock_order) },
    }
}

/// Returns the tasks that work for one CPU: `kworker/CPU:ID`.
fn workers(recording: &Recording) -> BTreeSet<u32> {
    let of_cpu = |name: &str| {
        let Some((cpu, id)) = name.strip_prefix("kworker/").and_then(|n| n.split_once(':')) else {
            return false;
        };
        let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
        digits(cpu) && digits(id.split(['-', '+']).next().unwrap_or(""))
    };
    let workers = recording.comms.iter().filter(|(_, name)| of_cpu(name));
    workers.map(|(&pid, _)| pid).collect()
}

/// The events between the states at the start and at the end.
pub(crate) struct Pass {
    start: u64,
    end: u64,
    whole: bool,
}

impl Pass {
    pub(crate) fn of(recording: &Recording, columnar: &Columnar, limit: Option<u64>) -> Self {
        let start = infer::first_event(recording, columnar);
        let windows = &columnar.windows;
        let end = columnar.end_event().max(start);
        let limit = limit.map_or(u64::MAX, |limit| start.saturating_add(limit));
        if recording.start_known && windows.start.markers.is_empty() {
            // Which event is the first after the start state is not known.
            return Self { start, end: start, whole: false };
        }
        let known = windows.end.as_ref().is_none_or(|end| !end.markers.is_empty());
        let whole = limit >= end && known && end >= windows.end_event();
        Self { start, end: end.min(limit), whole }
    }

    /// Returns the end of what the look-ahead reads: an end snapshot that was gathered while the machine
    /// ran is the state after its window rather than before.
    fn last_told(&self, recording: &Recording, columnar: &Columnar) -> u64 {
        let inexact = recording.end.as_ref().is_some_and(|end| !end.exact);
        let window = columnar.windows.end.as_ref().filter(|_| inexact && self.whole);
        window.map_or(self.end, |window| window.markers.end.max(self.end))
    }

    pub(crate) fn run(
        &self,
        columnar: &Columnar,
        each: &mut dyn FnMut(u64, &Record),
        progress: &mut dyn FnMut(u64),
    ) -> Result<(), Error> {
        let mut chunks = columnar.chunks()?;
        let mut event = 0;
        while let Some(chunk) = chunks.next_chunk()? {
            for record in chunk {
                if (self.start..self.end).contains(&event) {
                    each(event, record);
                }
                event += 1;
            }
            progress(event.clamp(self.start, self.end) - self.start);
            if event >= self.end {
                break;
            }
        }
        Ok(())
    }
}
