//! The grade of a recording: made once by a free replay under the recorded policy, and kept in the cache.

use pageblock::preset::Preset;
use pageblock_measure::certificate::{Certificate, Grade, Judgement};
use pageblock_measure::{Error, Verification};
use pageblock_replay::certify;
use pageblock_replay::demand::Demands;
use pageblock_replay::guided::kind;
use pageblock_replay::open_loop::Replayed;

use crate::error::Result;
use crate::policy::NamedPolicy;
use crate::session::Session;
use crate::{replays, verify};

/// Returns the decisions under the recorded policy, and the certificate if it was kept.
///
/// # Errors
/// If the recording cannot be read or replayed.
pub fn decisions(session: &Session, own: &Preset) -> Result<(Verification, Option<Certificate>)> {
    if let Some((decisions, certificate)) =
        certify::kept(&session.recording, &session.columnar, &program())
    {
        return Ok((decisions, Some(certificate)));
    }
    Ok((verify::verify(session, own.name, &own.policy, 0)?, None))
}

/// Returns the grade that was kept with a recording: in its file, else in the cache.
#[must_use]
pub fn kept(session: &Session) -> Option<Grade> {
    let note = session.recording.note();
    let noted = note.and_then(|note| Judgement::from_json(&note));
    let noted = noted.and_then(|judgement| judgement.certificate);
    let cached = || Some(certify::kept(&session.recording, &session.columnar, &program())?.1);
    noted.filter(Certificate::is_current).or_else(cached).map(|certificate| certificate.grade)
}

/// Reports whether a recording can be replayed freely: requests and frees alone can.
#[must_use]
pub fn can_be_replayed(session: &Session, decisions: &Verification) -> bool {
    if session.recording.requests_only {
        return session.columnar.end_event() > 0;
    }
    !decisions.is_void() && !decisions.not_judged.contains(kind::CPU_LIST_FRAME)
}

/// Makes the certificate of a recording by a free replay, and keeps it; `None` if it was stopped.
///
/// # Errors
/// If the recording cannot be read or replayed.
pub fn make(
    session: &mut Session,
    own: &Preset,
    decisions: &Verification,
) -> Result<Option<Certificate>> {
    if !can_be_replayed(session, decisions) {
        let inferred = !session.recording.start.exact;
        return Ok(Some(Certificate::new(decisions, inferred, Vec::new())));
    }
    let demands = session.make(replays::demands)?;
    let NamedPolicy { name, policy, .. } = NamedPolicy::recorded(own);
    let replayed = replays::replay_one(session, &demands, &name, &policy, false)?;
    replayed.map(|replayed| of_replay(session, &demands, decisions, &replayed)).transpose()
}

/// Makes the certificate of a recording from a free replay under the recorded policy, and keeps it.
///
/// # Errors
/// If the certificate cannot be kept for another reason than a full disk.
pub fn of_replay(
    session: &Session,
    demands: &Demands,
    decisions: &Verification,
    replayed: &Replayed,
) -> Result<Certificate> {
    let Session { recording, columnar, .. } = session;
    let certificate = certify::certify(recording, demands, decisions, &replayed.outcome);
    let noted = Verification { mismatches: Vec::new(), ..decisions.clone() };
    recording.keep_note(&to_json(noted, Some(certificate.clone())))?;
    match certify::keep(columnar, &program(), decisions, &certificate) {
        // A full disk costs the next call some time, and nothing else.
        Ok(()) | Err(Error::Write { .. }) => Ok(certificate),
        Err(error) => Err(error.into()),
    }
}

/// Returns a judgement for programs.
#[must_use]
pub fn to_json(decisions: Verification, certificate: Option<Certificate>) -> String {
    Judgement { program: env!("CARGO_PKG_VERSION").to_owned(), decisions, certificate }.to_json()
}

/// Returns what tells this program from another one of its version.
fn program() -> String {
    let built = std::env::current_exe().and_then(|exe| exe.metadata());
    let built = built.and_then(|file| Ok((file.len(), file.modified()?))).ok();
    let time = built.and_then(|(_, time)| time.duration_since(std::time::UNIX_EPOCH).ok());
    let bytes = built.map_or(0, |(bytes, _)| bytes);
    format!("{} {bytes} {}", env!("CARGO_PKG_VERSION"), time.unwrap_or_default().as_nanos())
}
