//! Free replays of a recording under policies.

use pageblock::policy::Policy;
use pageblock::preset::Preset;
use pageblock_measure::compare::Options;
use pageblock_measure::{Calibration, Run};
use pageblock_replay::demand::Demands;
use pageblock_replay::open_loop::{self, Replayed};
use pageblock_report::verify as words;

use crate::error::{Result, bail};
use crate::grade;
use crate::policy::NamedPolicy;
use crate::session::Session;

/// The note on every free replay.
const OPEN_LOOP: &str = "Open loop: reclaim and compaction are as recorded; only \
the allocator decides anew. A request that failed in the recording counts as failed here unless the \
policy has a block for it at that moment.";

/// Returns the policies to replay under, including the recorded one: the others are compared with its replay, as counts
/// of a replay differ from the recorded ones. It stands first, or second where `has_baseline` says that the first is the
/// baseline.
#[must_use]
pub fn with_recorded(
    mut policies: Vec<NamedPolicy>,
    has_baseline: bool,
    recorded: &Preset,
) -> Vec<NamedPolicy> {
    let place = policies.iter().position(|named| named.policy == recorded.policy);
    let own = match place {
        Some(place) => policies.remove(place),
        None => NamedPolicy::recorded(recorded),
    };
    let at = match place {
        Some(place) if has_baseline => place,
        _ => usize::from(has_baseline),
    };
    policies.insert(at, own);
    policies
}

/// Replays freely under each policy, of which one is the recorded kernel's, and grades the recording. Returns the
/// runs with the options of their comparison, or why nothing can be replayed.
///
/// # Errors
/// If the recording cannot be read, or the work is stopped before the first policy is done.
pub fn replays(
    session: &mut Session,
    own: &Preset,
    policies: &[NamedPolicy],
    with_history: bool,
) -> Result<std::result::Result<(Vec<Run>, Options), String>> {
    let (fidelity, mut certificate) = grade::decisions(session, own)?;
    if !grade::can_be_replayed(session, &fidelity) {
        return Ok(Err(fidelity.main_gap().map(words::gap).unwrap_or_default()));
    }
    let demands = session.make(demands)?;
    let mut runs = Vec::new();
    for NamedPolicy { name, policy, .. } in policies {
        match replay_one(session, &demands, name, policy, with_history)? {
            Some(replayed) => {
                if certificate.is_none() && *policy == own.policy {
                    certificate = Some(grade::of_replay(session, &demands, &fidelity, &replayed)?);
                }
                runs.push(replayed.run);
                session.watch.keep(format!(
                    "{} of {} policies are done",
                    runs.len(),
                    policies.len()
                ));
            }
            None => break,
        }
    }
    if runs.is_empty() {
        bail!("interrupted before the first policy was done");
    }
    let calibration = calibrate(&demands, own, policies, &runs);
    let mut notes: Vec<String> = fidelity.gaps.iter().map(words::gap).collect();
    notes.push(OPEN_LOOP.to_owned());
    if runs.len() < policies.len() {
        notes.push(format!("Interrupted: {} of {} policies are done.", runs.len(), policies.len()));
    }
    let line = words::certificate(&fidelity, certificate.as_ref());
    for run in &mut runs {
        run.certificate = Some(line.clone());
        run.calibration.clone_from(&calibration);
        run.notes.clone_from(&notes);
    }
    let supports = certificate.map(|certificate| certificate.parts);
    Ok(Ok((runs, Options { supports, ..Options::default() })))
}

/// Finds the recording's requests.
///
/// # Errors
/// If the recording cannot be read.
pub fn demands(session: &Session) -> std::result::Result<Demands, pageblock_replay::Error> {
    let bar = session.watch.bar("finding demands", 0, "events");
    open_loop::demands(&session.recording, &session.columnar, &mut |done, total| {
        bar.resize(total);
        bar.set(done);
    })
}

/// Replays under one policy; `None` if it was stopped.
///
/// # Errors
/// If the recording cannot be read.
pub fn replay_one(
    session: &Session,
    demands: &Demands,
    name: &str,
    policy: &Policy,
    with_history: bool,
) -> Result<Option<Replayed>> {
    let bar = session.watch.bar(name, demands.count, "demands");
    let Session { recording, columnar, .. } = session;
    let progress = &mut |done, _| {
        bar.set(done);
        !session.watch.stopped()
    };
    Ok(match with_history {
        true => {
            open_loop::replay_with_history(recording, columnar, demands, name, policy, progress)?
        }
        false => open_loop::replay(recording, demands, name, policy, progress)?,
    })
}

/// Compares the free replay under the recorded policy with the recorded kernel's events; `None` if Ctrl-C
/// interrupted it, or the recording has no such events to compare.
fn calibrate(
    demands: &Demands,
    own: &Preset,
    policies: &[NamedPolicy],
    runs: &[Run],
) -> Option<Calibration> {
    let (_, run) = policies.iter().zip(runs).find(|(named, _)| named.policy == own.policy)?;
    let recorded = demands.recorded.extfrag.clone()?;
    let calibration = Calibration::of(&recorded, run);
    Some(Calibration { policy: own.name.to_owned(), ..calibration })
}
