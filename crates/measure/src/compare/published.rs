//! Published tables, and our runs' values for their cells.
//!
//! A table is data: its cells are in a file with their source, and each row names the measure that it
//! is compared with. No published figure enters a simulation from here.

use serde::{Deserialize, Serialize};

use crate::catalogue::Value;
use crate::compare::common::Options;
use crate::compare::runs::Comparison;
use crate::run::Run;
use crate::run::formula::Formula;
use crate::run::policies::Policies;
use crate::statistics::stats;
use crate::value::error::Error;

/// A file of tables: those of one publication.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "File")]
pub struct Published {
    /// The tables, one for each workload and machine.
    pub tables: Vec<Table>,
}

/// The file as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// What the model took from the publication.
    #[serde(default, rename = "input")]
    inputs: Vec<Input>,
    #[serde(rename = "table")]
    tables: Vec<Table>,
}

/// Something that the model took from a publication: the rows that it makes are no results.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The measures of the rows; one that ends with `*` stands for all that begin so.
    measures: Vec<String>,
    /// What of the model is made of them.
    #[serde(rename = "of")]
    _of: String,
}

impl TryFrom<File> for Published {
    type Error = String;

    fn try_from(File { inputs, mut tables }: File) -> Result<Self, String> {
        for input in inputs.iter().flat_map(|input| &input.measures) {
            let is_input = |measure: &str| match input.strip_suffix('*') {
                Some(start) => measure.starts_with(start),
                None => measure == input,
            };
            let rows = tables.iter_mut().flat_map(|table| &mut table.rows);
            let rows = rows.filter(|row| is_input(&row.measure.to_string()));
            if rows.map(|row| row.kind = Kind::Fitted).count() == 0 {
                return Err(format!("no row has the measure of the input '{input}'"));
            }
        }
        Ok(Self { tables })
    }
}

/// The published table of a workload on a machine.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// The workload's name.
    pub workload: String,
    /// The machine's name.
    pub machine: String,
    /// Who published it, and when.
    pub source: String,
    /// The policies that correspond to the columns, the baseline first.
    pub policies: Vec<String>,
    /// The rows.
    #[serde(rename = "row")]
    pub rows: Vec<PublishedRow>,
}

/// A published row.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedRow {
    /// The published label, with its unit if it had one.
    pub label: String,
    /// The measure that it is compared with.
    pub measure: Formula,
    /// The factor from our unit to the published unit.
    #[serde(default = "one")]
    pub scale: f64,
    /// Whether the row tests the model; the inputs of the file say it.
    #[serde(skip, default = "predicted")]
    pub kind: Kind,
    /// The cells in the order of the policies; NaN if nothing was published.
    pub published: Vec<f64>,
    /// Whether only changes were published: the first cell is then 100, and ours are in percent of our
    /// first.
    #[serde(default)]
    pub relative: bool,
    /// Whether the row is a time, rate or share of one operation, which does not depend on the
    /// machine's scale, unlike counts and times of a whole run.
    #[serde(default)]
    pub scale_free: bool,
}

const fn one() -> f64 {
    1.0
}

const fn predicted() -> Kind {
    Kind::Predicted
}

/// Whether a row tests the model.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The model was fitted to the row, or has a figure of it: the row does not test the model.
    Fitted,
    /// The model was built without it.
    Predicted,
}

impl Kind {
    /// Returns its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fitted => "fitted",
            Self::Predicted => "predicted",
        }
    }
}

/// A published table with our values.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PublishedComparison {
    /// The workload's name.
    pub workload: String,
    /// The machine that we ran it on, with its scale.
    pub machine: String,
    /// Who published the table, and when.
    pub source: String,
    /// The policies.
    pub policies: Vec<String>,
    /// The number of seeds over which our values are means.
    pub seeds: usize,
    /// The rows.
    pub rows: Vec<PublishedComparisonRow>,
}

/// A row of [`PublishedComparison`].
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PublishedComparisonRow {
    /// The published label.
    pub label: String,
    /// Whether the row tests the model.
    pub kind: Kind,
    /// Whether values may be compared, or only changes: on a smaller machine counts and times of a
    /// whole run differ.
    pub values_compare: bool,
    /// One cell per policy.
    pub cells: Vec<PublishedComparisonCell>,
    /// The change of each policy from the first.
    pub changes: Vec<Change>,
}

/// The change from the first policy in percent, with its natural sign.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Change {
    /// The change of the published values.
    pub published: Option<f64>,
    /// The change of our values.
    pub ours: Option<f64>,
}

/// A published value and ours.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct PublishedComparisonCell {
    /// The published value.
    pub published: Option<f64>,
    /// The mean over our seeds.
    pub ours: Option<f64>,
}

impl PublishedComparisonCell {
    /// Returns our value divided by the published one.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        Some(self.ours? / self.published?).filter(|ratio| ratio.is_finite())
    }
}

impl PublishedComparisonRow {
    /// Makes a row of these cells.
    #[must_use]
    pub fn new(
        label: String,
        kind: Kind,
        values_compare: bool,
        cells: Vec<PublishedComparisonCell>,
    ) -> Self {
        let change = |base: Option<f64>, new: Option<f64>| {
            let (base, new) = (base?, new?);
            Some(100.0 * (new - base) / base).filter(|change| change.is_finite())
        };
        let first = cells.first().copied().unwrap_or_default();
        let of_cell = |cell: &PublishedComparisonCell| Change {
            published: change(first.published, cell.published),
            ours: change(first.ours, cell.ours),
        };
        let changes = cells.iter().map(of_cell).collect();
        Self { label, kind, values_compare, cells, changes }
    }
}

impl Table {
    /// Returns the table with the means of our runs. Runs under other policies are ignored.
    ///
    /// # Errors
    /// [`Error::NoRuns`].
    pub fn beside(&self, policies: &Policies<'_>) -> Result<PublishedComparison, Error> {
        let first = policies.runs().first().ok_or(Error::NoRuns)?;
        let reduced = first.machine != self.machine;
        let of_policy =
            |name: &String| policies.iter().find(|runs| runs[0].policy == *name).cloned();
        let columns: Vec<Vec<&Run>> =
            self.policies.iter().map(|name| of_policy(name).unwrap_or_default()).collect();
        let compared: Vec<Vec<Comparison>> = columns
            .iter()
            .map(|runs| {
                let of_run = |run: &&Run| {
                    Comparison::of_runs(std::slice::from_ref(*run), &Options::default())
                };
                runs.iter().map(of_run).collect()
            })
            .collect::<Result<_, _>>()?;
        let cell = |row: &PublishedRow, column: usize| {
            let values = columns[column].iter().zip(&compared[column]);
            let values: Option<Vec<f64>> =
                values.map(|(run, comparison)| value(&row.measure, run, comparison)).collect();
            let values = values.filter(|values| !values.is_empty());
            PublishedComparisonCell {
                published: Some(row.published[column]).filter(|value| !value.is_nan()),
                ours: values.map(|values| stats::amean(&values) * row.scale),
            }
        };
        let rows = self.rows.iter().map(|row| {
            let cells = (0..columns.len()).map(|column| cell(row, column)).collect();
            let cells = if row.relative { in_percent_of_first(cells) } else { cells };
            let values_compare = !reduced || row.scale_free || row.relative;
            PublishedComparisonRow::new(row.label.clone(), row.kind, values_compare, cells)
        });
        Ok(PublishedComparison {
            workload: self.workload.clone(),
            machine: first.machine.clone(),
            source: self.source.clone(),
            policies: self.policies.clone(),
            seeds: columns.iter().map(Vec::len).max().unwrap_or(0),
            rows: rows.collect(),
        })
    }
}

/// Reads a measure from a run, or from its comparison if it is one of the comparison's rows.
fn value(formula: &Formula, run: &Run, comparison: &Comparison) -> Option<f64> {
    match formula {
        Formula::Row(name) => {
            let mut rows = comparison.sections.iter().flat_map(|section| &section.rows);
            let row = rows.find(|row| format!("{} {}", row.group, row.label) == *name)?;
            row.cells[0].value.map(Value::as_f64)
        }
        Formula::Samples(statistic, name) => {
            // mmtests prints 0 if there are no samples.
            Some(statistic.of(run.samples.get(name).map_or(&[][..], Vec::as_slice), 1))
        }
        formula => formula.divided(run, 1),
    }
}

/// Returns our cells in percent of the first one; empty if the first is 0 or missing.
fn in_percent_of_first(mut cells: Vec<PublishedComparisonCell>) -> Vec<PublishedComparisonCell> {
    let base = cells.first().and_then(|cell| cell.ours).filter(|&base| base != 0.0);
    for cell in &mut cells {
        cell.ours = cell.ours.zip(base).map(|(ours, base)| 100.0 * ours / base);
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        Table {
            workload: "w".into(),
            machine: "m".into(),
            source: "somebody".into(),
            policies: vec!["a".into(), "b".into()],
            rows: vec![
                PublishedRow {
                    label: "Amean fault".into(),
                    measure: Formula::try_from("amean:fault".to_owned()).unwrap(),
                    scale: 0.001,
                    kind: Kind::Predicted,
                    published: vec![4.0, 3.0],
                    relative: false,
                    scale_free: true,
                },
                PublishedRow {
                    label: "probes".into(),
                    measure: Formula::try_from("row:Work list-probes".to_owned()).unwrap(),
                    scale: 1.0,
                    kind: Kind::Fitted,
                    published: vec![f64::NAN, 10.0],
                    relative: false,
                    scale_free: false,
                },
            ],
        }
    }

    fn run(policy: &str, seed: u64, fault: u64, probes: u64) -> Run {
        let mut run = Run { policy: policy.into(), machine: "m".into(), seed, ..Run::default() };
        run.samples.insert("fault".into(), vec![fault, fault + 2000]);
        run.counters.set("list_probes", probes);
        run
    }

    #[test]
    fn cells_are_means_over_the_seeds() {
        let runs = [run("a", 1, 1000, 4), run("a", 2, 3000, 6), run("b", 1, 0, 2)];
        let beside = table().beside(&Policies::of(&runs)).unwrap();
        assert_eq!(beside.seeds, 2);
        let [faults, probes] = &beside.rows[..] else { panic!("two rows") };
        assert_eq!(
            faults.cells[0],
            PublishedComparisonCell { published: Some(4.0), ours: Some(3.0) }
        );
        assert_eq!(faults.cells[1].ratio(), Some(1.0 / 3.0));
        let change = |published, ours| Change { published, ours };
        assert_eq!(faults.changes[1], change(Some(-25.0), Some(100.0 * (1.0 - 3.0) / 3.0)));
        assert_eq!(probes.cells[0], PublishedComparisonCell { published: None, ours: Some(5.0) });
        assert_eq!(probes.changes[1], change(None, Some(-60.0)));
        assert!(faults.values_compare && probes.values_compare);
    }

    /// Counts on an eighth of a machine are not an eighth of the whole machine's counts.
    #[test]
    fn only_scale_free_values_are_comparable_on_a_smaller_machine() {
        let mut runs = [run("a", 1, 1000, 4), run("b", 1, 2000, 3)];
        runs.iter_mut().for_each(|run| run.machine = "m at 1/8".into());
        let mut table = table();
        let compare = |table: &Table| -> Vec<bool> {
            table
                .beside(&Policies::of(&runs))
                .unwrap()
                .rows
                .iter()
                .map(|row| row.values_compare)
                .collect()
        };
        assert_eq!(compare(&table), [true, false]);
        table.rows[1].relative = true;
        assert_eq!(compare(&table), [true, true]);
        assert_eq!(
            table.beside(&Policies::of(&runs)).unwrap().rows[1].changes[1].ours,
            Some(-25.0)
        );
    }

    #[test]
    fn rows_of_an_input_are_fitted_and_no_others() {
        let file = |input: &str| File {
            inputs: vec![Input { measures: vec![input.to_owned()], _of: String::new() }],
            tables: vec![Table {
                rows: table()
                    .rows
                    .into_iter()
                    .map(|row| PublishedRow { kind: predicted(), ..row })
                    .collect(),
                ..table()
            }],
        };
        let kinds = |input: &str| {
            let published = Published::try_from(file(input))?;
            Ok(published.tables[0].rows.iter().map(|row| row.kind).collect::<Vec<_>>())
        };
        assert_eq!(kinds("amean:fau*"), Ok(vec![Kind::Fitted, Kind::Predicted]));
        assert_eq!(kinds("row:Work list-probes"), Ok(vec![Kind::Predicted, Kind::Fitted]));
        let error: Result<Vec<Kind>, String> = kinds("amean:fau");
        assert_eq!(error.unwrap_err(), "no row has the measure of the input 'amean:fau'");
    }

    #[test]
    fn relative_rows_are_in_percent() {
        let mut table = table();
        table.rows[0].relative = true;
        table.rows[0].published = vec![100.0, 107.0];
        let runs = [run("a", 1, 1000, 4), run("b", 1, 2000, 4)];
        let beside = table.beside(&Policies::of(&runs)).unwrap();
        let [first, second] = beside.rows[0].cells[..] else { panic!("two cells") };
        assert_eq!((first.ours, second.ours), (Some(100.0), Some(150.0)));
        let change = Change { published: Some(7.0), ours: Some(50.0) };
        assert_eq!(beside.rows[0].changes[1], change);
    }

    #[test]
    fn a_policy_without_runs_has_empty_cells() {
        let beside = table().beside(&Policies::of(&[run("a", 1, 1000, 4)])).unwrap();
        assert_eq!(beside.rows[0].cells[1].ours, None);
    }
}
