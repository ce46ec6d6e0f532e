//! Temporary.
use std::path::Path;
use pageblock_kernel::Named;
use pageblock_recording::Recording;
use pageblock_replay::{machine, open_loop};
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let mut r = Recording::open(Path::new(&a[1])).unwrap();
    let cache = Path::new(&a[2]);
    let c = r.columnar(cache, &mut |_, _| {}).unwrap();
    pageblock_replay::infer::complete(&mut r, &c).unwrap();
    let d = open_loop::demands(&r, &c, &mut |_, _| {}).unwrap();
    let own = machine::recorded_preset(&r);
    let name = a.get(3).cloned().unwrap_or(own.name.to_owned());
    let kernel = Named::parse(&name).unwrap().kernel;
    let both = [("open", open_loop::replay(&r, &d, "x", &kernel.allocator, &mut |_, _| true).unwrap().unwrap()),
     ("closed", pageblock_closed_loop::replay(&r, &d, "x", &kernel, &mut |_, _| true).unwrap().unwrap())];
    for (n, out) in &both {
        println!("--- {} {} {}", a[1], name, n);
        for x in d.recorded.distances(&out.outcome, r.pageblock_order) { println!("{:45} {:8} {:8} {:8.2}", x.measure.name(), x.recorded, x.replayed, x.permyriad as f64 / 100.0); }
        for (k, n) in out.run.counters.iter() { if n > 0 && ["slow","then","unknown","not_found","recorded","fail","pgsteal","compact","migrate","Mismatch","mismatch"].iter().any(|w| k.contains(w)) { print!("{k} {n}  "); } }
        println!();
    }
}
