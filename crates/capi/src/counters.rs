//! State and counters of zones.

use core::mem::MaybeUninit;

use pageblock::alloc_flags::Watermark;
use pageblock::frame::ORDER_LIMIT;
use pageblock::ids::ZoneIndex;
use pageblock::zone::Zone as Inner;

use crate::memory::Allocator;
use crate::status::{Status, answer};

/// The orders that a setup can have: 0 to 14.
pub const PB_ORDERS: usize = 15;

const _: () = assert!(PB_ORDERS == ORDER_LIMIT as usize + 1);

/// The state of a zone at one instant; all sizes are in pages.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ZoneInfo {
    /// The first frame.
    start: u64,
    /// The frame after the last.
    end: u64,
    /// Frames that are memory.
    present: u64,
    /// Frames that were released to the allocator.
    managed: u64,
    /// Free frames, without those in CPUs' caches and in isolated pageblocks.
    free: u64,
    /// The min watermark.
    min: u64,
    /// The low watermark, which ordinary requests leave free.
    low: u64,
    /// The high watermark.
    high: u64,
    /// The free blocks of each order.
    free_blocks: [u64; PB_ORDERS],
    /// The node.
    node: u32,
    /// A `PB_ZONE_` constant.
    kind: u32,
}

/// Counts of a zone since the allocator was created.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Counters {
    /// Pages allocated.
    allocated: u64,
    /// Pages freed.
    freed: u64,
    /// Acquisitions of the zone's lock.
    locked: u64,
    /// Free lists checked in the search for a block.
    list_probes: u64,
}

fn state_of(zone: &Inner<'_>) -> ZoneInfo {
    ZoneInfo {
        start: zone.span().start.0,
        end: zone.span().end.0,
        present: zone.present(),
        managed: zone.managed(),
        free: zone.free_pages(),
        min: zone.watermark(Watermark::Min),
        low: zone.watermark(Watermark::Low),
        high: zone.watermark(Watermark::High),
        free_blocks: core::array::from_fn(|order| zone.nr_free(order as u8)),
        node: zone.node().0.into(),
        kind: zone.kind() as u32,
    }
}

/// Returns the state of a zone, by its index in the setup; exact, at any time.
#[unsafe(no_mangle)]
pub extern "C" fn pb_zone_state(
    allocator: Option<&Allocator>,
    zone: usize,
    state: Option<&mut MaybeUninit<ZoneInfo>>,
) -> Status {
    answer(|| {
        let (allocator, state) = (allocator.ok_or(Status::Null)?, state.ok_or(Status::Null)?);
        allocator.with_shared(|shared, _| {
            let found = shared.with_zone(ZoneIndex::new(zone), |zone| state_of(zone));
            state.write(found.ok_or(Status::NoSuchZone)?);
            Ok(())
        })
    })
}

/// Returns the free frames of a zone without taking its lock: may lag behind concurrent changes.
#[unsafe(no_mangle)]
pub extern "C" fn pb_free_pages(
    allocator: Option<&Allocator>,
    zone: usize,
    pages: Option<&mut MaybeUninit<u64>>,
) -> Status {
    answer(|| {
        let (allocator, pages) = (allocator.ok_or(Status::Null)?, pages.ok_or(Status::Null)?);
        allocator.with_shared(|shared, _| {
            pages.write(shared.free_pages(ZoneIndex::new(zone)).ok_or(Status::NoSuchZone)?);
            Ok(())
        })
    })
}

/// Returns the counts of a zone and of all CPUs in it. `PB_STATUS_BUSY` while a CPU is taken.
#[unsafe(no_mangle)]
pub extern "C" fn pb_counters(
    allocator: Option<&Allocator>,
    zone: usize,
    counters: Option<&mut MaybeUninit<Counters>>,
) -> Status {
    answer(|| {
        let (allocator, counters) = (allocator.ok_or(Status::Null)?, counters.ok_or(Status::Null)?);
        allocator.with_whole(|whole| {
            let sum = whole.counters(ZoneIndex::new(zone)).ok_or(Status::NoSuchZone)?;
            counters.write(Counters {
                allocated: sum.pgalloc,
                freed: sum.pgfree,
                locked: sum.lock_acquired,
                list_probes: sum.list_probes,
            });
            Ok(())
        })
    })
}
