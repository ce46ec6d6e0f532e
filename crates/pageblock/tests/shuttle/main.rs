//! The protocols between CPUs under a scheduler that tries many interleavings:
//!
//! `RUSTFLAGS='--cfg shuttle' cargo test -p pageblock --test shuttle --release`
#![cfg(shuttle)]

mod cells;

use std::mem::MaybeUninit;

use pageblock::alloc::Allocator;
use pageblock::contig::{ContigError, Migrate};
use pageblock::frame::{FrameRange, Order, Pfn};
use pageblock::ids::{CpuId, NodeId, ZoneIndex};
use pageblock::layout::{ZoneKind, ZoneSpec};
use pageblock::policy::Policy;
use pageblock::request::{Gfp, Request};
use pageblock::setup::Setup;
use pageblock::sharing::Shared;
use pageblock::zone::Geometry;
use shuttle::sync::atomic::{AtomicBool, Ordering};
use shuttle::sync::{Mutex, mpsc};
use shuttle::thread;

const FRAMES: u64 = 128;
const CPUS: usize = 3;

pageblock::locks! {
    /// Locks whose every step the scheduler sees.
    pub struct Spin = SpinMutex<T>, SpinGuard<'a, T>;
}

/// A spin lock around a mutex that is never contended.
pub struct SpinMutex<T> {
    held: AtomicBool,
    value: std::sync::Mutex<T>,
}

/// Gives the lock back.
pub struct SpinGuard<'a, T> {
    held: &'a AtomicBool,
    value: Option<std::sync::MutexGuard<'a, T>>,
}

impl<T> SpinMutex<T> {
    fn new(value: T) -> Self {
        Self { held: AtomicBool::new(false), value: std::sync::Mutex::new(value) }
    }

    fn lock(&self) -> SpinGuard<'_, T> {
        while self.held.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_err()
        {
            thread::yield_now();
        }
        SpinGuard { held: &self.held, value: Some(self.value.try_lock().expect("one holder")) }
    }

    fn get_mut(&mut self) -> &mut T {
        self.value.get_mut().expect("no panic")
    }
}

impl<T> std::ops::Deref for SpinGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value.as_ref().expect("held")
    }
}

impl<T> std::ops::DerefMut for SpinGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.value.as_mut().expect("held")
    }
}

impl<T> Drop for SpinGuard<'_, T> {
    fn drop(&mut self) {
        drop(self.value.take());
        self.held.store(false, Ordering::Release);
    }
}

type Small = Shared<'static, Spin>;

/// A zone of a few blocks for three CPUs, in memory that is leaked.
fn share(placement: &str) -> &'static Small {
    share_under(&format!("linux-6.12,min_free_kbytes=4,placement={placement}"))
}

fn share_under(policy: &str) -> &'static Small {
    share_in(policy, Geometry { pageblock_order: 3, max_order: 4, ..Geometry::default() })
}

fn share_in(policy: &str, geometry: Geometry) -> &'static Small {
    let span = FrameRange::new(0, FRAMES);
    let zones = [ZoneSpec::full(NodeId(0), ZoneKind::Normal, span)];
    let setup = Setup {
        geometry,
        ..Setup::new(Policy::parse(policy).unwrap(), &zones, &[NodeId(0); CPUS])
    };
    let leak = |bytes| Box::leak(vec![MaybeUninit::uninit(); bytes].into_boxed_slice());
    let mut allocator = Allocator::new(leak(setup.metadata_size().unwrap()), &setup).unwrap();
    allocator.release(span).unwrap();
    allocator.retune();
    let locks = leak(allocator.sharing_size::<Spin>());
    Box::leak(Box::new(allocator.share(locks).unwrap()))
}

/// With all handles back, every frame is free.
fn assert_all_free(shared: &Small) {
    assert_eq!(shared.drain_all(), 0);
    shared.check_zones().unwrap();
    assert_eq!(shared.with_zone(ZoneIndex(0), |zone| zone.free_pages()), Some(FRAMES));
    assert_eq!(shared.free_pages(ZoneIndex(0)), Some(FRAMES));
}

fn request(order: Order) -> Request {
    Request::new(order, Gfp::GFP_KERNEL)
}

/// Both tables: lists linked through frames, and bitmaps with rings.
const PLACEMENTS: [&str; 2] = ["linux", "packed"];

fn explore(test: impl Fn(&str) + Send + Sync + 'static) {
    let runs = std::env::var("SHUTTLE_RUNS").ok().and_then(|n| n.parse().ok()).unwrap_or(300);
    let test = std::sync::Arc::new(test);
    for placement in PLACEMENTS {
        let (once, again) = (test.clone(), test.clone());
        shuttle::check_random(move || once(placement), runs);
        shuttle::check_pct(move || again(placement), runs, 3);
    }
}

#[test]
fn blocks_freed_by_others_are_free_once() {
    explore(|placement| {
        let shared = share(placement);
        let (send, receive) = mpsc::channel::<(Pfn, Order)>();
        let taker = thread::spawn(move || {
            let mut cpu = shared.cpu(CpuId(0)).unwrap();
            for order in [0, 2, 0, 4] {
                send.send((cpu.alloc(&request(order), &mut ()).unwrap(), order)).unwrap();
            }
        });
        let giver = thread::spawn(move || {
            let mut cpu = shared.cpu(CpuId(1)).unwrap();
            let own = cpu.alloc(&request(1), &mut ()).unwrap();
            for (pfn, order) in receive.iter() {
                assert!(pfn.0 + (1 << order) <= own.0 || own.0 + 2 <= pfn.0, "two owners");
                cpu.free(pfn, order, &mut ()).unwrap();
                cpu.free(pfn, order, &mut ()).unwrap_err();
            }
            cpu.free(own, 1, &mut ()).unwrap();
        });
        taker.join().unwrap();
        giver.join().unwrap();
        assert_all_free(shared);
    });
}

#[test]
fn requested_drain_is_never_lost() {
    explore(|placement| {
        let shared = share(placement);
        let owner = thread::spawn(move || {
            let mut cpu = shared.cpu(CpuId(0)).unwrap();
            let pfn = cpu.alloc(&request(0), &mut ()).unwrap();
            cpu.free(pfn, 0, &mut ()).unwrap();
        });
        let asker = thread::spawn(move || {
            let asked = shared.request_drain(CpuId(0)).unwrap();
            while !shared.is_drained(asked) {
                thread::yield_now();
            }
        });
        owner.join().unwrap();
        asker.join().unwrap();
        assert_all_free(shared);
    });
}

#[test]
fn handle_has_one_owner() {
    explore(|placement| {
        let shared = share(placement);
        let workers: Vec<_> = (0..3)
            .map(|_| {
                thread::spawn(move || {
                    // All want the same handle; who does not get it drains it or gives up.
                    match shared.cpu(CpuId(2)) {
                        Ok(mut cpu) => {
                            let pfn = cpu.alloc(&request(0), &mut ()).unwrap();
                            cpu.check().unwrap();
                            cpu.free(pfn, 0, &mut ()).unwrap();
                        }
                        Err(_) => drop(shared.drain_all()),
                    }
                })
            })
            .collect();
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        assert_all_free(shared);
    });
}

/// Content that can be moved to wherever it is told.
struct Movable<'a>(&'a Mutex<Vec<Pfn>>);

impl Migrate for Movable<'_> {
    fn is_movable(&mut self, _: Pfn, _: Order) -> bool {
        true
    }

    fn migrate(&mut self, from: Pfn, to: Pfn, _: Order) -> bool {
        let mut blocks = self.0.lock().unwrap();
        let found = blocks.iter_mut().find(|pfn| **pfn == from);
        found.map(|pfn| *pfn = to).is_some()
    }

    fn wait_for(&mut self, _: CpuId) -> bool {
        thread::yield_now();
        true
    }
}

type Blocks = std::sync::Arc<Mutex<Vec<Pfn>>>;

/// Starts the other CPU, which keeps what it has among `blocks`.
fn frees_and_allocates(shared: &'static Small, blocks: &Blocks) -> thread::JoinHandle<()> {
    let theirs = blocks.clone();
    thread::spawn(move || {
        let mut cpu = shared.cpu(CpuId(1)).unwrap();
        for _ in 0..3 {
            let pfn = cpu.alloc(&request(0), &mut ()).unwrap();
            theirs.lock().unwrap().push(pfn);
            let other = theirs.lock().unwrap().pop();
            if let Some(pfn) = other {
                cpu.free(pfn, 0, &mut ()).unwrap();
            }
            let pfn = cpu.alloc(&request(0), &mut ()).unwrap();
            theirs.lock().unwrap().push(pfn);
        }
    })
}

fn free_all(shared: &Small, blocks: &Blocks) {
    let mut cpu = shared.cpu(CpuId(0)).unwrap();
    for &pfn in blocks.lock().unwrap().iter() {
        cpu.free(pfn, 0, &mut ()).unwrap();
    }
}

#[test]
fn range_is_emptied_while_another_cpu_frees_and_allocates() {
    explore(|placement| {
        let shared = share(placement);
        let blocks = Blocks::default();
        let worker = frees_and_allocates(shared, &blocks);
        let range = FrameRange::new(3, 45);
        let mut cpu = shared.cpu(CpuId(0)).unwrap();
        let got = cpu.alloc_contig_range(range, &mut Movable(&blocks), &mut ());
        if got.is_ok() {
            assert!(blocks.lock().unwrap().iter().all(|&pfn| !range.contains(pfn)), "two owners");
            cpu.free_contig(range, &mut ()).unwrap();
        } else {
            assert!(matches!(got, Err(ContigError::NotMoved(_))), "{got:?}");
        }
        drop(cpu);
        worker.join().unwrap();
        free_all(shared, &blocks);
        assert_all_free(shared);
    });
}

#[test]
fn memory_goes_and_comes_while_another_cpu_frees_and_allocates() {
    explore(|placement| {
        let shared = share(placement);
        let blocks = Blocks::default();
        let worker = frees_and_allocates(shared, &blocks);
        let range = FrameRange::new(0, 32);
        let mut cpu = shared.cpu(CpuId(0)).unwrap();
        let got = cpu.offline(range, &mut Movable(&blocks), &mut ());
        if got.is_ok() {
            assert!(blocks.lock().unwrap().iter().all(|&pfn| !range.contains(pfn)), "not gone");
            shared.mark_holes(range).unwrap();
            shared.check_zones().unwrap();
            shared.fill_holes(range).unwrap();
            shared.online(range).unwrap();
        } else {
            assert!(matches!(got, Err(ContigError::NotMoved(_))), "{got:?}");
        }
        drop(cpu);
        worker.join().unwrap();
        free_all(shared, &blocks);
        assert_all_free(shared);
    });
}

/// Two take different memory away at once, then bring it back at once: each waits for the other's caches,
/// none forever. A third tries to have the same memory twice.
#[test]
fn two_change_memory_at_once() {
    explore(|placement| {
        let shared = share(placement);
        let plug = |n: usize, range: FrameRange| {
            thread::spawn(move || {
                let mut cpu = shared.cpu(CpuId(n)).unwrap();
                let blocks = Mutex::new(Vec::new());
                cpu.offline(range, &mut Movable(&blocks), &mut ()).unwrap();
                shared.online(range).is_ok()
            })
        };
        let (a, b) = (FrameRange::new(0, 32), FrameRange::new(64, 96));
        let (one, two) = (plug(0, a), plug(1, b));
        // Between the two calls this one may come first: then it has brought the memory back.
        let stolen = [shared.online(a).is_ok(), shared.online(b).is_ok()];
        let done = [one.join().unwrap(), two.join().unwrap()];
        assert_eq!(done, stolen.map(|stolen| !stolen), "online once");
        assert_all_free(shared);
        assert_eq!(shared.with_zone(ZoneIndex(0), |zone| zone.managed()), Some(FRAMES));
    });
}

/// Whatever changes at once, watermarks and the limits of caches are in the end those of the memory that
/// there is then, for CPUs that had their handles all the time and for others.
#[test]
fn tuning_ends_with_what_there_is() {
    explore(|placement| {
        let policy = format!("linux-6.12,percpu_pagelist_high_fraction=8,placement={placement}");
        let shared = share_under(&policy);
        let ranges = [FrameRange::new(0, 32), FrameRange::new(64, 96)];
        let mut cpu = shared.cpu(CpuId(0)).unwrap();
        let limits =
            |cpu: &pageblock::cpu::Cpu<'_, '_, Spin, ()>| cpu.cache(ZoneIndex(0)).unwrap().limits();
        let before = limits(&cpu);
        ranges.iter().for_each(|&range| cpu.offline(range, &mut (), &mut ()).unwrap());
        cpu.attend(&mut ());
        assert_ne!(limits(&cpu), before);
        let threads = ranges.map(|range| thread::spawn(move || shared.online(range).unwrap()));
        let other = thread::spawn(move || {
            let mut cpu = shared.cpu(CpuId(1)).unwrap();
            let pfn = cpu.alloc(&request(0), &mut ()).unwrap();
            cpu.free(pfn, 0, &mut ()).unwrap();
        });
        for _ in 0..8 {
            let pfn = cpu.alloc(&request(0), &mut ()).unwrap();
            cpu.free(pfn, 0, &mut ()).unwrap();
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        other.join().unwrap();
        cpu.attend(&mut ());
        let mut other = shared.cpu(CpuId(1)).unwrap();
        other.attend(&mut ());
        assert_eq!([limits(&cpu), limits(&other)], [before; 2]);
        let marks = || {
            shared
                .with_zone(ZoneIndex(0), |zone| (zone.watermarks(), *zone.lowmem_reserve()))
                .unwrap()
        };
        let ended = marks();
        shared.retune();
        assert_eq!(marks(), ended);
        drop((cpu, other));
        assert_all_free(shared);
    });
}

#[test]
fn frame_freed_twice_at_once_harms_no_other() {
    explore(|placement| {
        let shared = share(placement);
        let pfn = shared.cpu(CpuId(0)).unwrap().alloc(&request(0), &mut ()).unwrap();
        let free = move |cpu: usize| {
            thread::spawn(move || {
                let mut cpu = shared.cpu(CpuId(cpu)).unwrap();
                let bystander = cpu.alloc(&request(0), &mut ()).unwrap();
                let freed = cpu.free(pfn, 0, &mut ()).is_ok();
                let taken: Vec<_> =
                    (0..3).filter_map(|_| cpu.alloc(&request(0), &mut ()).ok()).collect();
                (bystander, freed, taken)
            })
        };
        let (a, b) = (free(0), free(1));
        let (a, b) = (a.join().unwrap(), b.join().unwrap());
        assert!(a.1 || b.1, "one of the two frees succeeds");
        let mut all: Vec<_> = a.2.iter().chain(&b.2).chain([&a.0, &b.0]).copied().collect();
        all.retain(|&frame| frame != pfn);
        all.sort_unstable();
        let count = all.len();
        all.dedup();
        assert_eq!(all.len(), count, "only the frame that was freed twice may have two owners");
        shared.check_zones().unwrap();
    });
}

/// What is freed into a pageblock that is being emptied is collected by the CPU, while others ask it for all that it
/// holds and take the memory away.
#[test]
fn collected_blocks_are_given_back_when_others_ask() {
    explore(|placement| {
        let shared = share(placement);
        // A third of each pageblock is free, so that frees into them are collected.
        let mut cpu = shared.cpu(CpuId(0)).unwrap();
        let taken: Vec<_> =
            std::iter::from_fn(|| cpu.alloc(&request(0), &mut ()).ok()).take(96).collect();
        let (kept, freed): (Vec<_>, Vec<_>) = taken.into_iter().partition(|pfn| pfn.0 % 3 > 0);
        freed.into_iter().for_each(|pfn| cpu.free(pfn, 0, &mut ()).unwrap());
        cpu.drain(&mut ());
        let worker = thread::spawn(move || {
            for pfn in kept {
                cpu.free(pfn, 0, &mut ()).unwrap();
                if pfn.0 % 16 == 0 {
                    let again = cpu.alloc(&request(0), &mut ()).unwrap();
                    cpu.free(again, 0, &mut ()).unwrap();
                }
            }
        });
        let asker = thread::spawn(move || {
            shared.drain_all();
            let asked = shared.request_drain(CpuId(0)).unwrap();
            while !shared.is_drained(asked) {
                thread::yield_now();
            }
        });
        let mut other = shared.cpu(CpuId(1)).unwrap();
        let range = FrameRange::new(64, 96);
        if other.offline(range, &mut Stuck, &mut ()).is_ok() {
            shared.online(range).unwrap();
        }
        drop(other);
        worker.join().unwrap();
        asker.join().unwrap();
        assert_all_free(shared);
    });
}

/// The frames behind a block go to another CPU and come back while the block is freed: it keeps its order.
#[test]
fn block_is_freed_while_its_neighbour_changes_hands() {
    explore(|placement| {
        let shared = share(placement);
        let mut cpu = shared.cpu(CpuId(0)).unwrap();
        let blocks = [0, 1, 2].map(|order| (cpu.alloc(&request(order), &mut ()).unwrap(), order));
        drop(cpu);
        shared.drain_all();
        let other = thread::spawn(move || {
            let mut cpu = shared.cpu(CpuId(1)).unwrap();
            for order in [0, 1, 2] {
                let pfn = cpu.alloc(&request(order), &mut ()).unwrap();
                cpu.free(pfn, order, &mut ()).unwrap();
                cpu.drain(&mut ());
            }
        });
        let mut cpu = shared.cpu(CpuId(0)).unwrap();
        for (pfn, order) in blocks {
            cpu.free(pfn, order + 1, &mut ()).unwrap_err();
            cpu.free(pfn, order, &mut ()).unwrap();
            cpu.free(pfn, order, &mut ()).unwrap_err();
        }
        drop(cpu);
        other.join().unwrap();
        assert_all_free(shared);
    });
}

/// Content that stays where it is.
struct Stuck;

impl Migrate for Stuck {
    fn is_movable(&mut self, _: Pfn, _: Order) -> bool {
        false
    }

    fn migrate(&mut self, _: Pfn, _: Pfn, _: Order) -> bool {
        false
    }

    fn wait_for(&mut self, _: CpuId) -> bool {
        thread::yield_now();
        true
    }
}
