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

    /// Returns what one such run is: a seed's, a draw of a replay, or a run.
    #[must_use]
    pub const fn each(self) -> &'static str {
        match self {
            Self::Simulated => "seed",
            Self::Replayed => "draw",
            Self::Real => "run",
        }
    }
}
