//! The count of what agreed, and the first differences.

use std::collections::{BTreeSet, VecDeque};

use pageblock::frame::Pfn;
use pageblock_measure::Verification;
use pageblock_measure::verification::{Agreement, Mismatch};
use pageblock_recording::Record;

use super::words;

/// The kinds of decision that are compared.
pub mod kind {
    /// The block that a zone gives to a CPU list.
    pub const REFILL_FRAME: &str = "refill frame";
    /// The block that a zone gives past the CPU lists.
    pub const ZONE_FRAME: &str = "zone frame";
    /// How many blocks refill a CPU list.
    pub const REFILL_COUNT: &str = "refill count";
    /// The block that a CPU list gives.
    pub const CPU_LIST_FRAME: &str = "CPU-list frame";
    /// The block that a CPU list gives back, and the type that it is freed to.
    pub const DRAIN_FRAME: &str = "drain frame";
    /// Whether a free makes a CPU list give pages back, and how many.
    pub const DRAIN_COUNT: &str = "drain count";
    /// The block of another type that serves a request, and what becomes of its pageblock.
    pub const FALLBACK: &str = "fallback";
}

/// Events kept as context of a mismatch.
const CONTEXT: usize = 6;

pub(super) struct Tally {
    verification: Verification,
    left: usize,
    now: (u64, Option<Record>),
    before: VecDeque<String>,
    inferred: BTreeSet<Pfn>,
}

impl Tally {
    pub(super) fn new(mismatches: usize) -> Self {
        Self {
            verification: Verification::default(),
            left: mismatches,
            now: (0, None),
            before: VecDeque::new(),
            inferred: BTreeSet::new(),
        }
    }

    /// Notes the event that decisions are compared with from now on.
    pub(super) fn at(&mut self, event: u64, record: &Record) {
        self.verification.events += 1;
        if self.left > 0 {
            if let (at, Some(last)) = &self.now {
                if self.before.len() == CONTEXT {
                    self.before.pop_front();
                }
                self.before.push_back(format!(
                    "{at}: cpu {} {}",
                    last.cpu,
                    words::event(&last.what)
                ));
            }
            self.now = (event, Some(record.clone()));
        }
    }

    /// Has decisions on these frames counted apart until they move, as their place was inferred from
    /// such a decision.
    pub(super) fn start_is_inferred(&mut self, frames: &[Pfn]) {
        self.inferred = frames.iter().copied().collect();
    }

    /// A frame comes to a list: its place is known from now on.
    pub(super) fn placed(&mut self, pfn: Pfn) {
        if !self.inferred.is_empty() {
            self.inferred.remove(&pfn);
        }
    }

    /// Counts one decision on a frame, which then leaves its list.
    pub(super) fn compare_frame(
        &mut self,
        kind: &str,
        pfn: Pfn,
        exact: bool,
        shape: bool,
        describe: impl FnOnce() -> (String, String),
    ) {
        if !self.inferred.is_empty() && self.inferred.remove(&pfn) {
            self.compare(&format!("{kind}, inferred"), exact, shape, describe);
        } else {
            self.compare(kind, exact, shape, describe);
        }
    }

    /// Counts one decision that agreed.
    pub(super) fn agree(&mut self, kind: &str) {
        self.verification.kind_mut(kind).record(Agreement::Exact);
    }

    /// Counts a free with which the kernel or the model, or both, drained.
    pub(super) fn compare_drain(&mut self, both: bool, exact: bool) {
        self.verification.drains.record(match (both, exact) {
            (true, true) => Agreement::Exact,
            (true, false) => Agreement::Shape,
            (false, _) => Agreement::None,
        });
    }

    /// Counts one decision. `exact` and `shape` say how it agreed; the texts, made only for a
    /// mismatch that is kept, say what the recording and the model have.
    pub(super) fn compare(
        &mut self,
        kind: &str,
        exact: bool,
        shape: bool,
        describe: impl FnOnce() -> (String, String),
    ) {
        let agreement = match (exact, shape) {
            (true, _) => Agreement::Exact,
            (false, true) => Agreement::Shape,
            (false, false) => Agreement::None,
        };
        self.verification.kind_mut(kind).record(agreement);
        if exact || self.left == 0 {
            return;
        }
        self.left -= 1;
        let (expected, actual) = describe();
        let (t_us, cpu) = self.now.1.as_ref().map_or((0, 0), |r| (r.t_us, u32::from(r.cpu)));
        self.verification.mismatches.push(Mismatch {
            event_index: self.now.0,
            t_us,
            cpu,
            kind: kind.to_owned(),
            expected,
            actual,
            context: self.before.iter().cloned().collect(),
        });
    }

    /// Adds a line to what was inferred, lost or not matched.
    pub(super) fn note(&mut self, note: String) {
        self.verification.notes.push(note);
    }

    pub(super) fn verification(&mut self) -> &mut Verification {
        &mut self.verification
    }

    pub(super) fn finish(self) -> Verification {
        self.verification
    }
}
