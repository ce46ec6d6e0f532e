//! Scratch: guided replay of a recording.
use pageblock_lab::{VerifyOptions, machine::*, verify};
use pageblock_recording::*;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let n: usize = args.get(2).map_or(10, |s| s.parse().unwrap());
    let limit = args.get(3).map(|s| s.parse().unwrap());
    let recording = Recording::open(std::path::Path::new(&args[1])).unwrap();
    let cols = recording.columnar(std::path::Path::new("/tmp/pbcache"), &mut |_, _| {}).unwrap();
    let preset = recorded_preset(&recording);
    println!("preset {}", preset.name);
    let options = VerifyOptions { mismatches: n, limit };
    let v =
        verify(&recording, &cols, &preset.policy, preset.name, options, &mut |_, _| {}).unwrap();
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
    println!("end equal {}", v.end_state_equal);
}
