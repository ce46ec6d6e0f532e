//! `pageblock verify`: guided replay of a recording.

use pageblock_measure::certificate::verification::{CASES_JUDGED, DRAINS};
use pageblock_measure::{Grades, Verification};
use pageblock_plan::policy::NamedPolicy;
use pageblock_plan::verify::verify;
use pageblock_plan::{Session, grade};

use crate::plan::{Format, VerifyPlan};
use crate::progress::terminal;
use crate::{Verdict, interrupt, output};

pub(crate) fn run(plan: &VerifyPlan) -> anyhow::Result<Verdict> {
    let mut session = Session::open(&plan.recording, &plan.capture, &terminal())?;
    interrupt::watch();
    let own = NamedPolicy::recorded(&session.recording);
    let judged = plan.policy.as_ref().unwrap_or(&own);
    let verification = verify(&session, &judged.name, &judged.policy, plan.mismatches)?;
    let grades = match plan.graded {
        true => grade::make(&mut session, &own, &verification)?,
        false => None,
    };
    let refusal = refusal(&verification, plan).or_else(|| below(grades.as_ref(), plan));
    match plan.format {
        Format::Json => output::print(&grade::to_json(verification, grades))?,
        Format::Text => {
            let (graded, mismatches) = (grades.as_ref(), plan.mismatches);
            output::print(&pageblock_report::verify::print(&verification, graded, mismatches))?;
        }
    }
    if interrupt::requested() {
        return Ok(Verdict::Interrupted);
    }
    let Some(reason) = refusal else { return Ok(Verdict::Yes) };
    output::note(&format!("verify: {reason}\n"));
    Ok(Verdict::No)
}

/// Returns why a grade fails the plan, if it does.
fn below(grades: Option<&Grades>, plan: &VerifyPlan) -> Option<String> {
    let (min, grades) = (plan.min_grade?, grades?);
    let grade = grades.of(grades.better()).grade;
    (grade > min).then(|| format!("--min-grade {min:?}: the grade is {grade:?}"))
}

/// Returns why a verification fails the plan, if it does: because nothing could be judged, because a requested
/// share is unknown, or because a share is too small.
fn refusal(verification: &Verification, plan: &VerifyPlan) -> Option<String> {
    let asked = [
        ("--min-shape", plan.min_shape),
        ("--min-exact", plan.min_exact),
        ("--min-drains", plan.min_drains),
    ];
    let asked_for = asked.iter().find(|(_, min)| *min > 0.0);
    if let Some(first) = verification.main_gap() {
        let gap = pageblock_report::verify::gap(first);
        if verification.is_void() {
            return Some(format!("nothing is judged: {gap}"));
        }
        if let Some((option, min)) = asked_for {
            return Some(format!("{option} {min}: the recording has gaps: {gap}"));
        }
    }
    let share = |part: u64, cases: u64| part as f64 / cases as f64;
    let kinds = verification.kinds.iter().map(|(name, kind)| (name.as_str(), kind));
    let shapes = kinds.clone().map(|(name, kind)| (asked[0], name, kind, kind.shape, "shape"));
    let exact = kinds.map(|(name, kind)| (asked[1], name, kind, kind.exact, "exact"));
    let drains = &verification.drains;
    let drains = [(asked[2], DRAINS, drains, drains.shape, "both")];
    let judged =
        shapes.chain(exact).chain(drains).filter(|(.., kind, _, _)| kind.cases >= CASES_JUDGED);
    let mut small = judged.filter(|&((_, min), _, kind, part, _)| share(part, kind.cases) < min);
    small.next().map(|((option, min), name, kind, part, what)| {
        let cases = kind.cases;
        format!(
            "{option} {min}: {name}: {part} of {cases} ({what}), a share of {:.6}",
            share(part, cases)
        )
    })
}

#[cfg(test)]
mod tests {
    use pageblock_measure::certificate::verification::{Gap, KindResult};
    use pageblock_recording::CaptureOptions;

    use super::*;

    fn plan(min_shape: f64, min_exact: f64, min_drains: f64) -> VerifyPlan {
        VerifyPlan {
            recording: "recording".into(),
            capture: CaptureOptions::default(),
            policy: None,
            min_shape,
            min_exact,
            min_drains,
            min_grade: None,
            graded: false,
            mismatches: 0,
            format: Format::Text,
        }
    }

    fn kind(cases: u64, shape: u64, exact: u64) -> KindResult {
        KindResult { cases, shape, exact, explained: 0 }
    }

    #[test]
    fn only_kinds_with_enough_cases_are_judged() {
        let mut verification = Verification::default();
        *verification.kind_mut("few") = kind(99, 0, 0);
        *verification.kind_mut("many") = kind(100, 99, 98);
        assert_eq!(refusal(&verification, &plan(0.99, 0.98, 0.0)), None);
        assert!(refusal(&verification, &plan(0.991, 0.98, 0.0)).is_some());
        let exact = refusal(&verification, &plan(0.99, 0.981, 0.0)).expect("0.98 is below");
        assert_eq!(exact, "--min-exact 0.981: many: 98 of 100 (exact), a share of 0.980000");
    }

    #[test]
    fn drains_are_judged_by_those_in_both_recording_and_replay() {
        let verification = Verification { drains: kind(200, 190, 0), ..Verification::default() };
        assert_eq!(refusal(&verification, &plan(1.0, 1.0, 0.95)), None);
        assert!(refusal(&verification, &plan(0.0, 0.0, 0.951)).is_some());
    }

    /// An unknown share fails every bound; if nothing is judged, verification fails even without bounds.
    #[test]
    fn a_gap_fails_every_bound() {
        let gaps = vec![Gap::MissingEvent { event: "mm_page_alloc_extfrag".into() }];
        let mut verification = Verification { gaps, ..Verification::default() };
        let nothing = refusal(&verification, &plan(0.0, 0.0, 0.0)).expect("nothing is judged");
        assert!(nothing.starts_with("nothing is judged: no mm_page_alloc_extfrag"), "{nothing}");
        *verification.kind_mut("many") = kind(100, 100, 100);
        assert_eq!(refusal(&verification, &plan(0.0, 0.0, 0.0)), None);
        for plan in [plan(0.5, 0.0, 0.0), plan(0.0, 0.5, 0.0), plan(0.0, 0.0, 0.5)] {
            let reason = refusal(&verification, &plan).expect("a bound was asked for");
            assert!(reason.contains(" 0.5: the recording has gaps: no mm_page"), "{reason}");
        }
    }
}
