//! Checks the statistics against SciPy, computed once: `mannwhitneyu` with `method="exact"` and `"asymptotic"`, `t.sf`.

use pageblock_measure::statistics::rank_sum::p;
use pageblock_measure::statistics::stats::{amean, classic_p};

#[track_caller]
fn close(actual: f64, expect: f64) {
    assert!((actual - expect).abs() < 1e-12, "{actual} {expect}");
}

#[test]
fn rank_sums_without_ties() {
    let base = [198.0, 165.0, 124.0, 185.0, 199.0, 179.0, 162.0, 186.0, 180.0, 148.0];
    let new = [171.0, 169.0, 102.0, 180.5, 159.0, 171.5, 144.0, 128.0, 162.5, 120.0];
    close(p(&base, &new), 0.063_012_838_554_634_22);
    // Above 20 runs of each side the normal approximation takes over.
    let distance = (p(&BASE_30, &NEW_30) - 0.055_122_512_290_822_53).abs();
    assert!(distance < 0.001, "{distance}");
    assert!((p(&BASE_30, &NEW_30) - 0.055_545_693_134_345_56).abs() < 1e-9);
}

/// Ties: all 12,870 choices of eight of the sixteen ranks of SciPy's `rankdata`.
#[test]
fn rank_sums_of_ties() {
    let base = [0.0, 0.0, 1.0, 3.0, 3.0, 5.0, 8.0, 8.0];
    let new = [0.0, 2.0, 2.0, 8.0, 9.0, 9.0, 9.0, 12.0];
    close(p(&base, &new), 0.144_211_344_211_344_2);
}

/// Student's t with an unpooled error and n1+n2-2 degrees of freedom.
#[test]
fn classic_rule() {
    let a = [102.1, 95.6, 96.5, 96.8, 99.3, 100.7];
    let b = [94.2, 81.9, 99.2, 97.7, 91.7, 91.7, 94.2, 93.1];
    let p = classic_p(&a, &b, (amean(&a), amean(&b))).unwrap();
    assert!((p - 0.022_998_340_102_953_416).abs() < 1e-9, "{p}");
}

const BASE_30: [f64; 30] = [
    198.0, 165.0, 124.0, 185.0, 199.0, 179.0, 162.0, 186.0, 180.0, 148.0, 175.0, 184.0, 103.0,
    146.0, 193.0, 126.0, 161.0, 148.5, 158.0, 133.0, 163.0, 176.0, 173.0, 183.0, 125.0, 114.0,
    154.0, 116.0, 162.5, 138.0,
];
const NEW_30: [f64; 30] = [
    171.0, 169.0, 102.0, 180.5, 159.0, 171.5, 144.0, 128.0, 162.25, 120.0, 151.0, 189.0, 83.0,
    119.0, 197.0, 115.0, 165.5, 137.0, 131.0, 119.5, 163.5, 172.0, 156.0, 165.25, 111.0, 97.0,
    163.25, 104.0, 131.5, 119.25,
];
