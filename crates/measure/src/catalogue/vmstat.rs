//! The counters of `/proc/vmstat` under the labels of mmtests' monitor, in mmtests' order.
//!
//! Rows of NUMA balancing, and of counters that none of these kernels has (fragmentation stalls, pages
//! rescued), are omitted.

use std::sync::LazyLock;

use super::{Measure, Shown, Unit, Value};
use crate::statistics::stats::Direction;
use crate::value::counters::Counters;
use crate::value::names;

/// How a row is computed from counters.
#[derive(Clone, Copy, Debug)]
pub(super) enum Op {
    /// One counter, or the sum over zones if a kernel splits it by zone.
    Sum(&'static str),
    MinorFaults,
    /// A percentage; `none` if the whole is 0.
    Percent {
        part: &'static str,
        of: &'static str,
        none: f64,
    },
    /// The rate per second of elapsed time.
    Velocity(&'static str),
    /// Reclaim's writes other than to swap.
    FileWrites,
    /// Direct scans in percent of all scans.
    DirectScans,
    CompactionCost,
}

use Direction::{Higher, Lower, Neither};
use Op::{CompactionCost, DirectScans, FileWrites, MinorFaults, Percent, Sum, Velocity};

/// A row: its label (`Minor Faults`), the better direction, and how it is computed.
type Row = (&'static str, Direction, Op);

const fn op(label: &'static str, direction: Direction, op: Op) -> Row {
    (label, direction, op)
}

/// Requests that reclaimed memory themselves.
pub(super) const ALLOCATION_STALLS: Row = op("Allocation stalls", Lower, Sum("allocstall"));

/// The rows in the order of mmtests.
const OPS: &[Row] = &[
    op("Minor Faults", Lower, MinorFaults),
    op("Major Faults", Lower, Sum("pgmajfault")),
    op("Swap Ins", Lower, Sum("pswpin")),
    op("Swap Outs", Lower, Sum("pswpout")),
    ALLOCATION_STALLS,
    op("DMA allocs", Neither, Sum("pgalloc_dma")),
    op("DMA32 allocs", Neither, Sum("pgalloc_dma32")),
    op("Normal allocs", Neither, Sum("pgalloc_normal")),
    op("Movable allocs", Neither, Sum("pgalloc_movable")),
    op("Direct pages scanned", Lower, Sum("pgscan_direct")),
    op("Kswapd pages scanned", Lower, Sum("pgscan_kswapd")),
    op("Kswapd pages reclaimed", Neither, Sum("pgsteal_kswapd")),
    op("Direct pages reclaimed", Lower, Sum("pgsteal_direct")),
    op(
        "Kswapd efficiency %",
        Higher,
        Percent { part: "pgsteal_kswapd", of: "pgscan_kswapd", none: 100.0 },
    ),
    op("Kswapd velocity", Lower, Velocity("pgscan_kswapd")),
    op(
        "Direct efficiency %",
        Higher,
        Percent { part: "pgsteal_direct", of: "pgscan_direct", none: 100.0 },
    ),
    op("Direct velocity", Lower, Velocity("pgscan_direct")),
    op("Percentage direct scans", Lower, DirectScans),
    op("Zone normal velocity", Lower, Velocity("pgscan_zone_normal")),
    op("Zone dma32 velocity", Lower, Velocity("pgscan_zone_dma32")),
    op("Zone dma velocity", Lower, Velocity("pgscan_zone_dma")),
    op("Page writes by reclaim", Lower, Sum("nr_vmscan_write")),
    op("Page writes file", Lower, FileWrites),
    op("Page writes anon", Lower, Sum("pswpout")),
    op("Page reclaim immediate", Lower, Sum("nr_vmscan_immediate_reclaim")),
    op("Sector Reads", Lower, Sum("pgpgin")),
    op("Sector Writes", Lower, Sum("pgpgout")),
    op("Slabs scanned", Neither, Sum("slabs_scanned")),
    op("Direct inode steals", Lower, Sum("pginodesteal")),
    op("Kswapd inode steals", Neither, Sum("kswapd_inodesteal")),
    op("Kswapd skipped wait", Neither, Sum("kswapd_skip_congestion_wait")),
    op("THP fault alloc", Higher, Sum("thp_fault_alloc")),
    op("THP fault fallback", Lower, Sum("thp_fault_fallback")),
    op("THP collapse alloc", Neither, Sum("thp_collapse_alloc")),
    op("THP collapse fail", Lower, Sum("thp_collapse_alloc_failed")),
    op("THP split", Neither, Sum("thp_split_page")),
    op("THP split failed", Lower, Sum("thp_split_page_failed")),
    op("Compaction stalls", Lower, Sum("compact_stall")),
    op("Compaction success", Neither, Sum("compact_success")),
    op("Compaction failures", Lower, Sum("compact_fail")),
    op(
        "Compaction efficiency",
        Higher,
        Percent { part: "compact_success", of: "compact_stall", none: 0.0 },
    ),
    op("Page migrate success", Neither, Sum("pgmigrate_success")),
    op("Page migrate failure", Lower, Sum("pgmigrate_fail")),
    op("Compaction pages isolated", Lower, Sum("compact_isolated")),
    op("Compaction migrate scanned", Lower, Sum("compact_migrate_scanned")),
    op("Compaction free scanned", Lower, Sum("compact_free_scanned")),
    op(
        "Compact scan efficiency",
        Higher,
        Percent { part: "compact_migrate_scanned", of: "compact_free_scanned", none: 0.0 },
    ),
    op("Compaction cost", Lower, CompactionCost),
    op("Kcompactd wake", Neither, Sum("compact_daemon_wake")),
    op("Kcompactd migrate scanned", Lower, Sum("compact_daemon_migrate_scanned")),
    op("Kcompactd free scanned", Lower, Sum("compact_daemon_free_scanned")),
];

/// The zones by which old kernels split counters.
const SPLIT: [&str; 5] = ["dma", "dma32", "normal", "high", "movable"];

/// Returns the rows in the order of mmtests. mmtests prints no difference here, whichever way is better.
#[must_use]
pub fn rows() -> &'static [Measure] {
    static ROWS: LazyLock<Vec<Measure>> = LazyLock::new(|| OPS.iter().map(measure).collect());
    &ROWS
}

fn measure(&(label, direction, op): &Row) -> Measure {
    let read = move |run: &crate::run::Run| op.value(&run.counters);
    Measure {
        unit: if matches!(op, Percent { .. } | DirectScans) {
            Unit::Percent
        } else {
            Unit::Counter
        },
        defined: op.counters().into(),
        shown: Shown::NonZero,
        ..Measure::row(("Ops", label), direction, read)
    }
}

impl Op {
    /// Returns the formula in words, of counters of `/proc/vmstat`; where a kernel splits one by zone, their sum.
    fn counters(self) -> String {
        match self {
            Sum(name) => name.to_owned(),
            MinorFaults => "pgfault - pgmajfault".to_owned(),
            Percent { part, of, .. } => format!("{part} / {of}"),
            Velocity(name) => format!("{name} per second"),
            FileWrites => "nr_vmscan_write - pswpout".to_owned(),
            DirectScans => "pgscan_direct / (pgscan_direct + pgscan_kswapd)".to_owned(),
            CompactionCost => {
                "7 compact_migrate_scanned + 19 compact_isolated + 1038 pgmigrate_success + \
                               14 pgmigrate_fail, in millions"
                    .to_owned()
            }
        }
    }

    /// Returns the row's value; `None` if a counter that it needs is missing.
    pub(super) fn value(self, counters: &Counters) -> Option<Value> {
        let sum = |name| sum(counters, name);
        match self {
            Sum(name) => sum(name).map(Value::Count),
            MinorFaults => Some(Value::Count(sum("pgfault")?.saturating_sub(sum("pgmajfault")?))),
            Percent { part, of, none } => {
                Some(Value::Real(percent(sum(part)?, sum(of)?).unwrap_or(none)))
            }
            Velocity(name) => {
                let ms = names::elapsed_ms(counters).filter(|&ms| ms > 0)?;
                Some(Value::Real(sum(name)? as f64 * 1000.0 / ms as f64))
            }
            FileWrites => {
                Some(Value::Count(sum("nr_vmscan_write")?.saturating_sub(sum("pswpout")?)))
            }
            DirectScans => {
                let (direct, kswapd) = (sum("pgscan_direct")?, sum("pgscan_kswapd")?);
                Some(Value::Real(percent(direct, direct + kswapd).unwrap_or(0.0)))
            }
            CompactionCost => Some(Value::Real(compaction_cost(counters)?)),
        }
    }
}

fn sum(counters: &Counters, name: &str) -> Option<u64> {
    let split = SPLIT.iter().filter_map(|zone| counters.get(&format!("{name}_{zone}")));
    counters.get(name).or_else(|| split.reduce(|a, b| a + b))
}

fn percent(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 * 100.0 / whole as f64)
}

/// Returns the cost of compaction in millions of units, with mmtests' weights of scanning, isolating
/// and copying.
fn compaction_cost(counters: &Counters) -> Option<f64> {
    let term = |weight: u64, name| counters.get(name).map(|count| weight * count);
    let migrate = term(7, "compact_migrate_scanned")?;
    let isolated = term(19, "compact_isolated")?;
    let copied = term(1038, "pgmigrate_success")?;
    let failed = term(14, "pgmigrate_fail")?;
    Some((migrate + isolated + copied + failed) as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(label: &str, counters: &[(&str, u64)], expect: Option<Value>) {
        assert_eq!(op(label).value(&counters.iter().copied().collect()), expect);
    }

    fn op(label: &str) -> Op {
        OPS.iter().find(|(name, ..)| *name == label).unwrap().2
    }

    #[test]
    fn formulas_of_mmtests() {
        let faults = [("pgfault", 100), ("pgmajfault", 30)];
        check("Minor Faults", &faults, Some(Value::Count(70)));
        check("Minor Faults", &faults[..1], None);
        let stalls = [("allocstall_normal", 5), ("allocstall_movable", 7)];
        check("Allocation stalls", &stalls, Some(Value::Count(12)));
        let scans = [("pgscan_direct_dma32", 3), ("pgscan_direct_throttle", 900)];
        check("Direct pages scanned", &scans, Some(Value::Count(3)));
        let kswapd = [("pgsteal_kswapd", 872), ("pgscan_kswapd", 1000), ("pgscan_direct", 0)];
        check("Kswapd efficiency %", &kswapd, Some(Value::Real(87.2)));
        check("Percentage direct scans", &kswapd, Some(Value::Real(0.0)));
        let writes = [("nr_vmscan_write", 9), ("pswpout", 4)];
        check("Page writes file", &writes, Some(Value::Count(5)));
        check("Page writes anon", &writes, Some(Value::Count(4)));
        let timed = [("pgscan_kswapd", 1000), (names::SIMULATED_ELAPSED_MS, 500)];
        check("Kswapd velocity", &timed, Some(Value::Real(2000.0)));
        check("Kswapd velocity", &timed[..1], None);
        let idle = [("pgsteal_direct", 0), ("pgscan_direct", 0)];
        check("Direct efficiency %", &idle, Some(Value::Real(100.0)));
    }

    /// As printed in mails to linux-mm of 2023 and 2024.
    #[test]
    fn efficiencies_of_compaction() {
        let scanned =
            [("compact_migrate_scanned", 136_909_038), ("compact_free_scanned", 165_907_615)];
        let value = op("Compact scan efficiency")
            .value(&scanned.iter().copied().collect())
            .unwrap()
            .as_f64();
        assert!((value - 82.52).abs() < 0.005, "{value}");
        let stalls = [("compact_stall", 229_710), ("compact_success", 144_177)];
        let value =
            op("Compaction efficiency").value(&stalls.iter().copied().collect()).unwrap().as_f64();
        assert!((value - 62.76).abs() < 0.005, "{value}");
    }

    /// The published tables of the 2015 phones print no cost; this is the formula by hand.
    #[test]
    fn compaction_cost_weighs_copies_most() {
        let counters = [
            ("compact_migrate_scanned", 1_000_000),
            ("compact_isolated", 100_000),
            ("pgmigrate_success", 10_000),
            ("pgmigrate_fail", 1_000),
        ];
        check("Compaction cost", &counters, Some(Value::Real(7.0 + 1.9 + 10.38 + 0.014)));
        check("Compaction cost", &counters[1..], None);
    }

    #[test]
    fn a_zone_is_not_the_beginning_of_another() {
        check("DMA allocs", &[("pgalloc_dma32", 5)], None);
    }
}
