//! `pageblock replay`: the demands of a recording under any policy.

use anyhow::bail;
use pageblock_lab::machine::recorded_preset;
use pageblock_lab::replay;
use pageblock_measure::Run;
use pageblock_measure::compare::{Comparison, Options};
use pageblock_report::{replay as print, verify as certificate};

use crate::plan::{NamedPolicy, ReplayPlan, RunFormat};
use crate::progress::Progress;
use crate::session::Session;
use crate::{Verdict, compare, interrupt, output, verify};

/// What a reader of any free replay must know.
const OPEN_LOOP: &str = "Open loop: what reclaim and compaction did in the recording is kept; only \
the allocator decides anew. A request that failed in the recording counts as failed here unless the \
policy has a block for it at that moment.";

pub(crate) fn run(plan: &ReplayPlan) -> anyhow::Result<Verdict> {
    let session = Session::open(&plan.recording)?;
    interrupt::watch()?;
    let own = recorded_preset(&session.recording);
    let fidelity = verify::verify(&session, own.name, &own.policy, 0)?;
    let certificate = certificate::certificate(&fidelity);
    let (mut runs, recorded) = replays(plan, &session)?;
    if runs.is_empty() {
        bail!("interrupted before the first policy was done");
    }
    let mut notes = vec![
        OPEN_LOOP.to_owned(),
        format!(
            "The recorded kernel itself reported {recorded} fragmentation events; its policy here \
             is {}.",
            own.name
        ),
    ];
    if runs.len() < plan.policies.len() {
        notes.push(format!(
            "Interrupted: {} of {} policies are done.",
            runs.len(),
            plan.policies.len()
        ));
    }
    for run in &mut runs {
        run.certificate = Some(certificate.clone());
        run.notes.clone_from(&notes);
    }
    let options = Options {
        pageblock_order: session.recording.pageblock_order,
        event_counts: compare::event_counts(plan.policies.iter().map(|p| &p.policy)),
        ..Options::default()
    };
    output::print(&match plan.format {
        RunFormat::Text => print::print(&Comparison::of_runs(&runs, &options)?),
        format => compare::text(runs, format, options, false)?,
    })?;
    Ok(Verdict::Yes)
}

/// Runs every policy; Ctrl-C ends it after those that are done. Gives the fragmentation events of the
/// recording itself too.
fn replays(plan: &ReplayPlan, session: &Session) -> anyhow::Result<(Vec<Run>, u64)> {
    let Session { recording, columnar } = session;
    let bar = Progress::new("finding demands", 0, "events");
    let demands = replay::demands(recording, columnar, &mut |done, total| {
        bar.resize(total);
        bar.set(done);
    })?;
    drop(bar);
    let mut runs = Vec::new();
    for NamedPolicy { name, policy, .. } in &plan.policies {
        let bar = Progress::new(name, demands.count, "demands");
        let run = replay::replay(recording, &demands, name, policy, &mut |done, _| {
            bar.set(done);
            !interrupt::requested()
        })?;
        match run {
            Some(run) => runs.push(run),
            None => break,
        }
    }
    Ok((runs, demands.recorded_fragmenting))
}
