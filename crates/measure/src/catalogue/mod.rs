//! The catalogue of measures: what each is called, its unit, which way is better, where it is defined, and how it is
//! read from a run.
//!
//! [`deciding`] has the few that decide between policies, [`vmstat::rows`] mmtests' counters, [`sections::of_runs`] all
//! rows that runs have, [`gigabytes`] blocks of 1 GiB, and a [`Formula`](crate::run::formula::Formula) is a measure that a data file writes. Nothing
//! else has a list of measures or spells a label: it asks [`deciding::by_id`].

pub mod deciding;
mod formula;
pub mod gigabytes;
pub mod objectives;
pub mod primary;
pub mod sections;
pub mod vmstat;
mod workload;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::Serialize;

use crate::certificate::Part;
use crate::run::Run;
use crate::run::policies::units_agree;
use crate::statistics::stats::Direction;

/// A value of a table.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[serde(untagged)]
pub enum Value {
    /// A count.
    Count(u64),
    /// A share, or a cost that is not a whole number.
    Real(f64),
}

impl Value {
    /// Returns the value as a floating-point number, for ratios and printing.
    #[must_use]
    pub const fn as_f64(self) -> f64 {
        match self {
            Self::Count(count) => count as f64,
            Self::Real(real) => real,
        }
    }
}

/// What the values of a measure count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Runs, 1 or 0 in each.
    Runs,
    /// Requests to the allocator.
    Requests,
    /// Events of a tracepoint.
    Events,
    /// Operations of the allocator.
    Operations,
    /// Pages of 4 KiB.
    Pages,
    /// Pageblocks.
    Pageblocks,
    /// Hundredths.
    Percent,
    /// What a counter of the kernel counts.
    Counter,
    /// What the title of the section says.
    OfSection,
}

impl Unit {
    /// Returns its name: `pages`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Runs => "runs",
            Self::Requests => "requests",
            Self::Events => "events",
            Self::Operations => "operations",
            Self::Pages => "pages",
            Self::Pageblocks => "pageblocks",
            Self::Percent => "percent",
            Self::Counter => "as the counter counts",
            Self::OfSection => "as the title says",
        }
    }

    /// Reports whether values are whole numbers in every run.
    #[must_use]
    pub const fn is_whole(self) -> bool {
        !matches!(self, Self::Percent | Self::OfSection)
    }

    /// Returns what follows the words of a label; a label without it names a count.
    const fn in_brackets(self) -> &'static str {
        match self {
            Self::Percent => " [%]",
            _ => "",
        }
    }
}

/// The condition under which a measure has a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Shown {
    /// Some run has a value.
    Measured,
    /// Some run has a value other than 0.
    NonZero,
}

/// Reads a measure from a run.
type Read = Arc<dyn Fn(&Run) -> Option<Value> + Send + Sync>;

/// Something that is measured in a run.
#[derive(Clone)]
pub struct Measure {
    /// The name by which code, options and data files ask for it; that of a row of a section is its group and its label.
    pub id: Cow<'static, str>,
    /// The first column of a section's table, common to related rows; empty for measures of no section.
    pub group: Cow<'static, str>,
    /// What tables print and JSON has as a key, with the unit in brackets where it is not a count.
    pub label: Cow<'static, str>,
    /// What the values count.
    pub unit: Unit,
    /// Which way is better.
    pub direction: Direction,
    /// Where it is defined: counters of `/proc/vmstat`, a tracepoint, a file of the kernel.
    pub defined: Cow<'static, str>,
    /// What part of a what-if it is, if a certificate of a recording grades it.
    pub part: Option<Part>,
    /// Whether it counts `mm_page_alloc_extfrag` events, whose unit changed with Linux 6.10.
    pub counts_events: bool,
    shown: Shown,
    read: Read,
}

impl Measure {
    /// Makes a measure with a row in a section.
    pub(crate) fn row(
        (group, label): (&str, impl AsRef<str>),
        direction: Direction,
        read: impl Fn(&Run) -> Option<Value> + Send + Sync + 'static,
    ) -> Self {
        let label = label.as_ref();
        Self {
            id: format!("{group} {label}").into(),
            group: group.to_owned().into(),
            label: label.to_owned().into(),
            unit: Unit::OfSection,
            direction,
            defined: Cow::Borrowed(""),
            part: None,
            counts_events: false,
            shown: Shown::Measured,
            read: Arc::new(read),
        }
    }

    pub(crate) fn defined_as(self, defined: impl Into<Cow<'static, str>>) -> Self {
        Self { defined: defined.into(), ..self }
    }

    fn graded_as(self, part: Part) -> Self {
        Self { part: Some(part), ..self }
    }

    /// Returns the name of its column in a table of runs, which SQL takes without quotes: `mixed_pageblocks`, and with its
    /// unit where it is not a count: `huge_fault_percent`.
    #[must_use]
    pub fn column(&self) -> String {
        let name = if self.id == deciding::id::HUGE_ON_FAULT { "huge_fault" } else { &*self.id };
        let plain = |letter: char| {
            if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '_' }
        };
        let mut column: String = name.chars().map(plain).collect();
        if self.unit == Unit::Percent {
            column += "_percent";
        }
        column
    }

    /// Returns the label with the group before it, as a text that stands alone: `Latency p95-ms`.
    #[must_use]
    pub fn full_label(&self) -> String {
        format!("{} {}", self.group, self.label).trim_start().to_owned()
    }

    /// Reports whether the values of two runs have the same meaning.
    #[must_use]
    pub fn comparable(&self, a: &Run, b: &Run) -> bool {
        !self.counts_events || units_agree(a, b)
    }

    /// Returns the value in a run; `None` if it was not measured.
    #[must_use]
    pub fn value(&self, run: &Run) -> Option<Value> {
        run.measured.get(&self.id).map(Value::Real).or_else(|| (self.read)(run))
    }

    /// Returns the value in a run as a floating-point number.
    #[must_use]
    pub fn number(&self, run: &Run) -> Option<f64> {
        self.value(run).map(Value::as_f64)
    }

    /// Reports whether the measure has a row with these values.
    #[must_use]
    pub fn is_shown(&self, values: &[Option<Value>]) -> bool {
        match self.shown {
            Shown::Measured => values.iter().any(Option::is_some),
            Shown::NonZero => values.iter().flatten().any(|value| value.as_f64() != 0.0),
        }
    }
}

impl fmt::Debug for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Measure").field(&self.id).finish()
    }
}
