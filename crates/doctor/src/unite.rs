//! One report of each event that several logs have.

use std::collections::HashMap;

use crate::explain::Explanation;
use crate::log::Report;

/// Leaves one report of each event: files such as `dmesg` and `messages` have the same ones. The one that says most stays.
pub fn unite(found: &mut Vec<Explanation>) {
    let mut known: HashMap<String, usize> = HashMap::new();
    let mut kept: Vec<Explanation> = Vec::new();
    for of in found.drain(..) {
        let Some(key) = event(&of.report) else {
            kept.push(of);
            continue;
        };
        match known.get(&key) {
            Some(&at) if kept[at].file != of.file => {
                if says(&of) > says(&kept[at]) {
                    kept[at] = of;
                }
            }
            _ => {
                known.insert(key, kept.len());
                kept.push(of);
            }
        }
    }
    *found = kept;
}

/// Returns what tells an event from others: its time since boot, or of day, and who asked for what.
fn event(report: &Report) -> Option<String> {
    let (time, task) = (report.at_us.map(|us| us.to_string()), &report.task);
    // Some files have a year or a zone, and some have none.
    let of_day = || report.at.map(|at| format!("{}-{} {}", at.date.month, at.date.day, at.second));
    let time = time.or_else(of_day)?;
    let notice = report.notice.as_ref().map(|notice| &notice.about);
    Some(format!("{time} {:?} {task:?} {:?} {notice:?}", report.kind, report.order))
}

/// Returns how much a report says.
fn says(of: &Explanation) -> (usize, bool, bool) {
    (of.zones.len(), of.report.at.is_some(), of.report.version.is_some())
}
