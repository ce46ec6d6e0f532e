//! What a picture shows: one run, or one recording.

use pageblock_measure::History;
use serde::Serialize;

/// How a history came about.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A simulated run.
    Simulated,
    /// What happened in a recording.
    Recorded,
    /// A free replay of a recording under some policy.
    Replayed,
    /// A run of a real kernel.
    Real,
}

/// One run or recording.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Subject {
    /// The policy, or the recording's name.
    pub name: String,
    /// How it came about.
    pub kind: Kind,
    /// The workload or the recording.
    pub workload: String,
    /// The machine.
    pub machine: String,
    /// The seed of a simulation or a replay, the number of a real run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// The command that makes it again.
    pub command: String,
    /// How well the recorded kernel's own policy reproduced the recording.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate: Option<String>,
    /// What a reader needs to know of it.
    pub notes: Vec<String>,
    /// Its history; `None` if the run was saved without.
    pub history: Option<History>,
}
