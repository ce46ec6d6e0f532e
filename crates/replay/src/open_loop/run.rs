//! A free replay of a recording, from its files to a run.

use pageblock::policy::Policy;
use pageblock_recording::{Columnar, Recording};

use super::{Replay, Replayed, start};
use crate::demand::{DemandFinder, Demands};
use crate::error::Error;
use crate::infer;
use crate::machine::{Machine, recorded_kernel};
use crate::verify::{cpu_list_orders, find_look_ahead, guide};

/// Returns the demands of a recording: those in the cache folder if they were made from this columnar form,
/// otherwise new ones. `progress` is called with the number of events done and their total.
///
/// # Errors
/// If the events cannot be read, or the file cannot be written.
pub fn demands(
    recording: &Recording,
    columnar: &Columnar,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Demands, Error> {
    let path = columnar.cache.with_extension("demands.pbrec");
    let policy = recorded_kernel(recording).allocator;
    let machine = Machine::of(recording)?;
    let orders = cpu_list_orders(recording, &policy);
    let start = infer::start(recording, columnar, orders)?;
    if let Some(demands) = Demands::open(&path, columnar, start.snapshot.clone()) {
        return Ok(demands);
    }
    if recording.requests_only {
        let window = 0..columnar.end_event();
        return Demands::write_requests(
            &path,
            columnar,
            window,
            (start.snapshot, recording.pageblock_order),
            &mut |done| {
                progress(done, columnar.events);
            },
        );
    }
    let total = 2 * columnar.events;
    let look_ahead =
        find_look_ahead(recording, columnar, &policy, &mut |done| progress(done, total))?;
    let mut memory = machine.table_memory(policy)?;
    let mut allocator = machine.allocator(policy, &start.snapshot, &mut memory)?;
    let mut guided = guide(&mut allocator, recording, &start, &look_ahead, 0);
    let finder = DemandFinder::new(recording, &look_ahead, orders);
    let window = infer::first_event(recording, columnar)..columnar.end_event();
    let state = start.snapshot.clone();
    let whole = columnar.end_event() >= columnar.windows.end_event();
    let end = recording.end.as_ref().filter(|_| whole);
    Demands::write(&path, columnar, window, finder, &mut guided, (state, end), &mut |done| {
        progress(columnar.events + done, total);
    })
}

/// Replays the demands of a recording under a policy. Seed 0 starts with the free lists in the recorded order,
/// other seeds with rotated ones: the spread of the counts over several seeds is chance. `progress` is called with
/// the number of demands done and their total. If it returns `false`, the replay stops without a run.
///
/// # Errors
/// If the demands cannot be read, or the recording's machine cannot be modelled.
pub fn replay(
    recording: &Recording,
    demands: &Demands,
    (name, policy): (&str, &Policy),
    seed: u64,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Option<Replayed>, Error> {
    serve(recording, demands, None, (name, policy), seed, progress)
}

/// [`replay`] that also keeps the history of the machine's memory.
///
/// # Errors
/// As [`replay`].
pub fn replay_with_history(
    recording: &Recording,
    columnar: &Columnar,
    demands: &Demands,
    (name, policy): (&str, &Policy),
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Option<Replayed>, Error> {
    serve(recording, demands, Some(columnar), (name, policy), 0, progress)
}

fn serve(
    recording: &Recording,
    demands: &Demands,
    history_of: Option<&Columnar>,
    (name, policy): (&str, &Policy),
    seed: u64,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Option<Replayed>, Error> {
    let machine = Machine::of(recording)?;
    let mut memory = machine.table_memory(*policy)?;
    let recorded = recorded_kernel(recording).allocator;
    let mut allocator = start(&machine, &recorded, policy, (&demands.start, seed), &mut memory)?;
    let mut replay = Replay::new(&mut allocator);
    if let Some(columnar) = history_of {
        replay.record_history(columnar, &recording.start);
    }
    let mut chunks = demands.chunks()?;
    let mut done = 0;
    while let Some(chunk) = chunks.next_chunk()? {
        for timed in chunk {
            replay.push(*timed);
        }
        done += chunk.len() as u64;
        if !progress(done, demands.count) {
            return Ok(None);
        }
    }
    let mut replayed = replay.finish(name, &recording.name, &describe(recording));
    replayed.run.seed = seed;
    Ok(Some(replayed))
}

/// Describes the machine of a recording in a line.
#[must_use]
pub fn describe(recording: &Recording) -> String {
    let pages: u64 = recording.start.zones.iter().map(|z| z.managed).sum();
    let cpus = recording.start.pcpinfo.iter().map(|p| p.cpu).max().map_or(1, |cpu| cpu + 1);
    let nodes = recording.start.zones.iter().map(|z| z.node).max().map_or(1, |node| node + 1);
    let plural = |n: u16, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    format!("{} MiB, {}, {}", pages * 4 / 1024, plural(cpus, "CPU"), plural(nodes, "node"))
}
