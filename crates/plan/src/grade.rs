//! The grades of a recording: made once by free replays under the recorded policy, and kept in the cache.

use pageblock_measure::certificate::{Certificate, Grade, Grades, Judgement};
use pageblock_measure::{Error, Verification};
use pageblock_replay::certify;
use pageblock_replay::demand::Demands;
use pageblock_replay::guided::kind;
use pageblock_replay::open_loop::Replayed;

use crate::error::Result;
use crate::policy::NamedPolicy;
use crate::program::build;
use crate::replays::OwnReplays;
use crate::session::Session;
use crate::{replays, verify};

/// Returns the decisions under the recorded policy, and the certificates if they were kept.
///
/// # Errors
/// If the recording cannot be read or replayed.
pub fn decisions(session: &Session, own: &NamedPolicy) -> Result<(Verification, Option<Grades>)> {
    if let Some((decisions, grades)) =
        certify::kept(&session.recording, &session.columnar, &build())
    {
        return Ok((decisions, Some(grades)));
    }
    Ok((verify::verify(session, &own.name, &own.policy, 0)?, None))
}

/// Returns the grade of the better loop that was kept with a recording: in its file, else in the cache.
#[must_use]
pub fn kept(session: &Session) -> Option<Grade> {
    let note = session.recording.note();
    let noted = note.and_then(|note| Judgement::from_json(&note));
    let noted = noted.and_then(|judgement| judgement.grades());
    let cached = || Some(certify::kept(&session.recording, &session.columnar, &build())?.1);
    noted.or_else(cached).map(|grades| grades.of(grades.better()).grade)
}

/// Reports whether a recording can be replayed freely: requests and frees alone can.
#[must_use]
pub fn can_be_replayed(session: &Session, decisions: &Verification) -> bool {
    if session.recording.requests_only {
        return session.columnar.end_event() > 0;
    }
    !decisions.is_void() && !decisions.not_judged.contains(kind::CPU_LIST_FRAME)
}

/// Makes the certificates of a recording by free replays of both loops, and keeps them; `None` if they were stopped.
///
/// # Errors
/// If the recording cannot be read or replayed.
pub fn make(
    session: &mut Session,
    own: &NamedPolicy,
    decisions: &Verification,
) -> Result<Option<Grades>> {
    if !can_be_replayed(session, decisions) {
        let inferred = !session.recording.start.exact;
        let open = Certificate::new(decisions, inferred, Vec::new());
        return Ok(Some(Grades { open, closed: None }));
    }
    let demands = session.make(replays::demands)?;
    let own = replays::under_own(session, &demands, own)?;
    own.map(|own| of_replays(session, &demands, decisions, &own)).transpose()
}

/// Makes the certificates of a recording from free replays under the recorded policy, and keeps them.
///
/// # Errors
/// If they cannot be kept for another reason than a full disk.
pub fn of_replays(
    session: &Session,
    demands: &Demands,
    decisions: &Verification,
    own: &OwnReplays,
) -> Result<Grades> {
    let Session { recording, columnar, .. } = session;
    let certify = |replays: &[Replayed]| {
        let outcomes: Vec<_> = replays.iter().map(|replayed| &replayed.outcome).collect();
        certify::certify(recording, demands, decisions, &outcomes)
    };
    let closed = Some(own.closed.as_slice()).filter(|replays| !replays.is_empty());
    let grades = Grades { open: certify(&own.open), closed: closed.map(certify) };
    let noted = Verification { mismatches: Vec::new(), ..decisions.clone() };
    recording.keep_note(&to_json(noted, Some(grades.clone())))?;
    match certify::keep(columnar, &build(), decisions, &grades) {
        // A full disk costs the next call some time, and nothing else.
        Ok(()) | Err(Error::Write { .. }) => Ok(grades),
        Err(error) => Err(error.into()),
    }
}

/// Returns a judgement for programs.
#[must_use]
pub fn to_json(decisions: Verification, grades: Option<Grades>) -> String {
    Judgement::new(build(), decisions, grades).to_json()
}
