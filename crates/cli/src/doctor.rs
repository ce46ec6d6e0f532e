//! `pageblock doctor`: examines a machine.

use anyhow::bail;
use pageblock_doctor::checkup::{Checkup, Severity, checkup};
use pageblock_measure::value::call_sites::CallSites;
use pageblock_plan::doctor::{DoctorRequest, samples};
use pageblock_report::json::to_json;
use pageblock_report::{call_sites, checkup as print};

use crate::args::doctor::DoctorArgs;
use crate::trace::Trace;
use crate::{Verdict, interrupt, output};

/// The exit status where it hurts now.
const HURTS: u8 = 3;

pub(crate) fn run(args: &DoctorArgs) -> anyhow::Result<Verdict> {
    interrupt::watch_quietly();
    let asked = DoctorRequest {
        root: args.root.clone(),
        later: args.later.clone(),
        interval: args.trace.unwrap_or(args.interval),
        flight: args.flight.clone(),
        from: args.from,
        to: args.to,
    };
    let trace = match args.trace {
        Some(time) if time.is_zero() => bail!("--trace 0: a time from 0.5s on"),
        Some(_) => match Trace::begin()? {
            None => return Ok(Verdict::Interrupted),
            trace => trace,
        },
        None => None,
    };
    let taken = samples(&asked, &interrupt::wait);
    let traced = match (trace, &taken) {
        (Some(trace), Ok(Some(_))) => match trace.end()? {
            None => return Ok(Verdict::Interrupted),
            traced => traced,
        },
        (Some(trace), _) => {
            trace.discard()?;
            None
        }
        (None, _) => None,
    };
    let Some((first, second)) = taken? else { return Ok(Verdict::Interrupted) };
    let mut checkup = checkup(&first, second.as_ref());
    if let Some(traced) = &traced {
        checkup.attribute(&traced.waits);
    }
    output::print(&match (args.json, &traced) {
        (true, traced) => json(&checkup, traced.as_ref())?,
        (false, None) => print::print(&checkup, args.details),
        (false, Some(CallSites { waits, held, .. })) => format!(
            "{}\n{}\n{}",
            print::print(&checkup, args.details),
            call_sites::waits(waits),
            call_sites::held(held)
        ),
    })?;
    Ok(match checkup.severity() {
        Some(Severity::Critical) => Verdict::Status(HURTS),
        Some(Severity::Warning) => Verdict::No,
        Some(Severity::Notice) | None => Verdict::Yes,
    })
}

/// Returns an examination as JSON, with what was traced.
fn json(checkup: &Checkup, traced: Option<&CallSites>) -> anyhow::Result<String> {
    let mut json = serde_json::to_value(checkup)?;
    if let (Some(traced), Some(json)) = (traced, json.as_object_mut()) {
        json.insert("waits".to_owned(), serde_json::to_value(&traced.waits)?);
        json.insert("still_held".to_owned(), serde_json::to_value(&traced.held)?);
    }
    Ok(to_json(&json))
}
