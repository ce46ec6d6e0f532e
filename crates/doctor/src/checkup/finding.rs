//! Problems of a machine, and what to do first.

use serde::Serialize;

use crate::advice::Advice;
use crate::class::Confidence;

/// The severity of a problem.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Good to know.
    Notice,
    /// It will cause failures or stalls, or has caused some.
    Warning,
    /// It causes failures or stalls now.
    Critical,
}

/// A problem.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Finding {
    /// Its name.
    pub name: &'static str,
    /// The severity of a problem.
    pub severity: Severity,
    /// The confidence in it.
    pub confidence: Confidence,
    /// The symptom that users see.
    pub symptom: String,
    /// The figures that show it.
    pub evidence: Vec<String>,
    /// Why.
    pub cause: String,
    /// What to do, best first.
    pub commands: Vec<Command>,
    /// Common advice that does nothing here.
    pub does_nothing: Vec<Advice>,
}

/// A remedy.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Command {
    /// The command to run, or the change to make.
    pub run: String,
    /// The command that undoes it; null if there is nothing to undo.
    pub undo: Option<String>,
    /// What can go wrong.
    pub risk: &'static str,
}
