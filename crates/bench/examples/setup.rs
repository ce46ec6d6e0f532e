//! Prints the start-up time of an allocator for memory sizes in GiB: creating its tables and releasing all
//! memory, in memory that is new to the process, in memory used before, and in untouched zero pages. Words among the
//! arguments are placements (`linux`; `packed`, the default policy), a number with `cpus` the CPUs:
//!
//! `cargo run --release -p pageblock-bench --example setup -- packed 8cpus 1 64`

use std::mem::MaybeUninit;
use std::time::Instant;

use pageblock::alloc::Allocator;
use pageblock::frame::FrameRange;
use pageblock::ids::NodeId;
use pageblock::layout::{ZoneKind, ZoneSpec};
use pageblock::policy::Policy;
use pageblock::setup::{Setup, SetupError};

fn main() {
    let (mut placement, mut cpus) = ("linux".to_owned(), 1);
    for arg in std::env::args().skip(1) {
        if let Ok(gib) = arg.parse() {
            start(&placement, cpus, gib);
        } else if let Some(number) = arg.strip_suffix("cpus") {
            cpus = number.parse().expect("a number of CPUs");
        } else {
            placement = arg;
        }
    }
}

fn start(placement: &str, cpus: usize, gib: u64) {
    let frames = gib << 18;
    let span = FrameRange::new(0, frames);
    let zones = [ZoneSpec::full(NodeId(0), ZoneKind::Normal, span)];
    let policy = match placement {
        "packed" => Policy::default(),
        _ => Policy::parse(&format!("linux-6.12,placement={placement}")).expect("it exists"),
    };
    let cpu_nodes = vec![NodeId(0); cpus];
    let setup = Setup::new(policy, &zones, &cpu_nodes);
    let size = setup.metadata_size().expect("the setup is sound");
    println!(
        "{gib:>3} GiB, {placement}, {cpus} CPUs: {:.2} MB, {:.3} bytes a frame",
        size as f64 / 1e6,
        size as f64 / frames as f64
    );
    let timed = |state: &str, make: &mut dyn FnMut()| {
        let start = Instant::now();
        make();
        let ms = start.elapsed().as_secs_f64() * 1e3;
        println!("{gib:>3} GiB, {state:<5} memory: {ms:>6.1} ms");
    };
    let release = |allocator: Result<Allocator<'_>, SetupError>| {
        let released = allocator.expect("the memory suffices").release(span);
        released.expect("all frames are reserved");
    };
    let mut memory = vec![MaybeUninit::uninit(); size];
    for state in ["new", "used", "used", "used"] {
        timed(state, &mut || release(Allocator::new(&mut memory, &setup)));
    }
    for _ in 0..5 {
        let mut zeros = vec![0u8; size];
        timed("zero", &mut || release(Allocator::new_in_bytes(&mut zeros, &setup)));
    }
}
