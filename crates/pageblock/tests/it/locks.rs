//! What takes a lock, counted by an instrumented one.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use lock_api::{GuardSend, RawMutex};
use pageblock::alloc::Allocator;
use pageblock::frame::FrameRange;
use pageblock::ids::{CpuId, NodeId, ZoneIndex};
use pageblock::layout::ZoneKind;
use pageblock::request::{Gfp, Request};
use pageblock::setup::Setup;
use pageblock::zone::Geometry;

use crate::machine::{policy, table_memory, zone_spec};

/// A lock that counts how often it was taken.
struct Counting(parking_lot::RawMutex);

static TAKEN: AtomicU32 = AtomicU32::new(0);

// SAFETY: it excludes as the lock inside does.
unsafe impl RawMutex for Counting {
    const INIT: Self = Self(parking_lot::RawMutex::INIT);
    type GuardMarker = GuardSend;

    fn lock(&self) {
        TAKEN.fetch_add(1, Relaxed);
        self.0.lock();
    }

    fn try_lock(&self) -> bool {
        TAKEN.fetch_add(1, Relaxed);
        self.0.try_lock()
    }

    unsafe fn unlock(&self) {
        // SAFETY: the caller holds the lock.
        unsafe { self.0.unlock() };
    }
}

/// The locks that `act` takes.
fn locks(act: impl FnOnce()) -> u32 {
    let before = TAKEN.load(Relaxed);
    act();
    TAKEN.load(Relaxed) - before
}

#[test]
fn warm_lists_take_no_lock_and_batches_take_one() {
    for preset in ["linux-3.10", "linux-5.15", "linux-6.12", "linux-7.3"] {
        let setup = Setup {
            policy: policy(preset),
            geometry: Geometry::default(),
            zones: &[zone_spec(0, ZoneKind::Normal, 0, 1 << 18)],
            cpu_nodes: &[NodeId(0)],
            distances: &[],
        };
        let (mut memory, mut locked) = (table_memory(&setup), vec![MaybeUninit::uninit(); 1 << 14]);
        let mut allocator = Allocator::new(&mut memory, &setup).unwrap();
        allocator.release(FrameRange::new(0, 1 << 18)).unwrap();
        allocator.retune();
        let shared = allocator.share::<Counting, ()>(&mut locked).unwrap();
        let mut cpu = shared.cpu(CpuId(0)).unwrap();
        let request = Request::new(0, Gfp::GFP_HIGHUSER_MOVABLE);
        let first = cpu.alloc(&request, &mut ()).unwrap();
        let pairs = locks(|| {
            for _ in 0..1000 {
                let pfn = cpu.alloc(&request, &mut ()).unwrap();
                cpu.free(pfn, 0, &mut ()).unwrap();
            }
        });
        assert_eq!(pairs, 0, "{preset}");
        let mut taken = Vec::new();
        let fill = locks(|| taken.extend((0..4096).map(|_| cpu.alloc(&request, &mut ()).unwrap())));
        let batch = cpu.cache(ZoneIndex(0)).unwrap().limits().batch;
        assert!(fill <= 4096 / batch + 1, "{preset}: {fill} locks, batch {batch}");
        let drain = locks(|| taken.iter().for_each(|&pfn| cpu.free(pfn, 0, &mut ()).unwrap()));
        assert!(drain <= 4096 / batch + 1, "{preset}: {drain} locks, batch {batch}");
        cpu.free(first, 0, &mut ()).unwrap();
        assert_eq!(cpu.cache(ZoneIndex(0)).unwrap().strays(), 0);
    }
}
