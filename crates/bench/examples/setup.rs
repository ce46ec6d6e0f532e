//! Prints how long an allocator takes to start, for memory sizes in GiB: its tables made and all memory
//! released, in memory that is new to the process, and in memory that it has used before.

use std::mem::MaybeUninit;
use std::time::Instant;

use pageblock::alloc::Allocator;
use pageblock::frame::FrameRange;
use pageblock::layout::{ZoneKind, ZoneSpec};
use pageblock::policy::Policy;
use pageblock::setup::Setup;
use pageblock::zone::Geometry;

fn main() {
    let sizes = std::env::args().skip(1).filter_map(|size| size.parse::<u64>().ok());
    for gib in sizes {
        let frames = gib << 18;
        let span = FrameRange::new(0, frames);
        let (present, managed) = (frames, frames);
        let setup = Setup {
            policy: Policy::parse("linux-6.12").expect("the policy exists"),
            geometry: Geometry::default(),
            zones: &[ZoneSpec { node: 0, kind: ZoneKind::Normal, span, present, managed }],
            cpu_nodes: &[0],
            distances: &[],
        };
        let size = setup.metadata_size().expect("the setup is sound");
        let mut memory = vec![MaybeUninit::uninit(); size];
        for state in ["new", "used", "used", "used"] {
            let start = Instant::now();
            let mut allocator = Allocator::new(&mut memory, &setup).expect("the memory suffices");
            allocator.release(span).expect("all frames are reserved");
            let ms = start.elapsed().as_secs_f64() * 1e3;
            println!("{gib:>3} GiB, {state:<4} memory: {ms:>6.1} ms");
        }
    }
}
