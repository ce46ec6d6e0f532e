//! The conditions under which runs can be compared: everything but the policy is the same.

use std::collections::BTreeSet;

use crate::run::Run;
use crate::value::counters::Counters;

/// Splits a machine's name from its scale, `1` if the name has none.
#[must_use]
pub fn parts(machine: &str) -> (&str, &str) {
    machine.rsplit_once(" at ").unwrap_or((machine, "1"))
}

/// Names what differs between two runs beside policy and seed: workload, machine, or scale. `None` if
/// nothing does.
#[must_use]
pub fn difference(a: &Run, b: &Run) -> Option<String> {
    let ((machine_a, scale_a), (machine_b, scale_b)) = (parts(&a.machine), parts(&b.machine));
    let differences: Vec<String> = [
        ("workload", a.workload.as_str(), b.workload.as_str()),
        ("machine", machine_a, machine_b),
        ("scale", scale_a, scale_b),
    ]
    .into_iter()
    .filter(|(_, a, b)| a != b)
    .map(|(what, a, b)| format!("{what} {a} and {b}"))
    .chain(machine_keys(a, b))
    .collect();
    (!differences.is_empty()).then(|| differences.join(", "))
}

/// Names the keys in which the machines of two runs differ that have the same name, where both runs say.
fn machine_keys(a: &Run, b: &Run) -> Option<String> {
    let keys = a.setup.as_ref()?.machine.differences(&b.setup.as_ref()?.machine);
    let same_name = parts(&a.machine).0 == parts(&b.machine).0;
    (same_name && !keys.is_empty())
        .then(|| format!("{} of machine {}", keys.join(", "), parts(&a.machine).0))
}

/// Drops what some of the runs did not measure, and gives runs that are unlike columns of their own:
/// what differs follows their policy's name.
pub fn keep_common(runs: &mut [Run]) {
    let common = |names: &dyn Fn(&Run) -> BTreeSet<String>| {
        let sets = runs.iter().map(names);
        sets.reduce(|a, b| a.intersection(&b).cloned().collect()).unwrap_or_default()
    };
    let counters = common(&|run| run.counters.iter().map(|(name, _)| name.to_owned()).collect());
    let samples = common(&|run| run.samples.keys().cloned().collect());
    let free = common(&|run| run.free_blocks.keys().cloned().collect());
    let unusable = common(&|run| run.unusable_free_index.keys().cloned().collect());
    let measured = common(&|run| run.measured.names().map(str::to_owned).collect());
    let blocks = runs.iter().all(|run| run.blocks_by_type.is_some());
    let mixed = runs.iter().all(|run| run.mixed_blocks.is_some());
    label(runs);
    for run in runs {
        let kept = run.counters.iter().filter(|(name, _)| counters.contains(*name));
        run.counters = kept.collect::<Counters>();
        run.samples.retain(|name, _| samples.contains(name));
        run.free_blocks.retain(|zone, _| free.contains(zone));
        run.unusable_free_index.retain(|zone, _| unusable.contains(zone));
        run.blocks_by_type = run.blocks_by_type.filter(|_| blocks);
        run.mixed_blocks = run.mixed_blocks.filter(|_| mixed);
        run.measured.retain(|measure| measured.contains(measure));
    }
}

/// Adds to each policy's name what distinguishes the run's workload, machine and scale.
fn label(runs: &mut [Run]) {
    let differ = |part: &dyn Fn(&Run) -> String| runs.iter().any(|run| part(run) != part(&runs[0]));
    let workloads = differ(&|run| run.workload.clone());
    let machines = differ(&|run| parts(&run.machine).0.to_owned());
    let scales = differ(&|run| parts(&run.machine).1.to_owned());
    for run in runs {
        let (machine, scale) = parts(&run.machine);
        let mut label = String::new();
        for (shown, text) in [
            (workloads, run.workload.clone()),
            (machines, machine.to_owned()),
            (scales, format!("at {scale}")),
        ] {
            if shown {
                label += &format!(",{text}");
            }
        }
        run.policy += &label;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::setup::{DiskRecord, MachineRecord, SetupRecord};

    fn run(workload: &str, machine: &str, counters: &[&str]) -> Run {
        Run {
            policy: "linux-6.9".into(),
            workload: workload.into(),
            machine: machine.into(),
            counters: counters.iter().map(|&name| (name, 7)).collect(),
            ..Run::default()
        }
    }

    #[test]
    fn differences_are_named() {
        let check = |a: &Run, b: &Run, expect: Option<&str>| {
            assert_eq!(difference(a, b).as_deref(), expect);
        };
        let a = run("thpfioscale", "skylake-1s at 1/32", &[]);
        check(&a, &Run { policy: "linux-6.10".into(), seed: 3, ..a.clone() }, None);
        check(&a, &run("thpfioscale", "skylake-1s", &[]), Some("scale 1/32 and 1"));
        check(
            &a,
            &run("netperf-udp", "small-4g at 1/32", &[]),
            Some("workload thpfioscale and netperf-udp, machine skylake-1s and small-4g"),
        );
        let with_disk = |read_us| {
            let disk = DiskRecord { read_us, ..DiskRecord::default() };
            let machine = MachineRecord { disk, ..MachineRecord::default() };
            let setup = Some(SetupRecord { machine, ..SetupRecord::default() });
            Run { setup, ..a.clone() }
        };
        check(&a, &with_disk(90), None);
        check(&with_disk(90), &with_disk(90), None);
        check(&with_disk(90), &with_disk(80), Some("[disk] of machine skylake-1s"));
    }

    #[test]
    fn common_measures_are_kept_under_distinct_names() {
        let mut runs = [run("w", "m at 1/8", &["a", "b"]), run("w", "m", &["b", "c"])];
        runs[0].samples.insert("s".into(), vec![1]);
        runs[1].set_free_blocks("Normal", vec![1]);
        keep_common(&mut runs);
        let names: Vec<&str> = runs.iter().map(|run| run.policy.as_str()).collect();
        assert_eq!(names, ["linux-6.9,at 1/8", "linux-6.9,at 1"]);
        for run in &runs {
            assert_eq!(run.counters.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["b"]);
            assert!(run.samples.is_empty() && run.free_blocks.is_empty());
            assert!(run.unusable_free_index.is_empty());
        }
    }
}
