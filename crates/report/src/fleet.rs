//! Many machines on one screen.

use std::collections::BTreeMap;

use pageblock_doctor::fleet::Row;

use crate::forecast::grouped;
use crate::table::Table;
use crate::text::cell;

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
    let mut text =
        format!("{} hosts: {} examined", grouped(rows.len() as u64), grouped(good.len() as u64));
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
        text += &format!("cannot be read: {}: {}\n", cell(&row.host), cell(why));
    }
    if bad.len() > ROWS {
        text += &format!("and {} more\n", bad.len() - ROWS);
    }
    text
}

/// Counts the machines by a word, most first.
fn counts<'r>(rows: &[&'r Row], of: impl Fn(&'r Row) -> Option<&'r str>) -> Vec<(&'r str, usize)> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for row in rows {
        *counts.entry(of(row).unwrap_or("unknown")).or_default() += 1;
    }
    let mut counts: Vec<(&str, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts
}

fn shares<'r>(rows: &[&'r Row], of: impl Fn(&'r Row) -> Option<&'r str>) -> String {
    let all: Vec<String> =
        counts(rows, of).iter().map(|(word, count)| format!("{word} {count}")).collect();
    all.join(", ")
}

/// Returns the kernels of machines, most first.
fn versions(rows: &[&Row]) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for row in rows {
        *counts.entry(row.kernel_version().unwrap_or_else(|| "?".to_owned())).or_default() += 1;
    }
    let mut counts: Vec<(String, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let more = counts.len().saturating_sub(3);
    let mut all: Vec<String> =
        counts.into_iter().take(3).map(|(version, count)| format!("{version}: {count}")).collect();
    if more > 0 {
        all.push(format!("{more} more"));
    }
    all.join(", ")
}

fn findings(rows: &[&Row]) -> String {
    let mut by_name: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
    for row in rows {
        for finding in &row.findings {
            by_name.entry(finding).or_default().push(row);
        }
    }
    let mut found: Vec<(&str, Vec<&Row>)> = by_name.into_iter().collect();
    found.sort_by_key(|(_, rows)| std::cmp::Reverse(rows.len()));
    let mut table = Table::new().text("finding").number("hosts").text("kernels").text("such as");
    let more = found.len().saturating_sub(ROWS);
    if found.is_empty() {
        return "findings: none\n".to_owned();
    }
    for (name, own) in found.into_iter().take(ROWS) {
        let hosts: Vec<_> = own.iter().take(2).map(|row| cell(&row.host)).collect();
        table.row([
            cell(name).into_owned(),
            grouped(own.len() as u64),
            cell(&versions(&own)).into_owned(),
            hosts.join(", "),
        ]);
    }
    let more = if more > 0 { format!("and {more} more\n") } else { String::new() };
    format!("\n{}{more}", table.print())
}

fn failures(rows: &[&Row]) -> String {
    let mut by_class: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
    for row in rows {
        if let Some(class) = &row.class {
            by_class.entry(class).or_default().push(row);
        }
    }
    if by_class.is_empty() {
        return String::new();
    }
    let mut found: Vec<(&str, Vec<&Row>)> = by_class.into_iter().collect();
    found.sort_by_key(|(_, rows)| std::cmp::Reverse(rows.len()));
    let mut table = Table::new().text("failures in logs").number("hosts").number("reports");
    table = table.number("OOM kills").text("kernels").text("most held by");
    for (class, own) in found.into_iter().take(ROWS) {
        let sum = |of: fn(&Row) -> u64| grouped(own.iter().map(|row| of(row)).sum());
        table.row([
            cell(class).into_owned(),
            grouped(own.len() as u64),
            sum(|row| row.failures),
            sum(|row| row.oom_kills),
            cell(&versions(&own)).into_owned(),
            cell(counts(&own, |row| row.holder()).first().map_or("", |(name, _)| *name))
                .into_owned(),
        ]);
    }
    format!("\n{}", table.print())
}

fn kernels(rows: &[&Row]) -> String {
    let mut by_version: BTreeMap<String, Vec<&Row>> = BTreeMap::new();
    for row in rows {
        by_version
            .entry(row.kernel_version().unwrap_or_else(|| "?".to_owned()))
            .or_default()
            .push(row);
    }
    let mut found: Vec<(String, Vec<&Row>)> = by_version.into_iter().collect();
    found.sort_by_key(|(_, rows)| std::cmp::Reverse(rows.len()));
    let mut table = Table::new().text("kernel").number("hosts").number("hurt").number("warned");
    table = table.number("below a pageblock, median %").number("direct compaction/h, median");
    for (version, own) in found.into_iter().take(ROWS) {
        let hurt = own.iter().filter(|row| matches!(row.hurts.as_deref(), Some("yes" | "did")));
        let warned = own
            .iter()
            .filter(|row| matches!(row.severity.as_deref(), Some("warning" | "critical")));
        let median = |of: &dyn Fn(&Row) -> Option<f64>| {
            let values: Vec<f64> = own.iter().filter_map(|row| of(row)).collect();
            median(values).map_or("?".to_owned(), |value| format!("{value:.1}"))
        };
        table.row([
            cell(&version).into_owned(),
            grouped(own.len() as u64),
            grouped(hurt.count() as u64),
            grouped(warned.count() as u64),
            median(&|row| row.unusable_pageblock.map(|share| 100.0 * share)),
            median(&|row| row.rates.get("direct_compaction_per_hour").copied()),
        ]);
    }
    format!("\n{}", table.print())
}

/// Returns the median; `None` without values.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        count if count.is_multiple_of(2) => Some(f64::midpoint(values[middle - 1], values[middle])),
        _ => Some(values[middle]),
    }
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
    let rates: std::collections::BTreeSet<&String> =
        rows.iter().flat_map(|row| row.rates.keys()).collect();
    for name in rates {
        add(name.clone(), &|row| row.rates.get(name).copied());
    }
    // A share, so that large machines are no outliers for their size.
    let held: std::collections::BTreeSet<&String> =
        rows.iter().flat_map(|row| row.held_mib.keys()).collect();
    for name in held.into_iter().filter(|name| name.as_str() != "page_cache") {
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
        let Some(middle) = median(values.iter().map(|(_, value)| *value).collect()) else {
            continue;
        };
        let spread = median(values.iter().map(|(_, value)| (value - middle).abs()).collect());
        // Where most machines have one value, a tenth of it is the spread, at least one event, or a hundredth of a share.
        let is_share = name.starts_with("unusable") || name.ends_with("share");
        let least = if is_share { 0.01 } else { 1.0 };
        let spread = spread.unwrap_or(0.0).max(middle.abs() / 10.0).max(least);
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
        let hosts: Vec<_> = own.iter().take(2).map(|(_, _, row, ..)| cell(&row.host)).collect();
        table.row([
            cell(figure).into_owned(),
            grouped(own.len() as u64),
            format!("{:.2}", own[0].3),
            format!("{:.2}", own[0].4),
            hosts.join(", "),
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
}
