//! What pictures are drawn of: saved runs, and recordings that are replayed for it.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pageblock_kernel::Named;
use pageblock_measure::compare::common::Options;
use pageblock_measure::compare::comparable;
use pageblock_measure::compare::full::FullComparison;
use pageblock_measure::compare::runs::Comparison;
use pageblock_measure::compare::summary::Summary;
use pageblock_measure::value::call_sites::StillHeld;
use pageblock_measure::{History, Origin, Run};
use pageblock_picture::page::{PageComparison, PageHolders};
use pageblock_picture::{Kind, Subject};
use pageblock_recording::CaptureOptions;
use pageblock_replay::call_sites::CallSiteFinder;
use pageblock_replay::history;
use pageblock_report::text::in_line;
use pageblock_report::{certificate, full, note, replay as print, verify as words};

use crate::error::{Error, Place, Result, bail};
use crate::policy::NamedPolicy;
use crate::session::Session;
use crate::watch::Watch;
use crate::{compare, grade, replays};

/// What is drawn.
#[derive(Default)]
pub struct Pictured {
    /// The title of a page.
    pub title: String,
    /// What has pictures.
    pub subjects: Vec<Subject>,
    /// The comparisons of the runs.
    pub comparisons: Vec<PageComparison>,
    /// Who still holds pages at the end of each recording.
    pub holders: Vec<PageHolders>,
    /// The runs of every policy and seed.
    pub runs: Vec<Run>,
}

/// What is to be drawn.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// Files of saved runs, and recordings.
    pub sources: Vec<PathBuf>,
    /// The policies that the recordings are replayed under, beside their own.
    pub policies: Vec<NamedPolicy>,
    /// The seed whose runs are drawn; by default the first that has a history.
    pub seed: Option<u64>,
    /// What captures do not say.
    pub capture: CaptureOptions,
}

/// Returns a word as a shell would take it.
#[must_use]
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=,./:+@%".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// Loads the runs, and replays the recordings. `compared` has them compared; else they are kept.
///
/// # Errors
/// If a source cannot be read, or cannot be compared with the others.
pub fn load(args: &Sources, compared: bool, watch: &Arc<dyn Watch>) -> Result<Pictured> {
    if args.sources.is_empty() {
        bail!("sources: there are none; name saved runs or recordings");
    }
    let mut pictured = Pictured::default();
    let mut groups: Vec<Vec<Run>> = Vec::new();
    let mut titles = Vec::new();
    for source in &args.sources {
        if is_runs(source)? {
            join(&mut groups, source)?;
        } else {
            titles.push(recording(source, args, compared, &mut pictured, watch)?);
        }
    }
    for runs in groups {
        let title = format!("{} on {}", runs[0].workload, runs[0].machine);
        if let Some(seed) = args.seed
            && !runs.iter().any(|run| run.seed == seed)
        {
            bail!("--seed {seed}: no run of {title} has it");
        }
        let seed = args.seed.unwrap_or_else(|| first_seed(&runs));
        let drawn = runs.iter().filter(|run| run.seed == seed);
        pictured.subjects.extend(drawn.map(saved));
        if compared {
            pictured.comparisons.push(compare_runs(runs)?);
        } else {
            pictured.runs.extend(runs);
        }
        titles.push(title);
    }
    pictured.title = titles.join("; ");
    Ok(pictured)
}

/// Returns the first seed that has a history, else the first.
fn first_seed(runs: &[Run]) -> u64 {
    let with = runs.iter().filter(|run| run.history.is_some()).map(|run| run.seed).min();
    with.or_else(|| runs.iter().map(|run| run.seed).min()).unwrap_or(0)
}

/// Tells whether a file holds saved runs: JSON. Everything else is taken for a recording.
fn is_runs(path: &Path) -> Result<bool> {
    let meta = path.metadata().at(|| path.display())?;
    if meta.is_dir() {
        return Ok(false);
    }
    if !meta.is_file() {
        // A pipe can be read once only.
        return Ok(true);
    }
    let mut first = Vec::new();
    let file = std::fs::File::open(path).at(|| path.display())?;
    file.take(64).read_to_end(&mut first).at(|| path.display())?;
    Ok(matches!(first.trim_ascii_start().first(), Some(b'[' | b'{')))
}

/// Adds the runs of a file to those that they can be compared with.
fn join(groups: &mut Vec<Vec<Run>>, file: &Path) -> Result<()> {
    for run in compare::load_file(file)? {
        if let Some(history) = &run.history {
            let checked = history.cells().map(|_| ());
            checked.map_err(|wrong| Error::Asked(format!("{}: {wrong}", file.display())))?;
        }
        let group = groups.iter_mut().find(|runs| comparable::difference(&runs[0], &run).is_none());
        match group {
            Some(runs) => runs.push(run),
            None => groups.push(vec![run]),
        }
        if let Some(runs) = groups.iter().find(|runs| compare::given_twice(runs).is_some()) {
            let Run { policy, seed, .. } = &runs[runs.len() - 1];
            let policy = Named::brief(policy);
            bail!("{}: policy {policy} with seed {seed} is given twice", file.display());
        }
    }
    Ok(())
}

/// Returns the command that makes a run again with its history; none of a run on a real kernel.
fn command(run: &Run) -> String {
    let Run { policy, workload, machine, seed, .. } = run;
    match run.origin {
        Origin::Simulated => {}
        Origin::Replayed => {
            return format!("pageblock report {} --policy {}", quoted(workload), quoted(policy));
        }
        Origin::Real => return String::new(),
    }
    // A scaled machine says so in its name.
    let whole = machine.split(" at ").next().unwrap_or(machine);
    let mut command =
        format!("pageblock run {workload} --machine {} --policy {}", quoted(whole), quoted(policy));
    if let Some(setup) = run.setup.as_ref().filter(|setup| setup.scale != "1") {
        command += &format!(" --scale {}", setup.scale);
    }
    if *seed != 1 {
        command += &format!(" --first-seed {seed}");
    }
    command + " --pictures --save FILE"
}

/// Returns what a picture needs of a run.
#[must_use]
pub fn saved(run: &Run) -> Subject {
    Subject {
        name: in_line(&run.policy),
        kind: match run.origin {
            Origin::Simulated => Kind::Simulated,
            Origin::Replayed => Kind::Replayed,
            Origin::Real => Kind::Real,
        },
        workload: run.workload.clone(),
        machine: run.machine.clone(),
        seed: Some(run.seed),
        command: command(run),
        certificate: run.certificate.as_ref().map(certificate::line),
        notes: run.notes.iter().map(note::words).collect(),
        history: run.history.clone(),
    }
}

fn compare_runs(runs: Vec<Run>) -> Result<PageComparison> {
    let runs = compare::under_every_policy(runs)?;
    let comparison = FullComparison::of_runs(&runs, &Options::default())?;
    let tables = full::print(&comparison);
    Ok(PageComparison { summary: comparison.summary, tables })
}

/// Returns who holds pages that do not move at the end of a recording; `None` if nobody does, or it was interrupted.
fn held(session: &Session, watch: &Arc<dyn Watch>) -> Result<Option<StillHeld>> {
    let mut finder = CallSiteFinder::default();
    for record in session.columnar.records_from(0)? {
        finder.push(&record?);
        if watch.stopped() {
            return Ok(None);
        }
    }
    let held = finder.finish(&session.recording, session.columnar.losses.total()).held;
    Ok((held.held > 0).then_some(held))
}

/// Replays a recording; returns what it is in a line.
fn recording(
    path: &Path,
    args: &Sources,
    compared: bool,
    pictured: &mut Pictured,
    watch: &Arc<dyn Watch>,
) -> Result<String> {
    let mut session = Session::open(path, &args.capture, watch)?;
    let own = NamedPolicy::recorded(&session.recording);
    let (fidelity, kept) = grade::decisions(&session, &own)?;
    let grades = match kept {
        Some(grades) => Some(grades),
        None => grade::make(&mut session, &own, &fidelity)?,
    };
    let line = words::certificate(&fidelity, grades.as_ref().map(|all| all.of(all.better())));
    let name = session.recording.name.clone();
    let file = quoted(&path.display().to_string());
    let subject = Subject {
        name: in_line(&name),
        kind: Kind::Recorded,
        workload: name.clone(),
        machine: session.recording.kernel.text.clone(),
        seed: None,
        command: format!("pageblock report {file}"),
        certificate: Some(line),
        notes: fidelity.gaps.iter().map(words::gap).collect(),
        history: None,
    };
    if compared && let Some(held) = held(&session, watch)? {
        pictured.holders.push(PageHolders { name: in_line(&name), held });
    }
    let void = session.recording.requests_only || fidelity.is_void();
    let history = if void { None } else { recorded(&session)? };
    pictured.subjects.push(Subject { history, ..subject.clone() });
    let policies = replays::with_recorded(args.policies.clone(), false, &session.recording);
    if policies.len() == 1 && !session.recording.requests_only {
        return Ok(name);
    }
    let mut runs = match replays::with_history(&mut session, &own, &policies)? {
        Ok(replayed) => replayed,
        Err(gap) => bail!("{}: nothing can be replayed: {gap}", path.display()),
    };
    for (run, NamedPolicy { name, .. }) in runs.iter_mut().zip(&policies) {
        pictured.subjects.push(Subject {
            name: in_line(name),
            kind: Kind::Replayed,
            command: format!("pageblock report {file} --policy {}", quoted(name)),
            notes: run.notes.iter().map(note::words).collect(),
            certificate: run.certificate.as_ref().map(certificate::line),
            history: run.history.take(),
            ..subject.clone()
        });
    }
    if compared {
        let options = Options::default();
        let tables = print::print(&Comparison::of_runs(&runs, &options)?, false);
        let summary = Summary::of_runs(&runs, &options)?;
        pictured.comparisons.push(PageComparison { summary, tables });
    } else {
        pictured.runs.extend(runs);
    }
    Ok(name)
}

/// Returns what happened in a recording; `None` if it was stopped.
fn recorded(session: &Session) -> Result<Option<History>> {
    let Session { recording, columnar, watch, .. } = session;
    let bar = watch.bar("looking at pageblocks", 0, "events");
    Ok(history::recorded(recording, columnar, &mut |done, total| {
        bar.resize(total);
        bar.set(done);
        !watch.stopped()
    })?)
}
