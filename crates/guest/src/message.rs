//! What a guest reports: lines of JSON on its second serial port.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A line.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Message {
    /// The first process runs.
    Booted {
        /// `uname -r`.
        release: String,
    },
    /// The load began a phase.
    Phase {
        /// Its name.
        name: String,
        /// How much of the load lies before it, from 0 to 1.
        before: f64,
    },
    /// The guest lives.
    Alive {
        /// Seconds since its boot.
        seconds: u64,
    },
    /// The load is prepared: what is measured begins now.
    Prepared,
    /// The files of `/proc` before the load, or once it is prepared, and counts of events.
    Start {
        /// Their texts by name.
        files: Files,
        /// The histograms of fallbacks.
        #[serde(default)]
        fallbacks: String,
    },
    /// What the load measured.
    Measured(Measured),
    /// The files of `/proc` after the load, and counts of events.
    End {
        /// Their texts by name.
        files: Files,
        /// The histograms of fallbacks.
        fallbacks: String,
    },
    /// A recording is on its disk.
    Recorded {
        /// Its size.
        bytes: u64,
    },
    /// The guest could not do it.
    Failed {
        /// Why.
        why: String,
    },
    /// The load was ended before its end.
    Ended {
        /// How.
        why: String,
    },
}

/// Texts of files by their names below `/proc`.
pub type Files = BTreeMap<String, String>;

/// What a load measured beside the kernel's counts.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Measured {
    /// Samples by operation.
    pub samples: BTreeMap<String, Vec<u64>>,
    /// Counts.
    pub counters: BTreeMap<String, u64>,
    /// What a reader needs to know.
    pub notes: Vec<String>,
}
