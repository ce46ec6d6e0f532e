//! Every amount of the benchmark, for programs that do the same on a real kernel.

use serde::{Deserialize, Serialize};

use super::{Sizes, job, load};

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
        let job = job(0);
        let (least, most) = job.pages[0];
        Amounts {
            programs: part(job.programs),
            job_pages: (part(least), part(most)),
            source_pages: job.source_pages.into(),
            headers: (part(job.headers.0), self.scale.of(job.headers.1)),
            header_pages: job.header_pages.into(),
            object_pages: job.object_pages.into(),
            touches: part(load::TOUCHES),
            turn: load::TURN,
        }
    }
}
