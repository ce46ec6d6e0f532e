//! Values of measures without what they are computed from, as a table of runs has them.

use std::collections::BTreeMap;

/// Values by the name of their measure in the catalogue. They stand for what [`crate::catalogue::Measure::value`] would read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Measured(BTreeMap<String, Bits>);

/// The bits of a floating-point number: equal values of runs are the same number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Bits(u64);

impl Measured {
    /// Sets the value of a measure.
    pub fn set(&mut self, measure: &str, value: f64) {
        self.0.insert(measure.to_owned(), Bits(value.to_bits()));
    }

    /// Keeps the values of some measures.
    pub fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        self.0.retain(|measure, _| keep(measure));
    }

    /// Returns the names of the measures.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Returns the value of a measure; `None` if it was not set.
    #[must_use]
    pub fn get(&self, measure: &str) -> Option<f64> {
        self.0.get(measure).map(|bits| f64::from_bits(bits.0))
    }
}
