//! Runs as a folder of mmtests, so that its own tools compare them with others.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::Path;
use std::slice;

use flate2::Compression;
use flate2::write::GzEncoder;
use pageblock::mobility::Numbering;
use pageblock_files::{Access, NewFolder, new_folder, part, part_folder};
use pageblock_measure::run::policies::Policies;
use pageblock_measure::run::saved;
use pageblock_measure::value::names;
use pageblock_measure::{Counters, ExtfragMatrix, Run};

use super::{BENCHMARKS, OWN};
use crate::error::{Place, Result, bail};

/// Writes runs into a folder like `work/log`, which may exist: for each policy a folder that must not, with an iteration
/// for each run.
///
/// A fallback is an event at time 0 and frame 0, as saved runs have only their number. Of the workloads that are benchmarks
/// of mmtests the samples are logged, of others the counters alone.
///
/// # Errors
/// If a policy's folder exists, or something cannot be written.
pub fn write(runs: &[Run], target: &Path) -> Result<()> {
    let policies = Policies::of(runs);
    let folders: Vec<_> = policies.iter().map(|runs| target.join(name(&runs[0].policy))).collect();
    if let Some(taken) = folders.iter().find(|folder| folder.symlink_metadata().is_ok()) {
        bail!("{}: exists already", taken.display());
    }
    if !target.is_dir() {
        new_folder(target, Access::Shared).at(|| target.display())?;
    }
    for (folder, runs) in folders.iter().zip(policies.iter()) {
        let whole = NewFolder::create_new(folder, Access::Shared).at(|| folder.display())?;
        for (number, run) in runs.iter().enumerate() {
            let iteration = whole.path().join(format!("iter-{number}"));
            write_run(run, &iteration).at(|| folder.display())?;
        }
        whole.finish().at(|| folder.display())?;
    }
    Ok(())
}

/// Returns a policy as the name of a folder; mmtests separates names by commas.
fn name(policy: &str) -> String {
    let plain = |c: char| if c.is_alphanumeric() || "-_.=+".contains(c) { c } else { '+' };
    // A name that begins with a dot would be hidden, or another folder.
    policy.chars().map(plain).collect::<String>().trim_start_matches('.').to_owned()
}

fn write_run(run: &Run, folder: &Path) -> io::Result<()> {
    let benchmark = BENCHMARKS.iter().find(|known| known.workload == run.workload);
    let test = benchmark.map_or(run.workload.as_str(), |known| known.written);
    let logs = folder.join(test).join("logs");
    part_folder(&logs, Access::Shared)?;
    let text = |name: &str, text: &str| {
        part(&folder.join(name), Access::Shared)?.write_all(text.as_bytes())
    };
    text("tests-timestamp", &format!("{}{}", begin(test), end(test, &run.counters)))?;
    text("tests-sysstate", &sysstate(test, &run.counters))?;
    text(OWN, &saved::to_json(slice::from_ref(run)))?;
    if run.extfrag.total() > 0 {
        let events = events(&run.extfrag, run.pageblock_order());
        packed(&folder.join(format!("ftrace-{test}.gz")), &events)?;
    }
    match run.workload.as_str() {
        "thpfioscale" => write_faults(run, &logs),
        "netperf-udp" => write_throughputs(run, &logs),
        _ => Ok(()),
    }
}

fn packed(path: &Path, text: &str) -> io::Result<()> {
    let mut writer = GzEncoder::new(part(path, Access::Shared)?, Compression::default());
    writer.write_all(text.as_bytes())?;
    writer.finish().map(drop)
}

fn begin(test: &str) -> String {
    format!("test begin :: {test} 0\n")
}

fn end(test: &str, counters: &Counters) -> String {
    let mut text = format!("test end :: {test} 0 0\n");
    if names::elapsed_ms(counters).is_some() {
        let [user, system, elapsed] =
            [names::user_ms, names::system_ms, names::elapsed_ms].map(|of| {
                let ms = of(counters).unwrap_or(0);
                format!("{}.{:03}", ms / 1000, ms % 1000)
            });
        let _ = writeln!(text, "time :: {test} {user} user {system} system {elapsed} elapsed");
    }
    text
}

/// Writes the kernel's counters as if they had been 0 before.
fn sysstate(test: &str, counters: &Counters) -> String {
    let mut text = begin(test);
    for when in ["start", "end"] {
        let _ = writeln!(text, "file {when} :: /proc/vmstat");
        let mut line = |name: &str, count| {
            let _ = writeln!(text, "{name} {}", if when == "start" { 0 } else { count });
        };
        // mmtests takes the last counter of stalls for all of them: the sum.
        let sum = |name: &str| name == "allocstall";
        counters.iter().filter(|(name, _)| !sum(name)).for_each(|(name, count)| line(name, count));
        counters.iter().filter(|(name, _)| sum(name)).for_each(|(name, count)| line(name, count));
        let _ = writeln!(text, "file {when} :: /proc/zoneinfo");
    }
    text + &end(test, counters)
}

/// Writes an event for each fallback, in the form that mmtests reads where no kernel tells its own.
fn events(matrix: &ExtfragMatrix, pageblock_order: u8) -> String {
    let number = |mt| Numbering::Modern.number(mt, true).unwrap_or(u8::MAX);
    let mut text = String::new();
    for (key, count) in matrix.iter() {
        let event = format!(
            "simulated-1 [000] .... 0.000000: mm_page_alloc_extfrag: page=0 pfn=0 alloc_order={} \
             fallback_order={} pageblock_order={pageblock_order} alloc_migratetype={} \
             fallback_migratetype={} fragmenting={} change_ownership={}\n",
            key.alloc_order,
            key.fallback_order,
            number(key.alloc_mt),
            number(key.fallback_mt),
            u8::from(key.fragmenting(pageblock_order)),
            u8::from(key.owned),
        );
        for _ in 0..count {
            text.push_str(&event);
        }
    }
    text
}

/// Writes what thpchallenge prints of each fault: its thread, its size, and microseconds.
fn write_faults(run: &Run, logs: &Path) -> io::Result<()> {
    let mut threads: Vec<&str> = run
        .samples
        .keys()
        .filter_map(|name| name.strip_prefix("fault-")?.split_once('-'))
        .map(|(_, n)| n)
        .collect();
    threads.sort_unstable();
    threads.dedup();
    for count in threads {
        let mut text = String::new();
        for kind in ["base", "huge"] {
            for nanos in run.samples.get(&format!("fault-{kind}-{count}")).into_iter().flatten() {
                let _ = writeln!(text, "fault 0 {kind} {} 0.000000", nanos / 1000);
            }
        }
        packed(&logs.join(format!("threads-{count}.log.gz")), &text)?;
    }
    Ok(())
}

/// Writes what netperf prints of UDP streams: a row of what was sent, and one of what was received.
fn write_throughputs(run: &Run, logs: &Path) -> io::Result<()> {
    part(&logs.join("protocols"), Access::Shared)?.write_all(b"UDP_STREAM\n")?;
    for (name, sent) in &run.samples {
        let Some(size) = name.strip_prefix("send-") else { continue };
        let received = run.samples.get(&format!("recv-{size}"));
        for (at, &bits) in sent.iter().enumerate() {
            let got = received.and_then(|rates| rates.get(at)).copied().unwrap_or(bits);
            let [sent, got] = [bits, got].map(|bits| bits as f64 / 1e6);
            let text = format!("0 {size} 0.00 0 0 {sent:.2}\n0 0.00 0 {got:.2}\n");
            let path = logs.join(format!("UDP_STREAM-{size}.{}", at + 1));
            part(&path, Access::Shared)?.write_all(text.as_bytes())?;
        }
    }
    Ok(())
}
