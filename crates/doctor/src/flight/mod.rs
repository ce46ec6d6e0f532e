//! A flight recorder: the activity of a machine's memory during the last day, and around each failure.
//!
//! [`Recorder`] samples the files that [`checkup`](crate::checkup) reads into a [`Ring`] of a fixed size; [`Flight`] reads one,
//! [`timeline`] computes its rates by rows, and [`bundle`] packs what a mailing list would ask for.

mod bundle;
mod codec;
mod damage;
mod frame;
mod kmsg;
mod layout;
mod pace;
mod read;
mod recorder;
mod ring;
mod sampler;
mod stall;
mod template;
mod timeline;
mod when;

use std::io;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

pub use self::bundle::{Around, Bundle, bundle};
pub use self::damage::Damage;
pub use self::frame::{Event, EventKind, FileText, Frame};
pub use self::read::{Extent, Flight, Moment};
pub use self::recorder::{Now, Plan, Recorded, Recorder, Seen, kept};
pub use self::ring::Ring;
pub use self::sampler::Sampler;
pub use self::timeline::{Happened, Row, Timeline, pair, timeline};
pub use self::when::{When, first_ms, last_ms, span};

/// The default size of a ring: a day at 1 MB per hour.
pub const RING_BYTES: u64 = 24 << 20;

/// Returns a time in UTC, such as `2026-11-23T18:40:05Z`.
#[must_use]
pub fn time(wall_ms: u64) -> String {
    humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_millis(bounded(wall_ms)))
        .to_string()
}

/// Limits a time to the largest one before the year 9999, which can be formatted.
fn bounded(wall_ms: u64) -> u64 {
    wall_ms.min(253_000_000_000_000)
}

/// Formats a time for a file name: `20261123T184005Z`.
fn file_time(wall_ms: u64) -> String {
    time(wall_ms).replace(['-', ':'], "")
}

/// Returns whether a file has a name that begins as [`file_time`].
fn is_kept_name(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().as_bytes();
    name.len() > 17
        && name[..15].iter().enumerate().all(|(at, byte)| match at {
            8 => *byte == b'T',
            _ => byte.is_ascii_digit(),
        })
        && &name[15..17] == b"Z-"
}

/// Keeps the memory of this process in RAM: a recorder that waits for its own pages records no stall.
///
/// # Errors
/// If the limit of locked memory (`LimitMEMLOCK`) forbids it.
pub fn stay_in_memory() -> io::Result<()> {
    use rustix::mm::{MlockAllFlags, mlockall};

    Ok(mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT)?)
}

/// Returns the CPU seconds that this process used.
#[must_use]
pub fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
