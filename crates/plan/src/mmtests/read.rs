//! Runs of a folder of mmtests.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pageblock_kernel::Named;
use pageblock_measure::certificate::note::Note;
use pageblock_measure::run::saved;
use pageblock_measure::value::names;
use pageblock_measure::{EventUnit, Origin, Run};
use pageblock_recording::KernelVersion;

use super::system::Test;
use super::{BENCHMARKS, OWN, events, iterations, kernels, log, open, system};
use crate::by_name;
use crate::error::{Place, Result, bail};

/// What a log of a benchmark may have in memory.
const LOG_LIMIT: usize = 256 << 20;

/// Reads the runs of a kernel's folder, or of all in a `work/log`: one for each test of each iteration.
///
/// The policy of a run is the name of its kernel's folder, its number the iteration's from 1 on, its machine the memory
/// that the kernel said.
///
/// # Errors
/// If a file cannot be read, or no test is whole.
pub fn runs(path: &Path) -> Result<Vec<Run>> {
    let mut runs = Vec::new();
    for kernel in kernels(path).at(|| path.display())? {
        let name = kernel.file_name().unwrap_or_default().to_string_lossy().into_owned();
        for (number, folder) in iterations(&kernel).at(|| kernel.display())? {
            let own = folder.join(OWN);
            if own.is_file() {
                runs.extend(saved::load(&own)?);
                continue;
            }
            let Some(state) = log(&folder, "tests-sysstate") else {
                bail!("{}: there is no tests-sysstate", folder.display());
            };
            let version = version(&folder)?;
            for test in system::tests(&state)? {
                let mut run = run_of(test, &folder, version.as_ref())?;
                (run.policy, run.seed) = (name.clone(), number + 1);
                runs.push(run);
            }
        }
    }
    if runs.is_empty() {
        bail!("{}: no test of mmtests ended", path.display());
    }
    by_name::complete(&mut runs)?;
    Ok(runs)
}

/// Returns the kernel's version, as `uname -a` printed it.
fn version(folder: &Path) -> Result<Option<KernelVersion>> {
    let Some(path) = log(folder, "kernel.version") else { return Ok(None) };
    let text = open(&path)?.read_to_end(LOG_LIMIT)?;
    let text = String::from_utf8_lossy(&text);
    // Linux HOST RELEASE ...: a host's name may look like a release.
    Ok(text.split_whitespace().nth(2).and_then(KernelVersion::parse))
}

fn run_of(test: Test, folder: &Path, version: Option<&KernelVersion>) -> Result<Run> {
    let benchmark = BENCHMARKS
        .iter()
        .find(|known| known.tests.iter().any(|prefix| test.name.starts_with(prefix)));
    let mut run = Run {
        workload: benchmark.map_or(test.name.as_str(), |known| known.workload).to_owned(),
        machine: test.memory_mib.map_or("mmtests".to_owned(), |mib| format!("{mib} MiB")),
        origin: Origin::Real,
        counters: test.counters,
        ..Run::default()
    };
    if let Some(version) = version {
        let preset = pageblock_replay::machine::preset_of(version);
        run.extfrag_unit = Some(EventUnit::of(&Named::parse(preset.name)?.kernel.allocator));
        run.notes.push(Note::Words(format!("Linux {}, measured by mmtests.", version.release())));
    }
    if let Some(trace) = log(folder, &format!("ftrace-{}", test.name))
        && let Some(found) = events::fallbacks(&trace, version)?
    {
        run.counters.set(names::MM_PAGE_ALLOC_EXTFRAG, found.matrix.total());
        run.extfrag = found.matrix;
        if found.lost > 0 {
            let lost = found.lost;
            run.notes.push(Note::Words(format!(
                "{}: the trace lost {lost} events: fallbacks are at least as many as counted.",
                test.name
            )));
        }
    }
    let logs = folder.join(&test.name).join("logs");
    match run.workload.as_str() {
        "thpfioscale" => run.samples = faults(&logs)?,
        "netperf-udp" => run.samples = throughputs(&logs)?,
        _ => {}
    }
    Ok(run)
}

/// Reads the logs of each number of threads: `fault THREAD base|huge MICROSECONDS TIME`, in nanoseconds.
fn faults(logs: &Path) -> Result<BTreeMap<String, Vec<u64>>> {
    let mut samples = BTreeMap::<String, Vec<u64>>::new();
    let threads =
        |name: &str| Some(name.strip_prefix("threads-")?.strip_suffix(".log")?.to_owned());
    for (threads, path) in files(logs, threads)? {
        let text = open(&path)?.read_to_end(LOG_LIMIT)?;
        for (at, line) in String::from_utf8_lossy(&text).lines().enumerate() {
            let words: Vec<&str> = line.split_whitespace().collect();
            if words.first() != Some(&"fault") {
                continue;
            }
            let micros = words.get(3).and_then(|word| word.parse::<u64>().ok());
            let nanos = micros.and_then(|us| us.checked_mul(1000));
            let (Some(kind @ (&"base" | &"huge")), Some(nanos)) = (words.get(2), nanos) else {
                bail!(
                    "{}: line {}: allowed: fault THREAD base|huge MICROSECONDS",
                    path.display(),
                    at + 1
                );
            };
            samples.entry(format!("fault-{kind}-{threads}")).or_default().push(nanos);
        }
    }
    Ok(samples)
}

/// Reads what netperf printed of UDP streams: rows of six numbers for what was sent and of four for what was received,
/// which end with Mbit/s. The result is in bit/s.
fn throughputs(logs: &Path) -> Result<BTreeMap<String, Vec<u64>>> {
    let mut samples = BTreeMap::<String, Vec<u64>>::new();
    let size = |name: &str| {
        let (size, iteration) = name.strip_prefix("UDP_STREAM-")?.split_once('.')?;
        iteration.parse::<u64>().ok()?;
        Some(size.to_owned())
    };
    for (size, path) in files(logs, size)? {
        let text = open(&path)?.read_to_end(LOG_LIMIT)?;
        let (mut send, mut recv) = (None, None);
        for line in String::from_utf8_lossy(&text).lines() {
            let numbers: Option<Vec<f64>> =
                line.split_whitespace().map(|word| word.parse().ok()).collect();
            match numbers.as_deref() {
                Some([.., rate]) if line.split_whitespace().count() == 6 => send = Some(*rate),
                Some([.., rate]) if line.split_whitespace().count() == 4 => recv = Some(*rate),
                _ => {}
            }
        }
        for (name, rate) in [("send", send), ("recv", recv)] {
            let Some(rate) = rate.filter(|rate| (0.0..1e9).contains(rate)) else {
                bail!(
                    "{}: no Mbit/s of what was {}",
                    path.display(),
                    match name {
                        "send" => "sent",
                        _ => "received",
                    }
                );
            };
            let bits = (rate * 1e6).round() as u64;
            samples.entry(format!("{name}-{size}")).or_default().push(bits);
        }
    }
    Ok(samples)
}

/// Returns the logs whose names, without what packed them, have a part that is asked for, with that part, by name.
fn files(logs: &Path, part: impl Fn(&str) -> Option<String>) -> Result<Vec<(String, PathBuf)>> {
    let mut files = Vec::new();
    for entry in logs.read_dir().at(|| logs.display())? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let plain = name.strip_suffix(".gz").or_else(|| name.strip_suffix(".xz")).unwrap_or(&name);
        files.extend(part(plain).map(|part| (part, path.clone())));
    }
    files.sort_by(|a, b| a.1.cmp(&b.1));
    Ok(files)
}
