//! The certificate of a recording: which conclusions about other policies it supports.

use std::path::PathBuf;

use pageblock_measure::certificate::verification::{Gap, Verification};
use pageblock_measure::certificate::{Certificate, Grades, Judgement, Outcome, median};
use pageblock_recording::{Columnar, Recording};

use crate::demand::Demands;

/// Grades a recording by its guided replay and by free replays of one loop, all under the recorded policy.
#[must_use]
pub fn certify(
    recording: &Recording,
    demands: &Demands,
    decisions: &Verification,
    replays: &[&Outcome],
) -> Certificate {
    let lacks = |event: &str| {
        let missing = |gap: &Gap| matches!(gap, Gap::MissingEvent { event: e } if e == event);
        decisions.gaps.iter().any(missing)
    };
    let mut recorded = demands.recorded.clone();
    if lacks("mm_page_alloc_extfrag") {
        recorded.extfrag = None;
    }
    if lacks("mm_page_alloc_extfrag") || lacks("mm_page_alloc_zone_locked") {
        // Without these events the types of pageblocks are those of the start.
        (recorded.mismatch, recorded.mixed, recorded.end) = (None, None, None);
    }
    if !recording.start_known {
        // Both ends would contain the memory that no event names, and agree on it.
        (recorded.mixed, recorded.end) = (None, None);
    }
    let draws = replays.iter().map(|one| recorded.distances(one, recording.pageblock_order));
    Certificate::new(decisions, !recording.start.exact, median(draws.collect()))
}

/// Returns the path of a recording's kept judgement, beside its columnar form.
fn kept_at(columnar: &Columnar) -> PathBuf {
    columnar.cache.with_extension("judgement.json")
}

/// Returns the kept judgement of a recording, if this program made it under these rules. Its name in the cache
/// contains the recording's fingerprint. `program` is the program's name and version.
#[must_use]
pub fn kept(
    recording: &Recording,
    columnar: &Columnar,
    program: &str,
) -> Option<(Verification, Grades)> {
    let judgement = Judgement::load(&kept_at(columnar)).ok()?;
    let grades = judgement.grades()?;
    let decisions = judgement.decisions;
    let same = judgement.program == program && decisions.recording == recording.name;
    same.then_some((decisions, grades))
}

/// Keeps the judgement of a recording beside its columnar form.
///
/// # Errors
/// If it cannot be written.
pub fn keep(
    columnar: &Columnar,
    program: &str,
    decisions: &Verification,
    grades: &Grades,
) -> Result<(), pageblock_measure::Error> {
    let decisions = Verification { mismatches: Vec::new(), ..decisions.clone() };
    Judgement::new(program.to_owned(), decisions, Some(grades.clone())).save(&kept_at(columnar))
}
