//! The self-check: two CPUs allocate, hand blocks to each other and free them, and in the end every frame
//! is free, once.

use pageblock::FrameState;
use pageblock::alloc::Allocator;
use pageblock::frame::{FrameRange, Order, Pfn};
use pageblock::ids::CpuId;
use pageblock::proc::BuddyInfo;
use pageblock::request::{Gfp, Request};
use pageblock::sharing::Shared;
use pageblock::zone::Zone;

use crate::cpu_flags::CpuFlags;
use crate::exchange::Exchange;
use crate::memory::{self, PAGE_SIZE};
use crate::ranges::Ranges;
use crate::spin_lock::SpinLocks;
use crate::{println, smp};

/// The allocator as both CPUs see it.
pub type Frames = Shared<'static, SpinLocks, CpuFlags>;

/// Checks an allocator whose frames, `free`, are all free. Panics where something is wrong.
pub fn run(mut allocator: Allocator<'static>, free: &Ranges) {
    every_frame_is_free_once(&allocator, free);
    println!("{}", BuddyInfo(&allocator));

    let (locks, order) = take_locks(&mut allocator);
    // SAFETY: the allocator has just given the block away, once.
    let memory = unsafe { memory::bytes(FrameRange { start: locks, end: locks.plus(1 << order) }) };
    let shared: Frames = allocator.share(memory).expect("enough memory for locks");
    let exchange = Exchange::new(&shared);
    smp::on_both(&|cpu| exchange.run(cpu));
    exchange.finish();

    let mut allocator = shared.into_owned().expect("no CPU at work");
    allocator.check().expect("a sound state");
    // With the sharing the locks have ended.
    allocator.free(CpuId(0), locks, order, &mut ()).expect("a block in use");
    allocator.drain_all(&mut ());
    mistakes_change_nothing(&mut allocator, locks, order);
    allocator.check().expect("a sound state");
    every_frame_is_free_once(&allocator, free);
    println!("{}", BuddyInfo(&allocator));
}

/// The block that the locks will lie in is the first that the allocator gives.
fn take_locks(allocator: &mut Allocator<'_>) -> (Pfn, Order) {
    let frames = allocator.sharing_size::<SpinLocks>().div_ceil(PAGE_SIZE as usize);
    let order = frames.next_power_of_two().trailing_zeros() as Order;
    let request = Request::new(order, Gfp::GFP_KERNEL);
    (allocator.alloc(CpuId(0), &request, &mut ()).expect("a block for locks"), order)
}

/// Frames that were freed, and frames that were never given away, cannot be freed.
fn mistakes_change_nothing(allocator: &mut Allocator<'_>, freed: Pfn, order: Order) {
    for pfn in [freed, Pfn(0), memory::image().start, Pfn(0xa0), Pfn(u64::MAX)] {
        let result = allocator.free(CpuId(0), pfn, order, &mut ());
        assert!(result.is_err(), "frame {pfn} was freed by mistake");
    }
}

/// The free blocks of all zones are the frames of `free`; every other frame is reserved.
fn every_frame_is_free_once(allocator: &Allocator<'_>, free: &Ranges) {
    let mut frames = 0;
    for zone in allocator.zones() {
        let mut at = zone.span().start;
        while at < zone.span().end {
            let is_free = free.as_slice().iter().any(|range| range.contains(at));
            at = match zone.state(at) {
                Some(FrameState::Free { order, .. }) if is_free => {
                    frames += 1 << order;
                    at.plus(1 << order)
                }
                Some(FrameState::Reserved) if !is_free => at.plus(1),
                state => panic!("frame {at} is {state:?}"),
            };
        }
    }
    let counted: u64 = allocator.zones().iter().map(Zone::free_pages).sum();
    assert_eq!((frames, counted), (free.frames(), free.frames()), "free frames, counted twice");
    println!("{frames} frames are free, each once");
}
