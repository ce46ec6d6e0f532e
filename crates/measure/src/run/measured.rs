//! Values of measures without what they are computed from, as a table of runs has them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Values by the name of their measure in the catalogue. They stand for what [`crate::catalogue::Measure::value`] would read.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Measured(BTreeMap<String, Bits>);

/// The bits of a floating-point number: equal values of runs are the same number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(from = "f64", into = "f64")]
struct Bits(u64);

impl From<f64> for Bits {
    fn from(value: f64) -> Self {
        Self(value.to_bits())
    }
}

impl From<Bits> for f64 {
    fn from(bits: Bits) -> Self {
        Self::from_bits(bits.0)
    }
}

impl Measured {
    /// Sets the value of a measure.
    pub fn set(&mut self, measure: &str, value: f64) {
        self.0.insert(measure.to_owned(), value.into());
    }

    /// Keeps the values of some measures.
    pub fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        self.0.retain(|measure, _| keep(measure));
    }

    /// Reports whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the values.
    pub fn values(&self) -> impl Iterator<Item = f64> {
        self.0.values().map(|&bits| bits.into())
    }

    /// Returns the names of the measures.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Returns the value of a measure; `None` if it was not set.
    #[must_use]
    pub fn get(&self, measure: &str) -> Option<f64> {
        self.0.get(measure).map(|&bits| bits.into())
    }
}
