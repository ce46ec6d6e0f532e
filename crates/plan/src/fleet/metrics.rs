//! A machine known by its metrics alone: what `pageblock metrics` wrote.

use std::collections::BTreeMap;
use std::path::Path;

use pageblock_doctor::checkup::Sample;
use pageblock_doctor::fleet::Row;

use super::Host;
use crate::error::{Result, bail};
use crate::text::read_text;

/// The size limit of a file of metrics.
const FILE_BYTES: u64 = 16 << 20;

/// A metric with its labels and value.
struct Metric<'t> {
    name: &'t str,
    labels: BTreeMap<&'t str, &'t str>,
    value: f64,
}

/// Returns the row of a machine by its metrics.
pub(super) fn row(host: &Host, of: impl Fn(&Sample, Option<&Sample>) -> Row) -> Result<Row> {
    let text = read_text(Path::new(&host.path), "metrics", FILE_BYTES)?;
    let mut sample = Sample { page_kb: 4, ..Sample::default() };
    let (mut findings, mut severity) = (Vec::new(), None);
    let (mut total, mut free) = (0.0, 0.0);
    let mut numbers = 0_usize;
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let Some(metric) = parse(line) else {
            bail!(
                "{}:{number}: found {line:?}; expected NAME{{LABEL=\"VALUE\",...}} NUMBER",
                host.path
            );
        };
        numbers += 1;
        let label = |key: &str| metric.labels.get(key).copied().unwrap_or_default();
        match metric.name {
            "pageblock_free_blocks" => {
                let order = label("order").parse().ok().filter(|order: &usize| *order < 64);
                let (Some(order), Ok(node)) = (order, label("node").parse()) else {
                    bail!(
                        "{}:{number}: found {line:?}; expected a node, and an order below 64",
                        host.path
                    );
                };
                let free = sample.free_blocks.entry((node, label("zone").to_owned())).or_default();
                free.resize(free.len().max(order + 1), 0);
                free[order] = metric.value as u64;
            }
            "pageblock_finding" => {
                findings.push(label("name").to_owned());
                let rank = |name: &str| {
                    ["notice", "warning", "critical"].iter().position(|own| *own == name)
                };
                let worse = severity.as_deref().and_then(rank) < rank(label("severity"));
                if worse {
                    severity = Some(label("severity").to_owned());
                }
            }
            "pageblock_zone_managed_bytes" => total += metric.value,
            "pageblock_zone_free_bytes" => free += metric.value,
            "pageblock_oom_kills_total" => {
                sample.vmstat.insert("oom_kill".to_owned(), metric.value as u64);
            }
            _ => {}
        }
    }
    if numbers == 0 {
        bail!("{}: no metric in it", host.path);
    }
    let kills = sample.vmstat.get("oom_kill").copied();
    let mib = |bytes: f64| (bytes / f64::from(1 << 20)) as u64;
    let mut row = of(&sample, None);
    // What the machine itself found counts, not what lacks here.
    (row.findings, row.severity, row.first, row.missing) = (findings, severity, None, None);
    row.total_mib = (total > 0.0).then(|| mib(total));
    row.free_mib = (total > 0.0).then(|| mib(free));
    row.oom_kills = kills.unwrap_or(0);
    row.hurts = None;
    Ok(row)
}

/// Reads a line of Prometheus's text format.
fn parse(line: &str) -> Option<Metric<'_>> {
    let (head, rest) = match line.split_once('{') {
        Some((name, rest)) => {
            let (labels, rest) = rest.rsplit_once('}')?;
            ((name, labels), rest)
        }
        None => {
            let (name, rest) = line.split_once(' ')?;
            ((name, ""), rest)
        }
    };
    // A time may follow the value.
    let value = rest.split_whitespace().next()?.parse().ok()?;
    let label = |text: &'_ str| -> Option<(usize, usize)> {
        let equal = text.find("=\"")?;
        let end = text[equal + 2..].find('"')? + equal + 2;
        Some((equal, end))
    };
    let (name, mut text) = head;
    let mut labels = BTreeMap::new();
    while let Some((equal, end)) = label(text) {
        labels.insert(text[..equal].trim_start_matches(','), &text[equal + 2..end]);
        text = &text[end + 1..];
    }
    Some(Metric { name: name.trim(), labels, value })
}
