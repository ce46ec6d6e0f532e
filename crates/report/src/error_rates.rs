//! How often verdicts are wrong, and what they find, as tables.

use pageblock_measure::compare::error_rates::{
    ALLOWED, AtSize, ErrorRates, SIZES, highest_by_chance,
};

use crate::summary::number;
use crate::table::Table;

/// Prints error rates: false alarms by workload and seeds, then what is found by measure.
#[must_use]
pub fn print(of: &[ErrorRates]) -> String {
    let rates: Vec<f64> = of
        .iter()
        .flat_map(|of| &of.sizes)
        .flat_map(|size| [Some(size.false_alarms), size.of_three])
        .flatten()
        .collect();
    let (Some(worst), Some(splits)) =
        (rates.iter().copied().max_by(f64::total_cmp), of.iter().map(|of| of.splits).min())
    else {
        return "Nothing was measured.\n".to_owned();
    };
    let all = rates.iter().sum::<f64>() / rates.len() as f64;
    format!(
        "False alarms: {} % of comparisons on average; {} % are allowed.\n\
         The highest of {} rates is {} %; if each were {} %, the highest would be up to {} % ({splits} splits, 95 %).\n\n\
         False alarms [%] of a kernel beside itself, and beside two copies of itself (after the stroke), by seeds\n{}\n\
         The smallest decrease [%] that is found in 80 % of comparisons, by seeds\n{}\
         spread: the standard deviation in percent of the mean. correlation: of ranks, with the same seeds under another kernel.\n",
        percent(all),
        100.0 * ALLOWED,
        rates.len(),
        percent(worst),
        100.0 * ALLOWED,
        percent(highest_by_chance(rates.len(), splits)),
        alarms(of),
        found(of),
    )
}

/// Returns a table with a column for each number of seeds.
fn with_sizes(mut table: Table) -> Table {
    for size in SIZES {
        table = table.number(&size.to_string());
    }
    table.number("auto")
}

fn alarms(of: &[ErrorRates]) -> String {
    let mut table =
        with_sizes(Table::new().text("workload").number("runs")).number("seeds taken by auto");
    for rates in of {
        let cell = |size: &AtSize| {
            let of_three = size.of_three.map_or_else(|| "-".to_owned(), percent);
            format!("{} / {of_three}", percent(size.false_alarms))
        };
        let mut row = vec![rates.subject.clone(), rates.pool.to_string()];
        row.extend(placed(rates, rates.sizes.iter().map(cell).collect()));
        row.push(
            rates
                .sizes
                .iter()
                .find(|size| size.auto)
                .map_or_else(String::new, |auto| number(auto.seeds.round())),
        );
        table.row(row);
    }
    table.print()
}

fn found(of: &[ErrorRates]) -> String {
    let mut table = with_sizes(
        Table::new()
            .text("workload")
            .text("measure")
            .number("mean")
            .number("spread")
            .number("correlation"),
    );
    for rates in of {
        let mut subject = rates.subject.as_str();
        for measure in &rates.measures {
            let mut row = vec![
                subject.to_owned(),
                measure.measure.clone(),
                number(measure.mean),
                format!("{:.0}", 100.0 * measure.spread),
                measure.correlation.map_or_else(|| "-".to_owned(), |of| format!("{of:+.2}")),
            ];
            let cell = |found: &Option<u32>| {
                found.map_or_else(|| "-".to_owned(), |percent| percent.to_string())
            };
            row.extend(placed(rates, measure.found.iter().map(cell).collect()));
            table.row(row);
            subject = "";
        }
    }
    table.print()
}

/// Puts cells of the sizes that were tried into the columns of all: that of as many as needed is last.
fn placed(rates: &ErrorRates, cells: Vec<String>) -> Vec<String> {
    let mut row = vec![String::new(); SIZES.len() + 1];
    for (size, cell) in rates.sizes.iter().zip(cells) {
        let at = match size.auto {
            true => SIZES.len(),
            false => SIZES.iter().position(|&of| of as f64 == size.seeds).unwrap_or(SIZES.len()),
        };
        row[at] = cell;
    }
    row
}

fn percent(share: f64) -> String {
    format!("{:.1}", 100.0 * share)
}

#[cfg(test)]
mod tests {
    use pageblock_measure::compare::error_rates::{Pooled, Splits, measure};
    use pageblock_measure::statistics::stats::Direction;

    use super::*;

    #[test]
    fn every_size_has_its_column() {
        let values: Vec<f64> = (0..30).map(|at| 100.0 + f64::from(at * 17 % 30)).collect();
        let pool = Pooled {
            name: "Pages".to_owned(),
            direction: Direction::Lower,
            other: values.clone(),
            values,
        };
        let rates = measure("work on m".to_owned(), &[pool], Splits { alarms: 20, power: 20 });
        let text = print(&[rates]);
        assert!(text.starts_with("False alarms: "), "{text}");
        let row = text.lines().find(|line| line.starts_with("work on m  Pages")).expect("a row");
        assert!(row.contains("+1.00"), "{row}");
        // Thirty runs are two sides of five, eight and twelve, and no more.
        let cells: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(
            cells.len(),
            "work on m Pages 114.50 8 +1.00 5 8 12 auto".split(' ').count(),
            "{row}"
        );
    }
}
