//! What was recorded, moment by moment.

mod flight;
mod history;

use pageblock::mobility::Migratetype;
use pageblock_doctor::checkup::{Checkup, Finding, Fragmented, Hurts, Sample, Severity};

pub use self::flight::FlightTape;
pub use self::history::HistoryTape;

use crate::source::{About, Level, ZoneNow};

/// Returns how bad a finding is.
pub(crate) const fn level(severity: Severity) -> Level {
    match severity {
        Severity::Notice => Level::Notice,
        Severity::Warning => Level::Warning,
        Severity::Critical => Level::Critical,
    }
}

/// Returns a finding in a line.
pub(crate) fn finding(finding: &Finding) -> String {
    match finding.evidence.first() {
        Some(evidence) => format!("{}: {evidence}", finding.symptom),
        None => finding.symptom.clone(),
    }
}

/// Returns the doctor's verdict in a line.
pub(crate) fn verdict(checkup: &Checkup) -> String {
    let fragmented = match checkup.fragmented {
        Fragmented::Unknown => "not known",
        Fragmented::No => "no",
        Fragmented::Partly => "partly",
        Fragmented::Yes => "yes",
        Fragmented::Badly => "badly",
    };
    let hurts = match checkup.hurts {
        Hurts::Unknown => "not known yet",
        Hurts::No => "no",
        Hurts::Did => "it did",
        Hurts::Yes => "yes",
    };
    let why = match (checkup.hurts, checkup.why.first()) {
        (Hurts::Yes | Hurts::Did, Some(why)) => format!(" ({why})"),
        _ => String::new(),
    };
    format!("fragmented: {fragmented}  hurts: {hurts}{why}")
}

/// Returns the zones of a sample, in the order of those that are shown.
pub(crate) fn zones_of(sample: &Sample, about: &About) -> Vec<ZoneNow> {
    let of = |label: &String| {
        let Some(zone) = sample.zones.iter().find(|zone| zone.label() == *label) else {
            return ZoneNow::default();
        };
        let name = (zone.node, zone.name.clone());
        let by_type = sample.types.as_ref().map(|types| {
            let mut all: [Vec<u64>; 4] = Default::default();
            for ((_, mt), counts) in types.free.iter().filter(|((of, _), _)| *of == name) {
                let list = &mut all[match mt {
                    Migratetype::Unmovable => 0,
                    Migratetype::Movable => 1,
                    Migratetype::Reclaimable => 2,
                    _ => 3,
                }];
                list.resize(list.len().max(counts.len()), 0);
                for (sum, count) in list.iter_mut().zip(counts) {
                    *sum += count;
                }
            }
            all
        });
        ZoneNow {
            managed: zone.managed,
            free: zone.free,
            marks: zone.wmark,
            boost: zone.boost.unwrap_or(0),
            orders: sample.free_blocks.get(&name).cloned().unwrap_or_default(),
            by_type,
        }
    };
    about.zones.iter().map(|zone| of(&zone.label)).collect()
}
