//! Checks the statistics against SciPy 1.17.1, computed once: `wilcoxon(d, method="exact")`,
//! `binomtest`, `bootstrap(method="percentile", n_resamples=200000)`, `t.sf`.

use pageblock_measure::statistics::paired::{bootstrap_median, compare, sign_test, wilcoxon};
use pageblock_measure::statistics::stats::{amean, classic_p, median};

#[track_caller]
fn close(actual: f64, expect: f64) {
    assert!((actual - expect).abs() < 1e-12, "{actual} {expect}");
}

#[track_caller]
fn check(differences: &[i32], wilcoxon_p: f64, sign_p: f64) {
    let differences: Vec<f64> = differences.iter().map(|d| f64::from(*d)).collect();
    close(wilcoxon(&differences), wilcoxon_p);
    close(sign_test(&differences), sign_p);
    // As pairs: the same differences on an arbitrary baseline.
    let base: Vec<f64> = (0..differences.len()).map(|i| 500.0 + 3.0 * i as f64).collect();
    let new: Vec<f64> = base.iter().zip(&differences).map(|(b, d)| b + d).collect();
    let result = compare(&base, &new).unwrap();
    close(result.wilcoxon_p, wilcoxon_p);
    close(result.sign_p, sign_p);
}

#[test]
fn exact_tests() {
    check(&[-69, 37, 44, -120, -31, 27, -97, 23, -99, -36], 0.193_359_375, 0.753_906_25);
    check(
        &[34, -10, -100, -113, -40, -114, -95, -28, 54, -37, 25, 45],
        0.176_269_531_25,
        0.387_695_312_5,
    );
    check(
        &[
            -101, -88, -49, -58, -65, 50, 35, -17, 57, -59, -96, -72, -104, 51, -81, -40, -84, 56,
            -92, -28,
        ],
        0.005_580_902_099_609_375,
        0.041_389_465_332_031_25,
    );
    check(
        &[
            -29, -39, -103, -87, 35, 53, -21, -37, -88, 9, -4, -24, -72, -106, 54, -78, -3, -109,
            2, -86, 5, -84, -31, -46, -28, -63, -60, -55, -6, 27,
        ],
        0.000_380_093_231_797_218_3,
        0.005_222_879_350_185_395,
    );
}

/// Ties: all 4096 choices of signs, enumerated with SciPy's `rankdata`.
#[test]
fn wilcoxon_of_ties() {
    let differences = [3.0, -1.0, 1.0, 4.0, -4.0, 6.0, 7.0, 7.0, -2.0, 9.0, 10.0, 12.0];
    close(wilcoxon(&differences), 0.021_484_375);
}

/// Student's t with an unpooled error and n1+n2-2 degrees of freedom.
#[test]
fn classic_rule() {
    let a = [102.1, 95.6, 96.5, 96.8, 99.3, 100.7];
    let b = [94.2, 81.9, 99.2, 97.7, 91.7, 91.7, 94.2, 93.1];
    let p = classic_p(&a, &b, (amean(&a), amean(&b))).unwrap();
    assert!((p - 0.022_998_340_102_953_416).abs() < 1e-9, "{p}");
}

/// SciPy's interval from other random numbers and twenty times as many resamples: 0.8626 to 0.9192,
/// median 0.8956.
#[test]
fn bootstrap_interval() {
    let base = [
        198, 165, 124, 185, 199, 179, 162, 186, 180, 148, 175, 184, 103, 146, 193, 126, 161, 148,
        158, 133, 163, 176, 173, 183, 125, 114, 154, 116, 162, 138,
    ];
    let new = [
        171, 169, 102, 180, 159, 171, 144, 128, 162, 120, 151, 189, 83, 119, 197, 115, 165, 137,
        131, 119, 163, 172, 156, 165, 111, 97, 163, 104, 131, 119,
    ];
    let ratios: Vec<f64> =
        base.iter().zip(&new).map(|(b, n)| f64::from(*n) / f64::from(*b)).collect();
    close(median(&ratios), 0.895_644_283_121_597_2);
    let (low, high) = bootstrap_median(&ratios);
    assert!((low - 0.862_588).abs() < 0.003, "{low}");
    assert!((high - 0.919_187).abs() < 0.003, "{high}");
}
