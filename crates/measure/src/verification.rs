//! How well a guided replay reproduced a recording: the fidelity certificate as data.

use std::collections::BTreeMap;
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
    /// The results by kind of decision.
    pub kinds: BTreeMap<String, KindResult>,
    /// Whether the model ended on the recorded end state; `false` where there is none.
    pub end_state_equal: bool,
    /// Whether the recording has an end state to compare with.
    #[serde(default)]
    pub end_state_recorded: bool,
    /// What was inferred, lost or not matched.
    #[serde(default)]
    pub notes: Vec<String>,
    /// The first mismatches, in the order of the recording; not all of them.
    #[serde(default)]
    pub mismatches: Vec<Mismatch>,
    /// The frees with which either side drained a CPU list, which are also among those that decide
    /// whether to: shape where both did, exact where they gave back as many. What is learned from the
    /// kernel's answer does not count here.
    #[serde(default)]
    pub drains: KindResult,
}

/// Counts of one kind of decision.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct KindResult {
    /// Decisions of the kind.
    pub cases: u64,
    /// Those that agree in all but the frame: order, type, and what was done.
    pub shape: u64,
    /// Those that agree in the frame too.
    pub exact: u64,
}

impl KindResult {
    /// Counts one decision; an exact one has the right shape.
    pub fn record(&mut self, agreement: Agreement) {
        self.cases += 1;
        self.shape += u64::from(agreement >= Agreement::Shape);
        self.exact += u64::from(agreement >= Agreement::Exact);
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
        })
    }

    /// Tells whether every decision was exact and the end state equal.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        let total = self.total();
        self.end_state_equal && total.exact == total.cases
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
        assert_eq!(kind, KindResult { cases: 1_000_002, shape: 1_000_001, exact: 1_000_000 });
        assert_eq!(kind.shape_permyriad(), Some(9_999));
    }

    #[test]
    fn the_json_shape() {
        let mut verification = Verification {
            recording: "qemu-6.1".into(),
            preset: "debian-6.1".into(),
            events: 5,
            ..Verification::default()
        };
        verification.kind_mut("mm_page_alloc").record(Agreement::Shape);
        let json = serde_json::to_string(&verification).unwrap();
        assert_eq!(
            json,
            concat!(
                r#"{"recording":"qemu-6.1","preset":"debian-6.1","events":5,"#,
                r#""kinds":{"mm_page_alloc":{"cases":1,"shape":1,"exact":0}},"#,
                r#""end_state_equal":false,"end_state_recorded":false,"#,
                r#""notes":[],"mismatches":[],"#,
                r#""drains":{"cases":0,"shape":0,"exact":0}}"#
            )
        );
        assert!(!verification.is_exact());
    }
}
