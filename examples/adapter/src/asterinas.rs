//! Asterinas: `GlobalFrameAllocator` of its `ostd`, in place of `osdk-frame-allocator`. A CPU's handle is in CPU-local
//! storage, and works with interrupts off.
//!
//! `ostd` maps no frame for a kernel's safe code, so tables are a part of the kernel's own image.

use core::alloc::Layout;
use core::cell::{RefCell, UnsafeCell};
use core::mem::MaybeUninit;

use ostd::cpu::{PinCurrentCpu, num_cpus};
use ostd::irq::{self, DisabledLocalIrqGuard};
use ostd::mm::frame::GlobalFrameAllocator;
use ostd::mm::{PAGE_SIZE, Paddr};
use ostd::sync::{LocalIrqDisabled, SpinLock, SpinLockGuard};
use pageblock::locks::Locks;
use pageblock::prelude::{
    Allocator, Cpu, CpuId, FrameRange, NodeId, Policy, Setup, Shared, ZoneKind, ZoneSpec,
};
use spin::Once;

use crate::pieces;

/// The most ranges of memory that the machine can have when it starts.
const MOST_RANGES: usize = 64;
/// The most CPUs.
const MOST_CPUS: usize = 256;

/// Locks of `ostd`, whose holders take no interrupt.
pub struct Irq;

impl Locks for Irq {
    type Mutex<T> = SpinLock<T, LocalIrqDisabled>;
    type Guard<'a, T: 'a> = SpinLockGuard<'a, T, LocalIrqDisabled>;

    fn mutex<T>(value: T) -> Self::Mutex<T> {
        SpinLock::new(value)
    }
    fn lock<T>(mutex: &Self::Mutex<T>) -> Self::Guard<'_, T> {
        mutex.lock()
    }
    fn get_mut<T>(mutex: &mut Self::Mutex<T>) -> &mut T {
        mutex.get_mut()
    }
}

type Handle = Cpu<'static, 'static, Irq, ()>;

ostd::cpu_local! {
    static CPU: RefCell<Option<Handle>> = RefCell::new(None);
}

/// The ranges that the machine starts with.
struct Ranges {
    of: [FrameRange; MOST_RANGES],
    len: usize,
}

/// The kernel's frames, in an image with `BYTES` bytes for tables: one for each frame of the machine is enough. There
/// is one in a kernel.
pub struct Frames<const BYTES: usize> {
    ranges: SpinLock<Ranges, LocalIrqDisabled>,
    tables: UnsafeCell<[MaybeUninit<u8>; BYTES]>,
    shared: Once<Shared<'static, Irq>>,
}

// SAFETY: `tables` is used by `start` alone, which runs once.
unsafe impl<const BYTES: usize> Sync for Frames<BYTES> {}

const fn range(addr: Paddr, size: usize) -> FrameRange {
    FrameRange::new((addr / PAGE_SIZE) as u64, ((addr + size) / PAGE_SIZE) as u64)
}

impl<const BYTES: usize> Frames<BYTES> {
    /// Returns an allocator without memory.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "it is large, and belongs in a static")]
    pub const fn new() -> Self {
        let ranges = Ranges { of: [FrameRange::new(0, 0); MOST_RANGES], len: 0 };
        let tables = UnsafeCell::new([MaybeUninit::uninit(); BYTES]);
        Self { ranges: SpinLock::new(ranges), tables, shared: Once::new() }
    }

    /// Makes the allocator of what was added until the first request.
    fn start(&'static self) -> Shared<'static, Irq> {
        static NODES: [NodeId; MOST_CPUS] = [NodeId(0); MOST_CPUS];
        let ranges = self.ranges.lock();
        let ranges = &ranges.of[..ranges.len];
        let start = ranges.iter().map(|range| range.start.0).min().unwrap_or(0);
        let end = ranges.iter().map(|range| range.end.0).max().unwrap_or(1);
        let span = FrameRange::new(start, end);
        let present = ranges.iter().map(|range| range.len()).sum();
        let kind = ZoneKind::Normal;
        let zones = [ZoneSpec { node: NodeId(0), kind, span, present, managed: 0 }];
        let nodes = &NODES[..num_cpus()];
        let setup = Setup::new(Policy::default(), &zones, nodes);
        // SAFETY: nobody else has them: `shared` calls this once.
        let tables = unsafe { &mut *self.tables.get() };
        let (locks, tables) = tables
            .split_at_mut_checked(setup.sharing_size::<Irq>())
            .expect("tables for the machine's memory");
        let mut allocator =
            Allocator::new(tables, &setup).expect("tables for the machine's memory");
        for &range in ranges {
            allocator.release(range).expect("a range that was not there");
        }
        allocator.retune();
        allocator.share(locks).expect("as large as was asked for")
    }

    fn with_cpu<T>(&self, guard: &DisabledLocalIrqGuard, work: impl FnOnce(&mut Handle) -> T) -> T {
        let cpu = CPU.get_with(guard);
        let mut cpu = cpu.borrow_mut();
        let cpu = cpu.get_or_insert_with(|| {
            // SAFETY: a global frame allocator is a static: `ostd` asks for a reference that lives as long.
            let this: &'static Self = unsafe { &*core::ptr::from_ref(self) };
            let number = CpuId(u32::from(guard.current_cpu()) as usize);
            this.shared.call_once(|| this.start()).cpu(number).expect("the only handle of a CPU")
        });
        work(cpu)
    }

    /// Frees what the CPU keeps for its next requests.
    pub fn drain(&self) {
        self.with_cpu(&irq::disable_local(), |cpu| cpu.drain(&mut ()));
    }
}

impl<const BYTES: usize> GlobalFrameAllocator for Frames<BYTES> {
    fn alloc(&self, layout: Layout) -> Option<Paddr> {
        let guard = irq::disable_local();
        let (pages, align) = (layout.size() / PAGE_SIZE, layout.align().div_ceil(PAGE_SIZE));
        let pfn = self.with_cpu(&guard, |cpu| pieces::take(cpu, pages, align))?;
        Some(pfn.0 as usize * PAGE_SIZE)
    }

    fn dealloc(&self, addr: Paddr, size: usize) {
        let guard = irq::disable_local();
        self.with_cpu(&guard, |cpu| pieces::give(cpu, range(addr, size)));
    }

    /// What comes after the first request is freed, if it was allocated before: the span of frames is known then.
    fn add_free_memory(&self, addr: Paddr, size: usize) {
        if self.shared.is_completed() {
            return self.dealloc(addr, size);
        }
        let mut ranges = self.ranges.lock();
        let at = ranges.len;
        *ranges.of.get_mut(at).expect("at most 64 ranges") = range(addr, size);
        ranges.len += 1;
    }
}
