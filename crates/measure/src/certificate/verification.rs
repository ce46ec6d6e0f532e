//! How well a guided replay reproduced a recording: the fidelity certificate as data.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::value::error::Error;
use crate::value::file;

/// The result of replaying a recording under a policy, each decision compared with the recorded one.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Verification {
    /// The recording's name.
    pub recording: String,
    /// The name of the policy.
    pub preset: String,
    /// The number of recorded events that were replayed.
    pub events: u64,
    /// What the recording lacks; `kinds` and `drains` omit everything that this makes meaningless.
    #[serde(default)]
    pub gaps: Vec<Gap>,
    /// The results by kind of decision.
    pub kinds: BTreeMap<String, KindResult>,
    /// The kinds of decision that cannot be judged because of gaps in the recording.
    #[serde(default)]
    pub not_judged: BTreeSet<String>,
    /// Whether the replay ended in the recorded end state; `None` if they could not be compared.
    pub end_state_equal: Option<bool>,
    /// Whether the recording has an end state.
    #[serde(default)]
    pub end_state_recorded: bool,
    /// Recorded state changes that could not be imposed, by kind.
    #[serde(default)]
    pub not_followed: BTreeMap<String, u64>,
    /// Notes on what was inferred, lost or not matched.
    #[serde(default)]
    pub notes: Vec<String>,
    /// The first mismatches, in the order of the recording; the list is truncated.
    #[serde(default)]
    pub mismatches: Vec<Mismatch>,
    /// The frees that drained a per-CPU list in the recording or in the replay; they are also among the
    /// decisions whether to drain. Shape: both drained. Exact: both freed the same number of pages. A
    /// drain that only one side made and that was learned from the kernel's answer counts as explained,
    /// not as agreement.
    #[serde(default)]
    pub drains: KindResult,
    /// The decisions of each tenth of the events, which show whether the replay drifts away.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drift: Vec<KindResult>,
}

/// A gap of a recording.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "gap", rename_all = "snake_case")]
pub enum Gap {
    /// There is no event between the marks.
    NoEvents,
    /// The recorder lost events of a CPU.
    LostEvents {
        /// The CPU; `None` if the event file does not say.
        cpu: Option<u16>,
        /// The number of lost events.
        lost: u64,
        /// The number of recorded events of the CPU.
        recorded: u64,
    },
    /// Events from the first loss on are not replayed.
    Cut {
        /// The events that were replayed.
        followed: u64,
        /// The events between the marks.
        events: u64,
    },
    /// Events have values that the allocator's model does not have: the memory that they moved stays where it was.
    NotUnderstood {
        /// Their number.
        events: u64,
    },
    /// Every event of a kind is missing.
    MissingEvent {
        /// The tracepoint.
        event: String,
    },
    /// Only requests and frees were recorded, and nothing of what CPU lists and zones do.
    RequestsOnly,
    /// There is no start state: it is inferred from the events.
    NoStartState {
        /// Whether the zones are those of the machine.
        zones_known: bool,
    },
    /// Nothing says which kernel was recorded.
    KernelAssumed {
        /// The assumed version.
        version: String,
    },
    /// Marks around a snapshot are missing.
    MissingMarks {
        /// Their names.
        marks: [String; 2],
    },
}

/// The number of decisions below which a kind is not judged.
pub const CASES_JUDGED: u64 = 100;

/// The name of the drains in the recording or in the replay.
pub const DRAINS: &str = "drains in the recording or in the replay";

/// Counts of one kind of decision.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct KindResult {
    /// Decisions of the kind.
    pub cases: u64,
    /// Decisions that agree in all but the frame: order, type, and action.
    pub shape: u64,
    /// Decisions that also agree in the frame.
    pub exact: u64,
    /// Decisions that agree only after an explanation by an interruption or the look-ahead: right
    /// shape, not exact.
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

    /// Returns the decisions that were counted since an earlier count.
    #[must_use]
    pub const fn since(&self, before: &Self) -> Self {
        Self {
            cases: self.cases - before.cases,
            shape: self.shape - before.shape,
            exact: self.exact - before.exact,
            explained: self.explained - before.explained,
        }
    }

    /// Returns the share with the right shape in hundredths of a percent, rounded down: 10000 means
    /// all. `None` if there are no cases.
    #[must_use]
    pub const fn shape_permyriad(&self) -> Option<u64> {
        permyriad(self.shape, self.cases)
    }

    /// Returns the share that is exact in hundredths of a percent, rounded down: 10000 means all.
    /// `None` if there are no cases.
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
    /// The decision differs.
    None,
    /// It agrees in all but the frame.
    Shape,
    /// It agrees in the frame too, after an explanation by an interruption or the look-ahead.
    Explained,
    /// It agrees in the frame too.
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
    /// The recorded decision.
    pub expected: String,
    /// The replay's decision.
    pub actual: String,
    /// Context: the events before it, the state of the lists.
    #[serde(default)]
    pub context: Vec<String>,
}

impl Verification {
    /// Returns the result of a kind, which starts without cases.
    pub fn kind_mut(&mut self, kind: &str) -> &mut KindResult {
        if !self.kinds.contains_key(kind) {
            self.kinds.insert(kind.to_owned(), KindResult::default());
        }
        self.kinds.get_mut(kind).expect("inserted above")
    }

    /// Returns the sum over all kinds.
    #[must_use]
    pub fn total(&self) -> KindResult {
        self.kinds.values().fold(KindResult::default(), |sum, kind| KindResult {
            cases: sum.cases + kind.cases,
            shape: sum.shape + kind.shape,
            exact: sum.exact + kind.exact,
            explained: sum.explained + kind.explained,
        })
    }

    /// Returns the kind with the smallest share of exact decisions, among those with at least
    /// [`CASES_JUDGED`] decisions, [`DRAINS`] included. `None` if there is none.
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

    /// Reports whether nothing at all could be judged.
    #[must_use]
    pub fn is_void(&self) -> bool {
        !self.gaps.is_empty() && self.total().cases == 0
    }

    /// Returns the gap that explains best why decisions are not judged: one that takes figures away before one that
    /// only makes them less certain.
    #[must_use]
    pub fn main_gap(&self) -> Option<&Gap> {
        let takes_away = |gap: &&Gap| {
            !matches!(
                gap,
                Gap::NoStartState { .. }
                    | Gap::KernelAssumed { .. }
                    | Gap::LostEvents { .. }
                    | Gap::Cut { .. }
                    | Gap::NotUnderstood { .. }
            )
        };
        self.gaps.iter().find(takes_away).or(self.gaps.first())
    }

    /// Reports whether every decision was exact and the end states are equal.
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

    /// Writes it, completely or not at all.
    ///
    /// # Errors
    /// [`Error::Write`].
    pub fn save(&self, path: &Path) -> Result<(), Error> {
        file::save(path, self)
    }

    /// Returns its JSON, indented, with a newline at the end.
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
    fn the_gap_that_takes_figures_away_explains_why_nothing_is_judged() {
        let lost = Gap::LostEvents { cpu: None, lost: 1, recorded: 1 };
        let missing = Gap::MissingEvent { event: "mm_page_pcpu_drain".into() };
        let cut = Gap::Cut { followed: 5, events: 9 };
        let main = |gaps: &[&Gap]| {
            let gaps = gaps.iter().map(|&gap| gap.clone()).collect();
            Verification { gaps, ..Verification::default() }.main_gap().cloned()
        };
        assert_eq!(main(&[&lost, &cut, &missing]), Some(missing.clone()));
        assert_eq!(main(&[&lost, &cut]), Some(lost.clone()));
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
