//! Memory that the kernel has not initialised yet: it is counted in `MemTotal`, and no zone manages it still (deferred
//! initialisation, or on demand). Its frames look like frames in use.
//!
//! ```
//! use pageblock_measure::value::uninitialised::{Uninitialised, frames};
//!
//! // 24 GiB; the last 6 of the zone are not initialised.
//! let found = Uninitialised::find(24_684_092, 18_704_596).unwrap();
//! assert_eq!(found.kbytes(), 5_979_496);
//! assert_eq!(frames(6_553_600, 5_505_024, 3_899_392), 4_947_968..6_553_600);
//! assert_eq!(Uninitialised::find(24_684_084, 24_684_084), None);
//! ```

use std::fmt;
use std::ops::Range;

/// The smallest part of `MemTotal` that is judged: a machine's files are not of one moment.
const LEAST: u64 = 50;

/// What a machine's zones manage of its memory, where that is not all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Uninitialised {
    /// `MemTotal`, kB.
    pub total_kb: u64,
    /// What the zones manage, kB.
    pub managed_kb: u64,
}

impl Uninitialised {
    /// Compares `MemTotal` with what the zones manage, both in kB; `None` where they manage all of it, but for 2 %, or
    /// where one of the two is not known.
    #[must_use]
    pub const fn find(total_kb: u64, managed_kb: u64) -> Option<Self> {
        let known = managed_kb > 0 && total_kb > managed_kb;
        if known && total_kb - managed_kb > total_kb / LEAST {
            Some(Self { total_kb, managed_kb })
        } else {
            None
        }
    }

    /// Returns the memory that no zone manages, kB.
    #[must_use]
    pub const fn kbytes(self) -> u64 {
        self.total_kb - self.managed_kb
    }
}

impl fmt::Display for Uninitialised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "its zones manage {} MiB of the {} MiB of MemTotal: the rest is not initialised yet, and counts as no memory",
            self.managed_kb / 1024,
            self.total_kb / 1024
        )
    }
}

/// Returns the frames at the end of a zone that can be uninitialised: as many as are present and not managed, as a zone is
/// initialised upwards. Whole pageblocks of them that look like the kernel's are not initialised; others are what the
/// kernel reserved at boot.
#[must_use]
pub const fn frames(end: u64, present: u64, managed: u64) -> Range<u64> {
    end.saturating_sub(present.saturating_sub(managed))..end
}
