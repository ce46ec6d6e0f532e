//! What the noise of simulations leaves out of a prediction: real runs scatter more than simulated ones, and the model errs.
//!
//! Both are standard deviations of the logarithm of a ratio, normally distributed. `docs/predictions.py --noise` estimates
//! them from the series that were predicted without them, and says whether this table is what it finds.

/// Measure; a run of a real kernel around its column's median; the prediction around the real ratio, beyond that.
#[rustfmt::skip]
const DEVIATIONS: [(&str, f64, f64); 8] = [
    ("Allocation stalls", 0.324, 0.403),
    ("Fragmenting fallbacks, movable", 0.672, 0.517),
    ("Fragmenting fallbacks, reclaimable", 0.553, 0.000),
    ("Fragmenting fallbacks, unmovable", 0.585, 1.097),
    ("Free in too small blocks [%]", 0.112, 0.071),
    ("Huge pages on fault [%]", 0.085, 0.129),
    ("Pages reclaimed", 0.134, 0.104),
    ("Pages scanned by compaction", 0.570, 0.608),
];

/// Returns the standard deviation of the logarithm of a real ratio around a simulated one, of so many real runs of each
/// side. A measure that no series had gets the noisiest row.
///
/// # Panics
/// Without a real run of each side, in builds with debug assertions.
#[must_use]
pub fn deviation(measure: &str, runs: (usize, usize)) -> f64 {
    debug_assert!(runs.0 > 0 && runs.1 > 0, "{runs:?}");
    parts(measure).1.hypot(guests(measure, runs))
}

/// Returns the standard deviation of the logarithm of a real ratio around its own mean, of so many runs of each side.
#[must_use]
pub fn guests(measure: &str, runs: (usize, usize)) -> f64 {
    parts(measure).0 * (1.0 / runs.0 as f64 + 1.0 / runs.1 as f64).sqrt()
}

fn parts(measure: &str) -> (f64, f64) {
    let of = |&(_, guest, model): &(&str, f64, f64)| (guest, model);
    let size = |(guest, model): (f64, f64)| guest.hypot(model);
    let noisiest = || DEVIATIONS.iter().map(of).max_by(|a, b| size(*a).total_cmp(&size(*b)));
    DEVIATIONS.iter().find(|row| row.0 == measure).map(of).or_else(noisiest).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::deciding;

    #[test]
    fn more_real_runs_leave_the_models_error() {
        let of = |runs| deviation("Allocation stalls", (runs, runs));
        assert!(of(2) > of(5) && of(5) > of(1000));
        assert!((of(5) - 0.452).abs() < 0.001 && (of(1_000_000) - 0.403).abs() < 0.001);
        assert!(guests("Allocation stalls", (2, 2)) < of(2));
    }

    #[test]
    fn names_are_those_of_measures() {
        let labels: Vec<&str> = deciding::measures().iter().map(|m| &*m.label).collect();
        assert!(DEVIATIONS.iter().all(|(measure, ..)| labels.contains(measure)));
        let noisiest = deviation("Fragmenting fallbacks, unmovable", (5, 5));
        assert!((deviation("no such measure", (5, 5)) - noisiest).abs() < 1e-9);
    }
}
