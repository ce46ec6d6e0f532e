//! `pageblock bisect`: which switch did it.

use pageblock_plan::bisect::{Asked, of_recording, of_workload};
use pageblock_plan::{NamedPolicy, run::find_workload};
use pageblock_report::bisect::print;
use pageblock_report::json::to_json;

use crate::args::bisect::BisectArgs;
use crate::progress::terminal;
use crate::{Verdict, interrupt, output};

pub(crate) fn run(args: &BisectArgs) -> anyhow::Result<Verdict> {
    let [from, to] = [&args.from, &args.to].map(|text| NamedPolicy::parse(text));
    let (from, to) = (from?, to?);
    interrupt::watch();
    let watch = terminal();
    let answer = if args.of.exists() {
        let simulated = [
            ("--machine", args.machine.is_some()),
            ("--scale", args.scale.is_some()),
            ("--first-seed", args.first_seed.is_some()),
            ("--jobs", args.jobs.is_some()),
        ];
        if let Some((option, _)) = simulated.iter().find(|(_, is_given)| *is_given) {
            anyhow::bail!("{option} is for workloads: a recording has a machine, and draws 0 to N");
        }
        of_recording(&args.of, (&from, &to), &args.measures, args.seeds, &watch)?
    } else {
        let name = args.of.to_string_lossy();
        if name.contains('/') {
            anyhow::bail!("{}: there is no such recording", output::in_line(&name));
        }
        let asked = Asked {
            workload: find_workload(&name)?.name().to_owned(),
            machine: args.machine.clone(),
            scale: args.scale.clone().unwrap_or_else(|| "1".to_owned()),
            seeds: args.seeds,
            first_seed: args.first_seed.unwrap_or(1),
            jobs: args.jobs,
            measures: args.measures.clone(),
        };
        of_workload(&asked, (&from, &to), watch.as_ref())?
    };
    let Some(answer) = answer else { return Ok(Verdict::Interrupted) };
    output::print(&match args.json {
        true => to_json(&answer),
        false => print(&answer),
    })?;
    Ok(Verdict::Yes)
}
