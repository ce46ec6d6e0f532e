//! Many machines on one screen.

use std::collections::{BTreeMap, BTreeSet};

use pageblock_doctor::fleet::Row;
use pageblock_measure::statistics::stats::median;

use crate::forecast::grouped;
use crate::table::Table;
use crate::text::{cell, in_line};

/// The rows of each table, and the machines that are named.
const ROWS: usize = 6;
/// How many median deviations from the median are an outlier (Iglewicz and Hoaglin 1993: a modified z-score of 3.5).
const OUTLIER: f64 = 3.5;
/// The fewest machines that have a median worth naming.
const FEWEST: usize = 8;

/// Prints what fails where, the kernels, and the machines that differ from the others.
#[must_use]
pub fn print(rows: &[Row]) -> String {
    let (good, bad): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(|row| row.error.is_none());
    let mut text = format!(
        "{} host{}: {} examined",
        grouped(rows.len() as u64),
        if rows.len() == 1 { "" } else { "s" },
        grouped(good.len() as u64)
    );
    if !bad.is_empty() {
        text += &format!(", {} cannot be read", grouped(bad.len() as u64));
    }
    text += &format!(
        "\nfragmented: {}\ndoes it hurt: {}\n",
        shares(&good, |row| row.fragmented.as_deref()),
        shares(&good, |row| row.hurts.as_deref()),
    );
    text += &findings(&good);
    text += &failures(&good);
    text += &kernels(&good);
    text += &outliers(&good);
    for row in bad.iter().take(ROWS) {
        let why = row.error.as_deref().unwrap_or_default();
        text += &format!("cannot be read: {}: {}\n", in_line(&row.host), in_line(why));
    }
    text + &more(bad.len())
}

/// Says how many there are beyond those that are printed.
fn more(all: usize) -> String {
    match all.saturating_sub(ROWS) {
        0 => String::new(),
        more => format!("and {more} more\n"),
    }
}

/// Groups the machines by names that each has, the largest group first.
fn by<'r, N: Ord, I: IntoIterator<Item = N>>(
    rows: &[&'r Row],
    of: impl Fn(&'r Row) -> I,
) -> Vec<(N, Vec<&'r Row>)> {
    let mut groups: BTreeMap<N, Vec<&Row>> = BTreeMap::new();
    for &row in rows {
        for name in of(row) {
            groups.entry(name).or_default().push(row);
        }
    }
    let mut groups: Vec<(N, Vec<&Row>)> = groups.into_iter().collect();
    groups.sort_by_key(|(_, rows)| std::cmp::Reverse(rows.len()));
    groups
}

fn version(row: &Row) -> String {
    row.kernel_version().unwrap_or_else(|| "?".to_owned())
}

/// Names two machines.
fn such_as<'r>(rows: impl Iterator<Item = &'r Row>) -> String {
    rows.take(2).map(|row| cell(&row.host)).collect::<Vec<_>>().join(", ")
}

/// Counts the machines by a word, most first.
fn shares<'r>(rows: &[&'r Row], of: impl Fn(&'r Row) -> Option<&'r str>) -> String {
    let groups = by(rows, |row| [of(row).unwrap_or("unknown")]);
    let all: Vec<String> =
        groups.iter().map(|(word, own)| format!("{word} {}", own.len())).collect();
    all.join(", ")
}

/// Returns the kernels of machines, most first.
fn versions(rows: &[&Row]) -> String {
    let groups = by(rows, |row| [version(row)]);
    let mut all: Vec<String> =
        groups.iter().take(3).map(|(version, own)| format!("{version}: {}", own.len())).collect();
    if groups.len() > 3 {
        all.push(format!("{} more", groups.len() - 3));
    }
    all.join(", ")
}

fn findings(rows: &[&Row]) -> String {
    let found = by(rows, |row| row.findings.iter().map(String::as_str));
    if found.is_empty() {
        return "findings: none\n".to_owned();
    }
    let mut table = Table::new().text("finding").number("hosts").text("kernels").text("such as");
    for (name, own) in found.iter().take(ROWS) {
        table.row([
            cell(name).into_owned(),
            grouped(own.len() as u64),
            cell(&versions(own)).into_owned(),
            such_as(own.iter().copied()),
        ]);
    }
    format!("\n{}{}", table.print(), more(found.len()))
}

fn failures(rows: &[&Row]) -> String {
    let found = by(rows, |row| row.class.as_deref());
    if found.is_empty() {
        return String::new();
    }
    let mut table = Table::new().text("failures in logs").number("hosts").number("reports");
    table = table.number("OOM kills").text("kernels").text("most held by");
    for (class, own) in found.iter().take(ROWS) {
        let sum = |of: fn(&Row) -> u64| grouped(own.iter().map(|row| of(row)).sum());
        let holders = by(own, |row| [row.holder().unwrap_or("unknown")]);
        table.row([
            cell(class).into_owned(),
            grouped(own.len() as u64),
            sum(|row| row.failures),
            sum(|row| row.oom_kills),
            cell(&versions(own)).into_owned(),
            cell(holders.first().map_or("", |(name, _)| name)).into_owned(),
        ]);
    }
    format!("\n{}{}", table.print(), more(found.len()))
}

fn kernels(rows: &[&Row]) -> String {
    let found = by(rows, |row| [version(row)]);
    let mut table = Table::new().text("kernel").number("hosts").number("hurt").number("warned");
    table = table.number("below a pageblock, median %").number("direct compaction/h, median");
    for (version, own) in found.iter().take(ROWS) {
        let hurt = own.iter().filter(|row| matches!(row.hurts.as_deref(), Some("yes" | "did")));
        let warned = own
            .iter()
            .filter(|row| matches!(row.severity.as_deref(), Some("warning" | "critical")));
        let median = |of: &dyn Fn(&Row) -> Option<f64>| {
            let values: Vec<f64> = own.iter().filter_map(|row| of(row)).collect();
            match values.as_slice() {
                [] => "?".to_owned(),
                values => format!("{:.1}", median(values)),
            }
        };
        table.row([
            cell(version).into_owned(),
            grouped(own.len() as u64),
            grouped(hurt.count() as u64),
            grouped(warned.count() as u64),
            median(&|row| row.unusable_pageblock.map(|share| 100.0 * share)),
            median(&|row| row.rates.get("direct_compaction_per_hour").copied()),
        ]);
    }
    format!("\n{}{}", table.print(), more(found.len()))
}

/// Returns a figure of each machine that has it, by its name.
fn figures<'r>(rows: &[&'r Row]) -> Vec<(String, Vec<(&'r Row, f64)>)> {
    let mut all = Vec::new();
    let mut add = |name: String, of: &dyn Fn(&Row) -> Option<f64>| {
        let values: Vec<(&Row, f64)> =
            rows.iter().filter_map(|row| Some((*row, of(row)?))).collect();
        all.push((name, values));
    };
    add("unusable_pageblock".to_owned(), &|row| row.unusable_pageblock);
    add("failures".to_owned(), &|row| Some(row.failures as f64));
    let rates: BTreeSet<&String> = rows.iter().flat_map(|row| row.rates.keys()).collect();
    for name in rates {
        add(name.clone(), &|row| row.rates.get(name).copied());
    }
    // A share, so that large machines are no outliers for their size.
    let held: BTreeSet<&String> = rows.iter().flat_map(|row| row.held_mib.keys()).collect();
    for name in held.into_iter().filter(|name| name.as_str() != "file") {
        add(format!("held by {name}, share"), &|row| {
            let total = row.total_mib.filter(|&mib| mib > 0)?;
            Some(*row.held_mib.get(name)? as f64 / total as f64)
        });
    }
    all
}

/// Returns the machines that are far above the others in a figure.
fn outliers(rows: &[&Row]) -> String {
    let mut found: Vec<(f64, String, &Row, f64, f64)> = Vec::new();
    for (name, values) in figures(rows) {
        if values.len() < FEWEST {
            continue;
        }
        let of_all = |of: &dyn Fn(f64) -> f64| {
            median(&values.iter().map(|(_, value)| of(*value)).collect::<Vec<f64>>())
        };
        let middle = of_all(&|value| value);
        let spread = of_all(&|value| (value - middle).abs());
        // Where most machines have one value, a tenth of it is the spread, at least one event, or a hundredth of a share.
        let is_share = name.starts_with("unusable") || name.ends_with("share");
        let least = if is_share { 0.01 } else { 1.0 };
        let spread = spread.max(middle.abs() / 10.0).max(least);
        for (row, value) in values {
            let score = 0.6745 * (value - middle) / spread;
            if score > OUTLIER {
                found.push((score, name.clone(), row, value, middle));
            }
        }
    }
    if found.is_empty() {
        return String::new();
    }
    found.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    let mut figures: Vec<&str> = Vec::new();
    for (_, name, ..) in &found {
        if !figures.contains(&name.as_str()) {
            figures.push(name);
        }
    }
    let mut table = Table::new().text("far above the others in").number("hosts");
    table = table.number("the farthest").number("median").text("such as");
    let more = figures.len().saturating_sub(ROWS);
    for figure in figures.into_iter().take(ROWS) {
        let own: Vec<_> = found.iter().filter(|(_, name, ..)| name == figure).collect();
        table.row([
            cell(figure).into_owned(),
            grouped(own.len() as u64),
            format!("{:.2}", own[0].3),
            format!("{:.2}", own[0].4),
            such_as(own.iter().map(|(_, _, row, ..)| *row)),
        ]);
    }
    let more = if more > 0 {
        format!("and {more} more figures: the table has them (-o)\n")
    } else {
        String::new()
    };
    format!("\n{}{more}", table.print())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(number: usize) -> Row {
        Row {
            host: format!("h{number:02}"),
            kernel: Some(if number < 6 { "6.1.0-9" } else { "5.15.0-101-generic" }.to_owned()),
            fragmented: Some("no".to_owned()),
            hurts: Some("no".to_owned()),
            unusable_pageblock: Some(0.20 + number as f64 / 1000.0),
            ..Row::default()
        }
    }

    #[test]
    fn one_screen_says_what_fails_where_and_who_is_different() {
        let mut rows: Vec<Row> = (0..10).map(host).collect();
        rows[3].unusable_pageblock = Some(0.9);
        for at in [2, 3, 7] {
            rows[at].findings = vec!["burst".to_owned()];
            rows[at].severity = Some("warning".to_owned());
            rows[at].class = Some("burst".to_owned());
            rows[at].failures = 4;
        }
        rows[7].hurts = Some("did".to_owned());
        rows.push(Row::failed("h99", "unknown", "/x", "an empty file".to_owned()));
        let text = print(&rows);
        for line in [
            "11 hosts: 10 examined, 1 cannot be read",
            "does it hurt: no 9, did 1",
            "cannot be read: h99: an empty file",
        ] {
            assert!(text.lines().any(|own| own == line), "{line} in {text}");
        }
        let row = |begin: &str| {
            let line = text.lines().find(|line| line.starts_with(begin));
            line.unwrap_or_else(|| panic!("no {begin} in {text}"))
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(row("burst  "), "burst 3 6.1: 2, 5.15: 1 h02, h03");
        assert_eq!(row("6.1"), "6.1 6 0 2 20.3 ?");
        assert_eq!(row("unusable_pageblock"), "unusable_pageblock 1 0.90 0.21 h03");
        assert!(text.lines().count() <= 24, "{text}");
    }

    /// Eight kernels on one host each, and a file whose name has a line break.
    #[test]
    fn what_is_left_out_is_counted_and_a_name_stays_in_its_line() {
        let of = |at: usize| Row { kernel: Some(format!("6.{at}.0")), ..host(at) };
        let mut rows: Vec<Row> = (0..8).map(of).collect();
        rows.push(Row::failed("a\nb", "unknown", "a\nb", "a\nb: an empty file".to_owned()));
        let text = print(&rows);
        assert!(text.contains("\n6.5  ") && !text.contains("\n6.6 "), "{text}");
        assert!(text.contains("\nand 2 more\n"), "{text}");
        assert!(text.ends_with("cannot be read: a\\nb: a\\nb: an empty file\n"), "{text}");
    }
}
