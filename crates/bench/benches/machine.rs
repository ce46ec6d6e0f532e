//! `cargo bench -p pageblock-bench --bench machine`: simulated events per second of real time, and the memory
//! per simulated page. `SCALE` is the machine's size as a fraction of Mel Gorman's machine with one socket.

use std::time::Duration;

use criterion::{Criterion, Throughput};
use pageblock_kernel::Named;
use pageblock_measure::Run;
use pageblock_simulate::sim::machine_file::{self, MachineSpec, Scale};
use pageblock_simulate::simulate::Simulation;
use pageblock_simulate::workload::thpfioscale::Form;

fn main() {
    let scale = std::env::var("SCALE").unwrap_or_else(|_| "1/32".to_owned());
    let scale = Scale::parse(&scale).expect("SCALE is a fraction");
    let text = include_str!("../../../machines/skylake-1s.toml");
    let machine =
        machine_file::parse(text, scale).expect("the machine that comes with the program");
    let before = resident();
    let events: u64 = simulate(&machine).counters.iter().filter_map(event).sum();
    let taken = peak().saturating_sub(before);
    println!(
        "{}: {} pages, {events} events, {:.1} bytes a page",
        machine.name,
        machine.pages(),
        taken as f64 / machine.pages() as f64
    );
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(10))
        .configure_from_args();
    let mut group = criterion.benchmark_group(machine.name.clone());
    group.throughput(Throughput::Elements(events));
    group.bench_function("thpfioscale", |bencher| bencher.iter(|| simulate(&machine)));
    group.finish();
    criterion.final_summary();
}

fn simulate(machine: &MachineSpec) -> Run {
    let name = "linux-4.20";
    let simulation = Simulation {
        machine,
        kernel: &Named::parse(name).expect("a preset"),
        workload: &Form::Default,
        seed: 1,
    };
    simulation.run(&mut |_| true).expect("no page is lost").expect("nobody stops it")
}

/// Returns the count of an allocator tracepoint.
fn event((name, count): (&str, u64)) -> Option<u64> {
    name.starts_with("mm_page_").then_some(count)
}

/// Returns the current resident memory of this process in bytes.
fn resident() -> u64 {
    status("VmRSS:")
}

/// Returns the peak resident memory of this process in bytes.
fn peak() -> u64 {
    status("VmHWM:")
}

fn status(key: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    let kbytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    1024 * kbytes.unwrap_or(0)
}
