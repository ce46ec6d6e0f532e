//! Counts how often each pattern takes the zone's lock, with both tables: events a thousand blocks.
//!
//! `cargo run --release -p pageblock-bench --example locks`

use pageblock::frame::Order;
use pageblock_bench::pattern::Pattern;
use pageblock_bench::subject::Pageblock;

const FRAMES: u64 = 1 << 18;

/// The locks of a thousand operations, once the caches have tuned themselves.
fn locks(policy: &str, pattern: Pattern, order: Order) -> f64 {
    let mut subject = Pageblock::with_policy(FRAMES, policy);
    pattern.run(&mut subject, FRAMES, order);
    let before = subject.locks();
    pattern.run(&mut subject, FRAMES, order);
    1000.0 * (subject.locks() - before) as f64 / pattern.operations(FRAMES, order) as f64
}

fn main() {
    let policy = std::env::args().nth(1).unwrap_or_else(|| "linux-6.12".to_owned());
    let packed = format!("{policy},placement=packed");
    println!("{:<16} {:>5} {:>10} {:>10}", "locks per 1000", "order", "linux", "packed");
    for pattern in Pattern::ALL {
        for order in [0, 3, 9] {
            let [lists, rings] = [&policy, &packed].map(|policy| locks(policy, pattern, order));
            println!("{:<16} {order:>5} {lists:>10.2} {rings:>10.2}", pattern.name());
        }
    }
}
