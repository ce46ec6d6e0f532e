//! What a reader needs to know to interpret the numbers of a run or a comparison.

use serde::{Deserialize, Serialize};

use super::grades::Loop;
use super::verification::Gap;

/// A note on a run or a comparison.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Note {
    /// Of a kind that programs can tell.
    Of(Known),
    /// A gap of the recording.
    Gap(Gap),
    /// Of a workload, in words; all of them in runs that older versions saved.
    Words(String),
}

/// A note that programs can tell.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "note", rename_all = "snake_case")]
pub enum Known {
    /// The run is a free replay.
    Replayed {
        /// What it takes from the recording.
        of: Loop,
    },
    /// The recorded machine's settings that every policy of a replay has where it does not set them itself.
    Settings {
        /// Those that are no defaults of the recorded kernel, as `switch=value`.
        set: Vec<String>,
        /// Those that are not simulated, as `file=content`.
        unknown: Vec<String>,
    },
    /// Not all replays were made.
    Interrupted {
        /// Those that were.
        done: usize,
        /// Those that were wanted.
        wanted: usize,
    },
    /// Fallbacks are counted in another unit under some of the policies.
    UnitsDiffer,
    /// Linux's decisions counted in place of impossible answers of a policy of one's own.
    Refused {
        /// The policy.
        policy: String,
        /// The number of answers.
        answers: u64,
    },
    /// The runs differ in something besides the policy.
    Differs {
        /// In what: `workload` or `machine`.
        what: String,
        /// That of the first run.
        first: String,
        /// That of another.
        other: String,
    },
}

impl From<String> for Note {
    fn from(words: String) -> Self {
        Self::Words(words)
    }
}

impl From<Known> for Note {
    fn from(known: Known) -> Self {
        Self::Of(known)
    }
}
