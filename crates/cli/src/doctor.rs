//! `pageblock doctor`: examines a machine.

use pageblock_doctor::checkup::{Severity, checkup};
use pageblock_plan::doctor::{DoctorRequest, samples};
use pageblock_report::checkup as print;
use pageblock_report::json::to_json;

use crate::args::doctor::DoctorArgs;
use crate::{Verdict, interrupt, output};

/// The exit status where it hurts now.
const HURTS: u8 = 3;

pub(crate) fn run(args: &DoctorArgs) -> anyhow::Result<Verdict> {
    interrupt::watch_quietly();
    let asked = DoctorRequest {
        root: args.root.clone(),
        later: args.later.clone(),
        interval: args.interval,
        flight: args.flight.clone(),
        from: args.from,
        to: args.to,
    };
    let Some((first, second)) = samples(&asked, &interrupt::wait)? else {
        return Ok(Verdict::Interrupted);
    };
    let checkup = checkup(&first, second.as_ref());
    output::print(&match args.json {
        true => to_json(&checkup),
        false => print::print(&checkup, args.details),
    })?;
    Ok(match checkup.severity() {
        Some(Severity::Critical) => Verdict::Status(HURTS),
        Some(Severity::Warning) => Verdict::No,
        Some(Severity::Notice) | None => Verdict::Yes,
    })
}
