//! The allocator embedded: caller-supplied memory, one zone of 64 MiB, one CPU.

use std::mem::MaybeUninit;

use pageblock::alloc::Allocator;
use pageblock::frame::FrameRange;
use pageblock::ids::{CpuId, NodeId};
use pageblock::layout::{ZoneKind, ZoneSpec};
use pageblock::policy::Policy;
use pageblock::proc::BuddyInfo;
use pageblock::request::{Gfp, Request};
use pageblock::setup::Setup;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let span = FrameRange::new(0, 16 * 1024);
    let zones = [ZoneSpec::full(NodeId(0), ZoneKind::Normal, span)];
    let setup = Setup::new(Policy::default(), &zones, &[NodeId(0)]);
    let mut memory = vec![MaybeUninit::uninit(); setup.metadata_size()?];
    let mut allocator = Allocator::new(&mut memory, &setup)?;
    allocator.release(span)?;

    // CPU 0 takes eight pages for the kernel. `()` observes nothing and costs nothing.
    let pfn = allocator.alloc(CpuId(0), &Request::new(3, Gfp::GFP_KERNEL), &mut ())?;
    println!("eight pages from frame {pfn} on\n{}", BuddyInfo(&allocator));
    allocator.free(CpuId(0), pfn, 3, &mut ())?;

    // A second free is an error, not a corrupted list.
    println!("{}", allocator.free(CpuId(0), pfn, 3, &mut ()).unwrap_err());
    Ok(())
}
