//! The part of a machine and its load that is simulated.

use pageblock::frame::{Pfn, pages};
use pageblock::zone::Geometry;

use super::machine_file::{MIB, MachineError};

/// A fraction of at most one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scale {
    /// The numerator.
    pub numerator: u64,
    /// The denominator.
    pub denominator: u64,
}

impl Scale {
    /// The unscaled machine.
    pub const WHOLE: Self = Self { numerator: 1, denominator: 1 };

    /// Reads `1/8` or `1`.
    ///
    /// # Errors
    /// [`MachineError::Scale`].
    pub fn parse(text: &str) -> Result<Self, MachineError> {
        let wrong = || MachineError::Scale(text.to_owned());
        let (n, d) = text.split_once('/').unwrap_or((text, "1"));
        let number = |t: &str| t.trim().parse::<u64>().map_err(|_| wrong());
        let scale = Self { numerator: number(n)?, denominator: number(d)? };
        let fits = scale.numerator > 0
            && scale.numerator <= scale.denominator
            && scale.denominator <= 1024 * scale.numerator;
        if fits { Ok(scale) } else { Err(wrong()) }
    }

    /// Returns this fraction of a number, rounded to the nearest integer.
    #[must_use]
    pub const fn of(self, n: u64) -> u64 {
        (n * self.numerator + self.denominator / 2) / self.denominator
    }

    /// Returns the frame on the scaled machine, rounded to a multiple of the largest block.
    pub(super) fn frame(self, mib: u64) -> Pfn {
        let block = pages(Geometry::default().max_order);
        let pages = mib * MIB * self.numerator;
        let unit = self.denominator * block;
        Pfn((pages + unit / 2) / unit * block)
    }
}

impl std::fmt::Display for Scale {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.numerator, self.denominator)
    }
}
