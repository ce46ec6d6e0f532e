//! The counters of `/proc/vmstat` under the labels of mmtests' monitor, in its order.
//!
//! Rows whose formula needs the elapsed time, NUMA balancing, or a tracepoint's text are not here.

use crate::counters::Counters;
use crate::metrics::Value;
use crate::stats::Direction;

/// One row of the monitor.
#[derive(Clone, Copy, Debug)]
pub struct Op {
    /// The label: `Minor Faults`.
    pub label: &'static str,
    /// Which way is better, where one is; mmtests prints no difference at all.
    pub direction: Direction,
    formula: Formula,
}

#[derive(Clone, Copy, Debug)]
enum Formula {
    /// One counter, or the sum over zones where a kernel splits it by zone.
    Sum(&'static str),
    MinorFaults,
    /// Pages reclaimed of 100 scanned; 100 where none was scanned.
    Efficiency {
        steal: &'static str,
        scan: &'static str,
    },
    /// Pages scanned directly of 100 scanned.
    DirectScans,
    CompactionCost,
}

use Direction::{Higher, Lower, Neither};
use Formula::{CompactionCost, DirectScans, Efficiency, MinorFaults, Sum};

const fn op(label: &'static str, direction: Direction, formula: Formula) -> Op {
    Op { label, direction, formula }
}

/// The rows in the order of mmtests.
pub const OPS: &[Op] = &[
    op("Minor Faults", Lower, MinorFaults),
    op("Major Faults", Lower, Sum("pgmajfault")),
    op("Swap Ins", Lower, Sum("pswpin")),
    op("Swap Outs", Lower, Sum("pswpout")),
    op("Allocation stalls", Lower, Sum("allocstall")),
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
        Efficiency { steal: "pgsteal_kswapd", scan: "pgscan_kswapd" },
    ),
    op(
        "Direct efficiency %",
        Higher,
        Efficiency { steal: "pgsteal_direct", scan: "pgscan_direct" },
    ),
    op("Percentage direct scans", Lower, DirectScans),
    op("Page writes by reclaim", Lower, Sum("nr_vmscan_write")),
    op("Page reclaim immediate", Lower, Sum("nr_vmscan_immediate_reclaim")),
    op("Slabs scanned", Neither, Sum("slabs_scanned")),
    op("THP fault alloc", Higher, Sum("thp_fault_alloc")),
    op("THP fault fallback", Lower, Sum("thp_fault_fallback")),
    op("THP collapse alloc", Neither, Sum("thp_collapse_alloc")),
    op("THP collapse fail", Lower, Sum("thp_collapse_alloc_failed")),
    op("Compaction stalls", Lower, Sum("compact_stall")),
    op("Compaction success", Neither, Sum("compact_success")),
    op("Compaction failures", Lower, Sum("compact_fail")),
    op("Page migrate success", Neither, Sum("pgmigrate_success")),
    op("Page migrate failure", Lower, Sum("pgmigrate_fail")),
    op("Compaction pages isolated", Lower, Sum("compact_isolated")),
    op("Compaction migrate scanned", Lower, Sum("compact_migrate_scanned")),
    op("Compaction free scanned", Lower, Sum("compact_free_scanned")),
    op("Compaction cost", Lower, CompactionCost),
    op("Kcompactd wake", Neither, Sum("compact_daemon_wake")),
    op("Kcompactd migrate scanned", Lower, Sum("compact_daemon_migrate_scanned")),
    op("Kcompactd free scanned", Lower, Sum("compact_daemon_free_scanned")),
];

/// The zones that old kernels split counters by.
const SPLIT: [&str; 5] = ["dma", "dma32", "normal", "high", "movable"];

impl Op {
    /// The row's value; `None` where the counters it needs are not there.
    #[must_use]
    pub fn value(&self, counters: &Counters) -> Option<Value> {
        let sum = |name| sum(counters, name);
        match self.formula {
            Sum(name) => sum(name).map(Value::Count),
            MinorFaults => Some(Value::Count(sum("pgfault")?.saturating_sub(sum("pgmajfault")?))),
            Efficiency { steal, scan } => {
                Some(Value::Real(percent(sum(steal)?, sum(scan)?).unwrap_or(100.0)))
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

/// The cost of compaction in millions of units, as mmtests weighs scanning, isolating and copying.
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
        let op = OPS.iter().find(|op| op.label == label).unwrap();
        assert_eq!(op.value(&counters.iter().copied().collect()), expect);
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
        let idle = [("pgsteal_direct", 0), ("pgscan_direct", 0)];
        check("Direct efficiency %", &idle, Some(Value::Real(100.0)));
    }

    /// The tables of seed 5's phones do not print a cost; this is the formula by hand.
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
