//! Predictions of simulations beside what real kernels did: the direction of each change, its size, and its interval.

use serde::Serialize;

use crate::catalogue::deciding;
use crate::compare::seeds::MIN_PAIRS;
use crate::run::Run;
use crate::run::policies::units_agree;
use crate::statistics::paired;
use crate::value::error::Error;

/// A column that is predicted: how it is named in both kinds of runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Column {
    /// The policy of the real runs.
    pub real: String,
    /// The policy of the simulated ones; `None` if the simulation does not know what was set.
    pub simulated: Option<String>,
    /// The column that it is compared with; `None` for one that nothing is predicted of.
    pub against: Option<usize>,
}

/// A change: the median of the ratios to the baseline, with its 95 % bootstrap interval.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Change {
    /// The median of the ratios.
    pub ratio: f64,
    /// The least of the interval.
    pub least: f64,
    /// The most of the interval.
    pub most: f64,
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
    /// The ratios between which the real median is expected in 95 of 100 cases: it is of so many runs only, which are not
    /// paired.
    pub expected: (f64, f64),
    /// What the real kernel did.
    pub real: Change,
    /// Whether the direction was right: that of a change that was predicted, or that there is none.
    pub direction: bool,
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

impl Change {
    fn of(base: &[f64], new: &[f64]) -> Result<Option<Self>, Error> {
        let result = paired::compare(base, new)?;
        let change =
            Self { ratio: result.median_ratio, least: result.interval.0, most: result.interval.1 };
        let numbers = [change.ratio, change.least, change.most];
        Ok(numbers.iter().all(|n| n.is_finite() && *n > 0.0).then_some(change))
    }

    /// Reports whether it is a change in one direction: its interval is on one side of 1.
    #[must_use]
    pub fn is_one(&self) -> bool {
        self.least > 1.0 || self.most < 1.0
    }

    fn off_by(&self, other: &Self) -> f64 {
        (self.ratio.ln() - other.ratio.ln()).abs()
    }
}

impl Prediction {
    fn judge(
        names: [&str; 2],
        measure: &'static str,
        (predicted, expected): (Change, (f64, f64)),
        real: Change,
    ) -> Self {
        let direction = match predicted.is_one() {
            true => real.ratio != 1.0 && (predicted.ratio > 1.0) == (real.ratio > 1.0),
            false => !real.is_one(),
        };
        Self {
            column: names[0].to_owned(),
            against: names[1].to_owned(),
            measure,
            predicted,
            expected,
            real,
            direction,
            factor_of_two: predicted.off_by(&real) <= 2.0_f64.ln(),
            in_interval: (expected.0..=expected.1).contains(&real.ratio),
        }
    }
}

impl Score {
    /// Judges simulated runs by real ones.
    ///
    /// # Errors
    /// [`Error::NoRuns`] if a column has none.
    pub fn of(predicted: &[Run], real: &[Run], columns: &[Column]) -> Result<Self, Error> {
        let mut score = Self::default();
        for column in columns {
            let Some(against) = column.against.and_then(|at| columns.get(at)) else { continue };
            let names = [column.real.as_str(), against.real.as_str()];
            let (Some(new), Some(base)) = (&column.simulated, &against.simulated) else {
                score
                    .unjudged
                    .push(format!("{}: the simulation does not know what is set", names[0]));
                continue;
            };
            score.column(names, pair(predicted, new, base), pair(real, names[0], names[1]))?;
        }
        let off = |p: &Prediction| p.predicted.off_by(&p.real);
        score.predictions.sort_by(|a, b| off(a).total_cmp(&off(b)));
        Ok(score)
    }

    fn column(
        &mut self,
        names: [&str; 2],
        predicted: [Vec<&Run>; 2],
        real: [Vec<&Run>; 2],
    ) -> Result<(), Error> {
        self.runs = (predicted[0].len(), real[0].len());
        if [&predicted[0], &real[0]].iter().any(|runs| runs.len() < MIN_PAIRS) {
            let why = format!("fewer than {MIN_PAIRS} runs");
            self.unjudged.push(format!("{} against {}: {why}", names[0], names[1]));
            return Ok(());
        }
        let real_runs = real[0].len();
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
            let changes = (Change::of(&all[1], &all[0])?, Change::of(&all[3], &all[2])?);
            match changes {
                (Some(predicted), Some(real)) => {
                    let expected = paired::median_of_others(&all[1], &all[0], real_runs);
                    let predicted = (predicted, expected);
                    self.predictions.push(Prediction::judge(
                        names,
                        &measure.label,
                        predicted,
                        real,
                    ));
                }
                _ => self.unjudged.push(format!("{place}: some runs have none")),
            }
        }
        Ok(())
    }

    /// Returns how many predictions were right in a respect.
    #[must_use]
    pub fn count(&self, right: impl Fn(&Prediction) -> bool) -> usize {
        self.predictions.iter().filter(|prediction| right(prediction)).count()
    }
}

/// Returns the runs of a policy and of its baseline with the seeds that both ran, in the order of the seeds.
fn pair<'r>(runs: &'r [Run], new: &str, base: &str) -> [Vec<&'r Run>; 2] {
    let of = |policy: &str| {
        let mut list: Vec<&Run> = runs.iter().filter(|run| run.policy == policy).collect();
        list.sort_by_key(|run| run.seed);
        list
    };
    let both = [of(new), of(base)];
    let in_both = |seed: u64| both.iter().all(|list| list.iter().any(|run| run.seed == seed));
    both.clone().map(|list| list.into_iter().filter(|run| in_both(run.seed)).collect())
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
        Score::of(&predicted, &real, &columns).unwrap()
    }

    #[test]
    fn a_change_is_judged_by_direction_size_and_interval() {
        let halved = [50, 55, 60, 65, 70];
        let right = score(halved, [51, 54, 60, 66, 69]);
        let p = &right.predictions[0];
        assert!(p.direction && p.factor_of_two && p.in_interval, "{p:?}");
        let too_small = score(halved, [99, 109, 119, 129, 139]);
        let p = &too_small.predictions[0];
        assert!(p.direction && p.factor_of_two && !p.in_interval, "{p:?}");
        let wrong = score(halved, [300, 330, 360, 390, 420]);
        let p = &wrong.predictions[0];
        assert!(!p.direction && !p.factor_of_two && !p.in_interval, "{p:?}");
        assert_eq!(wrong.count(|p| p.direction), 0);
    }

    #[test]
    fn few_real_runs_are_expected_to_scatter_more() {
        let spread = [50, 100, 150, 200, 250];
        let p = &score(spread, spread).predictions[0];
        assert!(p.expected.0 < p.predicted.least && p.expected.1 > p.predicted.most, "{p:?}");
    }

    #[test]
    fn no_change_is_a_prediction_too() {
        let noise = [103, 107, 124, 126, 144];
        assert!(score(noise, [98, 113, 118, 133, 137]).predictions[0].direction);
        assert!(!score(noise, [50, 55, 60, 65, 70]).predictions[0].direction);
    }

    #[test]
    fn few_runs_are_not_judged() {
        let column = |real: &str, against| Column {
            real: real.into(),
            simulated: Some(real.into()),
            against,
        };
        let runs = [runs("a", [1; 5]), runs("b", [2; 5])[..3].to_vec()].concat();
        let score = Score::of(&runs, &runs, &[column("a", None), column("b", Some(0))]).unwrap();
        assert_eq!(score.unjudged, ["b against a: fewer than 5 runs"]);
    }
}
