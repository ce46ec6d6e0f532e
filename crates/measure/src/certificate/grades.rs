//! Both free replays of a recording, and which of them is the better one.

use serde::{Deserialize, Serialize};

use super::support::{Certificate, Grade, Part, Support};

/// What a free replay takes from the recording.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Loop {
    /// What reclaim and compaction did is as recorded; only the allocator decides.
    Open,
    /// What tasks asked for, and how long they needed it, is as recorded; reclaim and compaction decide too.
    Closed,
}

impl Loop {
    /// Returns its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "open loop",
            Self::Closed => "closed loop",
        }
    }

    /// Returns the other one.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Open => Self::Closed,
            Self::Closed => Self::Open,
        }
    }
}

/// The certificates of a recording.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Grades {
    /// Of the open loop.
    pub open: Certificate,
    /// Of the closed loop; `None` where the recording has no machine to close it with.
    pub closed: Option<Certificate>,
}

impl Grades {
    /// Returns the loop that supports more: the one with the better grade, else the one that supports more parts; the open
    /// loop if both support the same.
    #[must_use]
    pub fn better(&self) -> Loop {
        match &self.closed {
            Some(closed) if rank(closed) < rank(&self.open) => Loop::Closed,
            _ => Loop::Open,
        }
    }

    /// Returns the certificate of a loop; the open loop's where the closed one has none.
    #[must_use]
    pub fn of(&self, of: Loop) -> &Certificate {
        match (of, &self.closed) {
            (Loop::Closed, Some(closed)) => closed,
            _ => &self.open,
        }
    }
}

/// Returns what a certificate lacks, the grade first: parts that are not supported, and parts that are for large changes only.
fn rank(of: &Certificate) -> (Grade, usize, usize) {
    let count = |wanted: fn(&Support) -> bool| {
        Part::ALL.into_iter().filter(|part| wanted(&of.support(*part))).count()
    };
    let unsupported =
        count(|support| matches!(support, Support::Unsupported { .. } | Support::NoneRecorded));
    (of.grade, unsupported, count(|support| matches!(support, Support::LargeChanges { .. })))
}
