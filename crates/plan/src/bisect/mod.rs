//! Bisections: which of the switches in which two kernels differ makes a difference.
//!
//! The kernels between the two are made, each is drawn with two seeds, and kernels with the same events count as one from then
//! on. What is left takes all seeds.

mod draws;
mod kernels;

pub use draws::{Asked, of_recording, of_workload};
pub use kernels::Kernels;

use pageblock_kernel::{Kernel, Named, preset};
use pageblock_measure::certificate::{Certified, Support};
use pageblock_measure::compare::bisect::{Bisection, attribute};
use serde::{Deserialize, Serialize};

/// The seeds by which kernels with the same events are found.
pub const PROBE: usize = 2;
/// The seeds of a bisection for which none were asked.
pub const SEEDS: u64 = 20;

/// What was drawn of a kernel under a seed.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Draw {
    /// The kernel, a place among [`Kernels::texts`].
    pub kernel: usize,
    /// The seed.
    pub seed: u64,
    /// The hash of its events.
    pub event_hash: String,
    /// The values of the measures; `None` of one that the run lacks.
    pub values: Vec<Option<f64>>,
}

/// What is measured.
#[derive(Clone, PartialEq, Debug)]
pub struct Measured {
    /// Its name, with the unit.
    pub name: String,
    /// What a recording supports of it; `None` in a simulation.
    pub support: Option<Support>,
}

/// The answer.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Answer {
    /// What was run, and on what.
    pub subject: String,
    /// Both kernels.
    pub kernels: (String, String),
    /// The draws of each kernel that stands for itself; replays that are all alike are one.
    pub draws: usize,
    /// What they are called: `seed` or `draw`.
    pub each: &'static str,
    /// How many runs were made.
    pub runs: usize,
    /// One for each measure that any kernel has.
    pub measures: Vec<Bisection>,
    /// How well the recorded kernel's own policy reproduced the recording.
    pub certificate: Option<Certified>,
}

impl Answer {
    /// Attributes what was drawn: `draws` says how many of each kernel, and what one is called.
    #[must_use]
    pub fn new(
        subject: String,
        kernels: &Kernels,
        same_as: &[usize],
        drawn: &[Draw],
        measured: &[Measured],
        (draws, each): (usize, &'static str),
    ) -> Self {
        let last = kernels.steps.last().map_or(0, |step| step.kernel);
        Self {
            subject,
            kernels: (kernels.texts[0].clone(), short(&kernels.texts[last])),
            draws,
            each,
            runs: drawn.len(),
            measures: bisections(kernels, same_as, drawn, measured),
            certificate: None,
        }
    }
}

/// Returns the name of a preset where a text says one with its switches.
fn short(text: &str) -> String {
    let Ok(named) = Named::parse(text) else { return text.to_owned() };
    let is_same = |preset: &&preset::Preset| Kernel::from(*preset) == named.kernel;
    preset::PRESETS
        .iter()
        .find(is_same)
        .map_or_else(|| text.to_owned(), |preset| preset.name.to_owned())
}

/// Returns for each kernel the first one that has the same events under every seed of both; itself where none has.
#[must_use]
pub fn same_as(kernels: &Kernels, probes: &[Draw]) -> Vec<usize> {
    let hashes = |kernel: usize| {
        let mut of: Vec<(u64, &str)> = probes
            .iter()
            .filter(|draw| draw.kernel == kernel)
            .map(|draw| (draw.seed, draw.event_hash.as_str()))
            .collect();
        of.sort_unstable();
        of
    };
    let all: Vec<_> = (0..kernels.texts.len()).map(hashes).collect();
    let first =
        |kernel: usize| all.iter().position(|other| *other == all[kernel]).unwrap_or(kernel);
    (0..all.len()).map(first).collect()
}

/// Attributes what was drawn: one bisection for each measure that was measured under every kernel.
fn bisections(
    kernels: &Kernels,
    same_as: &[usize],
    draws: &[Draw],
    measured: &[Measured],
) -> Vec<Bisection> {
    let of = |at: usize| -> Option<Bisection> {
        let values: Vec<Vec<f64>> = (0..kernels.texts.len())
            .map(|kernel| {
                let of_kernel =
                    draws.iter().filter(|draw| draw.kernel == kernel && same_as[kernel] == kernel);
                of_kernel.map(|draw| draw.values[at]).collect::<Option<Vec<f64>>>()
            })
            .collect::<Option<_>>()?;
        if values.iter().flatten().all(|&value| value == 0.0) {
            return None;
        }
        let Measured { name, support } = &measured[at];
        Some(attribute(name, &kernels.steps, same_as, &values, *support))
    };
    (0..measured.len()).filter_map(of).collect()
}
