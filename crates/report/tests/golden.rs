//! Parses every golden table and prints it again, byte for byte.
//!
//! The files under `tests/golden` were printed by mmtests itself (its states of 2018, 2021 and 2026, on
//! synthetic data). The cells of each file are read and passed to the printer; if a file has differences in
//! percent, they are compared with those of `pageblock-measure`.

use pageblock_measure::compare::common::Column;
use pageblock_measure::statistics::stats::{Direction, pdiff, pndiff};
use pageblock_report::mmtests::{
    Bracket, Cell, FIELD_2018, FIELD_DEFAULT, FIELD_VMSTAT, MmtestsRow, Table,
};
use pageblock_report::ratio::{RatioCell, RatioTable};

const THPFIOSCALE: &str = include_str!("golden/thpfioscale-2018-format.txt");
const PERCENTAGE: &str = include_str!("golden/thpfioscale-percentage-2018-format.txt");
const NETPERF: &str = include_str!("golden/netperf-udp-2021-format.txt");
const MULTIOPS: &str = include_str!("golden/multiops-2026-format.txt");
const DURATION: &str = include_str!("golden/duration-vmstat-2026-format.txt");

fn columns(header: [&str; 2]) -> Vec<Column> {
    let pairs = header[0].split_whitespace().zip(header[1].split_whitespace());
    pairs.map(|(kernel, label)| Column { kernel: kernel.into(), label: label.into() }).collect()
}

/// Parses a row: the label is everything before the first value, and its first word is the statistic.
fn parse_row(line: &str, bracket: Bracket) -> MmtestsRow {
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_value = |word: &&str| word.contains('.') && word.parse::<f64>().is_ok();
    let first = words.iter().position(is_value).expect("a value");
    let text = words[first..].join(" ");
    let cell = |value: &str, delta: Option<&str>, star| Cell {
        value: value.trim().parse().ok(),
        delta: delta.map(|delta| delta.trim().parse().expect("a number or NaN")),
        star,
    };
    let cells = match bracket {
        Bracket::None => words[first..].iter().map(|value| cell(value, None, false)).collect(),
        _ => text
            .split('%')
            .filter_map(|part| {
                let part = part.trim_start_matches([')', '*', ' ']);
                let (value, delta) = part.split_once(['(', '*'])?;
                Some(cell(value, Some(delta), part.contains('*')))
            })
            .collect(),
    };
    MmtestsRow { statistic: words[0].into(), operation: words[1..first].join(" "), cells }
}

fn parse(text: &str, field: usize, bracket: Bracket) -> Table {
    let mut lines = text.lines();
    let header = [lines.next().unwrap(), lines.next().unwrap()];
    let rows = lines.map(|line| parse_row(line, bracket));
    let (significance, rows) = rows.partition(|row| row.statistic == "Significant");
    Table { columns: columns(header), field, bracket, rows, significance }
}

#[track_caller]
fn check(text: &str, field: usize, bracket: Bracket) -> Table {
    let table = parse(text, field, bracket);
    assert!(table.columns.len() > 1 && !table.rows.is_empty());
    assert!(table.rows.iter().all(|row| row.cells.len() == table.columns.len()));
    assert_eq!(table.print(), text);
    table
}

/// Returns the parts of a file between its lines of dashes.
fn parts(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let parts = lines.split(|line| line.starts_with("----"));
    parts.map(|lines| lines.iter().map(|line| format!("{line}\n")).collect()).collect()
}

/// Checks that the differences of printed values agree with the printed differences, within rounding.
fn check_differences(table: &Table, direction: Direction) {
    for row in &table.rows {
        let spread = row.statistic.contains("Stddev") || row.statistic.contains("CoeffVar");
        let diff = if spread || direction == Direction::Lower { pndiff } else { pdiff };
        let base = row.cells[0].value.unwrap();
        for cell in &row.cells {
            let (new, printed) = (cell.value.unwrap(), cell.delta.unwrap());
            if printed.is_nan() {
                // The deviation of a single sample, which prints as 0.00.
                assert_eq!((row.statistic.as_str(), base), ("Stddev", 0.0));
                continue;
            }
            let rounding = 0.005 + if base > 0.0 { 0.5 * (1.0 + new / base) / base } else { 0.0 };
            let computed = diff(base, new);
            assert!((computed - printed).abs() <= rounding * 1.01, "{row:?}: {computed}");
        }
    }
}

#[test]
fn thpfioscale_2018() {
    let table = check(THPFIOSCALE, FIELD_2018, Bracket::Percent);
    check_differences(&table, Direction::Lower);
    let stars = |row: &MmtestsRow| row.cells.iter().any(|cell| cell.star);
    assert!(table.rows.iter().all(|row| stars(row) == (row.statistic == "Amean")));
}

#[test]
fn thpfioscale_percentage_2018() {
    let table = check(PERCENTAGE, FIELD_2018, Bracket::Percent);
    check_differences(&table, Direction::Higher);
}

#[test]
fn netperf_2021() {
    let table = check(NETPERF, FIELD_2018, Bracket::Percent);
    assert_eq!(table.rows.len(), 144);
    check_differences(&table, Direction::Higher);
}

#[test]
fn multiops_2026() {
    let parts = parts(MULTIOPS);
    assert_eq!(parts.len(), 3);
    let table = check(&parts[0], FIELD_DEFAULT, Bracket::Percent);
    check_differences(&table, Direction::Higher);
    let with_significance = check(&parts[1], FIELD_DEFAULT, Bracket::Percent);
    assert_eq!(with_significance.significance.len(), 3);
    assert_eq!(with_significance.rows, table.rows);
}

#[test]
fn ratios_2026() {
    let text = &parts(MULTIOPS)[2];
    let lines: Vec<&str> = text.lines().collect();
    let clean = |word: &str| word.trim_matches(['(', ')', '%', 's']).parse::<f64>().unwrap();
    let (mut rows, mut summary) = (Vec::new(), Vec::new());
    for line in &lines[2..] {
        let words: Vec<&str> = line.split_whitespace().collect();
        let numbers: Vec<f64> = words[2..].iter().map(|word| clean(word)).collect();
        if words[0] == "Ratio" {
            let cell = |c: &[f64]| RatioCell { ratio: c[0], delta: c[1], distance: c[2] };
            rows.push((words[1].to_owned(), numbers.chunks(3).map(cell).collect()));
        } else {
            summary.push((words[0].to_owned(), words[1].to_owned(), numbers));
        }
    }
    let columns = columns([lines[0], lines[1]]);
    assert_eq!(RatioTable { columns, field: FIELD_DEFAULT, rows, summary }.print(), *text);
}

#[test]
fn duration_and_vmstat_2026() {
    let (duration, vmstat) = DURATION.split_once("\n\n").unwrap();
    let duration = check(&format!("{duration}\n"), FIELD_DEFAULT, Bracket::None);
    assert_eq!(duration.rows.len(), 3);
    let vmstat = check(vmstat, FIELD_VMSTAT, Bracket::None);
    assert_eq!(vmstat.rows[3].operation, "Kswapd efficiency %");
}
