//! A machine among many: its examination as a row of a table.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::checkup::{Checkup, Sample};
use crate::explain::Explanation;
use crate::holders::{Holder, Holding};

/// The row of a machine; null for unknown values.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Row {
    /// The machine.
    pub host: String,
    /// The kind of its source: `tree`, `archive`, `flight`, `metrics`, `log`.
    pub source: String,
    /// The file or folder.
    pub path: String,
    /// The reason why it cannot be examined.
    pub error: Option<String>,
    /// The parts that could not be read, if the rest was.
    pub missing: Option<String>,
    /// The kernel's release.
    pub kernel: Option<String>,
    /// Seconds since boot.
    pub uptime_s: Option<f64>,
    /// Memory in MiB.
    pub total_mib: Option<u64>,
    /// Free memory in MiB.
    pub free_mib: Option<u64>,
    /// Whether it is fragmented: `unknown`, `no`, `partly`, `yes`, `badly`.
    pub fragmented: Option<String>,
    /// Whether that hurts: `unknown`, `no`, `did`, `yes`.
    pub hurts: Option<String>,
    /// The severity of the worst finding.
    pub severity: Option<String>,
    /// The findings, the worst first.
    pub findings: Vec<String>,
    /// The first command of the worst finding.
    pub first: Option<String>,
    /// The class of most failures in the log.
    pub class: Option<String>,
    /// Failed allocations and OOM reports in the log.
    pub failures: u64,
    /// The most frequent order of these failures.
    pub page_order: Option<u32>,
    /// The time of the last failure.
    pub last_failure: Option<String>,
    /// Tasks that the OOM killer killed, according to the log.
    pub oom_kills: u64,
    /// The last killed task, and the time.
    pub last_kill: Option<String>,
    /// The holders of memory, in MiB, by the names of [`Holding`], and `percpu`.
    pub held_mib: BTreeMap<String, u64>,
    /// The share of free memory in blocks below order 3, 0 to 1.
    pub unusable_order_3: Option<f64>,
    /// The share of free memory in blocks below a pageblock, 0 to 1.
    pub unusable_pageblock: Option<f64>,
    /// The largest fragmentation index of the large zones for the order of a pageblock, 0 to 1; null if such a block is free.
    pub index_pageblock: Option<f64>,
    /// Rates per second between two samples, and per hour since boot.
    pub rates: BTreeMap<String, f64>,
}

/// The holders in `/proc/meminfo`, and its lines for them. Page cache is computed from several lines.
const HELD: [(Holding, &str); 7] = [
    (Holding::Anonymous, "AnonPages"),
    (Holding::Shmem, "Shmem"),
    (Holding::SlabReclaimable, "SReclaimable"),
    (Holding::SlabUnreclaimable, "SUnreclaim"),
    (Holding::KernelStack, "KernelStack"),
    (Holding::PageTables, "PageTables"),
    (Holding::Hugetlb, "Hugetlb"),
];

/// Counters of `/proc/vmstat` that become rates since boot: the column, and the names (`*`: prefixes) that are added up.
const SINCE_BOOT: [(&str, &str); 6] = [
    ("direct_compaction_per_hour", "compact_stall"),
    ("compaction_in_vain_per_hour", "compact_fail"),
    ("direct_reclaim_per_hour", "allocstall*"),
    ("huge_faults_per_hour", "thp_fault_alloc"),
    ("huge_faults_failed_per_hour", "thp_fault_fallback"),
    ("oom_kills_per_hour", "oom_kill"),
];

impl Row {
    /// Returns the row of a machine that cannot be examined.
    #[must_use]
    pub fn failed(host: &str, source: &str, path: &str, why: String) -> Self {
        let (host, source, path) = (host.to_owned(), source.to_owned(), path.to_owned());
        Self { host, source, path, error: Some(why), ..Self::default() }
    }

    /// Returns the row of a machine, from its last sample and its examination.
    #[must_use]
    pub fn of(host: &str, source: &str, path: &str, sample: &Sample, of: &Checkup) -> Self {
        let mib = |pages: u64| pages * of.page_kb / 1024;
        let managed: Option<u64> = of.zones.iter().map(super::checkup::ZoneHealth::managed).sum();
        let total = sample.kb("MemTotal").map(|kb| kb / 1024);
        let share = |order: usize| of.unusable.get(order).map(|&share| share as f64 / 1000.0);
        let pageblock = usize::from(of.pageblock_order);
        let index =
            of.zones.iter().filter_map(|zone| zone.fragmentation.get(pageblock).copied().flatten());
        let missing: Vec<String> =
            of.missing.iter().map(|m| format!("{}: {}", m.file, m.why)).collect();
        let mut row = Self {
            kernel: of.version.clone(),
            uptime_s: of.uptime,
            total_mib: total.or(managed.filter(|_| !of.zones.is_empty()).map(mib)),
            free_mib: of.free.map(mib),
            fragmented: word(&of.fragmented),
            hurts: word(&of.hurts),
            severity: of.severity().as_ref().and_then(word),
            findings: of.findings.iter().map(|finding| finding.name.to_owned()).collect(),
            first: of
                .findings
                .iter()
                .find_map(|finding| Some(finding.commands.first()?.run.clone())),
            missing: (!missing.is_empty()).then(|| missing.join("; ")),
            held_mib: held(sample),
            unusable_order_3: share(3),
            unusable_pageblock: share(pageblock),
            index_pageblock: index.max().map(|index| index as f64 / 1000.0),
            rates: rates(sample, of),
            host: host.to_owned(),
            source: source.to_owned(),
            path: path.to_owned(),
            ..Self::default()
        };
        row.log(of);
        row
    }

    fn log(&mut self, of: &Checkup) {
        let Some(log) = &of.log else { return };
        let most = log.failures.iter().max_by_key(|failures| failures.count);
        self.failures = log.failures.iter().map(|failures| failures.count).sum();
        self.class = most.and_then(|failures| word(&failures.class));
        self.page_order = most.map(|failures| failures.order);
        self.last_failure = log.latest().map(|failures| failures.last_ago(of.uptime));
        self.oom_kills = log.kills;
        let kill = log.last_kill.as_ref();
        self.last_kill = kill.map(|kill| format!("{} {}", kill.task, kill.ago(of.uptime)));
    }

    /// Takes the holders and the kernel from the last report of a log that has them.
    pub fn take_report(&mut self, found: &[Explanation]) {
        let version = found.iter().rev().find_map(|of| of.report.version.clone());
        self.kernel = self.kernel.take().or(version);
        if self.held_mib.is_empty()
            && let Some(of) = found.iter().rev().find(|of| !of.holders.is_empty())
        {
            let entry = |holder: &Holder| Some((word(&holder.holding)?, holder.kb / 1024));
            self.held_mib = of.holders.iter().filter_map(entry).collect();
        }
    }

    /// Returns the version of its kernel without a distribution's suffix: `6.1`.
    #[must_use]
    pub fn kernel_version(&self) -> Option<String> {
        let mut parts = self.kernel.as_ref()?.split(['.', '-']);
        Some(format!("{}.{}", parts.next()?, parts.next()?))
    }

    /// Returns the largest holder.
    #[must_use]
    pub fn holder(&self) -> Option<&str> {
        self.held_mib.iter().max_by_key(|(_, mib)| **mib).map(|(name, _)| name.as_str())
    }
}

/// Returns the JSON name of a variant.
fn word(value: &impl Serialize) -> Option<String> {
    Some(serde_json::to_value(value).ok()?.as_str()?.to_owned())
}

fn held(sample: &Sample) -> BTreeMap<String, u64> {
    let kb = |line: &str| sample.kb(line);
    // Shared memory is in Cached too.
    let file = |cached: u64| {
        (cached + kb("Buffers").unwrap_or(0)).saturating_sub(kb("Shmem").unwrap_or(0))
    };
    let told = HELD.into_iter().map(|(holding, line)| (word(&holding), kb(line)));
    let others = [
        (word(&Holding::File), kb("Cached").map(file)),
        // Logs do not have it.
        (Some("percpu".to_owned()), kb("Percpu")),
    ];
    let mut held: BTreeMap<String, u64> =
        told.chain(others).filter_map(|(name, kb)| Some((name?, kb?))).collect();
    if let (Some(total), Some(free)) = (kb("MemTotal"), kb("MemFree"))
        && held.len() > 4
    {
        let counted: u64 = held.values().sum();
        let uncounted = total.saturating_sub(free).saturating_sub(counted);
        held.extend(word(&Holding::Uncounted).map(|name| (name, uncounted)));
    }
    held.into_iter().map(|(name, kb)| (name, kb / 1024)).collect()
}

fn rates(sample: &Sample, of: &Checkup) -> BTreeMap<String, f64> {
    let mut all = BTreeMap::new();
    if let Some(rates) = &of.rates {
        let figures = [
            ("direct_compaction_per_s", rates.compact_stall),
            ("compaction_in_vain_per_s", rates.compact_fail),
            ("direct_reclaim_per_s", rates.direct_reclaim),
            ("huge_faults_per_s", rates.thp_alloc),
            ("huge_faults_failed_per_s", rates.thp_fallback),
        ];
        all.extend(figures.map(|(name, rate)| (name.to_owned(), rate)));
    }
    if let Some(pressure) = &of.pressure {
        all.insert("pressure_some_percent".to_owned(), pressure.some[2]);
    }
    if let Some(hours) = sample.uptime.map(|s| s / 3600.0).filter(|hours| *hours > 0.0) {
        for (name, counter) in SINCE_BOOT {
            if let Some(count) = sum(sample, counter) {
                all.insert(name.to_owned(), count as f64 / hours);
            }
        }
    }
    all
}

fn sum(sample: &Sample, counter: &str) -> Option<u64> {
    let Some(prefix) = counter.strip_suffix('*') else {
        return sample.vmstat.get(counter).copied();
    };
    let mut found = sample.counters(prefix).peekable();
    found.peek()?;
    Some(found.map(|(_, value)| value).sum())
}

#[cfg(test)]
mod tests {
    use pageblock_recording::MemInfo;

    use super::*;

    /// A tree and a log have the same holders, so that a table has one column for each.
    #[test]
    fn holders_have_the_names_of_logs() {
        let meminfo = "MemTotal: 1048576 kB\nMemFree: 102400 kB\nBuffers: 10240 kB\nCached: 102400 kB\nAnonPages: 512000 kB\n\
                       Shmem: 51200 kB\nSUnreclaim: 20480 kB\nKernelStack: 4096 kB\nPercpu: 2048 kB\n";
        let sample = Sample { meminfo: MemInfo::parse(meminfo), ..Sample::default() };
        let held: Vec<(String, u64)> = held(&sample).into_iter().collect();
        let expected = [
            ("anonymous", 500),
            ("file", 60),
            ("kernel_stack", 4),
            ("percpu", 2),
            ("shmem", 50),
            ("slab_unreclaimable", 20),
            ("uncounted", 288),
        ];
        assert_eq!(held, expected.map(|(name, mib)| (name.to_owned(), mib)));
    }
}
