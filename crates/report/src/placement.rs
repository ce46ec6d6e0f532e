//! Where real runs lie among simulations, in words.

use pageblock_measure::compare::placement::{Place, Placement, most_beyond, simulations_needed};
use pageblock_measure::compare::summary::{Summary, SummaryRow};

/// Reports whether a policy is real and the baseline simulated, or the other way round.
pub(crate) fn is_placed(summary: &Summary, at: usize) -> bool {
    summary.measures.iter().any(|measure| measure.cells[at].placement.is_some())
}

/// Says where the median of real runs lies among simulations.
pub(crate) fn placed_at(of: &Placement) -> String {
    let all = of.below + of.above;
    match of.place {
        Place::Within => "within".to_owned(),
        Place::Below if of.below == 0 => "below all".to_owned(),
        Place::Above if of.above == 0 => "above all".to_owned(),
        Place::Below => format!("above {} of {all}", of.below),
        Place::Above => format!("below {} of {all}", of.above),
        Place::Unknown => "not known".to_owned(),
    }
}

/// Says in how many measures the real runs lie where simulations do.
/// `name` and `base` are the letters of the policy and of the baseline.
pub(crate) fn placed(summary: &Summary, at: usize, [name, base]: [&str; 2]) -> String {
    let places: Vec<(&SummaryRow, Placement)> =
        summary.measures.iter().filter_map(|m| Some((m, m.cells[at].placement?))).collect();
    let (simulations, real) = match summary.real[at] {
        true => (summary.runs[summary.baseline], summary.runs[at]),
        false => (summary.runs[at], summary.runs[summary.baseline]),
    };
    let [real_name, other] = if summary.real[at] { [name, base] } else { [base, name] };
    let text = format!(
        "{real_name} is real and {other} simulated: no seed pairs them, and nothing is tested for a change.\n"
    );
    if places.iter().all(|(_, place)| place.place == Place::Unknown) {
        let (needed, many) = (simulations_needed(real), if real == 1 { "" } else { "s" });
        return format!(
            "{text}{simulations} simulations cannot tell where {real} real run{many} may lie; {needed} can (--seeds {needed})\n"
        );
    }
    let outside: Vec<String> = places
        .iter()
        .filter(|(_, place)| matches!(place.place, Place::Below | Place::Above))
        .map(|(measure, place)| format!("{} ({})", measure.name, placed_at(place)))
        .collect();
    let within = places.len() - outside.len();
    let outside = match outside.as_slice() {
        [] => String::new(),
        some => format!("; outside: {}", some.join(", ")),
    };
    let beyond = match most_beyond(simulations, real).unwrap_or(0) {
        0 => "none".to_owned(),
        most => format!("at most {most}"),
    };
    format!(
        "{text}In {within} of {} measures the real median lies among the simulations{outside}\n\
         {real} real and {simulations} simulated runs tell it apart where {beyond} of the simulations are beyond it, by chance in 5 % of measures\n",
        places.len()
    )
}

#[cfg(test)]
mod tests {
    use pageblock_measure::compare::common::Options;
    use pageblock_measure::{Origin, Run};

    use super::*;
    use crate::summary::print;

    fn runs(policy: &str, origin: Origin, stalls: u64, count: u64) -> Vec<Run> {
        let run = |seed| {
            let mut run = Run { policy: policy.into(), origin, seed, ..Run::default() };
            run.workload = "thpfioscale".into();
            run.counters.set("allocstall_normal", stalls + seed);
            run.counters.set("pgsteal_kswapd", 700 + 2 * stalls);
            run
        };
        (1..=count).map(run).collect()
    }

    #[test]
    fn real_runs_are_looked_for_among_simulations() {
        let compared = |seeds, real: u64| {
            let mut all = runs("linux-6.12", Origin::Simulated, 1000, seeds);
            all.extend(runs("real-6.12", Origin::Real, 1005, real));
            print(&Summary::of_runs(&all, &Options::default()).unwrap())
        };
        let text = compared(20, 3);
        let says = "\
B is real and A simulated: no seed pairs them, and nothing is tested for a change.
In 1 of 2 measures the real median lies among the simulations; outside: Pages reclaimed (above all)
3 real and 20 simulated runs tell it apart where none of the simulations are beyond it, by chance in 5 % of measures
";
        assert!(text.contains(says), "{text}");
        assert!(text.contains("Allocation stalls  1010  1007    -0 %  within\n"), "{text}");
        let says = "\n20 simulations cannot tell where 1 real run may lie; 39 can (--seeds 39)\n";
        let text = compared(20, 1);
        assert!(text.contains(says) && text.contains("not known"), "{text}");
    }
}
