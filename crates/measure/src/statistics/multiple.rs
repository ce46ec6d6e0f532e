//! Corrections of p for the number of tests.

/// Applies Holm's correction, which bounds the probability of any false alarm: returns the adjusted p of each test, in the
/// given order.
#[must_use]
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
    let mut adjusted = vec![0.0; p.len()];
    let mut largest: f64 = 0.0;
    for (rank, &at) in order.iter().enumerate() {
        largest = largest.max((p[at] * (p.len() - rank) as f64).min(1.0));
        adjusted[at] = largest;
    }
    adjusted
}

/// Applies the correction of Benjamini and Hochberg (1995), which bounds the share of false alarms among all alarms: returns
/// the adjusted p of each test, in the given order.
#[must_use]
pub fn false_discovery(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
    let mut adjusted = vec![0.0; p.len()];
    let mut least: f64 = 1.0;
    for (rank, &at) in order.iter().enumerate().rev() {
        least = least.min(p[at] * p.len() as f64 / (rank + 1) as f64);
        adjusted[at] = least;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holm_keeps_the_order_and_never_falls() {
        assert_eq!(holm(&[0.04, 0.01, 0.03, 0.5]), [0.09, 0.04, 0.09, 0.5]);
        assert_eq!(holm(&[0.9, 0.8]), [1.0, 1.0]);
    }

    #[test]
    fn false_discoveries_by_hand() {
        let adjusted = false_discovery(&[0.01, 0.04, 0.03, 0.5]);
        let expect = [0.04, 0.16 / 3.0, 0.16 / 3.0, 0.5];
        assert!(adjusted.iter().zip(expect).all(|(a, b)| (a - b).abs() < 1e-12), "{adjusted:?}");
        assert_eq!(false_discovery(&[]), Vec::<f64>::new());
    }
}
