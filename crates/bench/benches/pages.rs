//! `cargo bench -p pageblock-bench`: time per block of each pattern, order and allocator.

use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput};
use pageblock_bench::pattern::Pattern;
use pageblock_bench::subject::{BuddySystem, Pageblock, PageblockZone, Subject};

/// 1 GiB of 4 KiB pages.
const FRAMES: u64 = 1 << 18;

fn bench<S: Subject>(criterion: &mut Criterion, pattern: Pattern, order: u8) {
    let mut group = criterion.benchmark_group(format!("{}, order {order}", pattern.name()));
    let operations = pattern.operations(FRAMES, order);
    group.throughput(Throughput::Elements(operations));
    let mut subject = S::new(FRAMES);
    group.bench_function(BenchmarkId::from_parameter(S::NAME), |bencher| {
        bencher.iter_custom(|iterations| {
            (0..iterations).map(|_| pattern.run(&mut subject, FRAMES, order)).sum::<Duration>()
        });
    });
    group.finish();
}

fn main() {
    let bytes = Pageblock::new(FRAMES).metadata as f64 / FRAMES as f64;
    println!("metadata: {bytes:.2} bytes a frame of a 1 GiB zone\n");
    let mut criterion = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .configure_from_args();
    for pattern in Pattern::ALL {
        for order in [0, 3, 9] {
            bench::<Pageblock>(&mut criterion, pattern, order);
            bench::<PageblockZone>(&mut criterion, pattern, order);
            bench::<BuddySystem>(&mut criterion, pattern, order);
        }
    }
    criterion.final_summary();
}
