//! What is said of policies whose runs did not finish.

use super::common::Column;
use crate::run::Run;
use crate::run::policies::{Policies, origins};

/// Returns a line for each policy with runs that ended early: their number, and how the first of them
/// ended. Empty if every run finished.
#[must_use]
pub fn notes(policies: &Policies<'_>) -> Vec<String> {
    let of_policy = |policy: &Vec<&Run>| {
        let early = || policy.iter().filter_map(|run| Some((run.seed, run.ended.as_ref()?)));
        let (seed, first) = early().next()?;
        let origin = origins(policy.iter().copied());
        let draw = policy[0].origin.number();
        let Column { kernel, label } = Column::of_policy(&policy[0].policy);
        Some(format!(
            "{kernel} {label}: {} of {} runs did not finish; {draw} {seed}: {first} ({origin}). Counts of \
             such runs are not comparable with those of runs that finished.",
            early().count(),
            policy.len()
        ))
    };
    policies.iter().filter_map(of_policy).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::ended::{EndReason, Ended};

    fn ended(why: EndReason) -> Ended {
        let request = "order 2, GFP_KERNEL".into();
        Ended { why, task: "user".into(), request, since_ms: 12_300, at_ms: 132_300 }
    }

    #[test]
    fn notes_count_by_policy() {
        let run = |policy: &str, seed, ended| Run {
            policy: policy.into(),
            seed,
            ended,
            ..Run::default()
        };
        let runs = [
            run("linux-6.9", 1, None),
            run("linux-6.9", 2, None),
            run("linux-6.18,nofragment=defrag_mode", 1, None),
            run("linux-6.18,nofragment=defrag_mode", 2, Some(ended(EndReason::Livelock))),
        ];
        let notes = notes(&Policies::of(&runs));
        assert_eq!(notes.len(), 1);
        assert!(
            notes[0].starts_with(
                "linux-6.18 nofragment=defrag_mode: 1 of 2 runs did not finish; seed 2: livelock, user"
            ),
            "{}",
            notes[0]
        );
    }
}
