//! `pageblock forecast --remedies`: what is often advised, tried on a state.

use std::cell::Cell;
use std::path::{Path, PathBuf};

use anyhow::bail;
use pageblock_doctor::Error as DoctorError;
use pageblock_doctor::forecast::Forecast;
use pageblock_plan::{Session, replays};
use pageblock_recording::CaptureOptions;
use pageblock_report::json::to_json;
use pageblock_report::remedies as print;
use pageblock_trial::demand::{DemandTrials, demand_trials};
use pageblock_trial::{Error, State, remedies};

use crate::args::ForecastArgs;
use crate::progress::{Progress, terminal};
use crate::{Verdict, forecast, interrupt, output};

/// What is tried.
#[derive(clap::Args, Debug)]
pub(crate) struct TrialArgs {
    /// Try what is often advised on this state: compaction, dropping caches, settings
    #[arg(long, conflicts_with = "verify")]
    pub(crate) remedies: bool,
    /// The order that requests need; by default the one that failed most often in the kernel's log
    #[arg(long, value_name = "N", requires = "remedies")]
    pub(crate) order: Option<u8>,
    /// Try settings on the demand of this recording too
    #[arg(long, value_name = "RECORDING", requires = "remedies")]
    pub(crate) recording: Option<PathBuf>,
}

/// The remedies, for a bar.
const TRIALS: u64 = 11;

pub(crate) fn run(
    args: &ForecastArgs,
    root: &Path,
    forecast: &Forecast,
) -> anyhow::Result<Verdict> {
    let trials = match state(root).and_then(|state| {
        let progress = Progress::new("trials", TRIALS, "remedies");
        let done = Cell::new(0);
        remedies(&state, args.trial.order, &|| {
            done.set(done.get() + 1);
            progress.set(done.get());
            interrupt::requested()
        })
    }) {
        Err(Error::Doctor(DoctorError::Stopped)) => return Ok(Verdict::Interrupted),
        tried => tried?,
    };
    if !args.json {
        forecast::show(args, forecast)?;
        output::print(&print::print(&trials))?;
    }
    let demand = match &args.trial.recording {
        None => None,
        Some(recording) => match demand(recording)? {
            None => return Ok(Verdict::Interrupted),
            demand => demand,
        },
    };
    output::print(&match (args.json, &demand) {
        (true, _) => to_json(&serde_json::json!({
            "forecast": forecast, "trials": trials, "demand": demand,
        })),
        (false, Some(demand)) => print::demand(demand),
        (false, None) => String::new(),
    })?;
    Ok(Verdict::Yes)
}

fn state(root: &Path) -> Result<State, Error> {
    let progress = Progress::new("frames", 0, "frames");
    let read = Cell::new(0);
    State::read(root, &|frames| progress.resize(frames), &|frames| {
        read.set(read.get() + frames);
        progress.set(read.get());
        interrupt::requested()
    })
}

/// Tries settings on the demand of a recording; `None` if it was interrupted.
fn demand(path: &Path) -> anyhow::Result<Option<DemandTrials>> {
    let mut session = Session::open(path, &CaptureOptions::default(), &terminal())?;
    let demands = session.make(replays::demands)?;
    if demands.count == 0 {
        bail!("{}: it has no request that can be served again", path.display());
    }
    let bar = Progress::new("demand", demands.count, "demands");
    let tried = demand_trials(&session.recording, &demands, &mut |setting, done, _| {
        bar.say(setting.to_owned());
        bar.set(done);
        !interrupt::requested()
    })?;
    Ok(tried)
}
