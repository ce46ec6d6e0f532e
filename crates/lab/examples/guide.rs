//! Scratch: guided replay of a recording.
use pageblock_lab::{fate::*, guided::Guided, machine::*};
use pageblock_recording::*;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let n: usize = args.get(2).map_or(10, |s| s.parse().unwrap());
    let limit: u64 = args.get(3).map_or(u64::MAX, |s| s.parse().unwrap());
    let recording = Recording::open(std::path::Path::new(&args[1])).unwrap();
    let cols = recording.columnar(std::path::Path::new("/tmp/pbcache"), &mut |_, _| {}).unwrap();
    let preset = recorded_preset(&recording);
    println!("preset {}", preset.name);
    let machine = Machine::of(&recording).unwrap();
    let mut memory = machine.table_memory(preset.policy).unwrap();
    let mut alloc = machine.allocator(preset.policy, &recording.start, &mut memory).unwrap();
    println!("check {:?}", alloc.check());
    let orders = CpuListOrders { up_to: 3, and: Some(9) };
    let mut finder =
        FateFinder::new(recording.start.end_pfn(), orders, recording.kernel.at_least(6, 10));
    let (s, e) = (cols.windows.start_event(), cols.windows.end_event().min(limit));
    for (i, r) in cols.records().unwrap().enumerate() {
        if (s..e).contains(&(i as u64)) {
            finder.push(i as u64, &r.unwrap());
        }
    }
    let fates = finder.finish(recording.end.as_ref().filter(|_| limit == u64::MAX));
    let mut guided = Guided::new(&mut alloc, &fates, n);
    for (i, r) in cols.records().unwrap().enumerate() {
        let i = i as u64;
        if i >= s && i < e {
            guided.push(i, &r.unwrap());
        }
    }
    if limit == u64::MAX {
        guided.compare_end(recording.end.as_ref().unwrap());
    }
    let v = guided.finish();
    println!("check {:?}", alloc.check());
    for (k, r) in &v.kinds {
        println!(
            "{k:16} {:9} shape {:.3}% exact {:.3}%",
            r.cases,
            r.shape as f64 * 100. / r.cases as f64,
            r.exact as f64 * 100. / r.cases as f64
        );
    }
    for m in &v.mismatches {
        println!(
            "{} t={} cpu{} {}: recorded {} | model {}",
            m.event_index, m.t_us, m.cpu, m.kind, m.expected, m.actual
        );
        if n <= 6 {
            for c in &m.context {
                println!("      {c}");
            }
        }
    }
    for m in &v.notes {
        println!("{m}");
    }
}
