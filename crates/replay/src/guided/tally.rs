//! Counts the decisions that agreed, and keeps the first differences.

use std::collections::{BTreeSet, VecDeque};

use pageblock::frame::Pfn;
use pageblock_measure::Verification;
use pageblock_measure::certificate::verification::{Agreement, KindResult, Mismatch};
use pageblock_recording::Record;

use super::words;

/// The kinds of decision that are compared.
pub mod kind {
    /// The block that a zone yields to a CPU list.
    pub const REFILL_FRAME: &str = "refill frame";
    /// The block that a zone yields to a request that bypasses the CPU lists.
    pub const ZONE_FRAME: &str = "zone frame";
    /// The number of blocks that refill a CPU list.
    pub const REFILL_COUNT: &str = "refill count";
    /// The block that a CPU list yields.
    pub const CPU_LIST_FRAME: &str = "CPU-list frame";
    /// The block that a CPU list drains, and the type that it is freed to.
    pub const DRAIN_FRAME: &str = "drain frame";
    /// Whether a free makes a CPU list drain, and how many pages.
    pub const DRAIN_COUNT: &str = "drain count";
    /// The block of another type that serves a request, and what becomes of its pageblock.
    pub const FALLBACK: &str = "fallback";
    /// All kinds, in alphabetical order.
    pub const ALL: [&str; 7] = [
        CPU_LIST_FRAME,
        DRAIN_COUNT,
        DRAIN_FRAME,
        FALLBACK,
        REFILL_COUNT,
        REFILL_FRAME,
        ZONE_FRAME,
    ];
}

/// A decision beside the recorded one.
pub(super) struct Comparison {
    /// It reached the recorded frame or number of pages.
    pub(super) exact: bool,
    /// It reached everything but that.
    pub(super) shape: bool,
    /// An explanation was needed: an interruption, or the look-ahead.
    pub(super) explained: bool,
}

impl Comparison {
    pub(super) const fn agreement(self) -> Agreement {
        match (self.exact, self.shape) {
            (true, _) if self.explained => Agreement::Explained,
            (true, _) => Agreement::Exact,
            (false, true) => Agreement::Shape,
            (false, false) => Agreement::None,
        }
    }
}

/// A free with which the kernel, the model, or both drained.
#[derive(Clone, Copy)]
pub(super) struct DrainOutcome {
    /// The kernel drained.
    pub(super) recorded: bool,
    /// The model drained.
    pub(super) replayed: bool,
    /// The model's number of pages is the kernel's.
    pub(super) exact: bool,
    /// An input without an event explains the difference.
    pub(super) explained: bool,
}

impl DrainOutcome {
    /// Returns whether both drained.
    pub(super) const fn in_both(self) -> bool {
        self.recorded && self.replayed
    }
}

/// The recorded changes of state that a replay imposes on the model.
pub(super) mod imposed {
    pub(crate) const ALLOCATED: &str = "blocks marked allocated";
    pub(crate) const CLAIM: &str = "pageblocks claimed";
    pub(crate) const CPU_LIST_PUT: &str = "blocks put on a per-CPU list";
    pub(crate) const CPU_LIST_TAKE: &str = "blocks taken from a per-CPU list";
    pub(crate) const SPLIT: &str = "allocated blocks split";
    pub(crate) const TYPE: &str = "pageblocks given another type";
    pub(crate) const ZONE_FREE: &str = "blocks freed to the zone";
    pub(crate) const ZONE_TAKE: &str = "blocks taken from the zone";
}

/// The number of events kept as context of a mismatch.
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

    pub(super) fn total(&self) -> KindResult {
        self.verification.total()
    }

    /// Sets the event with which decisions are compared from now on.
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

    /// Counts decisions about these frames separately until they move, because their place was inferred from such a
    /// decision.
    pub(super) fn start_is_inferred(&mut self, frames: &[Pfn]) {
        self.inferred = frames.iter().copied().collect();
    }

    /// Notes that a frame reaches a list: its place is known from now on.
    pub(super) fn placed(&mut self, pfn: Pfn) {
        if !self.inferred.is_empty() {
            self.inferred.remove(&pfn);
        }
    }

    /// Counts a decision about a frame, which leaves its list with it.
    pub(super) fn compare_frame(
        &mut self,
        kind: &str,
        pfn: Pfn,
        agreement: Agreement,
        describe: impl FnOnce() -> (String, String),
    ) {
        if !self.inferred.is_empty() && self.inferred.remove(&pfn) {
            self.compare(&format!("{kind}, inferred"), agreement, describe);
        } else {
            self.compare(kind, agreement, describe);
        }
    }

    /// Counts a decision that agreed.
    pub(super) fn agree(&mut self, kind: &str) {
        self.verification.kind_mut(kind).record(Agreement::Exact);
    }

    /// Counts a free with which the kernel, the model, or both drained. An explanation of why only one of them did
    /// is learned from the kernel's answer, and does not make them agree.
    pub(super) fn compare_drain(&mut self, outcome: DrainOutcome) {
        let shape = outcome.in_both();
        let exact = shape && outcome.exact;
        let drains = &mut self.verification.drains;
        drains.record(Comparison { exact, shape, explained: false }.agreement());
        drains.explained += u64::from(outcome.explained && !shape);
    }

    /// Counts a recorded change of state that the model could not follow.
    pub(super) fn imposed<T, E>(&mut self, change: &str, result: Result<T, E>) {
        if result.is_err() {
            *self.verification.not_followed.entry(change.to_owned()).or_default() += 1;
        }
    }

    /// Counts a decision. `describe` is called only for a mismatch that is kept; it returns what the recording and
    /// the model have. An explained decision is not a mismatch.
    pub(super) fn compare(
        &mut self,
        kind: &str,
        agreement: Agreement,
        describe: impl FnOnce() -> (String, String),
    ) {
        self.verification.kind_mut(kind).record(agreement);
        if agreement >= Agreement::Explained || self.left == 0 {
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

    /// Adds a line about what was inferred, lost or not matched.
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
