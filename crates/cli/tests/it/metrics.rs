//! `pageblock metrics`, and the alerts and the dashboard that stand on it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::doctor::two_pageblocks;
use crate::{prints, ran};

fn machine(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../doctor/tests/machines");
    folder.join(name).to_str().expect("the path is UTF-8").to_owned()
}

fn contrib(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib").join(file)
}

/// Returns the names that begin with `pageblock_` in a text.
fn names(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("pageblock_")).collect()
}

/// Returns all metrics: those of a machine of 6.18 with counters by size of folio and threads.
fn metrics() -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path();
    for name in ["buddyinfo", "zoneinfo", "meminfo", "vmstat", "pagetypeinfo", "pressure/memory"] {
        let to = root.join("proc").join(name);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(Path::new(&machine("6.18-24g/proc")).join(name), to).unwrap();
    }
    let stats = root.join("sys/kernel/mm/transparent_hugepage/hugepages-64kB/stats");
    fs::create_dir_all(&stats).unwrap();
    fs::write(stats.join("anon_fault_alloc"), "7\n").unwrap();
    fs::write(stats.join("anon_fault_fallback"), "3\n").unwrap();
    fs::create_dir_all(root.join("proc/52")).unwrap();
    let stat = "52 (kswapd0) S 2 0 0 0 -1 10 0 0 0 0 150 250 0 0 20 0 1 0 9 0 0\n";
    fs::write(root.join("proc/52/stat"), stat).unwrap();
    prints(&format!("metrics --root {}", root.display()))
}

#[test]
fn metrics_have_names_units_and_values() {
    let text = metrics();
    for line in [
        "pageblock_folio_faults_total{size_bytes=\"65536\",result=\"fallback\"} 3",
        "pageblock_daemon_cpu_seconds_total{daemon=\"kswapd0\"} 4",
        "pageblock_oom_kills_total 0",
        "# TYPE pageblock_free_blocks gauge",
    ] {
        assert!(text.lines().any(|own| own == line), "{line}");
    }
    // A name is one metric, which is described once and ends as its type asks.
    let types: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
    for line in &types {
        let (name, kind) = line.split_once(' ').unwrap();
        assert_eq!(name.ends_with("_total"), kind == "counter", "{line}");
        assert!(types.iter().filter(|other| other.starts_with(&format!("{name} "))).count() == 1);
    }
    let documented = fs::read_to_string(contrib("../docs/metrics.md")).unwrap();
    let missing: Vec<&str> = names(&text).difference(&names(&documented)).copied().collect();
    assert!(missing.is_empty(), "docs/metrics.md lacks {missing:?}");
}

/// Two pageblocks, one free and one of page cache that no process maps.
#[test]
fn huge_pages_that_could_be_had_are_metrics() {
    let folder = two_pageblocks(512, 0, &[vec![1 << 10; 512], vec![1 << 3 | 1 << 5; 512]]);
    let text = prints(&format!("metrics --forecast --root {}", folder.path().display()));
    let of = |by: &str, bound: &str| {
        let labels = format!("size_bytes=\"2097152\",by=\"{by}\",bound=\"{bound}\"");
        let line = format!("pageblock_obtainable_huge_pages{{{labels}}} ");
        text.lines().find_map(|own| own.strip_prefix(&line)).map(str::to_owned)
    };
    assert_eq!(of("free", "at_least").as_deref(), Some("1"));
    assert_eq!(of("reclaim", "at_least").as_deref(), Some("1"));
    assert_eq!(of("both", "at_most").as_deref(), Some("1"));
    assert!(text.contains("pageblock_held_blocks{size_bytes=\"2097152\"} 0\n"), "{text}");
    let documented = fs::read_to_string(contrib("../docs/metrics.md")).unwrap();
    assert!(names(&text).is_subset(&names(&documented)));
}

/// The unit writes to the first folder that exists of those that distributions use, and says so where none does.
#[test]
fn the_unit_finds_the_folder_of_the_collector() {
    let unit = fs::read_to_string(contrib("systemd/pageblock-metrics.service")).unwrap();
    let start = unit.lines().find_map(|line| line.strip_prefix("ExecStart=/bin/sh -c '")).unwrap();
    let writable = unit.lines().find_map(|line| line.strip_prefix("ReadWritePaths=")).unwrap();
    let root = tempfile::tempdir().expect("a folder");
    let below = |path: &str| format!("{}{path}", root.path().display());
    // systemd passes $$ as $.
    let script = start.strip_suffix('\'').unwrap().replace("$$", "$");
    let script =
        script.replace("/var/lib", &below("/var/lib")).replace("/usr/local/bin/pageblock", "echo");
    let run = || ran(Command::new("sh").args(["-c", &script]));
    let none = run();
    assert_eq!(none.status, 2);
    assert!(none.stderr.starts_with("no folder of the textfile collector"), "{}", none.stderr);
    // Debian's, then one that was made by hand.
    for folder in ["/var/lib/prometheus/node-exporter", "/var/lib/node_exporter/textfile"] {
        fs::create_dir_all(below(folder)).unwrap();
        let out = run();
        assert_eq!(
            out.stdout.trim_end(),
            format!("metrics --out {}/pageblock.prom", below(folder))
        );
        let mut paths = writable.split(' ').map(|path| path.trim_start_matches('-'));
        assert!(paths.any(|path| folder.starts_with(path)), "{folder} is not writable");
    }
}

#[test]
fn alerts_and_the_dashboard_name_only_metrics_that_exist() {
    let text = metrics();
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let known: BTreeSet<&str> = types.filter_map(|line| line.split(' ').next()).collect();
    let dashboard = fs::read_to_string(contrib("grafana/pageblock.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&dashboard).expect("it is JSON");
    let panels = json["panels"].as_array().expect("it has panels");
    let queries: Vec<&str> = panels
        .iter()
        .flat_map(|panel| panel["targets"].as_array().expect("a panel has queries"))
        .map(|target| target["expr"].as_str().expect("a query has a text"))
        .collect();
    assert!(queries.len() >= panels.len());
    for query in queries {
        let names = names(query);
        assert!(!names.is_empty() && names.is_subset(&known), "{query}");
    }
    let rules = fs::read_to_string(contrib("prometheus/pageblock.rules.yml")).unwrap();
    let lines = rules.lines().filter(|line| !line.trim_start().starts_with('#'));
    let alerts: String = lines.map(|line| format!("{line}\n")).collect();
    let unknown: Vec<&str> = names(&alerts).difference(&known).copied().collect();
    assert!(unknown.is_empty(), "{unknown:?}");
    // Each has a test and an explanation.
    let tests = fs::read_to_string(contrib("prometheus/pageblock.test.yml")).unwrap();
    let documented = fs::read_to_string(contrib("../docs/metrics.md")).unwrap();
    for alert in alerts.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")) {
        assert!(tests.contains(&format!("alertname: {alert}\n")), "{alert} has no test");
        assert!(documented.contains(&format!("| `{alert}` |")), "{alert} is not explained");
    }
}

#[test]
fn promtool_accepts_metrics_and_rules() {
    let folder = contrib("prometheus");
    let run = |arguments: &[&str]| {
        let out = ran(Command::new("promtool").args(arguments).current_dir(&folder));
        assert_eq!(out.status, 0, "{arguments:?}: {}{}", out.stdout, out.stderr);
    };
    if Command::new("promtool").arg("--version").output().is_err() {
        eprintln!("skipped: no promtool (apt install prometheus)");
        return;
    }
    run(&["check", "rules", "pageblock.rules.yml"]);
    run(&["test", "rules", "pageblock.test.yml"]);
    let metrics = crate::file("pageblock.prom", &metrics());
    let check = format!("promtool check metrics < {}", metrics.display());
    let out = ran(Command::new("sh").args(["-c", &check]));
    assert_eq!((out.status, out.stdout.as_str(), out.stderr.as_str()), (0, "", ""));
}
