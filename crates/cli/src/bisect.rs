//! `pageblock bisect`: which switch did it.

use std::path::Path;

use anyhow::bail;
use pageblock_measure::compare::bisect::Answer;
use pageblock_measure::value::file::{can_save, save_bytes};
use pageblock_picture::page::{Page, PageBisection};
use pageblock_picture::plot::{self, Format};
use pageblock_plan::NamedPolicy;
use pageblock_plan::bisect::{Asked, of_recording, of_workload};
use pageblock_plan::own::{Loads, is_file};
use pageblock_report::bisect::print;
use pageblock_report::json::to_json;

use crate::args::bisect::BisectArgs;
use crate::progress::terminal;
use crate::report::command_line;
use crate::{Verdict, interrupt, output};

/// The form of the file that `--out` names.
#[derive(Clone, Copy)]
enum Form {
    Page,
    Picture(Format),
}

impl Form {
    fn of(path: &Path) -> anyhow::Result<Self> {
        match Format::of(path) {
            Some(format) => Ok(Self::Picture(format)),
            None if path.extension().is_some_and(|ending| ending == "html") => Ok(Self::Page),
            None => bail!("--out {}: allowed: .html, .svg, .png", path.display()),
        }
    }

    fn bytes(self, answer: &Answer) -> anyhow::Result<Vec<u8>> {
        let Self::Picture(format) = self else {
            let (title, command) = (answer.subject.clone(), command_line());
            let bisections = vec![PageBisection::of(answer)?];
            let page = Page { title, command, bisections, ..Page::default() };
            return Ok(page.html().into_bytes());
        };
        Ok(plot::waterfall(answer, format)?)
    }
}

pub(crate) fn run(args: &BisectArgs) -> anyhow::Result<Verdict> {
    let [from, to] = [&args.from, &args.to].map(|text| NamedPolicy::parse(text));
    let (from, to) = (from?, to?);
    let file = args.out.as_deref().map(|path| Ok::<_, anyhow::Error>((path, Form::of(path)?)));
    let file = file.transpose()?;
    if let Some((path, _)) = file {
        can_save(path)?;
    }
    interrupt::watch();
    let watch = terminal();
    let name = args.of.to_string_lossy();
    let answer = if args.of.exists() && !is_file(&name) {
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
        if name.contains('/') && !is_file(&name) {
            anyhow::bail!("{}: there is no such recording", output::in_line(&name));
        }
        let asked = Asked {
            workload: name.into_owned(),
            loads: Loads::default(),
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
    if let Some((path, form)) = file {
        save_bytes(path, &form.bytes(&answer)?)?;
    }
    output::print(&match args.json {
        true => to_json(&answer),
        false => print(&answer),
    })?;
    Ok(Verdict::Yes)
}
