//! `cargo bench -p pageblock-bench --bench replay`: recorded events per second of guided and free replay, from
//! the columnar form. `RECORDING` names a recording other than the shipped one.

use std::path::PathBuf;
use std::time::Duration;

use criterion::{Criterion, Throughput};
use pageblock_recording::Recording;
use pageblock_replay::machine::recorded_preset;
use pageblock_replay::{VerifyOptions, open_loop, verify};

fn main() {
    let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/../../recordings/debian-6.12-640m");
    let path = std::env::var_os("RECORDING").map_or_else(|| PathBuf::from(shipped), PathBuf::from);
    let path = path.canonicalize().expect("the recording exists");
    let recording = Recording::open(&path).expect("it is a recording");
    let cache = tempdir();
    let columnar = recording.columnar(&cache, &mut |_, _| {}).expect("it can be converted");
    let demands =
        open_loop::demands(&recording, &columnar, &mut |_, _| {}).expect("it has demands");
    let own = recorded_preset(&recording);
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(5))
        .configure_from_args();
    let mut group = criterion.benchmark_group(recording.name.clone());
    group.throughput(Throughput::Elements(demands.events));
    group.bench_function("free replay", |bencher| {
        bencher.iter(|| {
            open_loop::replay(&recording, &demands, (own.name, &own.policy), 0, &mut |_, _| true)
        });
    });
    group.bench_function("guided replay", |bencher| {
        let options = VerifyOptions { mismatches: 0, ..VerifyOptions::default() };
        bencher
            .iter(|| verify(&recording, &columnar, &own.policy, own.name, options, &mut |_, _| {}));
    });
    group.finish();
    criterion.final_summary();
}

/// Returns a folder for the columnar form, the same in every run.
fn tempdir() -> PathBuf {
    let folder = std::env::temp_dir().join("pageblock-bench");
    std::fs::create_dir_all(&folder).expect("the temporary folder can be written");
    folder
}
