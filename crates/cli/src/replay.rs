//! `pageblock replay`: replays the requests of a recording under any policy.

use pageblock_measure::compare::common::Options;
use pageblock_measure::compare::runs::Comparison;
use pageblock_measure::compare::summary::Summary;
use pageblock_plan::policy::NamedPolicy;
use pageblock_plan::{Session, replays};
use pageblock_report::replay as print;

use crate::plan::{ReplayPlan, RunFormat};
use crate::progress::terminal;
use crate::{Verdict, compare, interrupt, output};

pub(crate) fn run(plan: &ReplayPlan) -> anyhow::Result<Verdict> {
    let mut session = Session::open(&plan.recording, &plan.capture, &terminal())?;
    interrupt::watch();
    let own = NamedPolicy::recorded(&session.recording);
    let policies =
        replays::with_recorded(plan.policies.clone(), plan.has_baseline, &session.recording);
    let replayed = replays::replays(&mut session, &own, &policies, plan.wanted, plan.seeds)?;
    let runs = match replayed {
        Ok(runs) => runs,
        Err(gap) => {
            output::note(&format!("replay: nothing can be replayed: {gap}\n"));
            return Ok(Verdict::No);
        }
    };
    let options = Options::default();
    output::print(&match plan.format {
        RunFormat::Text if plan.seeds == 1 => {
            let tables = print::print(&Comparison::of_runs(&runs, &options)?, plan.uncertified);
            plan.tables.below(&Summary::of_runs(&runs, &options)?, &tables)
        }
        format => compare::text(runs, format, &plan.tables, &options, None)?,
    })?;
    Ok(if interrupt::requested() { Verdict::Interrupted } else { Verdict::Yes })
}
