//! A closed-loop replay of a recording, from its demands to a run.

use pageblock_kernel::Kernel;
use pageblock_recording::Recording;
use pageblock_replay::Error;
use pageblock_replay::demand::Demands;
use pageblock_replay::machine::{self, recorded_kernel};
use pageblock_replay::open_loop::{Replayed, describe, start};

use crate::machine::Machine;
use crate::pace::Pace;

/// The largest number of frames: 256 GiB of pages of 4 KiB. Each frame takes some 40 bytes, used or not.
const MOST_FRAMES: u64 = 1 << 26;

/// Frames allowed beyond a machine's pages: a hole below 4 GiB, and sixteen frames per page.
const HOLE_FRAMES: u64 = 1 << 20;
const FRAMES_A_PAGE: u64 = 16;

/// Returns the largest number of frames for a machine with a recording's pages.
fn most_of(recording: &Recording) -> u64 {
    let pages: u64 = recording.start.zones.iter().map(|zone| zone.managed).sum();
    pages.saturating_mul(FRAMES_A_PAGE).saturating_add(HOLE_FRAMES)
}

/// Returns the reason why a recording cannot be replayed in a closed loop, if there is one.
#[must_use]
pub fn obstacle(recording: &Recording) -> Option<&'static str> {
    if recording.requests_only {
        Some("the recording has requests and frees only: who freed a page is not known")
    } else if recording.start.end_pfn().0 > MOST_FRAMES {
        Some("the machine has frames above 256 GiB")
    } else if recording.start.end_pfn().0 > most_of(recording) {
        Some("nearly all of the machine's frames are holes")
    } else {
        None
    }
}

/// Replays the demands of a recording on a machine with a kernel. Its free lists start in the recorded order with
/// seed 0, rotated with other seeds ([`open_loop::replay`](pageblock_replay::open_loop::replay)). `progress` is
/// called with the number of demands done and their total; if it returns `false`, the replay stops without a run.
/// The recording must have no [`obstacle`].
///
/// # Errors
/// If the demands cannot be read, or the recording's machine cannot be modelled.
pub fn replay(
    recording: &Recording,
    demands: &Demands,
    (name, kernel): (&str, &Kernel),
    seed: u64,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Option<Replayed>, Error> {
    let of = machine::Machine::of(recording)?;
    let policy = &kernel.allocator;
    let mut memory = of.table_memory(*policy)?;
    let recorded = recorded_kernel(recording).allocator;
    let allocator = start(&of, &recorded, policy, (&demands.start, seed), &mut memory)?;
    let mut machine = Machine::new(allocator, kernel, &demands.start, Pace::of(demands)?);
    let mut chunks = demands.chunks()?;
    let mut done = 0;
    while let Some(chunk) = chunks.next_chunk()? {
        for timed in chunk {
            machine.push(*timed);
        }
        done += chunk.len() as u64;
        if !progress(done, demands.count) {
            return Ok(None);
        }
    }
    let mut replayed = machine.finish(name, &recording.name, &describe(recording));
    replayed.run.seed = seed;
    Ok(Some(replayed))
}
