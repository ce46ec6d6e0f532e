//! No switch is dead: for every value of every switch `witnesses.toml` names a run in which it changes the stream of
//! events, or, where it says how the kernel counts, the counts. And kernels that are spelled differently but are the same give equal bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use pageblock::policy::Values;
use pageblock_kernel::{Named, Switch};
use pageblock_simulate::workload;
use serde_json::Value;
use toml::Table;

use crate::{Ran, file, ran, scenarios};

/// A run, and the switches whose values it distinguishes.
struct Witness {
    /// The workload, or the scenario.
    workload: String,
    /// The scale; none for a scenario.
    scale: Option<String>,
    /// The kernel, with what sets the switches up.
    kernel: String,
    /// The values that give results which all differ, by switch.
    differ: Vec<(Switch, Vec<String>)>,
    /// What differs is counts of `/proc/vmstat`, and no event: the switch says how the kernel counts.
    counts: bool,
}

fn witnesses() -> Vec<Witness> {
    // Read, not included: a change of the table compiles nothing.
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/witnesses.toml");
    let table: Table = fs::read_to_string(path).expect(path).parse().expect("it is TOML");
    let runs = table["witness"].as_array().expect("a list of witnesses");
    runs.iter().map(|run| witness(run.as_table().expect("a table"))).collect()
}

fn witness(run: &Table) -> Witness {
    let text = |value: &toml::Value| value.as_str().expect("a text").to_owned();
    let values = |line: &toml::Value| {
        let line = text(line);
        let (name, values) = line.split_once(": ").expect("a switch and values");
        let switch = Switch::find(name).unwrap_or_else(|| panic!("{name} is not a switch"));
        (switch, values.split_whitespace().map(str::to_owned).collect())
    };
    Witness {
        workload: text(&run["workload"]),
        scale: run.get("scale").map(text),
        kernel: text(&run["kernel"]),
        differ: run["differ"].as_array().expect("a list").iter().map(values).collect(),
        counts: run.get("counts").is_some_and(|counts| counts.as_bool() == Some(true)),
    }
}

impl Witness {
    /// The text of its kernel with a value of a switch.
    fn with(&self, switch: Switch, value: &str) -> String {
        let kernel = Named::parse(&self.kernel).unwrap_or_else(|error| panic!("{error}"));
        let is_set = kernel.set.iter().any(|(set, _)| *set == switch);
        assert!(!is_set, "{}: {} is set already", self.kernel, switch.name());
        // What the workload sets up overrules the preset, and is overruled by hand.
        let mut as_run = kernel.kernel;
        if let Some(workload) = workload::find(&self.workload) {
            workload.set_up(&mut as_run);
        }
        if [as_run, kernel.kernel].iter().all(|kernel| switch.get(kernel).to_string() == value) {
            return self.kernel.clone();
        }
        let text = format!("{},{}={value}", self.kernel, switch.name());
        Named::parse(&text).unwrap_or_else(|error| panic!("{error}"));
        text
    }

    /// Every kernel that it runs, once.
    fn kernels(&self) -> BTreeSet<String> {
        let of = |(switch, values): &(Switch, Vec<String>)| {
            values.iter().map(|value| self.with(*switch, value)).collect::<Vec<_>>()
        };
        self.differ.iter().flat_map(of).collect()
    }
}

/// What came of a run.
struct Outcome {
    event_hash: String,
    counters: String,
}

/// Outcomes by workload, scale and kernel.
type Outcomes = BTreeMap<(String, Option<String>, String), Outcome>;

/// Runs every witness, each kernel of a workload and scale once. One process runs all kernels of a workload, on all CPUs.
fn outcomes(witnesses: &[Witness]) -> Outcomes {
    let mut groups: BTreeMap<(String, Option<String>), BTreeSet<String>> = BTreeMap::new();
    for witness in witnesses {
        let group = (witness.workload.clone(), witness.scale.clone());
        groups.entry(group).or_default().extend(witness.kernels());
    }
    let mut outcomes = Outcomes::new();
    for ((workload, scale), kernels) in groups {
        let of_group = match &scale {
            Some(scale) => simulate(&workload, scale, &kernels),
            None => kernels.iter().map(|kernel| call(&workload, kernel)).collect(),
        };
        for (kernel, outcome) in kernels.into_iter().zip(of_group) {
            outcomes.insert((workload.clone(), scale.clone(), kernel), outcome);
        }
    }
    outcomes
}

/// What comes of a workload under these kernels.
fn simulate(workload: &str, scale: &str, kernels: &BTreeSet<String>) -> Vec<Outcome> {
    let runs = runs(workload, scale, kernels.iter().map(String::as_str));
    let outcome = |run: &Value| Outcome {
        event_hash: run["event_hash"].as_str().expect("a hash").to_owned(),
        counters: run["counters"].to_string(),
    };
    runs.iter().map(outcome).collect()
}

/// What comes of a scenario under a kernel.
fn call(scenario: &str, kernel: &str) -> Outcome {
    Outcome { event_hash: scenarios::hash(scenario, kernel), counters: String::new() }
}

fn runs<'k>(workload: &str, scale: &str, kernels: impl IntoIterator<Item = &'k str>) -> Vec<Value> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pageblock"));
    command.args(["run", workload, "--scale", scale, "--seeds", "1", "--json"]);
    command.args(kernels.into_iter().flat_map(|kernel| ["--policy", kernel]));
    let Ran { status, stdout, stderr } = ran(&mut command);
    assert_eq!((status, stderr.as_str()), (0, ""), "{workload} at {scale}");
    serde_json::from_str(&stdout).expect("it is a list of runs")
}

#[test]
fn every_value_of_every_switch_changes_some_run() {
    let witnesses = witnesses();
    let mut seen: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for (switch, values) in witnesses.iter().flat_map(|witness| &witness.differ) {
        seen.entry(switch.name()).or_default().extend(values.iter().cloned());
    }
    let mut lacking = BTreeSet::new();
    for switch in Switch::all() {
        let seen = seen.remove(switch.name()).unwrap_or_default();
        match switch.about().values {
            // The default and two others.
            Values::Number { .. } if seen.len() < 3 => {
                lacking.insert(switch.name().to_owned());
            }
            Values::Number { .. } => {}
            values => {
                let values = values.names().filter(|value| !seen.contains(*value));
                lacking.extend(values.map(|value| format!("{}={value}", switch.name())));
            }
        }
    }
    assert!(lacking.is_empty(), "witnesses.toml shows nothing for {lacking:?}");
    let outcomes = outcomes(&witnesses);
    let mut same = Vec::new();
    for witness in &witnesses {
        let result = |kernel| {
            let Outcome { event_hash, counters } =
                &outcomes[&(witness.workload.clone(), witness.scale.clone(), kernel)];
            if witness.counts { counters } else { event_hash }
        };
        for (switch, values) in &witness.differ {
            let of: BTreeSet<_> =
                values.iter().map(|value| result(witness.with(*switch, value))).collect();
            if of.len() < values.len() || of.len() < 2 {
                let Witness { workload, kernel, .. } = witness;
                same.push(format!("{workload} {kernel}: {} {}", switch.name(), values.join(" ")));
            }
        }
    }
    assert!(same.is_empty(), "these values give the same events:\n{}", same.join("\n"));
}

/// What a run says beside how its kernel is spelled.
fn without_spelling(mut run: Value) -> Value {
    run["policy"].take();
    run["kernel"]["base"].take();
    run["kernel"]["set"].take();
    run
}

#[test]
fn equal_kernels_that_are_spelled_differently_give_equal_bytes() {
    let pairs = [
        ("linux-3.10", "linux-3.12"),
        ("linux-3.19", "linux-4.2"),
        ("linux-4.20", "linux-5.0"),
        ("linux-5.1", "linux-5.10"),
        ("linux-5.10", "linux-5.1"),
        ("linux-6.8", "linux-6.12"),
        ("linux-6.18", "linux-7.3"),
        ("linux-3.10", "linux-7.3"),
        ("debian-7.2", "linux-7.2"),
    ];
    let (mut plain, mut spelled) = (Vec::new(), Vec::new());
    for (from, to) in pairs {
        let kernel = |name| Named::parse(name).expect("a preset").kernel;
        let mut text = from.to_owned();
        let mut toml = format!("base = \"{from}\"\n");
        for (switch, _, value) in kernel(from).diff(&kernel(to)) {
            text += &format!(",{}={value}", switch.name());
            toml += &format!("{} = \"{value}\"\n", switch.name());
        }
        assert_eq!(Named::parse(&text).expect("a kernel").kernel, kernel(to));
        plain.push(to.to_owned());
        spelled.push(text);
        let toml = file(&format!("spelled-{from}-{to}.toml"), &toml);
        plain.push(to.to_owned());
        spelled.push(toml.display().to_string());
    }
    let distinct: BTreeSet<&str> = plain.iter().map(String::as_str).collect();
    let of_plain: BTreeMap<&str, Value> = distinct
        .iter()
        .copied()
        .zip(runs("thpfioscale-madvhugepage", "1/256", distinct.iter().copied()))
        .collect();
    let of_spelled = runs("thpfioscale-madvhugepage", "1/256", spelled.iter().map(String::as_str));
    for ((to, spelled), run) in plain.iter().zip(&spelled).zip(of_spelled) {
        let (a, b) = (without_spelling(of_plain[to.as_str()].clone()), without_spelling(run));
        assert_eq!(a.to_string(), b.to_string(), "{to} and {spelled}");
    }
}

/// The files of a folder in which a switch can be named.
fn texts(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        // The kernels in `long` set every switch.
        if path.is_dir() && !matches!(name, "target" | "corpus" | "node_modules" | "long") {
            texts(&path, found);
        } else if matches!(
            path.extension().and_then(OsStr::to_str),
            Some("rs" | "md" | "toml" | "py" | "pyi")
        ) {
            found.push(path);
        }
    }
}

/// Switches of the allocator that one file asks are named by the files that CONTRIBUTING.md lists, and by that one.
#[test]
fn a_switch_of_the_allocator_is_five_files() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let guide = fs::read_to_string(top.join("CONTRIBUTING.md")).expect("the guide");
    let list = guide.split("## Add a switch\n").nth(1).and_then(|rest| rest.split("\n\n").nth(1));
    let quoted = list.expect("a list").split('`').skip(1).step_by(2);
    let mut listed: BTreeSet<&str> = quoted.filter(|name| top.join(name).is_file()).collect();
    assert!(listed.remove("crates/python/make_stub.py"), "the stub is written by a program");
    assert_eq!(listed.len(), 4, "{listed:?}");
    // Documents may name a switch, and need not.
    let mut files = Vec::new();
    for folder in ["crates", "examples"] {
        texts(&top.join(folder), &mut files);
    }
    for switch in
        ["retry_wakes", "thp_contended", "oom_without_fs", "nofail_reserve", "oom_spares_mayfail"]
    {
        assert!(Switch::find(switch).is_some(), "{switch}");
        let names = |path: &&PathBuf| {
            // Not this test.
            !path.ends_with("it/switches.rs")
                && fs::read_to_string(path).is_ok_and(|text| text.contains(switch))
        };
        let named: BTreeSet<_> = files.iter().filter(names).collect();
        let named: BTreeSet<_> =
            named.iter().map(|path| path.strip_prefix(&top).expect("below")).collect();
        let asks = named.iter().find(|path| path.starts_with("crates/pageblock/src/slowpath"));
        let expect: BTreeSet<_> = listed.iter().map(Path::new).chain(asks.copied()).collect();
        assert_eq!(expect.len(), 5, "{switch}");
        assert_eq!(named, expect, "{switch}");
    }
}
