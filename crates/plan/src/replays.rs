//! Free replays of a recording under policies.

use pageblock_measure::certificate::note::{Known, Note};
use pageblock_measure::certificate::{Certified, DRAWS, Reproduced, Taken};
use pageblock_measure::compare::calibrate;
use pageblock_measure::{Calibration, Loop, Run};
use pageblock_recording::Recording;
use pageblock_replay::demand::Demands;
use pageblock_replay::open_loop::{self, Replayed};
use pageblock_replay::settings::Settings;
use pageblock_report::verify as words;

use crate::error::{Result, bail};
use crate::policy::NamedPolicy;
use crate::session::Session;
use crate::{grade, run};

/// Returns the policies to replay under, each set up as the recorded machine is. The recorded one is among them: the others are
/// compared with its replay, as counts of a replay differ from the recorded ones. It stands first, or second where
/// `has_baseline` says that the first is the baseline.
#[must_use]
pub fn with_recorded(
    policies: Vec<NamedPolicy>,
    has_baseline: bool,
    recording: &Recording,
) -> Vec<NamedPolicy> {
    let settings = Settings::of(recording);
    let mut policies: Vec<_> = policies.into_iter().map(|named| named.on(&settings)).collect();
    let own = NamedPolicy::recorded(recording);
    let place = policies.iter().position(|named| is_own(named, &own));
    let own = match place {
        Some(place) => policies.remove(place),
        None => own,
    };
    let at = match place {
        Some(place) if has_baseline => place,
        _ => usize::from(has_baseline),
    };
    policies.insert(at, own);
    policies
}

/// Reports whether a policy is the recorded kernel, with what surrounds its allocator.
fn is_own(named: &NamedPolicy, recorded: &NamedPolicy) -> bool {
    named.kernel.kernel == recorded.kernel.kernel
}

/// Which loop to replay in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wanted {
    /// The one whose grade says that it supports more.
    Better,
    /// This one.
    Only(Loop),
}

/// The free replays under the recorded policy that grade a recording, with the seeds from 0.
pub struct OwnReplays {
    /// The open loop.
    pub open: Vec<Replayed>,
    /// The closed loop; none where there is an obstacle.
    pub closed: Vec<Replayed>,
}

/// Replays freely under each policy, one of them the recorded kernel's, with the seeds from 0, and grades the
/// recording. Returns the runs, or why nothing can be replayed.
///
/// # Errors
/// If the recording cannot be read, or has no closed loop though it is wanted, or the work is stopped before the first policy
/// is done.
pub fn replays(
    session: &mut Session,
    own: &NamedPolicy,
    policies: &[NamedPolicy],
    wanted: Wanted,
    seeds: u64,
) -> Result<std::result::Result<Vec<Run>, String>> {
    run::seeds(0, seeds)?;
    replayed(session, own, policies, wanted, Draws::Seeds(seeds))
}

/// Replays like [`replays`], in an open loop, and keeps the history of the machine's memory.
///
/// # Errors
/// As [`replays`].
pub fn with_history(
    session: &mut Session,
    own: &NamedPolicy,
    policies: &[NamedPolicy],
) -> Result<std::result::Result<Vec<Run>, String>> {
    replayed(session, own, policies, Wanted::Only(Loop::Open), Draws::WithHistory)
}

/// What is replayed under each policy.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Draws {
    /// Seed 0, with a history.
    WithHistory,
    /// The seeds from 0, so many.
    Seeds(u64),
}

fn replayed(
    session: &mut Session,
    own: &NamedPolicy,
    policies: &[NamedPolicy],
    wanted: Wanted,
    draws: Draws,
) -> Result<std::result::Result<Vec<Run>, String>> {
    policies.iter().try_for_each(|policy| policy.without_own("a replay"))?;
    if wanted == Wanted::Only(Loop::Closed)
        && let Some(why) = pageblock_closed_loop::obstacle(&session.recording)
    {
        bail!("--closed-loop: {why}");
    }
    let (fidelity, kept) = grade::decisions(session, own)?;
    if !grade::can_be_replayed(session, &fidelity) {
        return Ok(Err(fidelity.main_gap().map(words::gap).unwrap_or_default()));
    }
    let demands = session.make(demands)?;
    let mut own_runs = None;
    let grades = match kept {
        Some(grades) => grades,
        None => {
            let Some(made) = under_own(session, &demands, own)? else {
                bail!("interrupted before the first policy was done");
            };
            let grades = grade::of_replays(session, &demands, &fidelity, &made)?;
            // Without a history they are no runs of a picture.
            own_runs = Some(made).filter(|_| draws != Draws::WithHistory);
            grades
        }
    };
    let taken = match wanted {
        Wanted::Better => grades.better(),
        Wanted::Only(only) => only,
    };
    let own_runs = own_runs.map(|made| made.of(taken)).unwrap_or_default();
    let mut runs = all_runs(session, &demands, (own, own_runs), policies, (taken, draws))?;
    if runs.is_empty() {
        bail!("interrupted before the first policy was done");
    }
    let calibration = calibrate(&demands, own, policies, &runs);
    let mut notes: Vec<Note> = fidelity.gaps.iter().cloned().map(Note::Gap).collect();
    notes.push(Known::Replayed { of: taken }.into());
    let settings = Settings::of(&session.recording);
    let (set, unknown) = (settings.words(), settings.unknown);
    if !set.is_empty() || !unknown.is_empty() {
        notes.push(Known::Settings { set, unknown }.into());
    }
    let all = draws.seeds() as usize * policies.len();
    if runs.len() < all {
        notes.push(Known::Interrupted { done: runs.len(), wanted: all }.into());
    }
    let reproduced = Reproduced {
        grade: Some(grades.of(grades.better()).grade),
        taken: Some(Taken::new(&grades, taken, wanted != Wanted::Better)),
        drawn: calibration.as_ref().and_then(Calibration::drawn),
        ..Reproduced::new(&fidelity, Some(grades.of(taken)))
    };
    let certified = Certified::Reproduced(Box::new(reproduced));
    for run in &mut runs {
        run.certificate = Some(certified.clone());
        run.calibration.clone_from(&calibration);
        run.notes.clone_from(&notes);
    }
    Ok(Ok(runs))
}

impl Draws {
    fn seeds(self) -> u64 {
        match self {
            Self::WithHistory => 1,
            Self::Seeds(seeds) => seeds,
        }
    }
}

/// Replays under every policy within a seed, so that what is interrupted is complete for the first seeds. `own` is the
/// recorded kernel, with its replays of the first seeds if there are any already.
fn all_runs(
    session: &Session,
    demands: &Demands,
    (own, own_runs): (&NamedPolicy, Vec<Replayed>),
    policies: &[NamedPolicy],
    (taken, draws): (Loop, Draws),
) -> Result<Vec<Run>> {
    let with_history = draws == Draws::WithHistory;
    let all = draws.seeds() * policies.len() as u64;
    let (mut runs, mut own_runs) = (Vec::new(), own_runs.into_iter());
    for seed in 0..draws.seeds() {
        let mut made = own_runs.next();
        for named in policies {
            let replayed = match made.take_if(|_| is_own(named, own)) {
                Some(replayed) => Some(replayed),
                None => replay_one(session, demands, named, (taken, seed), with_history)?,
            };
            let Some(replayed) = replayed else { return Ok(runs) };
            runs.push(Run { policy: named.name.clone(), ..replayed.run });
            session.watch.keep(format!("{} of {all} replays are done", runs.len()));
        }
    }
    Ok(runs)
}

impl OwnReplays {
    fn of(self, taken: Loop) -> Vec<Replayed> {
        match taken {
            Loop::Open => self.open,
            Loop::Closed => self.closed,
        }
    }
}

/// Replays under the recorded policy in both loops; `None` if it was stopped.
///
/// # Errors
/// If the recording cannot be read.
pub fn under_own(
    session: &Session,
    demands: &Demands,
    own: &NamedPolicy,
) -> Result<Option<OwnReplays>> {
    let replays = |of| {
        let replay = |seed| replay_one(session, demands, own, (of, seed), false).transpose();
        (0..DRAWS).map_while(replay).collect::<Result<Vec<_>>>()
    };
    let open = replays(Loop::Open)?;
    let closed = match pageblock_closed_loop::obstacle(&session.recording) {
        Some(_) => Vec::new(),
        None => replays(Loop::Closed)?,
    };
    Ok((!session.watch.stopped()).then_some(OwnReplays { open, closed }))
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

/// Replays under one policy; `None` if it was stopped. Only an open loop has a history.
fn replay_one(
    session: &Session,
    demands: &Demands,
    named: &NamedPolicy,
    (of, seed): (Loop, u64),
    with_history: bool,
) -> Result<Option<Replayed>> {
    let NamedPolicy { name, policy, kernel } = named;
    let mut title = match of {
        Loop::Open => name.clone(),
        Loop::Closed => format!("{name}, closed loop"),
    };
    if seed > 0 {
        title += &format!(", seed {seed}");
    }
    let bar = session.watch.bar(&title, demands.count, "demands");
    let Session { recording, columnar, .. } = session;
    let progress = &mut |done, _| {
        bar.set(done);
        !session.watch.stopped()
    };
    Ok(match (of, with_history) {
        (Loop::Closed, _) => {
            let named = (name.as_str(), &kernel.kernel);
            pageblock_closed_loop::replay(recording, demands, named, seed, progress)?
        }
        (Loop::Open, true) => {
            open_loop::replay_with_history(recording, columnar, demands, (name, policy), progress)?
        }
        (Loop::Open, false) => {
            open_loop::replay(recording, demands, (name, policy), seed, progress)?
        }
    })
}

/// Compares the free replays under the recorded policy with the recorded kernel's events; `None` if Ctrl-C
/// interrupted it, or the recording has no such events to compare.
fn calibrate(
    demands: &Demands,
    own: &NamedPolicy,
    policies: &[NamedPolicy],
    runs: &[Run],
) -> Option<Calibration> {
    let named = policies.iter().find(|named| is_own(named, own))?;
    let under_own: Vec<_> = runs.iter().filter(|run| run.policy == named.name).collect();
    let recorded = demands.recorded.extfrag.clone()?;
    let calibration = calibrate::calibrate(&recorded, &under_own)?;
    Some(Calibration { policy: own.name.clone(), ..calibration })
}
