//! How well a guided replay reproduced a recording: the fidelity certificate as data.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::file;

/// The result of replaying a recording under a policy, each decision held against the recorded one.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Verification {
    /// The recording's name.
    pub recording: String,
    /// The policy that was held against it.
    pub preset: String,
    /// The number of recorded events that were followed.
    pub events: u64,
    /// What the recording lacks; nothing of what that makes meaningless is in `kinds` or `drains`.
    #[serde(default)]
    pub gaps: Vec<Gap>,
    /// The results by kind of decision.
    pub kinds: BTreeMap<String, KindResult>,
    /// The kinds of decision that cannot be judged, as the recording has gaps.
    #[serde(default)]
    pub not_judged: BTreeSet<String>,
    /// Whether the model ended on the recorded end state; `None` where that could not be compared.
    pub end_state_equal: Option<bool>,
    /// Whether the recording has an end state.
    #[serde(default)]
    pub end_state_recorded: bool,
    /// Recorded changes of state that the model could not follow, by what they are.
    #[serde(default)]
    pub not_followed: BTreeMap<String, u64>,
    /// What was inferred, lost or not matched.
    #[serde(default)]
    pub notes: Vec<String>,
    /// The first mismatches, in the order of the recording; not all of them.
    #[serde(default)]
    pub mismatches: Vec<Mismatch>,
    /// The frees that drained a per-CPU list in the recording or in the replay, which are also among
    /// those that decide whether to: shape where both did, exact where they gave back as many. What is
    /// learned from the kernel's answer does not make them agree: explained are those of one side.
    #[serde(default)]
    pub drains: KindResult,
}

/// Something that a recording lacks.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "gap", rename_all = "snake_case")]
pub enum Gap {
    /// There is no event between the marks.
    NoEvents,
    /// The recorder lost events of a CPU.
    LostEvents {
        /// The CPU; `None` where the events' file does not say.
        cpu: Option<u16>,
        /// How many were lost.
        lost: u64,
        /// How many of the CPU were recorded.
        recorded: u64,
    },
    /// No event is followed from the first loss on.
    Cut {
        /// The events that were followed.
        followed: u64,
        /// The events between the marks.
        events: u64,
    },
    /// Every event of a kind is missing.
    MissingEvent {
        /// The tracepoint.
        event: String,
    },
    /// Marks around a snapshot are missing.
    MissingMarks {
        /// Their names.
        marks: [String; 2],
    },
}

/// Kinds with fewer decisions say too little to be judged.
pub const CASES_JUDGED: u64 = 100;

/// What the drains in the recording or in the replay are called.
pub const DRAINS: &str = "drains in the recording or in the replay";

/// Counts of one kind of decision.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct KindResult {
    /// Decisions of the kind.
    pub cases: u64,
    /// Those that agree in all but the frame: order, type, and what was done.
    pub shape: u64,
    /// Those that agree in the frame too.
    pub exact: u64,
    /// Those that agree only after what an interruption or the look-ahead explains: not exact, of
    /// the right shape.
    #[serde(default)]
    pub explained: u64,
}

impl KindResult {
    /// Counts one decision; an exact one has the right shape.
    pub fn record(&mut self, agreement: Agreement) {
        self.cases += 1;
        self.shape += u64::from(agreement >= Agreement::Shape);
        self.exact += u64::from(agreement >= Agreement::Exact);
        self.explained += u64::from(agreement == Agreement::Explained);
    }

    /// The share with the right shape in hundredths of a percent, rounded down: 10000 means all.
    /// `None` where there was no case.
    #[must_use]
    pub const fn shape_permyriad(&self) -> Option<u64> {
        permyriad(self.shape, self.cases)
    }

    /// The share that is exact in hundredths of a percent, rounded down: 10000 means all. `None`
    /// where there was no case.
    #[must_use]
    pub const fn exact_permyriad(&self) -> Option<u64> {
        permyriad(self.exact, self.cases)
    }
}

const fn permyriad(part: u64, whole: u64) -> Option<u64> {
    if whole == 0 { None } else { Some((part as u128 * 10_000 / whole as u128) as u64) }
}

/// How far a decision agrees with the recorded one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Agreement {
    /// Something else was decided.
    None,
    /// All but the frame.
    Shape,
    /// The frame too, after what an interruption or the look-ahead explains.
    Explained,
    /// The frame too.
    Exact,
}

/// One decision that differs from the recorded one.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Mismatch {
    /// The event's position in the recording, from 0.
    pub event_index: u64,
    /// Its time in microseconds, as recorded.
    pub t_us: u64,
    /// Its CPU.
    pub cpu: u32,
    /// The kind of decision.
    pub kind: String,
    /// What the recording has.
    pub expected: String,
    /// What the replay did.
    pub actual: String,
    /// What helps to understand it: the events before, the state of the lists.
    #[serde(default)]
    pub context: Vec<String>,
}

impl Verification {
    /// The result of a kind, which starts with no case.
    pub fn kind_mut(&mut self, kind: &str) -> &mut KindResult {
        if !self.kinds.contains_key(kind) {
            self.kinds.insert(kind.to_owned(), KindResult::default());
        }
        self.kinds.get_mut(kind).expect("inserted above")
    }

    /// The sum over all kinds.
    #[must_use]
    pub fn total(&self) -> KindResult {
        self.kinds.values().fold(KindResult::default(), |sum, kind| KindResult {
            cases: sum.cases + kind.cases,
            shape: sum.shape + kind.shape,
            exact: sum.exact + kind.exact,
            explained: sum.explained + kind.explained,
        })
    }

    /// Returns the kind with the smallest share of exact decisions, among those with
    /// [`CASES_JUDGED`] decisions or more; [`DRAINS`] are one of them. `None` where there is none.
    #[must_use]
    pub fn worst(&self) -> Option<(&str, KindResult)> {
        let kinds = self.kinds.iter().map(|(name, &kind)| (name.as_str(), kind));
        let kinds = kinds.chain([(DRAINS, self.drains)]);
        let judged = kinds.filter(|(_, kind)| kind.cases >= CASES_JUDGED);
        // a / b < c / d, without division.
        judged.min_by(|(_, a), (_, b)| {
            let share =
                |of: &KindResult, by: &KindResult| u128::from(of.exact) * u128::from(by.cases);
            share(a, b).cmp(&share(b, a))
        })
    }

    /// Tells whether nothing at all could be judged.
    #[must_use]
    pub fn is_void(&self) -> bool {
        !self.gaps.is_empty() && self.total().cases == 0
    }

    /// Tells whether every decision was exact and the end state equal.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        let total = self.total();
        self.end_state_equal == Some(true) && total.exact == total.cases
    }

    /// Reads a verification.
    ///
    /// # Errors
    /// [`Error::Read`], or [`Error::Parse`] with the place of what is wrong.
    pub fn load(path: &Path) -> Result<Self, Error> {
        file::parse(path, &file::read(path, "a saved verification", 64 << 20)?)
    }

    /// Writes it; the file appears whole or not at all.
    ///
    /// # Errors
    /// [`Error::Write`].
    pub fn save(&self, path: &Path) -> Result<(), Error> {
        file::save(path, self)
    }

    /// Its JSON, indented, with a newline at the end.
    #[must_use]
    pub fn to_json(&self) -> String {
        file::format(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_implies_shape_and_percent_never_rounds_up_to_all() {
        let mut kind = KindResult::default();
        assert_eq!(kind.shape_permyriad(), None);
        kind.record(Agreement::None);
        (0..1_000_000).for_each(|_| kind.record(Agreement::Exact));
        kind.record(Agreement::Shape);
        kind.record(Agreement::Explained);
        let counts =
            KindResult { cases: 1_000_003, shape: 1_000_002, exact: 1_000_000, explained: 1 };
        assert_eq!(kind, counts);
        assert_eq!(kind.shape_permyriad(), Some(9_999));
    }

    #[test]
    fn the_json_shape() {
        let mut verification = Verification {
            recording: "qemu-6.1".into(),
            preset: "debian-6.1".into(),
            events: 5,
            gaps: vec![Gap::LostEvents { cpu: Some(1), lost: 7, recorded: 3 }],
            ..Verification::default()
        };
        verification.kind_mut("mm_page_alloc").record(Agreement::Shape);
        let json = serde_json::to_string(&verification).unwrap();
        assert_eq!(
            json,
            concat!(
                r#"{"recording":"qemu-6.1","preset":"debian-6.1","events":5,"#,
                r#""gaps":[{"gap":"lost_events","cpu":1,"lost":7,"recorded":3}],"#,
                r#""kinds":{"mm_page_alloc":{"cases":1,"shape":1,"exact":0,"explained":0}},"#,
                r#""not_judged":[],"end_state_equal":null,"end_state_recorded":false,"#,
                r#""not_followed":{},"notes":[],"mismatches":[],"#,
                r#""drains":{"cases":0,"shape":0,"exact":0,"explained":0}}"#
            )
        );
        assert!(!verification.is_exact());
    }

    #[test]
    fn the_worst_kind_has_the_smallest_share_of_exact_decisions() {
        let kind = |cases, exact| KindResult { cases, shape: exact, exact, explained: 0 };
        let mut verification = Verification { drains: kind(200, 198), ..Verification::default() };
        *verification.kind_mut("few") = kind(99, 0);
        *verification.kind_mut("many") = kind(1_000_000, 989_999);
        assert_eq!(verification.worst().map(|(name, _)| name), Some("many"));
        verification.drains.exact = 197;
        assert_eq!(verification.worst().map(|(name, _)| name), Some(DRAINS));
        assert_eq!(Verification::default().worst(), None);
    }
}
