//! Prints the start-up time of an allocator for memory sizes in GiB: creating its tables and releasing all
//! memory, in memory that is new to the process, in memory used before, and in untouched zero pages.

use std::mem::MaybeUninit;
use std::time::Instant;

use pageblock::alloc::Allocator;
use pageblock::frame::FrameRange;
use pageblock::ids::NodeId;
use pageblock::layout::{ZoneKind, ZoneSpec};
use pageblock::policy::Policy;
use pageblock::setup::{Setup, SetupError};
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
            zones: &[ZoneSpec { node: NodeId(0), kind: ZoneKind::Normal, span, present, managed }],
            cpu_nodes: &[NodeId(0)],
            distances: &[],
        };
        let size = setup.metadata_size().expect("the setup is sound");
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
        for _ in 0..3 {
            let mut zeros = vec![0u8; size];
            timed("zero", &mut || release(Allocator::new_in_bytes(&mut zeros, &setup)));
        }
    }
}
