//! A workload's tables and measures as data: they are stored beside the workload and in each of its
//! saved runs, so that a comparison needs no knowledge of workloads.

use pageblock::mobility::Migratetype;
use serde::{Deserialize, Serialize};

use super::formula::Formula;
use crate::statistics::stats::Direction;

/// The tables and measures of a workload.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tables {
    /// The measures that a comparison decides, one to three, named before it runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub primary: Vec<PrimarySpec>,
    /// The tables, in the order in which they are printed.
    #[serde(default, rename = "table", skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<TableSpec>,
    /// Measures over seeds in addition to those that every run has.
    #[serde(default, rename = "measures", skip_serializing_if = "Vec::is_empty")]
    pub measures: Vec<MeasuresSpec>,
}

/// A primary measure.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrimarySpec {
    /// Its name in the catalogue: `huge-pages-on-fault`, or group and label of a row of [`MeasuresSpec`].
    pub measure: String,
    /// Why it decides.
    pub why: String,
}

/// The specification of a table.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum TableSpec {
    /// Statistics of samples, one operation after another, as in mmtests.
    Statistics(OperationsSpec),
    /// The mean of the samples of each operation.
    Means(OperationsSpec),
    /// The share of one kind of samples in the sum of two.
    Shares(SharesSpec),
    /// Values of consecutive iterations.
    Iterations(IterationsSpec),
    /// The state of the machine at the end, as in the files of `/proc`.
    State(StateSpec),
}

/// The layout of an mmtests table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Style {
    /// Since 2017: fields of 12 characters, percentages of seven.
    #[serde(rename = "mmtests-2018")]
    Mmtests2018,
    /// Before 2017: fields of 18 characters, percentages of six.
    #[serde(rename = "mmtests-before-2017")]
    MmtestsBefore2017,
}

/// The samples of an operation.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OperationSpec {
    /// The name of its samples and of its rows; `{n}` stands for a number, and each number makes an
    /// operation.
    pub samples: String,
    /// The divisor for the table's unit.
    #[serde(default = "one")]
    pub divide: u64,
    /// Whether samples are rounded down to integers after the division, as mmtests does with
    /// microseconds.
    #[serde(default)]
    pub whole: bool,
    /// The better direction: [`Direction::Higher`] selects harmonic means.
    pub better: Direction,
    /// Whether samples are counts, which do not depend on whose clock it was.
    #[serde(default, skip_serializing_if = "is_false")]
    pub counts: bool,
    /// Whether it has rows for every number that another operation of the table has.
    #[serde(default)]
    pub always: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks with a reference")]
const fn is_false(value: &bool) -> bool {
    !*value
}

const fn one() -> u64 {
    1
}

/// Operations; each has rows: all statistics of its samples, or their mean.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OperationsSpec {
    /// The measured quantities, with their units.
    pub title: String,
    /// The layout.
    pub style: Style,
    /// The operations, in the order of the rows.
    pub operations: Vec<OperationSpec>,
}

/// The number of samples of one kind in percent of two.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SharesSpec {
    /// The quantity that is shared.
    pub title: String,
    /// The layout.
    pub style: Style,
    /// The name of the rows, with `{n}` as in the samples.
    pub name: String,
    /// The samples whose share is computed.
    pub part: String,
    /// The other samples.
    pub rest: String,
    /// The better direction.
    pub better: Direction,
}

/// The specification of the table.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IterationsSpec {
    /// The measured quantity, with its units.
    pub title: String,
    /// The name of an iteration: `build`.
    pub each: String,
    /// The samples that every run has, one per iteration.
    pub samples: String,
    /// The rows, in the order in which they are printed.
    #[serde(rename = "row")]
    pub rows: Vec<RowSpec>,
}

/// A row.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RowSpec {
    /// Its label.
    pub label: String,
    /// The samples, or those of two kinds, iteration by iteration.
    pub of: Vec<String>,
    /// How samples of two kinds are combined.
    #[serde(default, rename = "as")]
    pub combine: Combine,
    /// The divisor for the row's unit.
    #[serde(default = "one")]
    pub divide: u64,
    /// How the values are summarised.
    #[serde(default)]
    pub statistic: Summary,
    /// Whether it counts `mm_page_alloc_extfrag` events, whose unit changed with 6.10.
    #[serde(default)]
    pub counts_events: bool,
    /// Whether its values are also printed one by one.
    #[serde(default)]
    pub series: bool,
}

/// How a value of the first kind is combined with one of the second.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Combine {
    /// The first; there is no second.
    #[default]
    Value,
    /// The sum.
    Sum,
    /// The first minus the second.
    Rest,
    /// The first in percent of the second.
    Part,
    /// The first in percent of the sum.
    Share,
}

/// How a row summarises its values.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Summary {
    /// Their arithmetic mean.
    #[default]
    Mean,
    /// Their median.
    Median,
    /// Their standard deviation.
    Stddev,
}

/// The specification of the list.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StateSpec {
    /// The zone's name.
    pub zone: String,
    /// The types, in the kernel's order.
    pub types: Vec<TypeName>,
    /// Orders from 0 up to this one.
    pub max_order: u8,
    /// The counters of `/proc/vmstat`.
    pub counters: Vec<String>,
}

/// A migratetype by the name that `/proc/pagetypeinfo` prints.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TypeName(pub Migratetype);

impl TryFrom<String> for TypeName {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let found = Migratetype::ALL.into_iter().find(|mt| mt.name() == name);
        found.map(Self).ok_or_else(|| format!("unknown migratetype '{name}'"))
    }
}

impl From<TypeName> for String {
    fn from(name: TypeName) -> Self {
        name.0.name().to_owned()
    }
}

/// The measures of one subject.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuresSpec {
    /// What is measured.
    pub title: String,
    /// The samples that identify a run of the workload; other runs have none of the measures.
    pub samples: String,
    /// The rows.
    #[serde(rename = "row")]
    pub rows: Vec<MeasureRow>,
}

/// A measure.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasureRow {
    /// The first column, common to related rows.
    pub group: String,
    /// The second column.
    pub label: String,
    /// How it is read from a run. A counter that a run does not have is 0.
    pub value: Formula,
    /// The divisor for the row's unit.
    #[serde(default = "one")]
    pub divide: u64,
    /// The better direction.
    #[serde(default = "lower", skip_serializing_if = "is_lower")]
    pub better: Direction,
}

const fn lower() -> Direction {
    Direction::Lower
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks with a reference")]
fn is_lower(direction: &Direction) -> bool {
    *direction == Direction::Lower
}
