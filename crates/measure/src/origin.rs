//! Where a run comes from.

use serde::{Deserialize, Serialize};

use crate::clock::Clock;
use crate::run::Run;

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

    /// Returns the words for the numbers of these runs: `simulated and real`.
    #[must_use]
    pub fn words<'r>(runs: impl IntoIterator<Item = &'r Run>) -> String {
        let mut origins: Vec<Self> = runs.into_iter().map(|run| run.origin).collect();
        origins.sort_unstable();
        origins.dedup();
        origins.iter().map(|origin| origin.word()).collect::<Vec<_>>().join(" and ")
    }

    /// Reports whether runs of two policies with the same number have something in common beside the workload, so that they
    /// are compared in pairs.
    #[must_use]
    pub fn is_paired_with(self, other: Self) -> bool {
        self == other && self != Self::Real
    }
}

/// Sets the origin of a run that an older version saved, which did not say it: only replays have a certificate or a
/// calibration, only guests an emulator's clock.
pub(crate) fn of_older(run: &mut Run) {
    if run.origin == Origin::Simulated {
        if run.certificate.is_some() || run.calibration.is_some() {
            run.origin = Origin::Replayed;
        } else if run.clock == Some(Clock::Emulated) {
            run.origin = Origin::Real;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_name_each_origin_once() {
        let of = |origin| Run { origin, ..Run::default() };
        let runs = [of(Origin::Real), of(Origin::Simulated), of(Origin::Real)];
        assert_eq!(Origin::words(&runs), "simulated and real");
        assert_eq!(Origin::words(&runs[..1]), "real");
    }

    #[test]
    fn older_runs_are_told_by_what_only_their_kind_has() {
        let check = |mut run: Run, origin| {
            of_older(&mut run);
            assert_eq!(run.origin, origin);
        };
        check(Run::default(), Origin::Simulated);
        check(Run { certificate: Some(String::new()), ..Run::default() }, Origin::Replayed);
        check(Run { clock: Some(Clock::Emulated), ..Run::default() }, Origin::Real);
    }
}
