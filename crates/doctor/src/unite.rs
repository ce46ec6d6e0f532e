//! Removes reports of the same event from several logs.

use std::collections::HashMap;

use crate::explain::Explanation;
use crate::log::Report;

/// Keeps one report of each event, the most informative one: files such as `dmesg` and `messages` have the same events.
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

/// Returns the identity of an event: its time since boot, or of day, the task and its request.
fn event(report: &Report) -> Option<String> {
    let (time, task) = (report.at_us.map(|us| us.to_string()), &report.task);
    // Some files have a year or a zone, and some have none.
    let of_day = || report.at.map(|at| format!("{}-{} {}", at.date.month, at.date.day, at.second));
    let time = time.or_else(of_day)?;
    let notice = report.notice.as_ref().map(|notice| &notice.about);
    Some(format!("{time} {:?} {task:?} {:?} {notice:?}", report.kind, report.order))
}

/// Returns a measure of a report's content.
fn says(of: &Explanation) -> (usize, bool, bool) {
    (of.zones.len(), of.report.at.is_some(), of.report.version.is_some())
}
