//! Page tables of the crate `x86_64`, in frames of Pageblock's.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::mem::MaybeUninit;

use adapter::paging::CpuFrames;
use pageblock::alloc::Allocator;
use pageblock::frame::FrameRange;
use pageblock::ids::{CpuId, NodeId};
use pageblock::layout::{ZoneKind, ZoneSpec};
use pageblock::policy::Policy;
use pageblock::request::Gfp;
use pageblock::setup::Setup;
use pageblock::sharing::Shared;
use x86_64::structures::paging::mapper::{CleanUp, Translate};
use x86_64::structures::paging::{
    FrameAllocator, FrameDeallocator, Mapper, OffsetPageTable, Page, PageTable, PageTableFlags,
    PhysFrame, Size2MiB, Size4KiB,
};
use x86_64::{PhysAddr, VirtAddr};

const FRAMES: u64 = 4096;

pageblock::locks! {
    struct ParkingLot = parking_lot::Mutex<T>, parking_lot::MutexGuard<'a, T>;
}

type Frames<'c, 's, 'm> = CpuFrames<'c, 's, 'm, ParkingLot, ()>;

/// Shares 16 MiB of frames, and verifies afterwards that every one is free.
fn with_frames(test: impl FnOnce(Frames<'_, '_, '_>)) {
    let span = FrameRange::new(0, FRAMES);
    let zones = [ZoneSpec::full(NodeId(0), ZoneKind::Normal, span)];
    let setup = Setup::new(Policy::parse("linux-6.12").unwrap(), &zones, &[NodeId(0)]);
    let mut tables = vec![MaybeUninit::uninit(); setup.metadata_size().unwrap()];
    let mut allocator = Allocator::new(&mut tables, &setup).unwrap();
    allocator.release(span).unwrap();
    allocator.retune();
    let mut locks = vec![MaybeUninit::uninit(); allocator.sharing_size::<ParkingLot>()];
    let shared: Shared<'_, ParkingLot> = allocator.share(&mut locks).unwrap();
    test(CpuFrames::new(&mut shared.cpu(CpuId(0)).unwrap(), Gfp::GFP_KERNEL));
    let mut allocator = shared.into_owned().unwrap();
    allocator.drain_all(&mut ());
    allocator.check().unwrap();
    assert_eq!(allocator.zones()[0].free_pages(), FRAMES);
}

/// Memory that stands for the machine's, frame 0 at its start.
struct Machine(*mut u8);

const LAYOUT: Layout = match Layout::from_size_align(FRAMES as usize * 4096, 4096) {
    Ok(layout) => layout,
    Err(_) => panic!("a layout"),
};

impl Machine {
    fn new() -> Self {
        // SAFETY: the size is not zero.
        Self(unsafe { alloc_zeroed(LAYOUT) })
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // SAFETY: allocated by `new` with the same layout.
        unsafe { dealloc(self.0, LAYOUT) }
    }
}

#[test]
fn page_tables_are_built_and_torn_down() {
    let machine = Machine::new();
    with_frames(|mut frames| {
        let root: PhysFrame<Size4KiB> = frames.allocate_frame().unwrap();
        let small: PhysFrame<Size4KiB> = frames.allocate_frame().unwrap();
        let large: PhysFrame<Size2MiB> = frames.allocate_frame().unwrap();
        let start = root.start_address().as_u64() as usize;
        // SAFETY: the frame is the test's, and zero is an empty table.
        let table = unsafe { &mut *machine.0.add(start).cast::<PageTable>() };
        let offset = VirtAddr::from_ptr(machine.0);
        // SAFETY: every frame that the allocator gives lies at this offset, and no CPU uses the tables.
        let mut map = unsafe { OffsetPageTable::new(table, offset) };

        let flags = PageTableFlags::PRESENT | PageTableFlags::WRITABLE;
        let at = VirtAddr::new(0xffff_8000_1234_5000);
        let huge_at = VirtAddr::new(0xffff_9000_0020_0000);
        let (page, huge_page) =
            (Page::from_start_address(at).unwrap(), Page::from_start_address(huge_at).unwrap());
        // SAFETY: nobody uses these addresses or frames.
        unsafe {
            map.map_to(page, small, flags, &mut frames).unwrap().ignore();
            map.map_to(huge_page, large, flags, &mut frames).unwrap().ignore();
        }
        let inside = |frame: PhysAddr, n: u64| Some(frame + n);
        assert_eq!(map.translate_addr(at + 7), inside(small.start_address(), 7));
        assert_eq!(map.translate_addr(huge_at + 70000), inside(large.start_address(), 70000));

        map.unmap(page).unwrap().1.ignore();
        map.unmap(huge_page).unwrap().1.ignore();
        // SAFETY: the tables are used by nobody; each frame is freed once.
        unsafe {
            map.clean_up(&mut frames);
            frames.deallocate_frame(small);
            frames.deallocate_frame(large);
            frames.deallocate_frame(root);
        }
    });
}

#[test]
#[should_panic(expected = "a frame in use")]
fn second_free_is_noticed() {
    with_frames(|mut frames| {
        let frame: PhysFrame<Size4KiB> = frames.allocate_frame().unwrap();
        // SAFETY: the first is right; the second is the mistake that is tested, and changes nothing.
        unsafe {
            frames.deallocate_frame(frame);
            frames.deallocate_frame(frame);
        }
    });
}

#[test]
fn no_memory_is_none() {
    with_frames(|mut frames| {
        let mut got: Vec<PhysFrame<Size2MiB>> = Vec::new();
        got.extend(std::iter::from_fn(|| frames.allocate_frame()));
        assert!((5..=8).contains(&got.len()), "{} of 8", got.len());
        for frame in got {
            // SAFETY: in use, and freed once.
            unsafe { frames.deallocate_frame(frame) };
        }
    });
}
