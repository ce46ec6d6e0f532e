//! Which of the switches in which two kernels differ makes a difference: what each adds in the order of versions, what it does
//! alone, and what is lost without it.
//!
//! Effects are differences of means, which add up; each has Welch's interval and the p of rank sums. Those in the order of
//! versions are one family (Holm).

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

use super::verdict::LEVEL;
use crate::certificate::Certified;
use crate::certificate::across::Limit;
use crate::statistics::{multiple, rank_sum, stats};

/// A set of switches that are changed together, mostly one, and the kernels that tell what it does. Kernels are numbers; 0 is the
/// first kernel of the bisection.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Step {
    /// What is changed: `pcp_type=reread`.
    pub change: String,
    /// The kernel that brought it; `None` for what was set by hand.
    pub since: Option<String>,
    /// The kernel with this change and all before it. That of the last step is the second kernel of the bisection.
    pub kernel: usize,
    /// The first kernel with this change alone; `None` where that is no kernel.
    pub kernel_alone: Option<usize>,
    /// The second kernel without this change; `None` where that is no kernel.
    pub kernel_without: Option<usize>,
}

/// What two kernels differ in.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Effect {
    /// The difference of the means, in the unit of the measure.
    pub difference: f64,
    /// Its 95 % interval; `None` where one of the two was drawn once, or did not finish.
    pub interval: Option<(f64, f64)>,
    /// The p of rank sums; `None` as above, and where both have the same events.
    pub p: Option<f64>,
}

/// What a step does to a measure.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct StepEffect {
    /// The step.
    #[serde(flatten)]
    pub step: Step,
    /// Whether it changes no event: not alone, not where it comes in the order of versions, and not if it is left out.
    pub is_inert: bool,
    /// What it adds in the order of versions; these add up to the whole.
    pub added: Effect,
    /// What it does to the first kernel; `None` where that was not measured.
    pub alone: Option<Effect>,
    /// What the second kernel has by it; `None` where that was not measured.
    pub lost_without: Option<Effect>,
    /// Whether what it adds is decided.
    pub is_decided: bool,
    /// Whether what it does depends on the other switches: alone and left out it does not do the same.
    pub interacts: bool,
}

/// A measure under two kernels, and what the switches between them contribute.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Bisection {
    /// What is measured, with its unit.
    pub measure: String,
    /// The means under both kernels.
    pub means: (f64, f64),
    /// The whole difference.
    pub whole: Effect,
    /// Whether the whole difference is decided.
    pub is_decided: bool,
    /// The steps in the order of versions.
    pub steps: Vec<StepEffect>,
}

/// The answer of a bisection.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Answer {
    /// What was run, and on what.
    pub subject: String,
    /// Both kernels.
    pub kernels: (String, String),
    /// The draws of each kernel that stands for itself, the fewest; replays that are alike are one.
    pub draws: usize,
    /// What they are called: `seed` or `draw`.
    pub each: &'static str,
    /// How many runs were made.
    pub runs: usize,
    /// The seeds under which kernels with equal events count as one.
    pub probes: usize,
    /// The kernels with runs that did not finish: nothing is decided of what they are part of.
    pub unfinished: Vec<String>,
    /// One for each measure that every kernel has.
    pub measures: Vec<Bisection>,
    /// How well the recorded kernel's own policy reproduced the recording.
    pub certificate: Option<Certified>,
}

/// What was drawn of a kernel.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Drawn {
    /// The values of the measure.
    pub values: Vec<f64>,
    /// Whether some run did not finish: its counts are not comparable with those of runs that did.
    pub unfinished: bool,
}

/// Attributes the difference of a measure between two kernels. `same_as` names for each kernel the one that has the same events
/// (itself where none has), `drawn` has what was drawn of each kernel that stands for itself, and `limit` what a difference
/// exceeds where these are replays.
#[must_use]
pub fn attribute(
    measure: &str,
    steps: &[Step],
    same_as: &[usize],
    drawn: &[Drawn],
    limit: Option<Limit>,
) -> Bisection {
    debug_assert!(!steps.is_empty() && same_as.len() == drawn.len());
    let last = steps.last().map_or(0, |step| step.kernel);
    let of = |kernel: usize| &drawn[same_as[kernel]];
    let effect = |from: usize, to: usize| match same_as[from] == same_as[to] {
        true => Effect { difference: 0.0, interval: Some((0.0, 0.0)), p: None },
        false => Effect::between(of(from), of(to)),
    };
    let before = |at: usize| at.checked_sub(1).map_or(0, |at| steps[at].kernel);
    let is_same = |a: usize, b: usize| same_as[a] == same_as[b];
    let mut found: Vec<StepEffect> = steps
        .iter()
        .enumerate()
        .map(|(at, step)| StepEffect {
            is_inert: is_same(before(at), step.kernel)
                && step.kernel_alone.is_none_or(|alone| is_same(0, alone))
                && step.kernel_without.is_none_or(|without| is_same(without, last)),
            added: effect(before(at), step.kernel),
            alone: step.kernel_alone.map(|alone| effect(0, alone)),
            lost_without: step.kernel_without.map(|without| effect(without, last)),
            is_decided: false,
            interacts: false,
            step: step.clone(),
        })
        .collect();
    let base = stats::amean(&of(0).values);
    let decides = |effect: &Effect, p: f64| {
        p <= LEVEL && limit.is_none_or(|limit| limit.is_exceeded(effect.difference / base))
    };
    let tested: Vec<usize> = (0..found.len()).filter(|&at| found[at].added.p.is_some()).collect();
    let p: Vec<f64> = tested.iter().filter_map(|&at| found[at].added.p).collect();
    for (&at, p) in tested.iter().zip(multiple::holm(&p)) {
        found[at].is_decided = decides(&found[at].added, p);
    }
    let active = found.iter().filter(|step| !step.is_inert).count();
    for step in &mut found {
        step.interacts = match (&step.alone, &step.lost_without) {
            (Some(alone), Some(lost)) => alone.differs(lost, LEVEL / active.max(1) as f64),
            _ => false,
        };
    }
    let whole = effect(0, last);
    let is_decided = whole.p.is_some_and(|p| decides(&whole, p));
    let means = (base, stats::amean(&of(last).values));
    Bisection { measure: measure.to_owned(), means, whole, is_decided, steps: found }
}

impl Effect {
    fn between(from: &Drawn, to: &Drawn) -> Self {
        let is_tested = |of: &Drawn| of.values.len() > 1 && !of.unfinished;
        let tested = is_tested(from) && is_tested(to);
        let (from, to) = (from.values.as_slice(), to.values.as_slice());
        let difference = stats::amean(to) - stats::amean(from);
        if !tested {
            return Self { difference, interval: None, p: None };
        }
        let [a, b] = [from, to].map(|values| stats::stddev(values).powi(2) / values.len() as f64);
        let error = (a + b).sqrt();
        let freedom = match a + b > 0.0 {
            true => {
                (a + b).powi(2) / (a * a / (from.len() - 1) as f64 + b * b / (to.len() - 1) as f64)
            }
            false => 1.0,
        };
        let t = StudentsT::new(0.0, 1.0, freedom)
            .map_or(f64::NAN, |t| t.inverse_cdf(1.0 - LEVEL / 2.0));
        let interval = Some((difference - t * error, difference + t * error));
        Self { difference, interval, p: Some(rank_sum::p(from, to)) }
    }

    /// Reports whether two effects differ by more than chance, as far as their intervals tell.
    fn differs(&self, other: &Self, level: f64) -> bool {
        let (Some(own), Some(others)) = (self.interval, other.interval) else { return false };
        let error = |(low, high): (f64, f64)| {
            (high - low) / 2.0 / Normal::standard().inverse_cdf(1.0 - LEVEL / 2.0)
        };
        let error = error(own).hypot(error(others));
        let apart = (self.difference - other.difference).abs();
        apart > error * Normal::standard().inverse_cdf(1.0 - level / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certificate::Support;

    fn step(change: &str, kernel: usize, alone: usize, without: usize) -> Step {
        let (change, since) = (change.to_owned(), Some("linux-6.10".to_owned()));
        Step { change, since, kernel, kernel_alone: Some(alone), kernel_without: Some(without) }
    }

    fn around(middle: f64) -> Drawn {
        drawn((0..10).map(|at| middle + f64::from(at) - 4.5).collect())
    }

    fn drawn(values: Vec<f64>) -> Drawn {
        Drawn { values, unfinished: false }
    }

    /// a halves, b does nothing, c takes 20 only if a is there.
    #[test]
    fn effects_add_up_and_interactions_are_told() {
        let steps = [step("a", 1, 1, 5), step("b", 2, 3, 4), step("c", 4, 6, 2)];
        // 0 from, 1 a, 2 a+b = a, 3 b = from, 4 all = a+c, 5 b+c = from, 6 c = from.
        let same_as = [0, 1, 1, 0, 4, 0, 0];
        let none = Drawn::default;
        let values = [around(100.0), around(50.0), none(), none(), around(30.0), none(), none()];
        let found = attribute("pages", &steps, &same_as, &values, None);
        let added: Vec<f64> = found.steps.iter().map(|step| step.added.difference).collect();
        assert_eq!(added, [-50.0, 0.0, -20.0]);
        assert_eq!((found.means, found.whole.difference), ((100.0, 30.0), -70.0));
        let of = |tell: fn(&StepEffect) -> bool| found.steps.iter().map(tell).collect::<Vec<_>>();
        assert_eq!(of(|step| step.is_inert), [false, true, false]);
        assert_eq!(of(|step| step.is_decided), [true, false, true]);
        // Alone a takes 50, and without it 70 are lost.
        assert_eq!(of(|step| step.interacts), [true, false, true]);
    }

    #[test]
    fn chance_decides_nothing_and_a_replay_has_its_limit() {
        let steps = [step("a", 1, 1, 0)];
        let one =
            |values: &[Drawn], limit| attribute("pages", &steps, &[0, 1], values, limit).is_decided;
        assert!(!one(&[around(100.0), around(100.5)], None));
        let values = [around(100.0), around(80.0)];
        let limit = |support| Some(Limit { support: Some(support), least_ratio: Some(1.01) });
        let margin = |margin_permyriad| limit(Support::Supported { margin_permyriad });
        assert!(one(&values, None) && one(&values, margin(1900)) && !one(&values, margin(2100)));
        assert!(!one(&values, limit(Support::Rare)));
        // One draw of each.
        assert!(!one(&[drawn(vec![100.0]), drawn(vec![1.0])], None));
        // Livelocks, whose counts end early.
        let ended = Drawn { unfinished: true, ..around(80.0) };
        assert!(!one(&[around(100.0), ended], None));
    }

    /// Student's t by hand: means 2 and 5, variances 1 and 4, three values each: t = 2.78 at 2.94 degrees of freedom.
    #[test]
    fn the_interval_is_welchs() {
        let found = Effect::between(&drawn(vec![1.0, 2.0, 3.0]), &drawn(vec![3.0, 5.0, 7.0]));
        let (low, high) = found.interval.unwrap();
        assert!((found.difference - 3.0).abs() < 1e-12 && ((low + high) / 2.0 - 3.0).abs() < 1e-9);
        let half = (high - low) / 2.0;
        // (5/3)^2 / ((1/3)^2/2 + (4/3)^2/2) = 2.941; t(0.975) = 3.218 there.
        assert!((half - 3.218 * (5.0_f64 / 3.0).sqrt()).abs() < 0.01, "{half}");
    }
}
