//! The times of emulated machines, which are in no table.

use super::operations::Operations;
use crate::run::Run;
use crate::value::clock::Clock;

/// Takes out of a table what an emulator timed, and what was compared with it; `None` if nothing else is in it.
pub(crate) fn without_emulated_times(
    mut table: Operations,
    is_count: &dyn Fn(&str) -> bool,
    policies: &[Vec<&Run>],
    baseline: usize,
) -> Option<Operations> {
    let emulated = |runs: &Vec<&Run>| runs.iter().any(|run| run.clock == Some(Clock::Emulated));
    let emulated: Vec<bool> = policies.iter().map(emulated).collect();
    if emulated.iter().all(|&emulated| emulated) {
        table.rows.retain(|row| is_count(&row.operation));
    }
    let times = table.rows.iter_mut().filter(|row| !is_count(&row.operation));
    for cells in times.map(|row| &mut row.cells) {
        for (cell, &itself) in cells.iter_mut().zip(&emulated) {
            if itself {
                cell.value = f64::NAN;
            }
            if itself || emulated[baseline] {
                cell.delta = f64::NAN;
                cell.star = false;
            }
        }
    }
    (!table.rows.is_empty()).then_some(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::tables::Style;
    use crate::statistics::multiops::{StatCell, StatRow};

    #[test]
    fn emulated_times_are_in_no_table() {
        let cell = StatCell { value: 5.0, delta: 1.0, star: true };
        let row =
            StatRow { statistic: "Amean".into(), operation: "x".into(), cells: vec![cell, cell] };
        let table = Operations { title: "t".into(), style: Style::Mmtests2018, rows: vec![row] };
        let (timed, emulated) =
            (Run::default(), Run { clock: Some(Clock::Emulated), ..Run::default() });
        let policies = [vec![&timed], vec![&emulated]];
        let kept = without_emulated_times(table.clone(), &|_| false, &policies, 0).unwrap();
        let cells = &kept.rows[0].cells;
        assert_eq!(cells[0], cell);
        assert!(cells[1].value.is_nan() && cells[1].delta.is_nan() && !cells[1].star);
        let all = [vec![&emulated]];
        assert_eq!(without_emulated_times(table.clone(), &|_| false, &all, 0), None);
        assert!(without_emulated_times(table, &|name| name == "x", &all, 0).is_some());
    }
}
