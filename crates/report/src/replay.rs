//! The comparison of replays under several policies, in the layout of mmtests.

use pageblock_measure::certificate::note::Note;
use pageblock_measure::compare::runs::{Comparison, Section};

use crate::calibration;
use crate::certificate::supports;
use crate::mmtests::{Bracket, Cell, FIELD_2018, MmtestsRow, Table};
use crate::note;

/// The meaning of the percentages of a comparison.
pub const LEGEND: &str = "Percentages: positive is better, as in mmtests. Rows for which neither way \
    is better (Blocks, FreePages, claims, some Ops) show the plain change.";

/// Prints the calibration, the notes, the legend, and a titled table for each section that the
/// recording supports; with `uncertified` for every section.
#[must_use]
pub fn print(comparison: &Comparison, uncertified: bool) -> String {
    let line = comparison.calibration.as_ref().map(calibration::line);
    let mut text = print_preamble(line.as_deref(), &comparison.notes);
    let calibration = comparison.calibration.as_ref().map(calibration::print);
    let tables = comparison.sections.iter().map(|section| {
        let support = section.support.map(|of| format!("(supports {})\n", supports(of)));
        if !uncertified && section.support.is_some_and(|support| !support.is_printed()) {
            let support = support.unwrap_or_default();
            return format!("{}\n{support}(not printed: --uncertified prints it)\n", section.title);
        }
        titled(&section.title, section.note.as_deref())
            + &support.unwrap_or_default()
            + &table(comparison, section).print()
    });
    text += &calibration.into_iter().chain(tables).collect::<Vec<_>>().join("\n");
    text
}

/// Returns the table of a section.
#[must_use]
pub fn table(comparison: &Comparison, section: &Section) -> Table {
    let row = |row: &pageblock_measure::compare::runs::ComparisonRow| MmtestsRow {
        statistic: row.group.clone(),
        operation: row.label.clone(),
        cells: row
            .cells
            .iter()
            .map(|cell| Cell {
                value: cell.value.map(pageblock_measure::catalogue::Value::as_f64),
                delta: cell.delta,
                star: false,
            })
            .collect(),
    };
    Table {
        columns: comparison.columns.clone(),
        field: FIELD_2018,
        bracket: Bracket::Percent,
        rows: section.rows.iter().map(row).collect(),
        significance: Vec::new(),
    }
}

/// Prints a section's title, and below it its note in brackets.
pub(crate) fn titled(title: &str, note: Option<&str>) -> String {
    let note = note.map_or(String::new(), |note| format!("({note})\n"));
    format!("{title}\n{note}")
}

/// Prints a calibration's line, notes and the legend, and an empty line below them.
pub(crate) fn print_preamble(calibration: Option<&str>, notes: &[Note]) -> String {
    let mut text = String::new();
    if let Some(calibration) = calibration {
        text += &format!("Calibration: {calibration}\n");
    }
    for note in notes.iter().map(note::words) {
        text += &format!("Note: {note}\n");
    }
    text + LEGEND + "\n\n"
}

#[cfg(test)]
mod tests {
    use pageblock::mobility::Migratetype;
    use pageblock_measure::certificate::{Certified, Part, Reproduced, Support};
    use pageblock_measure::compare::common::Options;
    use pageblock_measure::run::Run;
    use pageblock_measure::value::event_unit::EventUnit;
    use pageblock_measure::value::extfrag::ExtfragKey;

    use super::*;

    fn run(policy: &str, fallbacks: u64) -> Run {
        let mut run = Run { policy: policy.into(), ..Run::default() };
        let key = ExtfragKey {
            alloc_mt: Migratetype::Unmovable,
            fallback_mt: Migratetype::Movable,
            alloc_order: 0,
            fallback_order: 4,
            owned: false,
        };
        run.extfrag.add(key, fallbacks);
        run
    }

    /// What the recording cannot support is not printed, but for those who insist.
    #[test]
    fn unsupported_sections_are_left_out() {
        let runs = [run("linux-6.9", 100), run("linux-6.8", 300)];
        let unsupported = Support::Unsupported { margin_permyriad: 17_143 };
        let supports = [(Part::Fragmentation, unsupported), (Part::Effects, Support::Rare)];
        let reproduced = Reproduced { parts: supports.into(), ..Reproduced::default() };
        let certificate = Some(Certified::Reproduced(Box::new(reproduced)));
        let options = Options { certificate, ..Options::default() };
        let comparison = Comparison::of_runs(&runs, &options).unwrap();
        let text = print(&comparison, false);
        let title = "External fragmentation events (mm_page_alloc_extfrag below order 9)\n\
                     (supports nothing: the replay is off by 171.43 %)\n";
        assert!(text.contains(&format!("{title}(not printed: --uncertified prints it)\n")));
        assert!(!text.contains("Extfrag total") && text.contains("Fallback total"), "{text}");
        let text = print(&comparison, true);
        assert!(text.contains(title) && text.contains("Extfrag total"), "{text}");
    }

    #[test]
    fn notes_are_printed_above_the_tables() {
        let mut runs = [run("linux-6.9", 804_694), run("linux-6.12,claim=whole", 408_912)];
        for (run, unit) in runs.iter_mut().zip([EventUnit::Block, EventUnit::Page]) {
            run.extfrag_unit = Some(unit);
        }
        let text = print(&Comparison::of_runs(&runs, &Options::default()).unwrap(), false);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("Note: Linux 6.10 lies between"));
        assert_eq!(lines[1..3], [LEGEND, ""]);
        assert_eq!(
            lines[3..9].join("\n"),
            concat!(
                "External fragmentation events (mm_page_alloc_extfrag below order 9)\n",
                "(one event is a block before Linux 6.10 and a page from then on: compare \"Pages allocated into a block of another type\")\n",
                "                                            linux-6.9             linux-6.12\n",
                "                                              vanilla            claim=whole\n",
                "Extfrag total                    804694.00 (   0.00%)   408912.00 (      - )\n",
                "Extfrag for-Unmovable            804694.00 (   0.00%)   408912.00 (      - )"
            )
        );
        assert!(text.contains("\n\nAll fallbacks by what they do to the block"));
        assert!(text.contains("Fallback pollutions   804694.00 (   0.00%)   408912.00 (      - )"));
    }
}
