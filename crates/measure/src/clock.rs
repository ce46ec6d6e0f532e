//! Whose time a run's samples have.

use serde::{Deserialize, Serialize};

use crate::run::Run;

/// A clock whose times are not compared with others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Clock {
    /// A guest's, whose CPUs were emulated: an instruction takes the emulator's time.
    Emulated,
}

/// Returns the runs of each policy without the samples that an emulator timed.
pub(crate) fn without_emulated_times(policies: &[Vec<&Run>]) -> Vec<Vec<Run>> {
    let timed = |run: &&Run| match run.clock {
        Some(Clock::Emulated) => Run { samples: Default::default(), ..(*run).clone() },
        None => (*run).clone(),
    };
    policies.iter().map(|runs| runs.iter().map(timed).collect()).collect()
}
