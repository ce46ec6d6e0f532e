//! What takes a lock, and what makes an atomic read-modify-write: the first counted by instrumented locks, the second
//! by the one place that makes them (`base/sync.rs`).

use std::cell::Cell;
use std::mem::MaybeUninit;

use pageblock::alloc::Allocator;
use pageblock::cpu::Cpu;
use pageblock::frame::{FrameRange, Order};
use pageblock::ids::{CpuId, NodeId, ZoneIndex};
use pageblock::layout::ZoneKind;
use pageblock::request::{Gfp, Request};
use pageblock::rmw::read_modify_writes;
use pageblock::setup::Setup;
use pageblock::sharing::Shared;

use crate::machine::{policy, table_memory, zone_spec};

/// A mutex that counts how often a thread took one.
struct Mutex<T>(parking_lot::Mutex<T>);

pageblock::locks! {
    struct Counting = Mutex<T>, parking_lot::MutexGuard<'a, T>;
}

thread_local! { static TAKEN: Cell<u32> = const { Cell::new(0) }; }

impl<T> Mutex<T> {
    fn new(value: T) -> Self {
        Self(parking_lot::Mutex::new(value))
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, T> {
        TAKEN.set(TAKEN.get() + 1);
        self.0.lock()
    }

    fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }
}

/// The locks that `act` takes.
fn locks(act: impl FnOnce()) -> u32 {
    let before = TAKEN.get();
    act();
    TAKEN.get() - before
}

/// The locks and the atomic read-modify-writes of `act`.
fn counts(act: impl FnOnce()) -> (u32, u64) {
    let before = read_modify_writes();
    let locks = locks(act);
    (locks, read_modify_writes() - before)
}

/// Runs a test on a zone of 1 GiB that two CPUs share.
fn with_shared(preset: &str, test: impl FnOnce(&Shared<'_, Counting>)) {
    let zones = [zone_spec(0, ZoneKind::Normal, 0, 1 << 18)];
    let setup = Setup::new(policy(preset), &zones, &[NodeId(0); 2]);
    let (mut memory, mut locked) = (table_memory(&setup), vec![MaybeUninit::uninit(); 1 << 14]);
    let mut allocator = Allocator::new(&mut memory, &setup).unwrap();
    allocator.release(FrameRange::new(0, 1 << 18)).unwrap();
    allocator.retune();
    test(&allocator.share::<Counting, ()>(&mut locked).unwrap());
}

#[test]
fn warm_lists_take_no_lock_and_batches_take_one() {
    for preset in
        ["linux-3.10", "linux-5.15", "linux-6.12", "linux-7.3", "linux-6.12,placement=packed"]
    {
        with_shared(preset, |shared| {
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
            let fill =
                locks(|| taken.extend((0..4096).map(|_| cpu.alloc(&request, &mut ()).unwrap())));
            let batch = cpu.cache(ZoneIndex(0)).unwrap().limits().batch;
            assert!(fill <= 4096 / batch + 1, "{preset}: {fill} locks, batch {batch}");
            let drain = locks(|| taken.iter().for_each(|&pfn| cpu.free(pfn, 0, &mut ()).unwrap()));
            assert!(drain <= 4096 / batch + 1, "{preset}: {drain} locks, batch {batch}");
            cpu.free(first, 0, &mut ()).unwrap();
            assert_eq!(cpu.cache(ZoneIndex(0)).unwrap().strays(), 0);
        });
    }
}

/// The calls of each round of [`rounds`].
const CALLS: u64 = 40;

/// Lets one CPU allocate blocks and another free and allocate what it freed, by warm lists; returns the read-modify-writes
/// of rounds without a lock, and how many rounds these were, for the first CPU alone and for the second.
fn rounds(preset: &str, order: Order) -> [(u64, u64); 2] {
    let mut sums = [(0, 0); 2];
    with_shared(preset, |shared| {
        let mut cpus = [0, 1].map(|cpu| shared.cpu(CpuId(cpu)).unwrap());
        let request = Request::new(order, Gfp::GFP_KERNEL);
        let mut note = |of: usize, (locks, made): (u32, u64)| {
            if locks == 0 {
                sums[of] = (sums[of].0 + made, sums[of].1 + 1);
            }
        };
        let pairs = |cpu: &mut Cpu<'_, '_, Counting, ()>, first: Option<_>| {
            let mut block = first;
            for _ in 0..CALLS / 2 {
                let pfn = block.take().unwrap_or_else(|| cpu.alloc(&request, &mut ()).unwrap());
                cpu.free(pfn, order, &mut ()).unwrap();
                block = Some(cpu.alloc(&request, &mut ()).unwrap());
            }
            cpu.free(block.unwrap(), order, &mut ()).unwrap();
        };
        for _ in 0..100 {
            note(0, counts(|| pairs(&mut cpus[0], None)));
            let of_other = cpus[0].alloc(&request, &mut ()).unwrap();
            note(1, counts(|| pairs(&mut cpus[1], Some(of_other))));
        }
    });
    assert!(sums.iter().all(|&(_, rounds)| rounds >= 50), "{preset} {order}: {sums:?}");
    sums
}

#[test]
fn lists_of_linked_blocks_make_no_read_modify_write() {
    for preset in ["linux-5.15", "linux-6.12", "linux-7.3"] {
        for order in [0, 1, 3] {
            let [own, foreign] = rounds(preset, order);
            assert_eq!((own.0, foreign.0), (0, 0), "{preset} {order}");
        }
    }
}

/// With four bits a frame, pages of pageblocks that another CPU owns change by an atomic exclusive or, one for each
/// call; blocks of eight pages and more have a code, which only their holder writes.
#[test]
fn bits_make_one_read_modify_write_for_a_page_of_anothers_pageblock() {
    for preset in ["linux-6.12,placement=packed", "linux-7.3,placement=packed"] {
        for order in [0, 1, 2] {
            let [own, foreign] = rounds(preset, order);
            assert_eq!(own.0, 0, "{preset} {order}");
            let (made, rounds) = foreign;
            assert!(made > 0 && made <= rounds * (CALLS + 1), "{preset} {order}: {foreign:?}");
        }
        let [own, foreign] = rounds(preset, 3);
        assert_eq!((own.0, foreign.0), (0, 0), "{preset}");
    }
}
