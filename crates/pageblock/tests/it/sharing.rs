//! Several CPUs on one allocator: handles, requests between CPUs, and a run of real threads.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};
use std::sync::{Mutex, mpsc};

use pageblock::FrameState;
use pageblock::alloc::Allocator;
use pageblock::cpu::Cpu;
use pageblock::event::{Event, Observer};
use pageblock::frame::{FrameRange, Order, Pfn};
use pageblock::ids::{CpuId, NodeId, ZoneIndex};
use pageblock::layout::{ZoneKind, ZoneSpec};
use pageblock::request::{Gfp, Request};
use pageblock::setup::{Setup, SetupError};
use pageblock::sharing::{CpuError, Shared};
use pageblock::zone::FrameError;

use crate::machine::{ParkingLot, policy, table_memory, zone_spec};

pub(crate) const CPUS: usize = 4;
const KERNEL: Request = Request::new(0, Gfp::GFP_KERNEL);

/// A DMA32 and a Normal zone, four CPUs. Gives `test` the shared allocator, then verifies that every
/// frame is free, once.
pub(crate) fn share(preset: &str, frames: u64, test: impl FnOnce(&Shared<'_, ParkingLot>)) {
    let zones = [
        zone_spec(0, ZoneKind::Dma32, 0, frames / 4),
        zone_spec(0, ZoneKind::Normal, frames / 4, frames),
    ];
    let setup = Setup::new(policy(preset), &zones, &[NodeId(0); CPUS]);
    let mut memory = table_memory(&setup);
    let mut locks = vec![MaybeUninit::uninit(); 1 << 16];
    let mut allocator = Allocator::new(&mut memory, &setup).unwrap();
    allocator.release(FrameRange::new(0, frames)).unwrap();
    allocator.retune();
    assert!(allocator.sharing_size::<ParkingLot>() <= locks.len());
    let shared = allocator.share(&mut locks).unwrap();
    test(&shared);
    let mut allocator = shared.into_owned().unwrap();
    allocator.check().unwrap();
    allocator.drain_all(&mut ());
    allocator.check().unwrap();
    assert_all_free(&allocator, &zones);
}

/// Every frame lies in one free block.
fn assert_all_free(allocator: &Allocator<'_>, specs: &[ZoneSpec]) {
    for (zone, spec) in allocator.zones().iter().zip(specs) {
        assert_eq!(zone.free_pages(), spec.managed);
        let mut at = spec.span.start;
        while at < spec.span.end {
            let Some(FrameState::Free { order, .. }) = zone.state(at) else {
                panic!("{at}: {:?}", zone.state(at));
            };
            at = at.plus(1 << order);
        }
        assert_eq!(at, spec.span.end);
    }
}

#[test]
fn handle_is_taken_once() {
    share("linux-6.12", 1 << 14, |shared| {
        let cpu = shared.cpu(CpuId(1)).unwrap();
        assert_eq!(shared.cpu(CpuId(1)).err(), Some(CpuError::Taken(CpuId(1))));
        assert_eq!(shared.cpu(CpuId(CPUS)).err(), Some(CpuError::NoSuchCpu(CpuId(CPUS))));
        assert_eq!((cpu.number(), shared.cpus(), shared.zones()), (CpuId(1), CPUS, 2));
        drop(cpu);
        shared.cpu(CpuId(1)).unwrap();
    });
}

#[test]
fn sharing_needs_memory_for_its_locks() {
    let zones = [zone_spec(0, ZoneKind::Normal, 0, 4096)];
    let setup = Setup::new(policy("linux-6.12"), &zones, &[NodeId(0)]);
    let mut memory = table_memory(&setup);
    let allocator = Allocator::new(&mut memory, &setup).unwrap();
    let size = allocator.sharing_size::<ParkingLot>();
    assert_eq!(setup.sharing_size::<ParkingLot>(), size);
    let mut small = vec![MaybeUninit::uninit(); size - 1];
    let shared = allocator.share::<ParkingLot, ()>(&mut small);
    assert_eq!(shared.err(), Some(SetupError::Memory(size)));
}

#[test]
fn block_is_freed_by_another_cpu() {
    share("linux-6.12", 1 << 14, |shared| {
        let (mut a, mut b) = (shared.cpu(CpuId(0)).unwrap(), shared.cpu(CpuId(1)).unwrap());
        let pfn = a.alloc(&KERNEL, &mut ()).unwrap();
        b.free(pfn, 0, &mut ()).unwrap();
        assert_eq!(b.cache(ZoneIndex(1)).unwrap().count(), 1);
        assert_eq!(b.alloc(&KERNEL, &mut ()), Ok(pfn), "the last freed comes first");
        b.free(pfn, 0, &mut ()).unwrap();
        for cpu in [&mut a, &mut b] {
            assert_eq!(cpu.free(pfn, 0, &mut ()), Err(FrameError::NotAllocated(pfn)));
            cpu.check().unwrap();
        }
    });
}

#[test]
fn drain_waits_for_the_owner_or_finds_it_idle() {
    share("linux-6.12", 1 << 14, |shared| {
        let mut cpu = shared.cpu(CpuId(2)).unwrap();
        let pfn = cpu.alloc(&KERNEL, &mut ()).unwrap();
        assert!(cpu.cache(ZoneIndex(1)).unwrap().count() > 0);
        let request = shared.request_drain(CpuId(2)).unwrap();
        assert!(!shared.is_drained(request));
        assert_eq!(shared.drain_all(), 1);
        cpu.free(pfn, 0, &mut ()).unwrap();
        assert!(shared.is_drained(request));
        assert_eq!(cpu.cache(ZoneIndex(1)).unwrap().count(), 1, "drained first, then freed");

        let request = shared.request_drain(CpuId(2)).unwrap();
        drop(cpu);
        assert!(shared.is_drained(request), "a handle is given back drained");
        let mut cpu = shared.cpu(CpuId(2)).unwrap();
        let pfn = cpu.alloc(&KERNEL, &mut ()).unwrap();
        cpu.free(pfn, 0, &mut ()).unwrap();
        drop(cpu);
        let request = shared.request_drain(CpuId(2)).unwrap();
        assert!(shared.is_drained(request), "nobody has the handle");
        assert_eq!(shared.cpu(CpuId(2)).unwrap().cache(ZoneIndex(1)).unwrap().count(), 0);
        assert_eq!(shared.drain_all(), 0);
        assert_eq!(shared.request_drain(CpuId(CPUS)), None);
    });
}

/// Verifies the zones whenever a block is handed out.
struct Checks<'a, 'm>(&'a Shared<'m, ParkingLot>, u32);

impl Observer for Checks<'_, '_> {
    fn event(&mut self, event: Event) {
        if let Event::PageAlloc { .. } = event {
            self.0.check_zones().unwrap();
            self.1 += 1;
        }
    }
}

#[test]
fn every_frame_is_in_a_block_whenever_the_lock_is_free() {
    share("linux-6.12", 1 << 12, |shared| {
        let mut cpu = shared.cpu(CpuId(0)).unwrap();
        for order in [0, 3, 5] {
            let mut checks = Checks(shared, 0);
            let mut blocks = [Pfn(0); 8];
            let request = Request::new(order, Gfp::GFP_KERNEL);
            assert_eq!(cpu.alloc_bulk(&request, &mut blocks, &mut checks), Ok(8));
            assert_eq!(checks.1, 8);
            cpu.free_bulk(&blocks, order, &mut ()).unwrap();
        }
    });
}

#[test]
fn numbers_without_the_lock_are_exact_when_it_is_free() {
    share("linux-6.12", 1 << 14, |shared| {
        let mut cpu = shared.cpu(CpuId(0)).unwrap();
        let pfn = cpu.alloc(&Request::new(5, Gfp::GFP_KERNEL), &mut ()).unwrap();
        let exact = shared.with_zone(ZoneIndex(1), |zone| zone.free_pages());
        assert_eq!(shared.free_pages(ZoneIndex(1)), exact);
        assert_eq!(exact, Some((1 << 14) / 4 * 3 - 32));
        assert_eq!(shared.free_pages(ZoneIndex(2)), None);
        cpu.free(pfn, 5, &mut ()).unwrap();
    });
}

/// One thread's part in the stress: it takes blocks, frees those that others took, and gives every
/// frame it gets a mark that no other may have set.
struct Worker<'a, 's, 'm> {
    cpu: Cpu<'s, 'm, ParkingLot, ()>,
    used: &'a [AtomicU8],
    held: Vec<(Pfn, Order)>,
    random: u64,
}

impl Worker<'_, '_, '_> {
    fn next(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    fn take(&mut self) {
        let order = [0, 0, 0, 0, 1, 2, 3, 3, 5, 9, 10][self.next() as usize % 11];
        let gfp = [Gfp::GFP_KERNEL, Gfp::GFP_HIGHUSER_MOVABLE, Gfp::GFP_ATOMIC, Gfp::DMA32]
            [self.next() as usize % 4];
        if let Ok(pfn) = self.cpu.alloc(&Request::new(order, gfp), &mut ()) {
            self.mark(pfn, order, 0, 1);
            self.held.push((pfn, order));
        }
    }

    fn give(&mut self, (pfn, order): (Pfn, Order)) {
        self.mark(pfn, order, 1, 0);
        self.cpu.free(pfn, order, &mut ()).unwrap();
    }

    fn mark(&self, pfn: Pfn, order: Order, from: u8, to: u8) {
        for frame in pfn.0..pfn.0 + (1 << order) {
            assert_eq!(self.used[frame as usize].swap(to, Relaxed), from, "frame {frame}");
        }
    }

    fn run(mut self, steps: u32, to_next: &mpsc::SyncSender<(Pfn, Order)>, from: &Received) {
        for step in 0..steps {
            match self.next() % 8 {
                0..=3 => self.take(),
                4 => {
                    if let Some(block) = self.held.pop()
                        && let Err(back) = to_next.try_send(block)
                    {
                        let (mpsc::TrySendError::Full(block)
                        | mpsc::TrySendError::Disconnected(block)) = back;
                        self.held.push(block);
                    }
                }
                5 => {
                    let block = from.lock().unwrap().try_recv();
                    block.into_iter().for_each(|block| self.give(block));
                }
                _ => {
                    let which = self.next() as usize;
                    if !self.held.is_empty() {
                        let block = self.held.swap_remove(which % self.held.len());
                        self.give(block);
                    }
                }
            }
            if step % 512 == 0 {
                self.cpu.check().unwrap();
                self.cpu.vmstat_tick(&mut ());
            }
        }
        for block in std::mem::take(&mut self.held) {
            self.give(block);
        }
    }
}

type Received = Mutex<mpsc::Receiver<(Pfn, Order)>>;

/// Threads allocate, free, and free for each other, while another verifies zones and asks for drains.
fn stress(preset: &str, frames: u64, steps: u32) {
    share(preset, frames, |shared| {
        let used: Vec<AtomicU8> = (0..frames).map(|_| AtomicU8::new(0)).collect();
        let (senders, receivers): (Vec<_>, Vec<Received>) =
            (0..CPUS).map(|_| mpsc::sync_channel(64)).map(|(s, r)| (s, Mutex::new(r))).unzip();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..CPUS)
                .map(|n| {
                    let worker = Worker {
                        cpu: shared.cpu(CpuId(n)).unwrap(),
                        used: &used,
                        held: Vec::new(),
                        random: 0x9e37_79b9 + n as u64,
                    };
                    let (to_next, from) = (&senders[(n + 1) % CPUS], &receivers[n]);
                    scope.spawn(move || worker.run(steps, to_next, from))
                })
                .collect();
            scope.spawn(|| {
                while !over.load(Relaxed) {
                    shared.check_zones().unwrap();
                    shared.drain_all();
                    std::thread::yield_now();
                }
            });
            let results: Vec<_> =
                workers.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
            over.store(true, Relaxed);
            results.into_iter().for_each(|result| result.unwrap());
        });
        let mut last = shared.cpu(CpuId(0)).unwrap();
        for (pfn, order) in
            receivers.iter().flat_map(|r| r.lock().unwrap().try_iter().collect::<Vec<_>>())
        {
            last.free(pfn, order, &mut ()).unwrap();
        }
    });
}

#[test]
fn threads_end_with_every_frame_free_once() {
    // Small, so that memory runs out and falls back; and large, so that lists grow.
    for preset in ["linux-4.4", "linux-5.15", "linux-6.12", "linux-6.18", "linux-7.3"] {
        stress(preset, 1 << 12, 20_000);
        stress(preset, 1 << 15, 20_000);
    }
}
