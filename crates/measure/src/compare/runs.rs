//! The comparison of runs as data: labelled rows of values, and their difference from a baseline.

use serde::Serialize;

use super::common::{Column, Options, calibration, certificate, note, notes};
use crate::catalogue::sections;
use crate::catalogue::{Measure, Value};
use crate::certificate::note::Note;
use crate::certificate::{Certified, Support};
use crate::run::Run;
use crate::run::calibration::Calibration;
use crate::run::policies::check_baseline;
use crate::statistics::stats::{Direction, weiner_diff};
use crate::value::error::Error;

/// The comparison of runs: one column per run.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Comparison {
    /// The columns.
    pub columns: Vec<Column>,
    /// The column that the others are compared with, from 0.
    pub baseline: usize,
    /// The rows, by subject.
    pub sections: Vec<Section>,
    /// Notes that a reader needs to interpret the numbers.
    pub notes: Vec<Note>,
    /// How well the recorded kernel's own policy reproduced the recording.
    pub certificate: Option<Certified>,
    /// The comparison of a free replay under the recorded policy with the recording.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Calibration>,
}

/// Rows of one subject.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Section {
    /// What the rows measure, with its unit.
    pub title: String,
    /// Why some rows have no difference, and what to compare instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// What the recording supports of it; `None` if it is not graded.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub support: Option<Support>,
    /// The rows.
    pub rows: Vec<ComparisonRow>,
}

/// One measure under every policy.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ComparisonRow {
    /// The first column of the table, common to related rows: `Extfrag`.
    pub group: String,
    /// The second column: `total`.
    pub label: String,
    /// Which way is better.
    pub direction: Direction,
    /// The values, one for each column.
    pub cells: Vec<Cell>,
}

/// A value and its difference from the baseline.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Cell {
    /// The value; `None` if the run does not have it.
    pub value: Option<Value>,
    /// The difference from the baseline in percent, as in mmtests: positive is better; if neither
    /// direction is better, the natural change. `None` if there is none, or if one of the two runs did
    /// not finish.
    pub delta: Option<f64>,
}

impl ComparisonRow {
    fn new(measure: &Measure, runs: &[Run], baseline: usize) -> Option<Self> {
        let values: Vec<Option<Value>> = runs.iter().map(|run| measure.value(run)).collect();
        let base = values[baseline].map(Value::as_f64).filter(|_| runs[baseline].ended.is_none());
        let cell = |(value, run): (Option<Value>, &Run)| {
            let base = base.filter(|_| measure.comparable(&runs[baseline], run));
            let new = value.map(Value::as_f64).filter(|_| run.ended.is_none());
            let delta = base.zip(new).map(|(base, new)| measure.direction.delta(base, new));
            Cell { value, delta: delta.filter(|delta| delta.is_finite()) }
        };
        let shown = measure.is_shown(&values);
        shown.then(|| Self {
            group: measure.group.clone().into_owned(),
            label: measure.label.clone().into_owned(),
            direction: measure.direction,
            cells: values.into_iter().zip(runs).map(cell).collect(),
        })
    }
}

impl Comparison {
    /// Compares runs, each in its own column. Rows without a value in any run are omitted, and so are
    /// sections without a row.
    ///
    /// # Errors
    /// [`Error::NoRuns`] and [`Error::Baseline`].
    pub fn of_runs(runs: &[Run], options: &Options) -> Result<Self, Error> {
        check_baseline(options.baseline, runs.len())?;
        let mut sections = Vec::new();
        for subject in sections::of_runs(runs) {
            let rows = subject.measures.iter();
            let rows: Vec<_> = rows
                .filter_map(|measure| ComparisonRow::new(measure, runs, options.baseline))
                .collect();
            if !rows.is_empty() {
                let note = note(&subject, runs);
                let support = certificate(runs, options).and_then(|of| of.support(subject.part?));
                sections.push(Section { title: subject.title, note, support, rows });
            }
        }
        Ok(Self {
            columns: runs.iter().map(|run| Column::of_policy(&run.policy)).collect(),
            baseline: options.baseline,
            sections,
            notes: notes(runs, options),
            certificate: certificate(runs, options),
            calibration: calibration(runs, options),
        })
    }

    /// Returns the changes of a row from the baseline as in Weiner's tables ([`weiner_diff`]); `None`
    /// where a value is missing.
    #[must_use]
    pub fn weiner_changes(&self, row: &ComparisonRow) -> Vec<Option<f64>> {
        let values: Vec<Option<f64>> =
            row.cells.iter().map(|cell| cell.value.map(Value::as_f64)).collect();
        let base = values.get(self.baseline).copied().flatten();
        values.iter().map(|new| Some(weiner_diff(base?, (*new)?))).collect()
    }

    /// Returns the row with this group and label.
    #[must_use]
    pub fn row(&self, group: &str, label: &str) -> Option<&ComparisonRow> {
        let mut rows = self.sections.iter().flat_map(|section| &section.rows);
        rows.find(|row| row.group == group && row.label == label)
    }
}

#[cfg(test)]
mod tests {
    use pageblock::mobility::Migratetype::{self, Movable, Unmovable};

    use super::*;
    use crate::certificate::Loop;
    use crate::certificate::note::Known;
    use crate::value::blocks::BlockCensus;
    use crate::value::event_unit::{EventUnit, NOTE_ACROSS_6_10, NOTE_OF_SECTION};
    use crate::value::extfrag::ExtfragKey;

    fn run(policy: &str, stolen: u64, polluted: u64) -> Run {
        let mut run = Run { policy: policy.into(), ..Run::default() };
        let mut add = |alloc_mt: Migratetype, fallback_mt, fallback_order, count| {
            let owned = false;
            run.extfrag.add(
                ExtfragKey { alloc_mt, fallback_mt, alloc_order: 0, fallback_order, owned },
                count,
            );
        };
        add(Movable, Unmovable, 3, stolen);
        add(Unmovable, Movable, 4, polluted);
        add(Unmovable, Movable, 9, 1000);
        run
    }

    fn check(comparison: &Comparison, group: &str, label: &str, expect: &[(f64, f64)]) {
        let row = comparison.row(group, label).unwrap_or_else(|| panic!("no {group} {label}"));
        let cells: Vec<(f64, f64)> =
            row.cells.iter().map(|c| (c.value.unwrap().as_f64(), c.delta.unwrap())).collect();
        assert_eq!(cells, expect, "{group} {label}");
    }

    #[test]
    fn events_are_split_by_request_fallback_and_harm() {
        let runs = [run("a", 80, 20), run("b", 40, 30)];
        let comparison = Comparison::of_runs(&runs, &Options::default()).unwrap();
        check(&comparison, "Extfrag", "total", &[(100.0, 0.0), (70.0, 30.0)]);
        check(&comparison, "Extfrag", "for-Movable", &[(80.0, 0.0), (40.0, 50.0)]);
        check(&comparison, "Extfrag", "for-Unmovable", &[(20.0, 0.0), (30.0, -50.0)]);
        check(&comparison, "Extfrag", "for-Reclaimable", &[(0.0, 0.0), (0.0, 0.0)]);
        check(&comparison, "Extfrag", "from-Movable", &[(20.0, 0.0), (30.0, -50.0)]);
        check(&comparison, "Extfrag", "found-order-3", &[(80.0, 0.0), (40.0, 50.0)]);
        assert!(comparison.row("Extfrag", "found-order-2").is_none());
        check(&comparison, "Fallback", "steals", &[(80.0, 0.0), (40.0, 50.0)]);
        check(&comparison, "Fallback", "claims", &[(0.0, 0.0), (0.0, 0.0)]);
        check(
            &comparison,
            "Fallback",
            "total",
            &[(1100.0, 0.0), (1070.0, 100.0 - 1070.0 * 100.0 / 1100.0)],
        );
    }

    #[test]
    fn events_are_those_below_the_machines_own_pageblocks() {
        let runs = [Run { pageblock_order: Some(10), ..run("a", 80, 20) }];
        let comparison = Comparison::of_runs(&runs, &Options::default()).unwrap();
        check(&comparison, "Extfrag", "total", &[(1100.0, 0.0)]);
        check(&comparison, "Extfrag", "found-order-9", &[(1000.0, 0.0)]);
        assert!(comparison.sections[0].title.ends_with("below order 10)"));
    }

    #[test]
    fn the_baseline_is_selectable() {
        let runs = [run("a", 80, 0), run("b", 40, 0)];
        let options = Options { baseline: 1, ..Options::default() };
        let comparison = Comparison::of_runs(&runs, &options).unwrap();
        check(&comparison, "Extfrag", "total", &[(80.0, -100.0), (40.0, 0.0)]);
        let options = Options { baseline: 2, ..Options::default() };
        assert!(matches!(
            Comparison::of_runs(&runs, &options),
            Err(Error::Baseline { baseline: 2, columns: 2 })
        ));
        assert!(matches!(Comparison::of_runs(&[], &options), Err(Error::NoRuns)));
    }

    #[test]
    fn unmeasured_values_are_missing_and_not_zero() {
        let mut runs = [run("a", 0, 0), run("b", 0, 0)];
        runs[1].counters.set("type_mismatch_UinM", 5);
        let comparison = Comparison::of_runs(&runs, &Options::default()).unwrap();
        let row = comparison.row("Mismatch", "Unmovable-in-Movable").unwrap();
        assert_eq!(row.cells[0], Cell { value: None, delta: None });
        assert_eq!(row.cells[1], Cell { value: Some(Value::Count(5)), delta: None });
        assert!(comparison.row("Mismatch", "total").is_none());
    }

    #[test]
    fn end_state_rows() {
        let mut runs = [run("a", 0, 0), run("b", 0, 0)];
        runs[0].set_free_blocks("Normal", vec![6, 1]);
        runs[1].set_free_blocks("Normal", vec![2, 3]);
        let mut census = BlockCensus::default();
        census.by_type[Movable] = 10;
        census.mixed[Movable] = 4;
        runs[0].set_blocks(census);
        census.mixed[Movable] = 1;
        runs[1].set_blocks(census);
        for (run, failed) in runs.iter_mut().zip([8, 6]) {
            run.counters.set("alloc_failed_order_9", failed);
            run.counters.set("alloc_failed_order_0", 0);
        }
        let comparison = Comparison::of_runs(&runs, &Options::default()).unwrap();
        check(
            &comparison,
            "Unusable%",
            "Normal-order-1",
            &[(75.0, 0.0), (25.0, 100.0 - 100.0 / 3.0)],
        );
        check(&comparison, "FreePages", "order-1", &[(2.0, 0.0), (6.0, 200.0)]);
        check(&comparison, "Blocks", "Movable", &[(10.0, 0.0), (10.0, 0.0)]);
        check(&comparison, "Mixed", "total", &[(4.0, 0.0), (1.0, 75.0)]);
        check(&comparison, "Failed", "total", &[(8.0, 0.0), (6.0, 25.0)]);
        check(&comparison, "Failed", "order-9", &[(8.0, 0.0), (6.0, 25.0)]);
        assert!(comparison.row("Failed", "order-0").is_none());
    }

    /// A run before 6.10 counts stolen blocks, later runs count stolen pages.
    #[test]
    fn counts_of_events_have_no_difference_across_6_10() {
        let mut runs = [run("a", 80, 20), run("b", 40, 30), run("c", 800, 10)];
        for (run, unit) in
            runs.iter_mut().zip([EventUnit::Block, EventUnit::Block, EventUnit::Page])
        {
            run.extfrag_unit = Some(unit);
            run.counters.set("type_mismatch_pages", 7);
        }
        let comparison = Comparison::of_runs(&runs, &Options::default()).unwrap();
        let deltas = |group: &str, label: &str| -> Vec<Option<f64>> {
            let row = comparison.row(group, label).unwrap();
            row.cells.iter().map(|cell| cell.delta).collect()
        };
        assert_eq!(deltas("Extfrag", "total"), [Some(0.0), Some(30.0), None]);
        assert_eq!(deltas("Extfrag", "from-Movable"), [Some(0.0), Some(-50.0), None]);
        assert_eq!(deltas("Fallback", "steals"), [Some(0.0), Some(50.0), None]);
        assert_eq!(deltas("Mismatch", "total"), [Some(0.0); 3]);
        let noted = |title: &str| {
            let section = comparison.sections.iter().find(|s| s.title.starts_with(title)).unwrap();
            section.note.as_deref()
        };
        assert_eq!(noted("External fragmentation events"), Some(NOTE_OF_SECTION));
        assert_eq!(noted("Pages allocated into a block of another type"), None);
        // The notes quote the title of that section.
        for note in [NOTE_OF_SECTION, NOTE_ACROSS_6_10] {
            assert!(note.contains("Pages allocated into a block of another type"), "{note}");
        }
        let alike = Comparison::of_runs(&runs[..2], &Options::default()).unwrap();
        assert_eq!((alike.notes.len(), &alike.sections[0].note), (0, &None));
    }

    #[test]
    fn incomparable_values_have_no_change() {
        let mut runs = [run("a", 80, 20), run("b", 40, 30), run("c", 40, 30)];
        runs.iter_mut().for_each(|run| run.counters.set("type_mismatch_pages", 5));
        for (at, run) in runs.iter_mut().enumerate() {
            run.extfrag_unit = Some(if at == 1 { EventUnit::Block } else { EventUnit::Page });
        }
        let comparison = Comparison::of_runs(&runs, &Options::default()).unwrap();
        for (group, label) in
            [("Extfrag", "total"), ("Extfrag", "for-Movable"), ("Fallback", "total")]
        {
            let cells = &comparison.row(group, label).unwrap().cells;
            assert!(cells.iter().all(|cell| cell.value.is_some()));
            let with_change: Vec<bool> = cells.iter().map(|cell| cell.delta.is_some()).collect();
            assert_eq!(with_change, [true, false, true], "{group} {label}");
        }
        let mismatch = &comparison.row("Mismatch", "total").unwrap().cells;
        assert!(mismatch.iter().all(|cell| cell.delta.is_some()));
    }

    #[test]
    fn notes_are_collected_once() {
        let mut runs = [run("a", 0, 0), run("b", 0, 0)];
        runs[1].machine = "other".into();
        let open = Note::from(Known::Replayed { of: Loop::Open });
        runs[0].notes = vec![open.clone()];
        runs[1].notes = vec![open.clone()];
        runs[0].extfrag_unit = Some(EventUnit::Block);
        runs[1].extfrag_unit = Some(EventUnit::Page);
        let mine = Note::from("mine".to_owned());
        let options = Options { notes: vec![mine.clone()], ..Options::default() };
        let comparison = Comparison::of_runs(&runs, &options).unwrap();
        let [what, first, other] = ["machine", "", "other"].map(str::to_owned);
        let differ = Known::Differs { what, first, other };
        assert_eq!(comparison.notes, [Known::UnitsDiffer.into(), differ.into(), mine, open]);
    }

    #[test]
    fn a_policy_is_a_kernel_and_its_switches() {
        let check = |policy: &str, kernel: &str, label: &str| {
            let expect = Column { kernel: kernel.to_owned(), label: label.to_owned() };
            assert_eq!(Column::of_policy(policy), expect);
        };
        check("linux-4.20", "linux-4.20", "vanilla");
        check("linux-4.20,nofragment=on,boost=0", "linux-4.20", "nofragment=on,boost=0");
        check("linux-4.20,", "linux-4.20", "vanilla");
    }
}
