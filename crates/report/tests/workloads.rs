//! The tables that stand beside the workloads, computed from samples and printed.

use pageblock::mobility::Migratetype;
use pageblock_measure::compare::common::Options;
use pageblock_measure::compare::full::FullComparison;
use pageblock_measure::tables::Table;
use pageblock_measure::value::blocks::TypeCounts;
use pageblock_measure::value::names;
use pageblock_measure::{EventUnit, Run};
use pageblock_report::full;
use pageblock_simulate::workload;

/// Returns a run of a workload with its tables.
fn run(workload: &str, policy: &str, samples: &[(&str, &[u64])]) -> Run {
    let tables = workload::tables(workload::find(workload).unwrap()).unwrap();
    let mut run =
        Run { policy: policy.into(), workload: workload.into(), seed: 1, ..Run::default() };
    run.tables = Some(tables);
    run.samples.extend(samples.iter().map(|&(name, values)| (name.into(), values.to_vec())));
    run
}

fn compared(runs: &[Run]) -> FullComparison {
    FullComparison::of_runs(runs, &Options::default()).unwrap()
}

/// Returns the printed lines that begin with a word.
fn lines(runs: &[Run], word: &str) -> Vec<String> {
    let text = full::print(&compared(runs));
    text.lines().filter(|line| line.starts_with(word)).map(str::to_owned).collect()
}

#[test]
fn rows_of_netperf_are_as_published() {
    let of = |policy, rates: &[u64]| {
        run("netperf-udp", policy, &[("send-128", rates), ("send-64", &[250_000_000; 3])])
    };
    let runs = [
        of("linux-5.13", &[500_000_000, 510_000_000, 520_000_000]),
        of("linux-5.13,pcp_orders=0-3+thp", &[530_000_000, 540_000_000, 550_000_000]),
    ];
    assert_eq!(
        lines(&runs, "Hmean"),
        [
            "Hmean     send-64       250.00 (   0.00%)      250.00 (   0.00%)",
            "Hmean     send-128      509.87 (   0.00%)      539.88 *   5.89%*",
        ]
    );
}

#[test]
fn rows_of_parallelio_are_as_published() {
    let of = |policy, rate, io| {
        run("parallelio", policy, &[("memcachetest-4487M", &[rate]), ("io-duration-4487M", &[io])])
    };
    let runs = [of("linux-3.10", 2606, 278_000), of("linux-3.12", 3922, 173_000)];
    assert_eq!(
        lines(&runs, "Ops")[..2],
        [
            "Ops memcachetest-4487M           2606.00 (  0.00%)           3922.00 ( 50.50%)",
            "Ops io-duration-4487M             278.00 (  0.00%)            173.00 ( 37.77%)",
        ]
    );
}

#[test]
fn rows_of_thpfioscale_are_as_published() {
    let runs = [
        run("thpfioscale", "linux-4.20", &[("fault-base-1", &[600_000, 700_000, 800_000])]),
        run(
            "thpfioscale",
            "linux-4.20,nofragment=on",
            &[("fault-base-1", &[600_000, 640_999]), ("fault-huge-1", &[150_000, 150_000])],
        ),
    ];
    let line = |start: &str| lines(&runs, start).remove(0);
    assert_eq!(
        line("Amean     fault-base-1"),
        "Amean     fault-base-1      700.00 (   0.00%)      620.00 (  11.43%)"
    );
    assert_eq!(
        line("Amean     fault-huge-1"),
        "Amean     fault-huge-1        0.00 (   0.00%)      150.00 * -99.00%*"
    );
    assert_eq!(
        line("Percentage huge-1"),
        "Percentage huge-1        0.00 (   0.00%)       50.00 ( 100.00%)"
    );
}

/// Returns a run of hugealloc with its fallbacks and huge pages by build.
fn builds(policy: &str, fallbacks: &[u64], huge: u64) -> Run {
    let none = vec![0; fallbacks.len()];
    let mut run = run("hugealloc", policy, &[("hugealloc-time", &[3000, 5000])]);
    for (name, values) in [
        (names::LIST_MISMATCH_PAGES, none),
        (names::MM_PAGE_ALLOC_EXTFRAG, fallbacks.to_vec()),
        ("thp_fault_alloc", vec![huge; fallbacks.len()]),
        ("thp_fault_fallback", vec![100 - huge; fallbacks.len()]),
    ] {
        run.samples.insert(workload::hugealloc::sample_name(name), values);
    }
    run
}

#[test]
fn rows_of_hugealloc_are_means_of_builds_and_fallbacks_their_median() {
    let mut runs = [builds("a", &[10, 1328, 9000], 50), builds("b", &[1, 1, 40], 75)];
    let table = |runs: &[Run]| match compared(runs).tables.remove(0) {
        Table::Iterations(table) => table,
        other => panic!("{other:?}"),
    };
    let found = table(&runs);
    let cells =
        |label: &str| found.rows.iter().find(|row| row.label == label).unwrap().cells.clone();
    assert_eq!(found.rows.len(), 32);
    assert_eq!(cells("Pagealloc fallback")[0], (1328.0, Some(0.0)));
    let (value, change) = cells("Pagealloc fallback")[1];
    assert_eq!((value, change.map(|c| (c * 100.0).round())), (1.0, Some(-9985.0)));
    assert_eq!(cells("THP fault fail rate %")[1].0, 25.0);
    assert_eq!(cells("Hugealloc Time mean")[0].0, 4.0);
    let series = found.series.iter().find(|s| s.label == "Pagealloc fallback").unwrap();
    assert_eq!(series.values, [[10.0, 1328.0, 9000.0], [1.0, 1.0, 40.0]]);
    assert_eq!(series.trends[0].map(|trend| trend.s), Some(3));
    runs[0].extfrag_unit = Some(EventUnit::Block);
    runs[1].extfrag_unit = Some(EventUnit::Page);
    for row in table(&runs).rows.iter().filter(|row| row.label.starts_with("Pagealloc")) {
        let counts_events = row.label == "Pagealloc fallback";
        assert_eq!(row.cells[1].1.is_none(), counts_events, "{}", row.label);
    }
}

#[test]
fn the_phone_is_listed_as_proc_lists_it() {
    let mut run = run("android-uptime", "linux-3.10", &[]);
    use Migratetype::{Cma, Isolate, Movable, Reclaimable, Reserve, Unmovable};
    for mt in [Unmovable, Reclaimable, Movable, Reserve, Cma, Isolate] {
        for order in 0..=4 {
            run.counters.set(names::free_blocks(mt, order), 3 + u64::from(order));
        }
    }
    run.counters.set("mem_free_kb", 30);
    run.counters.set("cached_kb", 7);
    run.counters.set("allocstall_order_2", 3);
    let mut blocks = TypeCounts::default();
    blocks[Movable] = 3;
    run.blocks_by_type = Some(blocks);
    let text = full::print(&compared(&[run]));
    let expect = "\
linux-3.10 (simulated)
------ MEMORY INFO (/proc/meminfo) ------
MemFree: 30 kB
Cached: 7 kB
";
    assert!(text.starts_with(expect), "{text}");
    for line in [
        "Node    0, zone      DMA, type    Unmovable      3      4      5      6      7",
        "Node 0, zone      DMA            0            0            3            0            0            0",
        "allocstall_order_2 3",
    ] {
        assert!(text.lines().any(|printed| printed == line), "{line}: {text}");
    }
}

#[test]
fn client_devices_have_their_measures() {
    let of = |policy, factor: u64| {
        let launches: Vec<u64> = (1..=100).map(|ms| ms * 1_000_000 * factor).collect();
        let stalls = [500_000, 250_000 * factor];
        let samples: &[(&str, &[u64])] = &[("latency", &launches), ("stall-order-2", &stalls)];
        let mut run = run("apppressure", policy, samples);
        run.counters.set(names::SIMULATED_ELAPSED_MS, 10_000);
        run.counters.set(names::PSI_SOME_US, 100_000 * factor);
        run
    };
    let compared = compared(&[of("a", 1), of("b", 2)]);
    let means = |group: &str, label: &str| {
        let row = compared.over_seeds.row(group, label).unwrap();
        row.cells.iter().map(|cell| cell.as_ref().unwrap().mean).collect::<Vec<_>>()
    };
    assert_eq!(means("Latency", "mean-ms"), [50.5, 101.0]);
    assert_eq!(means("Latency", "p50-ms"), [50.0, 100.0]);
    assert_eq!(means("Latency", "p99-ms"), [99.0, 198.0]);
    assert_eq!(means("PSI%", "some"), [1.0, 2.0]);
    assert_eq!(means("StallTime", "order-2-ms"), [0.75, 1.0]);
    assert_eq!(means("Refaults", "file"), [0.0, 0.0]);
    assert!(compared.over_seeds.row("PSI%", "full").is_none());
}

/// Forms of a workload share their tables; runs of two workloads have those of both.
#[test]
fn unlike_runs_have_the_tables_of_each() {
    let fault: &[(&str, &[u64])] = &[("fault-base-1", &[600_000])];
    let rate: &[(&str, &[u64])] = &[("send-64", &[250_000_000])];
    let runs = [
        run("thpfioscale", "a", fault),
        run("thpfioscale-defrag", "b", fault),
        run("netperf-udp", "c", rate),
    ];
    assert_eq!(compared(&runs).tables.len(), 3);
}
