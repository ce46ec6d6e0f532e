//! Bisections: which of the switches in which two kernels differ makes a difference.
//!
//! The kernels between the two are made, each is drawn with two seeds, and kernels with the same events count as one from then
//! on. What is left takes all seeds.

mod draws;
mod kernels;

pub use draws::{Asked, of_recording, of_workload};
pub use kernels::Kernels;

use pageblock_kernel::{Kernel, Named, preset};
use pageblock_measure::catalogue::{Measure, deciding};
use pageblock_measure::certificate::across::Limit;
use pageblock_measure::compare::bisect::{Answer, Bisection, Drawn, attribute};
use pageblock_measure::value::event_unit::EventUnit;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result, bail};
use crate::policy::NamedPolicy;

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
    /// Whether the run did not finish.
    pub unfinished: bool,
    /// The values of the measures; `None` of one that the run lacks.
    pub values: Vec<Option<f64>>,
}

/// What is measured.
#[derive(Clone, PartialEq, Debug)]
pub struct Measured {
    /// Its name, with the unit.
    pub name: String,
    /// What a difference of it exceeds in replays of a recording; `None` in a simulation.
    pub limit: Option<Limit>,
}

/// Attributes what was drawn: `runs` were made for it, and `each` says how many draws of a kernel there are, and what one is
/// called.
#[must_use]
pub fn answer(
    subject: String,
    kernels: &Kernels,
    same_as: &[usize],
    drawn: &[Draw],
    measured: &[Measured],
    (runs, each): (usize, (usize, &'static str)),
) -> Answer {
    let last = kernels.steps.last().map_or(0, |step| step.kernel);
    let is_unfinished =
        |&kernel: &usize| drawn.iter().any(|of| of.kernel == kernel && of.unfinished);
    Answer {
        subject,
        kernels: (kernels.texts[0].clone(), short(&kernels.texts[last])),
        draws: each.0,
        each: each.1,
        runs,
        probes: PROBE,
        unfinished: (0..kernels.texts.len())
            .filter(is_unfinished)
            .map(|kernel| short(&kernels.texts[kernel]))
            .collect(),
        measures: bisections(kernels, same_as, drawn, measured),
        certificate: None,
    }
}

/// Returns the measures that mean the same under both kernels. Of those that were asked for all have to.
///
/// # Errors
/// Names one that was asked for and does not.
fn comparable(measures: Vec<Measure>, kernels: &Kernels, asked: bool) -> Result<Vec<Measure>> {
    let unit = |text: &str| Ok::<_, Error>(EventUnit::of(&NamedPolicy::parse(text)?.policy));
    let last = kernels.steps.last().map_or(0, |step| step.kernel);
    if unit(&kernels.texts[0])? == unit(&kernels.texts[last])? {
        return Ok(measures);
    }
    match measures.iter().find(|measure| measure.counts_events) {
        Some(measure) if asked => bail!(
            "--measure '{}': an event is a block before Linux 6.10 and a page from then on; {} compares across it",
            measure.id,
            deciding::id::MISMATCHED_PAGES
        ),
        _ => Ok(measures.into_iter().filter(|measure| !measure.counts_events).collect()),
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
        let drawn: Vec<Drawn> = (0..kernels.texts.len())
            .map(|kernel| {
                let of_kernel = || {
                    draws.iter().filter(|draw| draw.kernel == kernel && same_as[kernel] == kernel)
                };
                let values = of_kernel().map(|draw| draw.values[at]).collect::<Option<_>>()?;
                Some(Drawn { values, unfinished: of_kernel().any(|draw| draw.unfinished) })
            })
            .collect::<Option<_>>()?;
        if drawn.iter().flat_map(|of| &of.values).all(|&value| value == 0.0) {
            return None;
        }
        let Measured { name, limit } = &measured[at];
        Some(attribute(name, &kernels.steps, same_as, &drawn, *limit))
    };
    (0..measured.len()).filter_map(of).collect()
}
