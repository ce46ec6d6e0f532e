//! What a run keeps of the certificate of its recording.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::grades::{Grades, Loop};
use super::support::{Certificate, Grade, Part, Support};
use super::verification::{Gap, KindResult, Verification};

/// How well the recorded kernel's own policy reproduced a recording.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Reproduced {
    /// The recording's name.
    pub recording: String,
    /// The name of the policy.
    pub preset: String,
    /// The number of recorded events that were replayed.
    pub events: u64,
    /// The decisions of all kinds; `None` if nothing could be judged.
    pub decisions: Option<KindResult>,
    /// The gap that explains best what is not judged.
    pub gap: Option<Gap>,
    /// The kind with the smallest share of exact decisions.
    pub worst: Option<(String, KindResult)>,
    /// The kinds of decision that cannot be judged.
    pub not_judged: Vec<String>,
    /// Whether the replay ended in the recorded end state; `None` if they could not be compared.
    pub end_state_equal: Option<bool>,
    /// Whether the recording has an end state.
    pub end_state_recorded: bool,
    /// The grade of the recording, which is that of the better loop; `None` if it was not graded.
    pub grade: Option<Grade>,
    /// What the recording supports of each part of a what-if in the loop that was taken; empty if it was not graded.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub parts: BTreeMap<Part, Support>,
    /// Which loop was taken; `None` if nothing was replayed freely.
    pub taken: Option<Taken>,
    /// What free replays of several seeds give; `None` for a single seed.
    pub drawn: Option<Drawn>,
}

/// Which loop a free replay has, and why.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Taken {
    /// The loop.
    pub taken: Loop,
    /// Whether somebody asked for it; else it supports more, or the same and is the open one.
    pub as_asked: bool,
    /// Its grade; `None` in runs that older versions saved.
    #[serde(default)]
    pub grade: Option<Grade>,
    /// The grade of the other loop; `None` if the recording has no other.
    pub other: Option<Grade>,
}

/// The fragmentation events of free replays under the recorded policy.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Drawn {
    /// The policy.
    pub policy: String,
    /// Those that were recorded.
    pub recorded: u64,
    /// The fewest of a seed.
    pub fewest: u64,
    /// The most of a seed.
    pub most: u64,
}

/// What is known of a run's recording.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Certified {
    /// What was compared.
    Reproduced(Box<Reproduced>),
    /// The sentence that older versions saved.
    Sentence(String),
}

impl Certified {
    /// Returns the grade of the recording, if it has one.
    #[must_use]
    pub fn grade(&self) -> Option<Grade> {
        match self {
            Self::Reproduced(of) => of.grade,
            Self::Sentence(_) => None,
        }
    }
}

impl Reproduced {
    /// Returns what guided replay and the grade of a loop say.
    #[must_use]
    pub fn new(verification: &Verification, certificate: Option<&Certificate>) -> Self {
        Self {
            recording: verification.recording.clone(),
            preset: verification.preset.clone(),
            events: verification.events,
            decisions: (!verification.is_void()).then(|| verification.total()),
            gap: verification.main_gap().cloned(),
            worst: verification.worst().map(|(name, kind)| (name.to_owned(), kind)),
            not_judged: verification.not_judged.iter().cloned().collect(),
            end_state_equal: verification.end_state_equal,
            end_state_recorded: verification.end_state_recorded,
            grade: certificate.map(|certificate| certificate.grade),
            parts: certificate.map(|certificate| certificate.parts.clone()).unwrap_or_default(),
            taken: None,
            drawn: None,
        }
    }
}

impl Certified {
    /// Returns the loop that was taken; `None` if that was not kept.
    #[must_use]
    pub fn taken(&self) -> Option<Loop> {
        match self {
            Self::Reproduced(reproduced) => Some(reproduced.taken?.taken),
            Self::Sentence(_) => None,
        }
    }

    /// Returns what the recording supports of a part; `None` if that was not kept.
    #[must_use]
    pub fn support(&self, part: Part) -> Option<Support> {
        match self {
            Self::Reproduced(reproduced) => reproduced.parts.get(&part).copied(),
            Self::Sentence(_) => None,
        }
    }
}

impl Taken {
    /// Returns why a loop was taken: as somebody asked for it, or by the grades.
    #[must_use]
    pub fn new(grades: &Grades, taken: Loop, as_asked: bool) -> Self {
        let other = grades.closed.as_ref().map(|_| grades.of(taken.other()).grade);
        Self { taken, as_asked, grade: Some(grades.of(taken).grade), other }
    }
}
