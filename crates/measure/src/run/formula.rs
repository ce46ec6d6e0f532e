//! Measures that data files write: a counter, a statistic of samples, a ratio.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How a value is read from a run.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub enum Formula {
    /// `row:GROUP LABEL`: a row of the comparison of runs.
    Row(String),
    /// `counter:NAME`.
    Counter(String),
    /// `STATISTIC:NAME`: a statistic of the run's samples of this name.
    Samples(Statistic, String),
    /// `share:A,B`: the samples of A in percent of those of A and B.
    Share(String, String),
    /// `ratio:A,B`: the counter A by the counter B.
    Ratio(String, String),
}

/// A statistic of samples.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Statistic {
    /// Arithmetic mean, 0 without samples (as in mmtests).
    Amean,
    /// Harmonic mean.
    Hmean,
    /// Median.
    Median,
    /// Standard deviation.
    Stddev,
    /// The number of samples.
    Count,
    /// Their sum.
    Sum,
    /// `pN`: the value at or below which N percent of the samples lie.
    Percentile(u8),
}

impl TryFrom<String> for Formula {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let Some((kind, name)) = text.split_once(':') else {
            return Err(format!("measure '{text}' is not KIND:NAME"));
        };
        let two = || {
            let (a, b) =
                name.split_once(',').ok_or(format!("measure '{text}' is not {kind}:A,B"))?;
            Ok::<_, String>((a.to_owned(), b.to_owned()))
        };
        let name = name.to_owned();
        Ok(match kind {
            "row" => Self::Row(name),
            "counter" => Self::Counter(name),
            "share" => two().map(|(a, b)| Self::Share(a, b))?,
            "ratio" => two().map(|(a, b)| Self::Ratio(a, b))?,
            _ => match Statistic::named(kind) {
                Some(statistic) => Self::Samples(statistic, name),
                None => {
                    return Err(format!(
                        "measure '{text}': allowed are row, counter, ratio, share, amean, hmean, median, stddev, \
                         count, sum, p1 to p100"
                    ));
                }
            },
        })
    }
}

impl From<Formula> for String {
    fn from(formula: Formula) -> Self {
        formula.to_string()
    }
}

impl fmt::Display for Formula {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Row(name) => write!(f, "row:{name}"),
            Self::Counter(name) => write!(f, "counter:{name}"),
            Self::Samples(Statistic::Percentile(percent), name) => write!(f, "p{percent}:{name}"),
            Self::Samples(statistic, name) => {
                write!(f, "{}:{name}", format!("{statistic:?}").to_lowercase())
            }
            Self::Share(a, b) => write!(f, "share:{a},{b}"),
            Self::Ratio(a, b) => write!(f, "ratio:{a},{b}"),
        }
    }
}

impl Statistic {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "amean" => Self::Amean,
            "hmean" => Self::Hmean,
            "median" => Self::Median,
            "stddev" => Self::Stddev,
            "count" => Self::Count,
            "sum" => Self::Sum,
            _ => {
                let percent = name.strip_prefix('p')?.parse().ok()?;
                Self::Percentile(Some(percent).filter(|percent| (1..=100).contains(percent))?)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_are_written_as_they_are_read() {
        for text in [
            "row:Work list-probes",
            "counter:pswpin",
            "p99:latency",
            "amean:a",
            "hmean:a",
            "median:a",
            "stddev:a",
            "count:a",
            "sum:a",
            "share:a,b",
            "ratio:a,b",
        ] {
            let formula = Formula::try_from(text.to_owned()).unwrap();
            assert_eq!(formula.to_string(), text);
        }
    }

    #[test]
    fn unknown_formulas_are_refused() {
        for text in ["mode:fault", "p0:fault", "p101:fault"] {
            let error = Formula::try_from(text.to_owned()).unwrap_err();
            assert!(
                error.starts_with(&format!(
                    "measure '{text}': allowed are row, counter, ratio, share, "
                )),
                "{error}"
            );
        }
        assert!(Formula::try_from("share:fault".to_owned()).is_err());
    }
}
