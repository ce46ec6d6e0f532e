//! The allocator embedded: caller-supplied memory, one zone of 64 MiB, one CPU.

use std::mem::MaybeUninit;

use pageblock::prelude::*;
use pageblock::proc::BuddyInfo;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let zone = OneZone::new(FrameRange::new(0, 16 * 1024));
    let mut memory = vec![MaybeUninit::uninit(); zone.metadata_size()?];
    let mut allocator = zone.build(&mut memory)?;

    // CPU 0 takes eight pages that stay where they are. `()` observes nothing and costs nothing.
    let pfn = allocator.alloc(CpuId(0), &Request::unmovable(3), &mut ())?;
    println!("eight pages from frame {pfn} on\n{}", BuddyInfo(&allocator));
    allocator.free(CpuId(0), pfn, 3, &mut ())?;

    // A second free is an error, not a corrupted list.
    println!("{}", allocator.free(CpuId(0), pfn, 3, &mut ()).unwrap_err());
    Ok(())
}
