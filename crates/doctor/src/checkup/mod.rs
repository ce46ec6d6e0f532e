//! Checks whether a machine's memory is fragmented, whether that hurts, and what to do first.

mod finding;
mod health;
mod klog;
mod patterns;
mod rates;
mod sample;
mod settings;

use pageblock_measure::value::call_sites::Wait;
use serde::Serialize;

pub use self::finding::{Command, Finding, Severity};
pub use self::health::{ZoneAccounts, ZoneHealth};
pub use self::klog::{Failures, Kill, Signs};
pub(crate) use self::klog::{length, line_of_record};
pub use self::rates::Rates;
pub use self::sample::{Pressure, Sample};
pub use self::settings::{FolioSize, HugePages, Hugetlb};
use crate::class::Class;
use crate::proc::tree::Missing;

/// The fragmentation of free memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fragmented {
    /// Unknown, without free lists.
    Unknown,
    /// Less than 30 % of free memory is in blocks below a pageblock.
    No,
    /// Less than 70 % is.
    Partly,
    /// 70 % or more is, but there are enough blocks of orders up to 3.
    Yes,
    /// Half of free memory is in blocks below order 3.
    Badly,
}

/// Whether fragmentation hurts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Hurts {
    /// Not measured: a single sample, without signs of past failures.
    Unknown,
    /// No sign of it was found.
    No,
    /// It did, according to the log.
    Did,
    /// It does.
    Yes,
}

/// The result of an examination.
#[derive(Clone, Debug, Serialize)]
pub struct Checkup {
    /// The kernel's version.
    pub version: Option<String>,
    /// The times of the two samples in UTC, if they come from a flight file.
    pub examined: Option<[String; 2]>,
    /// The size of a page in kB.
    pub page_kb: u64,
    /// The order of a pageblock.
    pub pageblock_order: u8,
    /// The fragmentation of free memory.
    pub fragmented: Fragmented,
    /// Whether fragmentation hurts.
    pub hurts: Hurts,
    /// Why it hurts, or does not.
    pub why: Vec<String>,
    /// Free memory in pages; `None` if no file has it.
    pub free: Option<u64>,
    /// The share of all free memory in blocks too small for an order, in thousandths, by order.
    pub unusable: Vec<u64>,
    /// The findings, the worst first.
    pub findings: Vec<Finding>,
    /// The zones.
    pub zones: Vec<ZoneHealth>,
    /// The rates between two samples.
    pub rates: Option<Rates>,
    /// Pressure stall information of memory.
    pub pressure: Option<Pressure>,
    /// Transparent huge pages.
    pub huge: HugePages,
    /// hugetlb pages.
    pub hugetlb: Hugetlb,
    /// The time since boot in seconds.
    pub uptime: Option<f64>,
    /// The signs in the log.
    pub log: Option<Signs>,
    /// The parts that could not be read.
    pub missing: Vec<Missing>,
}

/// Examines a machine by one or two samples.
#[must_use]
pub fn checkup(first: &Sample, second: Option<&Sample>) -> Checkup {
    let mut sample = second.unwrap_or(first).clone();
    sample.log = sample.log.or_else(|| first.log.clone());
    let sample = &sample;
    let mut missing = sample.missing.clone();
    let rates = match second.map(|second| Rates::between(first, second)) {
        Some(Ok(rates)) => Some(rates),
        Some(Err(why)) => {
            missing.push(sample::gone("rates", why));
            None
        }
        None => None,
    };
    let zones = health::zones(sample);
    let facts = patterns::Facts { sample, rates: rates.as_ref(), zones: &zones };
    let findings = patterns::findings(&facts);
    let pageblock_order = facts.pageblock_order();
    let fragmented = fragmented(&facts, pageblock_order);
    let (hurts, why) = hurts(sample, rates.as_ref(), sample.log.as_ref());
    let orders = zones.iter().map(|zone| zone.free_blocks.len()).max().unwrap_or(0);
    Checkup {
        version: sample.release(),
        examined: first.time.clone().zip(sample.time.clone()).map(|(from, to)| [from, to]),
        page_kb: sample.page_kb,
        pageblock_order,
        fragmented,
        hurts,
        why,
        free: (!zones.is_empty()).then(|| zones.iter().map(|zone| zone.free).sum()),
        unusable: (0..orders).filter_map(|order| health::unusable(&zones, order)).collect(),
        findings,
        zones,
        rates,
        pressure: sample.pressure,
        huge: sample.huge.clone(),
        hugetlb: sample.hugetlb.clone(),
        uptime: sample.uptime,
        log: sample.log.clone(),
        missing,
    }
}

fn fragmented(facts: &patterns::Facts<'_>, pageblock_order: u8) -> Fragmented {
    let (Some(pageblock), Some(small)) = (facts.unusable(pageblock_order), facts.unusable(3))
    else {
        return Fragmented::Unknown;
    };
    match (pageblock, small) {
        (_, 500..) => Fragmented::Badly,
        (700.., _) => Fragmented::Yes,
        (300.., _) => Fragmented::Partly,
        _ => Fragmented::No,
    }
}

/// Returns whether fragmentation hurts, and why.
fn hurts(sample: &Sample, rates: Option<&Rates>, log: Option<&Signs>) -> (Hurts, Vec<String>) {
    let mut now = Vec::new();
    if let Some(rates) = rates {
        if rates.compact_stall >= 1.0 {
            now.push(format!("{:.1} requests/s compact memory themselves", rates.compact_stall));
        }
        if rates.thp_fallback >= 1.0 && rates.thp_fallback >= rates.thp_alloc {
            now.push(format!("{:.1} faults/s get no huge page", rates.thp_fallback));
        }
    }
    if let Some(rates) = rates.filter(|rates| rates.oom_kills > 0.0) {
        let kills = rates.oom_kills * rates.seconds;
        now.push(format!("the OOM killer ended {kills:.0} tasks in these {:.0} s", rates.seconds));
    }
    if !now.is_empty() {
        return (Hurts::Yes, now);
    }
    let killed = killed(sample, log);
    if !killed.is_empty() {
        return (Hurts::Did, killed);
    }
    let failures: u64 =
        log.map_or(0, |log| log.of(Class::Fragmentation, 0..=63).map(|f| f.count).sum());
    if failures > 0 {
        return (Hurts::Did, vec![format!("the log has {failures} failures for fragmentation")]);
    }
    match rates {
        Some(rates) => (Hurts::No, seldom(rates)),
        None if sample.vmstat.is_empty() => (Hurts::Unknown, vec!["no /proc/vmstat".to_owned()]),
        None => (Hurts::Unknown, vec!["rates need two samples (--interval, --later)".to_owned()]),
    }
}

/// Describes rates that are too low to hurt, with their values.
fn seldom(rates: &Rates) -> Vec<String> {
    let per_second = |rate: f64| match rate {
        ..0.1 => "fewer than 0.1".to_owned(),
        _ => format!("{rate:.1}"),
    };
    let stalls = match rates.compact_stall {
        0.0 => "no request compacts memory to get a block".to_owned(),
        rate => format!("{} requests/s compact memory to get a block", per_second(rate)),
    };
    let asked = rates.thp_alloc + rates.thp_fallback;
    let huge = match (asked, rates.thp_fallback) {
        (0.0, _) => "no fault asks for a huge page".to_owned(),
        (_, 0.0) => "huge page faults succeed".to_owned(),
        (_, rate) => format!("{} of {asked:.1} huge page faults/s get none", per_second(rate)),
    };
    vec![stalls, huge]
}

/// Describes the tasks that the OOM killer killed before the samples.
fn killed(sample: &Sample, log: Option<&Signs>) -> Vec<String> {
    if let Some(kill) = log.and_then(|log| log.last_kill.as_ref()) {
        let whose = if kill.of_cgroup { " of a cgroup at its limit" } else { "" };
        return vec![format!(
            "the OOM killer ended {}{whose} {}",
            kill.task,
            kill.ago(sample.uptime)
        )];
    }
    let counted = sample.counter("oom_kill");
    match (counted, log) {
        (0, _) => Vec::new(),
        (_, Some(_)) => vec![format!(
            "the OOM killer ended {counted} tasks since boot, before the first line of the log"
        )],
        (_, None) => {
            vec![format!("the OOM killer ended {counted} tasks since boot; the log tells when")]
        }
    }
}

impl Checkup {
    /// Names the source of compaction, by the events that were traced between the samples.
    pub fn attribute(&mut self, waits: &[Wait]) {
        let found = self.findings.iter_mut().find(|finding| finding.name == "direct_compaction");
        if let Some(finding) = found {
            patterns::attribute(finding, waits);
        }
    }

    /// Returns the severity of the worst finding.
    #[must_use]
    pub fn severity(&self) -> Option<Severity> {
        self.findings.iter().map(|finding| finding.severity).max()
    }
}
