//! The allocator, made in the memory that it manages.

use core::mem::MaybeUninit;

use pageblock::alloc::Allocator;
use pageblock::frame::{FrameRange, Pfn};
use pageblock::ids::NodeId;
use pageblock::layout::{MAX_NR_ZONES, MemoryMap, NodeSpec, ZoneKind, ZoneLimits, ZoneSpec};
use pageblock::policy::Policy;
use pageblock::setup::Setup;
use pageblock::zone::Geometry;

use crate::ranges::Ranges;
use crate::{println, smp};

/// The size of a page frame.
pub const PAGE_SIZE: u64 = 4096;

/// `boot.s` maps every address below this one to itself.
pub const MAPPED: u64 = 5 << 30;

unsafe extern "C" {
    static image_start: u8;
    static image_end: u8;
}

/// The kernel itself.
pub fn image() -> FrameRange {
    let frame = |symbol: *const u8| symbol.addr() as u64 / PAGE_SIZE;
    FrameRange::new(frame(&raw const image_start), frame(&raw const image_end))
}

/// Where a frame begins.
pub fn address(pfn: Pfn) -> *mut u8 {
    core::ptr::with_exposed_provenance_mut((pfn.0 * PAGE_SIZE) as usize)
}

/// The bytes of a range of frames.
///
/// # Safety
/// The frames are usable memory, and nothing else has them for as long as the slice is used.
pub unsafe fn bytes(frames: FrameRange) -> &'static mut [MaybeUninit<u8>] {
    let len = (frames.len() * PAGE_SIZE) as usize;
    // SAFETY: usable memory is mapped at its own address; the rest is the caller's promise.
    unsafe { core::slice::from_raw_parts_mut(address(frames.start).cast(), len) }
}

/// The allocator of all usable memory, and the frames that it was given: all but the kernel's, its own
/// and frame 0, which would be a null pointer. Its tables lie at the end of the largest range.
pub fn allocator(usable: &Ranges) -> (Allocator<'static>, Ranges) {
    let null = FrameRange::new(0, 1);
    let free = usable.without(null).without(image());
    // The tables are as large as the zones' spans ask for, whatever is reserved there.
    let mut zones = [NO_ZONE; MAX_NR_ZONES];
    let size = setup(find_zones(usable, &[], &mut zones)).metadata_size().expect("possible zones");
    let tables = free.last_of_largest((size as u64).div_ceil(PAGE_SIZE));
    let free = free.without(tables);
    println!("{size} bytes for tables, in frames {} to {}", tables.start, tables.end);

    let setup = setup(find_zones(usable, &[null, image(), tables], &mut zones));
    // SAFETY: the frames are usable, not the kernel's, and not among those that are given away.
    let memory = unsafe { bytes(tables) };
    let mut allocator = Allocator::new(memory, &setup).expect("enough memory for tables");
    for &range in free.as_slice() {
        allocator.release(range).expect("reserved frames of a zone");
    }
    allocator.retune();
    (allocator, free)
}

const NO_ZONE: ZoneSpec = ZoneSpec {
    node: NodeId(0),
    kind: ZoneKind::Normal,
    span: FrameRange::new(0, 0),
    present: 0,
    managed: 0,
};

/// The zones of the machine, in `zones`.
fn find_zones<'z>(
    usable: &Ranges,
    reserved: &[FrameRange],
    zones: &'z mut [ZoneSpec],
) -> &'z [ZoneSpec] {
    let cpus = smp::CPUS as u16;
    let node =
        NodeSpec { id: NodeId(0), memory: usable.as_slice(), reserved, cpus, movable_start: None };
    let map = MemoryMap { nodes: &[node], distances: &[], limits: ZoneLimits::X86_64 };
    map.validate(Geometry::default().max_order).expect("a possible memory map");
    let mut count = 0;
    for (place, zone) in zones.iter_mut().zip(map.zones()) {
        *place = zone;
        count += 1;
    }
    &zones[..count]
}

fn setup(zones: &[ZoneSpec]) -> Setup<'_> {
    let policy = Policy::parse("linux-6.12").expect("a preset");
    let geometry = Geometry::default();
    Setup { geometry, ..Setup::new(policy, zones, &[NodeId(0); smp::CPUS]) }
}
