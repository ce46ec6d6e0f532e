//! Every amount of the benchmark, for programs that do the same on a real kernel.

use serde::{Deserialize, Serialize};

use super::{Sizes, build, load};

/// The amounts of the benchmark on a machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Amounts {
    /// Programs of a job.
    pub programs: u64,
    /// Pages of the memory of a job, the least and the most.
    pub job_pages: (u64, u64),
    /// Pages of a source file.
    pub source_pages: u64,
    /// Headers, and how many of them a job reads.
    pub headers: (u64, u64),
    /// Pages of a header.
    pub header_pages: u64,
    /// Pages of an object file.
    pub object_pages: u64,
    /// Pages that the memory cache touches each time.
    pub touches: u64,
    /// The time between two turns of it, in nanoseconds.
    pub turn: u64,
}

impl Sizes {
    /// Returns the amounts that go with these sizes.
    #[must_use]
    pub fn amounts(&self) -> Amounts {
        let part = |n| self.scale.of(n).max(1);
        Amounts {
            programs: part(build::PROGRAMS),
            job_pages: (part(build::JOB_PAGES.0), part(build::JOB_PAGES.1)),
            source_pages: build::SOURCE_PAGES.into(),
            headers: (part(build::HEADERS.0), self.scale.of(build::HEADERS.1)),
            header_pages: build::HEADER_PAGES.into(),
            object_pages: build::OBJECT_PAGES.into(),
            touches: part(load::TOUCHES),
            turn: load::TURN,
        }
    }
}
