//! What a comparison decides of a policy, in a sentence.

use pageblock_measure::compare::summary::{Summary, SummaryRow};
use pageblock_measure::compare::verdict::{Judged, runs_needed};

use super::{letter, percent, size};
use crate::certificate;
use crate::placement::{is_placed, placed};

/// The changes that a sentence names.
const NAMED: usize = 3;

/// Returns what is decided of a policy, in words.
#[must_use]
pub fn sentence(summary: &Summary, at: usize) -> String {
    let name = letter(at);
    if summary.identical[at] {
        return format!(
            "{name} is {}, event by event: nothing to compare\n",
            letter(summary.baseline)
        );
    }
    let of = |verdict| changes(summary, at, verdict);
    let (better, worse) = (of(Judged::Better), of(Judged::Worse));
    let (unchanged, undecided) = (of(Judged::Unchanged), of(Judged::Undecided));
    if is_placed(summary, at) {
        return placed(summary, at, [&name, &letter(summary.baseline)]);
    }
    if is_beyond_what_ifs(summary, at) {
        return format!("{name} is not judged: {}\n", certificate::NOT_SHOWN);
    }
    if better.len() + worse.len() + unchanged.len() + undecided.len() == 0 {
        return format!("{name} is not judged: {}\n", why_not(summary, at));
    }
    let lines = [
        named("better", &better),
        named("worse", &worse),
        named("within 5 % of nothing", &unchanged),
        named("not decided", &undecided),
    ];
    let indent = " ".repeat(name.len());
    let mut text = String::new();
    for line in lines.into_iter().flatten() {
        text += &format!("{} {line}\n", if text.is_empty() { &name } else { &indent });
    }
    text
}

/// Reports whether these are draws of a what-if that no number of draws decides.
fn is_beyond_what_ifs(summary: &Summary, at: usize) -> bool {
    let primary = || summary.measures.iter().filter(|measure| measure.primary);
    let can_be_marked = |measure: &SummaryRow| measure.cells[at].least_ratio.is_some();
    summary.each == "draw" && primary().count() > 0 && !primary().any(can_be_marked)
}

/// Says why a policy is not judged.
fn why_not(summary: &Summary, at: usize) -> String {
    let (each, others) = (summary.each, summary.policies.len() - 1);
    let primary = summary.measures.iter().filter(|measure| measure.primary).count();
    let few = summary.runs[at].min(summary.runs[summary.baseline]) < 2;
    match (few, primary) {
        (_, 0) => "no primary measure of the workload was measured".to_owned(),
        (true, _) if summary.alike[at] || summary.alike[summary.baseline] => {
            "its draws are alike, which tells nothing of chance".to_owned()
        }
        (true, _) => {
            let needed = runs_needed(primary * others);
            let more = match each {
                // An open loop may draw the same again.
                "draw" => format!("--seeds {needed} draws more"),
                _ => format!("{needed} can (--seeds {needed})"),
            };
            format!("one {each} cannot tell a change from chance; {more}")
        }
        (false, _) => "its runs are not comparable with the baseline's".to_owned(),
    }
}

/// Returns the primary measures that a policy changes like this, the largest change first.
fn changes(summary: &Summary, at: usize, verdict: Judged) -> Vec<(&SummaryRow, f64)> {
    let judged = summary.measures.iter().filter(|measure| measure.cells[at].verdict == verdict);
    let change = |measure: &SummaryRow| measure.cells[at].change.unwrap_or(f64::INFINITY);
    let mut found: Vec<(&SummaryRow, f64)> = judged.map(|m| (m, change(m))).collect();
    found.sort_by(|a, b| size(b.1).total_cmp(&size(a.1)));
    found
}

fn named(way: &str, found: &[(&SummaryRow, f64)]) -> Option<String> {
    let named: Vec<String> = found.iter().take(NAMED).map(|(m, c)| words(m, *c)).collect();
    let more = match found.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (!found.is_empty()).then(|| format!("{way}: {}{more}", named.join(", ")))
}

fn words(measure: &SummaryRow, change: f64) -> String {
    let name = measure.name.split(" [").next().unwrap_or(&measure.name);
    let mut letters = name.chars();
    let first = letters.next().map(|c| c.to_ascii_lowercase()).into_iter();
    let name: String = first.chain(letters).collect();
    if change.is_finite() { format!("{name} {}", percent(change)) } else { name }
}
