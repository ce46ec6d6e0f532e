//! What is wrong with a machine, and what to do first.

use serde::Serialize;

use crate::advice::Advice;
use crate::class::Confidence;

/// How bad it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Good to know.
    Notice,
    /// It will hurt, or did.
    Warning,
    /// It hurts now.
    Critical,
}

/// A thing that is wrong.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Finding {
    /// Its name.
    pub name: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// How sure it is.
    pub confidence: Confidence,
    /// What people see.
    pub symptom: String,
    /// The figures that say so.
    pub evidence: Vec<String>,
    /// Why.
    pub cause: String,
    /// What to do, best first.
    pub commands: Vec<Command>,
    /// What is often advised and does nothing here.
    pub does_nothing: Vec<Advice>,
}

/// Something to do.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Command {
    /// What to type, or to change.
    pub run: String,
    /// How it is undone; null if nothing stays.
    pub undo: Option<String>,
    /// What can go wrong.
    pub risk: &'static str,
}
