//! How a kernel numbers what it prints.

use pageblock::mobility::{Migratetype, Numbering};

/// The numbering of a kernel in its printed events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Decoding {
    /// The numbers of the migratetypes.
    pub numbering: Numbering,
    /// Whether the kernel has the CMA type, which shifts the number of the Isolate type.
    pub cma: bool,
}

impl Decoding {
    /// Returns the type for a printed number.
    #[must_use]
    pub fn migratetype(self, number: u64) -> Option<Migratetype> {
        self.numbering.migratetype(u8::try_from(number).ok()?, self.cma)
    }

    /// Returns the number that the kernel prints for a type; 255 if it has no such type.
    #[must_use]
    pub fn number(self, mt: Migratetype) -> u8 {
        self.numbering.number(mt, self.cma).unwrap_or(u8::MAX)
    }
}
