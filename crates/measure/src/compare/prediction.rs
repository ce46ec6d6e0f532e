//! Predictions of simulations beside what real kernels did: the direction of each change, its size, and its interval.
//!
//! What is expected of the real kernel has the noise of the simulations, and what they leave out ([`noise`]).

use serde::Serialize;

use crate::catalogue::deciding;
use crate::compare::noise;
use crate::compare::verdict::LEVEL;
use crate::run::Run;
use crate::run::policies::units_agree;
use crate::statistics::rank_sum;
use crate::statistics::resampling::{self, Expected};

/// The runs of each column from which on a prediction is judged.
const MIN_RUNS: usize = 2;

/// The certainty from which on a change is predicted. Of the series before there was noise it left the most directions right.
pub const CERTAIN: f64 = 0.8;

/// A column that is predicted: how it is named in both kinds of runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Column {
    /// The policy of the real runs.
    pub real: String,
    /// The policy of the simulated ones; `None` if the simulation does not know what was set or patched.
    pub simulated: Option<String>,
    /// The column that it is compared with; `None` for one that nothing is predicted of.
    pub against: Option<usize>,
}

/// A change: the median of the ratios of a run of each side.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Change {
    /// The median of the ratios.
    pub ratio: f64,
    /// Its 95 % interval; `None` of so few runs that there is none.
    pub interval: Option<(f64, f64)>,
}

/// One prediction.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Prediction {
    /// The column.
    pub column: String,
    /// The column that it is compared with.
    pub against: String,
    /// What is measured.
    pub measure: &'static str,
    /// What was predicted, with the interval of the simulations.
    pub predicted: Change,
    /// The standard deviation of the logarithm of the real ratio that simulations leave out.
    pub noise: f64,
    /// The ratios between which the real median is expected in 95 of 100 cases, with the noise: it is of so many runs only.
    pub expected: (f64, f64),
    /// The share of cases in which a real median of so many runs is expected on the predicted side of nothing.
    pub certainty: f64,
    /// What the real kernel did.
    pub real: Change,
    /// The real ratio of the column before, against its own, where there is one.
    pub before: Option<f64>,
    /// Whether the direction was right: that of a change that was [predicted](Self::is_change), or that there is none. `None`
    /// where so few real runs cannot tell whether there is one.
    pub direction: Option<bool>,
    /// Whether the real ratio is within a factor of two of the predicted one.
    pub factor_of_two: bool,
    /// Whether it is where it was expected.
    pub in_interval: bool,
}

/// All predictions, best first.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Score {
    /// The seeds of the simulations, and the runs of each real column.
    pub runs: (usize, usize),
    /// The predictions.
    pub predictions: Vec<Prediction>,
    /// What cannot be predicted or judged, and why.
    pub unjudged: Vec<String>,
}

/// A prediction that needs no program.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Null {
    /// Nothing changes.
    NothingChanges,
    /// The ratio is that of the column before.
    AsBefore,
}

/// What a prediction can be right in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Respect {
    /// The direction.
    Direction,
    /// Within a factor of two.
    FactorOfTwo,
}

/// A score beside that of a null model, on the same cases.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Skill {
    /// The cases that both judge.
    pub cases: usize,
    /// Those in which the program was right.
    pub right: usize,
    /// Those in which the null model was.
    pub null_right: usize,
}

impl Skill {
    /// Returns (score - null) / (1 - null): 1 is always right, 0 no better than the null model. `None` where the null model
    /// leaves nothing to win.
    #[must_use]
    pub fn value(&self) -> Option<f64> {
        let left = self.cases - self.null_right;
        (left > 0).then(|| (self.right as f64 - self.null_right as f64) / left as f64)
    }
}

/// How predicted and real changes meet. A real change is one if its 95 % interval is on one side of nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Confusion {
    /// Real changes that were predicted.
    pub hits: usize,
    /// Real changes where the opposite was predicted.
    pub wrong_sign: usize,
    /// Real changes where no change was predicted.
    pub missed: usize,
    /// Predicted changes that are none.
    pub false_alarms: usize,
    /// Neither.
    pub quiet: usize,
}

/// The predictions that were made with a certainty.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Reliability {
    /// The certainty from which on they are counted here.
    pub from: f64,
    /// How many there are.
    pub predicted: usize,
    /// The mean of their certainty.
    pub mean: f64,
    /// How many came: the real median is on the predicted side.
    pub came: usize,
}

/// The certainties from which on predictions are counted together.
const CERTAINTIES: [f64; 5] = [0.6, 0.7, CERTAIN, 0.9, 0.975];

impl Change {
    fn of(base: &[f64], new: &[f64]) -> Option<Self> {
        let rank_sum::Change { ratio, interval, .. } = rank_sum::compare(base, new, LEVEL)?;
        let (least, most) = interval.unwrap_or((ratio, ratio));
        let numbers = [ratio, least, most];
        numbers.iter().all(|n| n.is_finite() && *n > 0.0).then_some(Self { ratio, interval })
    }

    /// Reports whether it is a change in one direction: its interval is on one side of 1. `None` where there is none.
    #[must_use]
    pub fn is_one(&self) -> Option<bool> {
        self.interval.map(|(least, most)| least > 1.0 || most < 1.0)
    }

    fn off_by(&self, other: &Self) -> f64 {
        (self.ratio.ln() - other.ratio.ln()).abs()
    }
}

impl Prediction {
    fn judge(
        names: [&str; 2],
        measure: &'static str,
        (predicted, noise, resampling): (Change, f64, Expected),
        real: Change,
    ) -> Self {
        let mut made = Self {
            column: names[0].to_owned(),
            against: names[1].to_owned(),
            measure,
            predicted,
            noise,
            expected: resampling.range,
            certainty: resampling.below.max(1.0 - resampling.below),
            real,
            before: None,
            direction: None,
            factor_of_two: predicted.off_by(&real) <= 2.0_f64.ln(),
            in_interval: (resampling.range.0..=resampling.range.1).contains(&real.ratio),
        };
        made.direction = made.has_direction(predicted.ratio, made.is_change());
        made
    }

    /// Reports whether a change is predicted: the real ratio is expected on one side of nothing, with [`CERTAIN`] or more.
    #[must_use]
    pub fn is_change(&self) -> bool {
        self.predicted.ratio != 1.0 && self.certainty >= CERTAIN
    }

    /// Reports whether a ratio, which is said to be a change or none, has the real direction.
    fn has_direction(&self, ratio: f64, is_one: bool) -> Option<bool> {
        match is_one {
            true => Some(self.real.ratio != 1.0 && (ratio > 1.0) == (self.real.ratio > 1.0)),
            false => self.real.is_one().map(|real| !real),
        }
    }

    fn is_right(&self, respect: Respect) -> Option<bool> {
        match respect {
            Respect::Direction => self.direction,
            Respect::FactorOfTwo => Some(self.factor_of_two),
        }
    }

    fn null_is_right(&self, null: Null, respect: Respect) -> Option<bool> {
        let (ratio, is_one) = match null {
            Null::NothingChanges => (1.0, false),
            Null::AsBefore => (self.before?, true),
        };
        match respect {
            Respect::Direction => self.has_direction(ratio, is_one),
            Respect::FactorOfTwo => Some((ratio.ln() - self.real.ratio.ln()).abs() <= 2.0_f64.ln()),
        }
    }
}

impl Score {
    /// Judges simulated runs by real ones.
    #[must_use]
    pub fn of(predicted: &[Run], real: &[Run], columns: &[Column]) -> Self {
        let mut score = Self::default();
        for column in columns {
            let Some(against) = column.against.and_then(|at| columns.get(at)) else { continue };
            let names = [column.real.as_str(), against.real.as_str()];
            let (Some(new), Some(base)) = (&column.simulated, &against.simulated) else {
                score.unjudged.push(format!(
                    "{}: the simulation does not know what is set or patched",
                    names[0]
                ));
                continue;
            };
            let of = |runs, policy: &str| of_policy(runs, policy);
            let simulated = [of(predicted, new), of(predicted, base)];
            score.column(names, simulated, [of(real, names[0]), of(real, names[1])]);
        }
        score.look_back();
        let off = |p: &Prediction| p.predicted.off_by(&p.real);
        score.predictions.sort_by(|a, b| off(a).total_cmp(&off(b)));
        score
    }

    fn column(&mut self, names: [&str; 2], predicted: [Vec<&Run>; 2], real: [Vec<&Run>; 2]) {
        self.runs = (predicted[0].len(), real[0].len());
        if predicted.iter().chain(&real).any(|runs| runs.len() < MIN_RUNS) {
            let why = format!("fewer than {MIN_RUNS} runs");
            self.unjudged.push(format!("{} against {}: {why}", names[0], names[1]));
            return;
        }
        let real_runs = (real[1].len(), real[0].len());
        for measure in deciding::measures() {
            let values = |runs: &Vec<&Run>| runs.iter().map(|run| measure.number(run)).collect();
            let all: Option<Vec<Vec<f64>>> = predicted.iter().chain(&real).map(values).collect();
            let Some(all) = all else { continue };
            if all.iter().flatten().all(|value| *value == 0.0) {
                continue;
            }
            let place = format!("{} against {}, {}", names[0], names[1], measure.label);
            if measure.counts_events && !units_agree(real[0][0], real[1][0]) {
                self.unjudged
                    .push(format!("{place}: an event is a block in one and a page in the other"));
                continue;
            }
            match (Change::of(&all[1], &all[0]), Change::of(&all[3], &all[2])) {
                (Some(predicted), Some(real)) => {
                    let label = &measure.label;
                    let noise = noise::deviation(label, real_runs);
                    // The side with fewer runs says how much a median scatters.
                    let runs = real_runs.0.min(real_runs.1);
                    let expected = resampling::expected(&all[1], &all[0], runs, noise);
                    let predicted = (predicted, noise, expected);
                    self.predictions.push(Prediction::judge(names, label, predicted, real));
                }
                _ => self.unjudged.push(format!("{place}: some runs have none")),
            }
        }
    }

    /// Notes with each prediction what its baseline changed against its own.
    fn look_back(&mut self) {
        let ratio = |of: &Prediction| {
            let same = |p: &&Prediction| p.column == of.against && p.measure == of.measure;
            self.predictions.iter().find(same).map(|p| p.real.ratio)
        };
        let before: Vec<Option<f64>> = self.predictions.iter().map(ratio).collect();
        for (prediction, before) in self.predictions.iter_mut().zip(before) {
            prediction.before = before;
        }
    }

    /// Returns how many predictions were right in a respect, beside a null model on the same cases.
    #[must_use]
    pub fn skill(&self, respect: Respect, null: Null) -> Skill {
        let both = |p: &Prediction| Some((p.is_right(respect)?, p.null_is_right(null, respect)?));
        let judged: Vec<(bool, bool)> = self.predictions.iter().filter_map(both).collect();
        Skill {
            cases: judged.len(),
            right: judged.iter().filter(|(right, _)| *right).count(),
            null_right: judged.iter().filter(|(_, null)| *null).count(),
        }
    }

    /// Returns how predicted and real changes meet, where real runs can tell.
    #[must_use]
    pub fn confusion(&self) -> Confusion {
        let mut counts = Confusion::default();
        for p in &self.predictions {
            let Some(real) = p.real.is_one() else { continue };
            let same_sign = (p.predicted.ratio > 1.0) == (p.real.ratio > 1.0);
            *match (real, p.is_change()) {
                (true, true) if same_sign => &mut counts.hits,
                (true, true) => &mut counts.wrong_sign,
                (true, false) => &mut counts.missed,
                (false, true) => &mut counts.false_alarms,
                (false, false) => &mut counts.quiet,
            } += 1;
        }
        counts
    }

    /// Returns for each certainty how many of the predictions came.
    #[must_use]
    pub fn reliability(&self) -> Vec<Reliability> {
        let up_to = |at: usize| CERTAINTIES.get(at + 1).copied().unwrap_or(f64::INFINITY);
        let bin = |(at, &from): (usize, &f64)| {
            let own = |p: &&Prediction| (from..up_to(at)).contains(&p.certainty);
            let own: Vec<&Prediction> = self.predictions.iter().filter(own).collect();
            let came = |p: &&&Prediction| (p.predicted.ratio > 1.0) == (p.real.ratio > 1.0);
            let sum: f64 = own.iter().map(|p| p.certainty).sum();
            Reliability {
                from,
                predicted: own.len(),
                mean: sum / own.len().max(1) as f64,
                came: own.iter().filter(came).count(),
            }
        };
        CERTAINTIES.iter().enumerate().map(bin).filter(|bin| bin.predicted > 0).collect()
    }
}

/// Returns the runs of a policy.
fn of_policy<'r>(runs: &'r [Run], policy: &str) -> Vec<&'r Run> {
    runs.iter().filter(|run| run.policy == policy).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(policy: &str, stalls: [u64; 5]) -> Vec<Run> {
        let run = |(seed, stalls): (usize, u64)| {
            let mut run = Run { policy: policy.into(), seed: seed as u64 + 1, ..Run::default() };
            run.counters.set("allocstall_normal", stalls);
            run
        };
        stalls.into_iter().enumerate().map(run).collect()
    }

    fn score(simulated: [u64; 5], real: [u64; 5]) -> Score {
        let base = [100, 110, 120, 130, 140];
        let columns =
            [("r", "s", None), ("r,x=1", "s,x=1", Some(0))].map(|(real, sim, against)| Column {
                real: real.into(),
                simulated: Some(sim.into()),
                against,
            });
        let predicted = [runs("s", base), runs("s,x=1", simulated)].concat();
        let real = [runs("r", base), runs("r,x=1", real)].concat();
        Score::of(&predicted, &real, &columns)
    }

    #[test]
    fn a_change_is_judged_by_direction_size_and_interval() {
        let halved = [50, 55, 60, 65, 70];
        let right = score(halved, [51, 54, 60, 66, 69]);
        let p = &right.predictions[0];
        assert!(p.direction == Some(true) && p.factor_of_two && p.in_interval, "{p:?}");
        // Guests scatter, and the model errs, by more than a factor of two.
        let tenth = score(halved, [5, 6, 6, 7, 7]);
        let p = &tenth.predictions[0];
        assert!(p.direction == Some(true) && !p.factor_of_two && !p.in_interval, "{p:?}");
        let same = score(halved, [99, 109, 119, 129, 139]);
        let p = &same.predictions[0];
        assert!(p.is_change() && p.factor_of_two && p.in_interval, "{p:?}");
        assert_eq!((same.confusion().false_alarms, p.noise > 0.4), (1, true));
        let wrong = score(halved, [300, 330, 360, 390, 420]);
        let p = &wrong.predictions[0];
        assert!(p.direction == Some(false) && !p.factor_of_two && !p.in_interval, "{p:?}");
        let counts = wrong.confusion();
        assert_eq!((counts.wrong_sign, counts.hits), (1, 0));
        assert_eq!(right.confusion().hits, 1);
    }

    #[test]
    fn a_score_stands_beside_that_of_nothing() {
        let (halved, same) = ([50, 55, 60, 65, 70], [101, 109, 121, 129, 141]);
        let third = [33, 36, 40, 43, 46];
        for (predicted, real, direction, factor, value) in [
            (halved, third, (1, 0), (1, 0), Some(1.0)),
            (halved, same, (0, 1), (0, 1), None),
            (same, third, (0, 0), (0, 0), Some(0.0)),
        ] {
            let score = score(predicted, real);
            let skill = |respect| score.skill(respect, Null::NothingChanges);
            let found = skill(Respect::Direction);
            assert_eq!((found.cases, found.value()), (1, value), "{score:?}");
            assert_eq!((found.right, found.null_right), direction, "{score:?}");
            let found = skill(Respect::FactorOfTwo);
            assert_eq!((found.right, found.null_right), factor, "{score:?}");
            assert_eq!(score.skill(Respect::Direction, Null::AsBefore).cases, 0);
        }
    }

    #[test]
    fn certain_predictions_are_counted_by_what_came() {
        let score = score([50, 55, 60, 65, 70], [51, 54, 60, 66, 69]);
        let found = score.reliability();
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].from, found[0].predicted, found[0].came), (0.9, 1, 1));
    }

    #[test]
    fn few_real_runs_are_expected_to_scatter_more() {
        let spread = [50, 100, 150, 200, 250];
        let p = &score(spread, spread).predictions[0];
        assert!(p.expected.0 < p.predicted.ratio && p.expected.1 > p.predicted.ratio, "{p:?}");
    }

    /// Of ten simulations a tenth less is a change; of a guest, which scatters by a third, it is not.
    #[test]
    fn what_guests_scatter_by_is_not_predicted() {
        let p = &score([88, 98, 107, 117, 126], [100, 110, 120, 130, 140]).predictions[0];
        assert!(!p.is_change() && p.direction == Some(true), "{p:?}");
    }

    #[test]
    fn no_change_is_a_prediction_too() {
        let noise = [103, 107, 124, 126, 144];
        let direction = |real| score(noise, real).predictions[0].direction;
        assert_eq!(direction([98, 113, 118, 133, 137]), Some(true));
        assert_eq!(direction([50, 55, 60, 65, 70]), Some(false));
    }

    #[test]
    fn two_runs_have_a_size_and_no_direction_of_their_own() {
        let column = |real: &str, against| Column {
            real: real.into(),
            simulated: Some(real.into()),
            against,
        };
        let columns = [column("a", None), column("b", Some(0))];
        let all =
            [runs("a", [100, 110, 120, 130, 140]), runs("b", [102, 108, 121, 131, 141])].concat();
        let two: Vec<Run> = all.iter().filter(|run| run.seed <= 2).cloned().collect();
        let p = &Score::of(&all, &two, &columns).predictions[0];
        assert_eq!((p.real.is_one(), p.direction, p.factor_of_two), (None, None, true));
        let one: Vec<Run> = all.iter().filter(|run| run.seed <= 1).cloned().collect();
        assert_eq!(Score::of(&all, &one, &columns).unjudged, ["b against a: fewer than 2 runs"]);
    }
}
