//! `pageblock verify`: guided replay of a recording.

use pageblock_lab::VerifyOptions;
use pageblock_lab::machine::recorded_preset;
use pageblock_measure::Verification;
use pageblock_measure::verification::KindResult;

use crate::plan::{Format, VerifyPlan};
use crate::progress::Progress;
use crate::session::Session;
use crate::{Verdict, output};

/// Kinds with fewer decisions say too little to be judged.
const CASES_JUDGED: u64 = 100;

pub(crate) fn run(plan: &VerifyPlan) -> anyhow::Result<Verdict> {
    let session = Session::open(&plan.recording)?;
    let own = recorded_preset(&session.recording);
    let (name, policy) = match &plan.policy {
        Some(named) => (named.name.as_str(), named.policy),
        None => (own.name, own.policy),
    };
    let verification = verify(&session, name, &policy, plan.mismatches)?;
    match plan.format {
        Format::Json => output::print(&verification.to_json())?,
        Format::Text => {
            output::print(&pageblock_report::verify::print(&verification, plan.mismatches))?;
        }
    }
    Ok(judge(&verification, plan))
}

/// Verifies an opened recording under a policy, with a progress bar.
pub(crate) fn verify(
    session: &Session,
    name: &str,
    policy: &pageblock::policy::Policy,
    mismatches: usize,
) -> anyhow::Result<Verification> {
    let bar = Progress::new("verifying", 0, "events");
    let options = VerifyOptions { mismatches, ..VerifyOptions::default() };
    let Session { recording, columnar, .. } = session;
    let result =
        pageblock_lab::verify(recording, columnar, policy, name, options, &mut |done, total| {
            bar.resize(total);
            bar.set(done);
        })?;
    Ok(result)
}

fn judge(verification: &Verification, plan: &VerifyPlan) -> Verdict {
    let good = |kind: &KindResult, min_shape: f64, min_exact: f64| {
        let share = |part: u64| part as f64 / kind.cases as f64;
        kind.cases < CASES_JUDGED
            || (share(kind.shape) >= min_shape && share(kind.exact) >= min_exact)
    };
    let mut kinds = verification.kinds.values();
    let good = kinds.all(|kind| good(kind, plan.min_shape, plan.min_exact))
        && good(&verification.drains, plan.min_drains, 0.0);
    if good { Verdict::Yes } else { Verdict::No }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(min_shape: f64, min_exact: f64, min_drains: f64) -> VerifyPlan {
        VerifyPlan {
            recording: "recording".into(),
            policy: None,
            min_shape,
            min_exact,
            min_drains,
            mismatches: 0,
            format: Format::Text,
        }
    }

    #[test]
    fn only_kinds_with_enough_cases_are_judged() {
        let mut verification = Verification::default();
        *verification.kind_mut("few") = KindResult { cases: 99, shape: 0, exact: 0 };
        *verification.kind_mut("many") = KindResult { cases: 100, shape: 99, exact: 98 };
        assert_eq!(judge(&verification, &plan(0.99, 0.98, 0.0)), Verdict::Yes);
        assert_eq!(judge(&verification, &plan(0.991, 0.98, 0.0)), Verdict::No);
        assert_eq!(judge(&verification, &plan(0.99, 0.981, 0.0)), Verdict::No);
    }

    #[test]
    fn drains_are_judged_by_those_that_both_sides_make() {
        let drains = KindResult { cases: 200, shape: 190, exact: 0 };
        let verification = Verification { drains, ..Verification::default() };
        assert_eq!(judge(&verification, &plan(1.0, 1.0, 0.95)), Verdict::Yes);
        assert_eq!(judge(&verification, &plan(0.0, 0.0, 0.951)), Verdict::No);
    }
}
