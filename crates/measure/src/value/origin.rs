//! Where a run comes from.

use serde::{Deserialize, Serialize};

/// Where a run comes from: nothing else tells what its numbers are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// A simulation of a machine; runs of one seed have the same workload.
    #[default]
    Simulated,
    /// A free replay of a recording; a seed rotates its free lists.
    Replayed,
    /// A real kernel. Its number says only which of several runs it is.
    Real,
}

impl Origin {
    /// Returns the word for what such a run's numbers are: `simulated`.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Simulated => "simulated",
            Self::Replayed => "replayed",
            Self::Real => "real",
        }
    }

    /// Returns what the number of such a run is: `seed`, or `run`.
    #[must_use]
    pub const fn number(self) -> &'static str {
        match self {
            Self::Simulated | Self::Replayed => "seed",
            Self::Real => "run",
        }
    }

    /// Reports whether runs of two policies with the same number have something in common beside the workload, so that they
    /// are compared in pairs.
    #[must_use]
    pub fn is_paired_with(self, other: Self) -> bool {
        self == other && self != Self::Real
    }
}
