//! Recorded counts beside those of a free replay, which show how far a what-if replay can be trusted.

use serde::{Deserialize, Serialize};

use crate::certificate::Drawn;

/// Recorded counts beside those of the free replay under the recorded policy.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Calibration {
    /// The recorded kernel's policy.
    pub policy: String,
    /// Fragmentation events by requested type, by fallback type and by effect, and their total.
    pub rows: Vec<CalibrationRow>,
    /// The fewest and the most fragmentation events over the seeds, if there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<(u64, u64)>,
    /// Requests of the free replay that were served.
    pub requests: u64,
    /// Served requests that got the same frame as in the recording.
    pub same_frame: u64,
}

/// One count, recorded and replayed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CalibrationRow {
    /// The name of the count: `total`, `for-Movable`, `from-Unmovable`, `claims`.
    pub label: String,
    /// The count in the recording.
    pub recorded: u64,
    /// The count in the free replay.
    pub replayed: u64,
}

impl Calibration {
    /// Returns all fragmentation events: recorded, and replayed.
    #[must_use]
    pub fn total(&self) -> (u64, u64) {
        self.rows.first().map_or((0, 0), |total| (total.recorded, total.replayed))
    }

    /// Returns the range over the seeds beside what was recorded; `None` for a single seed.
    #[must_use]
    pub fn drawn(&self) -> Option<Drawn> {
        let (fewest, most) = self.range?;
        let (recorded, _) = self.total();
        Some(Drawn { policy: self.policy.clone(), recorded, fewest, most })
    }

    /// Returns the share of requests that got the recorded frame, in hundredths of a percent, rounded
    /// down; `None` if there are no requests.
    #[must_use]
    pub fn same_frame_permyriad(&self) -> Option<u64> {
        (self.same_frame * 10_000).checked_div(self.requests)
    }
}
