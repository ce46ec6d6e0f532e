//! What all comparisons have in common: options, the headings of columns, notes.

use serde::Serialize;

use crate::catalogue::sections::Subject;
use crate::certificate::Certified;
use crate::certificate::note::{Known, Note};
use crate::compare::verdict::{Looks, Stopped};
use crate::run::Run;
use crate::run::calibration::Calibration;
use crate::run::policies::units_differ;
use crate::statistics::multiops::StarRule;
use crate::value::event_unit::NOTE_OF_SECTION;

/// The options of a comparison.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// The run (or policy) that the others are compared with, from 0.
    pub baseline: usize,
    /// The rule that puts stars on means over seeds; rows of single runs have no stars.
    pub stars: StarRule,
    /// Notes that a reader needs to interpret the numbers.
    pub notes: Vec<Note>,
    /// How well the recorded kernel's own policy reproduced the recording; if `None`, the first
    /// certificate of a run is used.
    pub certificate: Option<Certified>,
    /// The comparison of a free replay under the recorded policy with the recording; if `None`, the
    /// first calibration of a run is used.
    pub calibration: Option<Calibration>,
    /// When the runs are looked at.
    pub looks: Looks,
    /// What ended a sequential comparison.
    pub stopped: Option<Stopped>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            baseline: 0,
            stars: StarRule::Classic,
            notes: Vec::new(),
            certificate: None,
            calibration: None,
            looks: Looks::Once,
            stopped: None,
        }
    }
}

/// The heading of a column.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Column {
    /// The preset: `linux-4.20`.
    pub kernel: String,
    /// The switches that differ from the preset, `vanilla` if none do.
    pub label: String,
}

impl Column {
    /// Splits a policy's name at its first comma.
    #[must_use]
    pub fn of_policy(policy: &str) -> Self {
        let (kernel, label) = match policy.split_once(',') {
            Some((kernel, label)) if !label.is_empty() => (kernel, label),
            _ => (policy.trim_end_matches(','), "vanilla"),
        };
        Self { kernel: kernel.to_owned(), label: label.to_owned() }
    }
}

/// Returns why the rows of a subject have no difference under some policies.
pub(crate) fn note(subject: &Subject, runs: &[Run]) -> Option<String> {
    (subject.counts_events && units_differ(runs)).then(|| NOTE_OF_SECTION.to_owned())
}

/// Returns the notes of the options and of the runs, without duplicates, and a note for each property
/// other than the policy in which the runs differ.
pub(crate) fn notes(runs: &[Run], options: &Options) -> Vec<Note> {
    let mut notes: Vec<Note> = Vec::new();
    if units_differ(runs) {
        notes.push(Known::UnitsDiffer.into());
    }
    notes.extend(difference("workload", runs, |run| &run.workload));
    notes.extend(difference("machine", runs, |run| &run.machine));
    for note in options.notes.iter().chain(runs.iter().flat_map(|run| &run.notes)) {
        if !notes.contains(note) {
            notes.push(note.clone());
        }
    }
    notes
}

fn difference(what: &str, runs: &[Run], name: fn(&Run) -> &str) -> Option<Note> {
    let first = name(runs.first()?);
    let other = runs.iter().map(name).find(|other| *other != first)?;
    let [what, first, other] = [what, first, other].map(str::to_owned);
    Some(Known::Differs { what, first, other }.into())
}

/// Returns the certificate of the options, or else the first certificate of a run.
pub(crate) fn certificate(runs: &[Run], options: &Options) -> Option<Certified> {
    options.certificate.clone().or_else(|| runs.iter().find_map(|run| run.certificate.clone()))
}

/// Returns the calibration of the options, or else the first calibration of a run.
pub(crate) fn calibration(runs: &[Run], options: &Options) -> Option<Calibration> {
    options.calibration.clone().or_else(|| runs.iter().find_map(|run| run.calibration.clone()))
}
