//! What a recording supports, by how far a free replay under its own policy is from it.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::grades::Grades;
use crate::certificate::verification::{Gap, Verification};
use crate::value::error::Error;
use crate::value::file;

/// How many replays of a loop grade a recording: a single one is one draw of many.
pub const DRAWS: u64 = 5;

/// Counts below this are compared as if they were this, as a difference of a few events is chance.
pub const FEW: u64 = 20;

/// Changes when a kept certificate would be wrong.
const FORMAT: u32 = 5;

/// How a recording was judged: every decision, and what that and a free replay support.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Judgement {
    /// The program that made it.
    pub program: String,
    /// The guided replay: every decision under the recorded policy.
    #[serde(flatten)]
    pub decisions: Verification,
    /// What the recording supports in an open loop; `None` if that was not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<Certificate>,
    /// What it supports in a closed loop; `None` if that was not asked for, or cannot be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_loop: Option<Certificate>,
}

/// What a recording supports, and why.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Certificate {
    /// The version of these rules.
    pub format: u32,
    /// The grade.
    pub grade: Grade,
    /// What each part of a what-if table supports.
    pub parts: BTreeMap<Part, Support>,
    /// How far the free replay under the recorded policy is from the recording.
    pub distances: Vec<Distance>,
    /// The events that the recorder lost.
    pub lost: u64,
    /// Whether the start state was inferred from events.
    pub start_inferred: bool,
}

/// The grade of a recording.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum Grade {
    /// The recording tests more than half of the parts of a what-if, and supports all that it tests.
    A,
    /// It does, some for large changes only.
    B,
    /// It supports some parts.
    C,
    /// No part is, but decisions are judged.
    D,
    /// Nothing is judged.
    F,
}

/// A part of a what-if table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// External fragmentation events.
    Fragmentation,
    /// Fallbacks by what they do to the block.
    Effects,
    /// Pages allocated into a block of another type.
    Mismatch,
    /// Pageblocks by type at the end.
    Blocks,
    /// Pageblocks at the end that hold pages of another type.
    Mixed,
    /// Free pages by order at the end, and the unusable free space that follows from them.
    FreePages,
    /// Allocations that failed.
    Failures,
}

/// Something that a recording and its replay are compared in.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// The number of fragmentation events.
    FallbackTotal,
    /// Fragmentation events by requested and fallback type.
    FallbackTypes,
    /// Fallbacks by what they do to the block.
    FallbackEffects,
    /// When fragmentation events happen.
    FallbackTime,
    /// Pages allocated into a block of another type.
    MismatchTotal,
    /// The same, by requested type and the block's.
    MismatchTypes,
    /// Requests that fail.
    Failed,
    /// Pageblocks at the end that hold pages of another type.
    MixedBlocks,
    /// Free pages at the end by order.
    FreeByOrder,
    /// Free pages at the end by order and type.
    FreeByType,
    /// Pageblocks at the end by type.
    Blocks,
}

/// How a distance is computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The difference of two counts as a share of the recorded one; of counts below 20, as a share of 20.
    Relative,
    /// The sum of the differences of all rows as a share of the recorded sum.
    Rows,
    /// The share that lies in other rows: total variation.
    Shares,
    /// The largest gap between the shares that have happened by the same moment: Kolmogorov and Smirnov.
    Time,
}

/// How far a replay is from the recording by one measure.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Distance {
    /// The measure.
    pub measure: Measure,
    /// The recorded sum.
    pub recorded: u64,
    /// The replayed sum.
    pub replayed: u64,
    /// The distance in hundredths of a percent, rounded up.
    pub permyriad: u64,
}

/// What a recording supports of a part of a what-if table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "support", rename_all = "snake_case")]
pub enum Support {
    /// Changes above the margin.
    Supported {
        /// The replay's own error in hundredths of a percent.
        margin_permyriad: u64,
    },
    /// Large changes only: the margin is above a fifth.
    LargeChanges {
        /// The replay's own error in hundredths of a percent.
        margin_permyriad: u64,
    },
    /// Nothing: the replay's own error is too large.
    Unsupported {
        /// The replay's own error in hundredths of a percent.
        margin_permyriad: u64,
    },
    /// Nothing: what the replay has, the recording has none of, so that there is no ratio.
    NoneRecorded,
    /// It was rare, recorded and replayed: fewer than [`FEW`]. Nothing tests larger changes.
    Rare,
    /// Nothing: the recording has nothing to compare with.
    Unknown,
}

impl Part {
    /// All parts, in the order of the table.
    pub const ALL: [Self; 7] = [
        Self::Fragmentation,
        Self::Effects,
        Self::Mismatch,
        Self::Blocks,
        Self::Mixed,
        Self::FreePages,
        Self::Failures,
    ];

    /// Returns its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fragmentation => "external fragmentation events",
            Self::Effects => "fallbacks by what they do to the block",
            Self::Mismatch => "pages allocated into a block of another type",
            Self::Blocks => "pageblocks at the end",
            Self::Mixed => "mixed pageblocks at the end",
            Self::FreePages => "free pages and unusable free space at the end",
            Self::Failures => "allocations that failed",
        }
    }

    /// Returns the measures that it depends on.
    const fn measures(self) -> &'static [Measure] {
        match self {
            // Not when they happen: a what-if has no column of time.
            Self::Fragmentation => &[Measure::FallbackTotal, Measure::FallbackTypes],
            Self::Effects => &[Measure::FallbackEffects],
            Self::Mismatch => &[Measure::MismatchTotal, Measure::MismatchTypes],
            Self::Blocks => &[Measure::Blocks],
            Self::Mixed => &[Measure::MixedBlocks],
            Self::FreePages => &[Measure::FreeByOrder],
            Self::Failures => &[Measure::Failed],
        }
    }

    fn support(self, distances: &[Distance]) -> Support {
        let of_part = || distances.iter().filter(|d| self.measures().contains(&d.measure));
        let (mut margin_permyriad, mut worst) = (0, None);
        for distance in of_part() {
            let (fine, coarse) = distance.measure.kind().limits();
            let unsupported = distance.permyriad > coarse || distance.is_less_than_half();
            let level = u8::from(distance.permyriad > fine || unsupported) + u8::from(unsupported);
            worst = worst.max(Some(level));
            margin_permyriad = margin_permyriad.max(distance.permyriad);
        }
        match worst {
            None => Support::Unknown,
            Some(_) if of_part().all(Distance::is_rare) => Support::Rare,
            Some(0) => Support::Supported { margin_permyriad },
            Some(1) => Support::LargeChanges { margin_permyriad },
            Some(_) if of_part().any(Distance::has_no_ratio) => Support::NoneRecorded,
            Some(_) => Support::Unsupported { margin_permyriad },
        }
    }
}

impl Kind {
    /// Returns the largest distance that supports a part, and the largest that supports large changes, in
    /// hundredths of a percent. A count may be off by a fifth, or by a factor of two; shares move less.
    const fn limits(self) -> (u64, u64) {
        match self {
            Self::Relative | Self::Rows => (2000, 10_000),
            Self::Shares | Self::Time => (500, 2000),
        }
    }

    /// Returns its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Relative => "relative difference",
            Self::Rows => "differences of all rows",
            Self::Shares => "total variation",
            Self::Time => "Kolmogorov-Smirnov",
        }
    }
}

impl Measure {
    /// Returns how its distance is computed.
    #[must_use]
    pub const fn kind(self) -> Kind {
        match self {
            Self::FallbackTotal | Self::MismatchTotal | Self::MixedBlocks | Self::Failed => {
                Kind::Relative
            }
            Self::FallbackTypes | Self::FallbackEffects | Self::MismatchTypes => Kind::Rows,
            Self::FallbackTime => Kind::Time,
            Self::FreeByOrder | Self::FreeByType | Self::Blocks => Kind::Shares,
        }
    }

    /// Returns its name, with the unit of its sums.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::FallbackTotal => "fragmentation events",
            Self::FallbackTypes => "fragmentation events by types",
            Self::FallbackEffects => "fallbacks by effect",
            Self::FallbackTime => "fragmentation events over time",
            Self::MismatchTotal => "pages in a block of another type",
            Self::MismatchTypes => "pages in a block of another type by types",
            Self::Failed => "failed requests",
            Self::MixedBlocks => "mixed pageblocks at the end",
            Self::FreeByOrder => "free pages by order at the end",
            Self::FreeByType => "free pages by order and type at the end",
            Self::Blocks => "pageblocks by type at the end",
        }
    }
}

impl Distance {
    pub(super) fn new(measure: Measure, (recorded, replayed): (u64, u64), share: f64) -> Self {
        // Rounded up, but not for the last bits of a sum of shares.
        let permyriad = (share * 10_000.0 - 1e-6).ceil().max(0.0) as u64;
        Self { measure, recorded, replayed, permyriad }
    }

    /// Reports whether less than half of what was recorded was replayed: a count that is off by a factor of two downwards is no
    /// nearer than one that is upwards, though its difference is below 100 %.
    fn is_less_than_half(&self) -> bool {
        let counts = matches!(self.measure.kind(), Kind::Relative | Kind::Rows);
        counts && self.recorded >= FEW && 2 * self.replayed < self.recorded
    }

    /// Reports whether both counts are small; shares are never.
    fn is_rare(&self) -> bool {
        self.is_of_counts() && self.recorded.max(self.replayed) < FEW
    }

    /// Reports whether it compares counts with a recorded 0, which has no ratio to anything.
    #[must_use]
    pub fn has_no_ratio(&self) -> bool {
        self.is_of_counts() && self.recorded == 0 && self.replayed >= FEW
    }

    fn is_of_counts(&self) -> bool {
        matches!(self.measure.kind(), Kind::Relative | Kind::Rows)
    }
}

impl Support {
    /// Reports whether changes of the part can be concluded from a what-if.
    #[must_use]
    pub const fn is_supported(self) -> bool {
        matches!(self, Self::Supported { .. } | Self::LargeChanges { .. })
    }

    /// Reports whether a what-if may print the part: it is supported, or there is too little of it to be misled by.
    #[must_use]
    pub const fn is_printed(self) -> bool {
        self.is_supported() || matches!(self, Self::Rare)
    }

    /// Returns a word for it: `yes` for changes above the margin.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Supported { .. } => "yes",
            Self::LargeChanges { .. } => "large changes",
            Self::Unsupported { .. } => "no",
            Self::NoneRecorded => "none recorded",
            Self::Rare => "rare",
            Self::Unknown => "unknown",
        }
    }

    /// Returns the replay's own error in hundredths of a percent, where there is a ratio.
    #[must_use]
    pub const fn margin_permyriad(self) -> Option<u64> {
        match self {
            Self::Supported { margin_permyriad }
            | Self::LargeChanges { margin_permyriad }
            | Self::Unsupported { margin_permyriad } => Some(margin_permyriad),
            Self::NoneRecorded | Self::Rare | Self::Unknown => None,
        }
    }
}

/// Returns how many of the parts of a what-if a recording tests: of the others it has too little, or nothing.
#[must_use]
pub fn tested(parts: &BTreeMap<Part, Support>) -> usize {
    parts.values().filter(|part| !matches!(part, Support::Rare | Support::Unknown)).count()
}

impl Judgement {
    /// Makes a judgement by a program.
    #[must_use]
    pub fn new(program: String, decisions: Verification, grades: Option<Grades>) -> Self {
        let (certificate, closed_loop) =
            grades.map_or((None, None), |grades| (Some(grades.open), grades.closed));
        Self { program, decisions, certificate, closed_loop }
    }

    /// Returns the certificates, if they were made by these rules.
    #[must_use]
    pub fn grades(&self) -> Option<Grades> {
        let open = self.certificate.clone().filter(Certificate::is_current)?;
        Some(Grades { open, closed: self.closed_loop.clone() })
    }

    /// Reads a judgement.
    ///
    /// # Errors
    /// [`Error::Read`], or [`Error::Parse`] with the place of what is wrong.
    pub fn load(path: &Path) -> Result<Self, Error> {
        file::parse(path, &file::read(path, "the judgement of a recording", 64 << 20)?)
    }

    /// Reads it from JSON; `None` if that is something else.
    #[must_use]
    pub fn from_json(json: &str) -> Option<Self> {
        serde_json::from_str(json).ok()
    }

    /// Writes it, completely or not at all.
    ///
    /// # Errors
    /// [`Error::Write`].
    pub fn save(&self, path: &Path) -> Result<(), Error> {
        file::save(path, self)
    }

    /// Returns its JSON, indented, with a newline at the end.
    #[must_use]
    pub fn to_json(&self) -> String {
        file::format(self)
    }
}

impl Certificate {
    /// Grades a recording by the guided replay under its own policy, and by how far a free replay is from it, of either loop.
    /// Without distances there was no free replay.
    #[must_use]
    pub fn new(decisions: &Verification, start_inferred: bool, distances: Vec<Distance>) -> Self {
        let of_gap = |gap: &Gap| match gap {
            Gap::LostEvents { lost, .. } => *lost,
            _ => 0,
        };
        let lost = decisions.gaps.iter().map(of_gap).sum();
        let parts: BTreeMap<Part, Support> =
            Part::ALL.into_iter().map(|part| (part, part.support(&distances))).collect();
        let supported = |s: &Support| matches!(s, Support::Supported { .. });
        let known = || parts.values().filter(|s| !matches!(s, Support::Rare));
        // What nothing tests raises no grade: where that is half of all, the rest says little of a what-if.
        let most = 2 * tested(&parts) > parts.len();
        let grade = if most && known().all(supported) {
            Grade::A
        } else if most && known().all(|s| s.is_supported()) {
            Grade::B
        } else if known().any(|s| s.is_supported()) {
            Grade::C
        } else if decisions.total().cases > 0 {
            Grade::D
        } else {
            Grade::F
        };
        Self { format: FORMAT, grade, parts, distances, lost, start_inferred }
    }

    /// Reports whether it was made by these rules.
    #[must_use]
    pub const fn is_current(&self) -> bool {
        self.format == FORMAT
    }

    /// Returns what a part supports.
    #[must_use]
    pub fn support(&self, part: Part) -> Support {
        self.parts.get(&part).copied().unwrap_or(Support::Unknown)
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
