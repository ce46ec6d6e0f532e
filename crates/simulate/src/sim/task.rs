//! The operations of a task: use CPU time, wait, allocate.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use pageblock::frame::Pfn;
use pageblock::request::{Gfp, Request};
use pageblock::slowpath::Caller;
use pageblock_vm::node_reclaim::NodeReclaim;
use pageblock_vm::page::Owner;
use pageblock_vm::slab::CacheId;
use pageblock_vm::slow::{Slow, SlowAlloc};

use super::read_ahead::Stall;
use super::sched::TaskId;
use super::world::{Pause, World};
use super::{MICROSECOND, MILLISECOND, Nanos, SECOND};

/// The longest time by which a task may run ahead of the others; they see its effects from that time at once.
const QUANTUM: Nanos = 20 * MICROSECOND;
/// A request that failed for good: the program would be killed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutOfMemory;

/// The result of what takes memory.
pub type Served<T = ()> = Result<T, OutOfMemory>;

/// A task's handle on the world.
#[derive(Clone)]
pub struct Ctx<'m> {
    pub(crate) world: Rc<RefCell<World<'m>>>,
    pub(crate) id: TaskId,
}

/// Ready when it is polled a second time.
struct Once(bool);

impl Future for Once {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl<'m> Ctx<'m> {
    /// Runs a closure that reads or changes the world, without time passing.
    pub fn with<R>(&self, body: impl FnOnce(&mut World<'m>) -> R) -> R {
        body(&mut self.world.borrow_mut())
    }

    /// Returns the CPU that the task is on.
    #[must_use]
    pub fn cpu(&self) -> usize {
        self.world.borrow().sched.cpu_of(self.id)
    }

    /// Returns the time.
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.world.borrow().now()
    }

    /// Reports whether the simulation is being stopped: tasks in endless loops then return.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.world.borrow().stopping
    }

    async fn pause(&self, pause: Pause) {
        self.world.borrow_mut().pause = Some(pause);
        Once(false).await;
    }

    /// Charges the task's accrued CPU time.
    pub async fn charge_accrued(&self) {
        let pending = self.with(|w| std::mem::take(&mut w.pending));
        if pending > 0 {
            self.pause(Pause::Charge(pending)).await;
        }
    }

    /// Yields to other tasks if this one is too far ahead.
    pub async fn yield_if_ahead(&self) {
        if self.world.borrow().pending >= QUANTUM {
            self.charge_accrued().await;
        }
    }

    /// Uses CPU time.
    pub fn spend(&self, ns: Nanos) {
        self.world.borrow_mut().pending += ns;
    }

    /// Waits until woken, with an optional timeout.
    pub async fn block(&self, timeout: Option<Nanos>) {
        self.charge_accrued().await;
        self.pause(Pause::Block(timeout)).await;
    }

    /// Starts a task that was added to the executor.
    pub fn start(&self, task: TaskId) {
        self.with(|w| w.sched.start(task));
    }

    /// Wakes a task that waits.
    pub fn wake(&self, task: TaskId) {
        self.with(|w| w.sched.wake(task));
    }

    /// Sleeps.
    pub async fn sleep(&self, ns: Nanos) {
        self.block(Some(ns)).await;
    }

    /// Waits until a write completes, with a timeout; returns at once if none is in flight.
    pub async fn wait_writes(&self, timeout: Nanos) {
        self.charge_accrued().await;
        let waits = self.with(|w| {
            if w.disk.outstanding == 0 {
                return false;
            }
            w.wait_for_write(self.id);
            true
        });
        if waits {
            self.pause(Pause::Block(Some(timeout))).await;
        } else {
            // Even without a write the kernel's wait yields to others.
            self.sleep(timeout.min(MILLISECOND)).await;
        }
    }

    /// Waits for a slot in the disk's queue if reclaim needs one for its next write; `batch` counts the writes
    /// since it last waited.
    pub(crate) async fn wait_for_queue(&self, batch: &mut usize) {
        while *batch > 0 && self.with(|w| w.refuses_writes(*batch)) {
            self.wait_writes(SECOND).await;
            if self.with(|w| !w.disk.is_full()) {
                *batch = 0;
            }
        }
    }

    /// Reads a page from the disk.
    pub async fn read_disk(&self) {
        self.read_disk_pages(1).await;
    }

    /// Reads contiguous pages from the disk.
    pub async fn read_disk_pages(&self, pages: u64) {
        self.charge_accrued().await;
        let wait = self.with(|w| {
            let jitter = w.random.below(401) as i64 - 200;
            let now = w.sched.now;
            w.disk.read(now, jitter, pages) - now
        });
        self.pause(Pause::Block(Some(wait))).await;
    }

    /// Allocates a block, which must get an owner before the task waits again.
    pub async fn alloc(&self, request: Request) -> Served<Pfn> {
        if self.with(|w| w.vm.kernel().allocator.zone_reclaim_mode) != 0 {
            self.reclaim_own_node(&request).await;
        }
        let quick = self.with(|w| {
            w.pending += w.costs.alloc;
            let page = w.vm.try_alloc(w.sched.cpu_of(self.id), &request);
            w.count_list_mismatches();
            w.charge_looks();
            if w.vm.nodes().iter().any(|n| n.kswapd.woken) {
                w.wake_daemons();
            }
            page
        });
        match quick {
            Some(pfn) => Ok(pfn),
            None => self.alloc_slow(request).await,
        }
    }

    /// Reclaims the local node first if its memory is short (`node_reclaim`).
    async fn reclaim_own_node(&self, request: &Request) {
        let cpu = self.cpu();
        let Some(mut reclaim) = self.with(|w| NodeReclaim::before(&w.vm, cpu, request)) else {
            return;
        };
        while self.with(|w| {
            let more = reclaim.step(&mut w.vm);
            w.charge_work();
            w.submit_reclaimed();
            w.wake_daemons();
            more
        }) {
            self.yield_if_ahead().await;
        }
    }

    /// Goes through the slow path, watched for livelocks.
    async fn alloc_slow(&self, request: Request) -> Served<Pfn> {
        let cpu = self.cpu();
        self.with(|w| {
            w.begin_slow(self.id, request);
            w.boost_for_atomic(cpu, &request);
        });
        let result = self.slow_path(request).await;
        self.with(|w| w.end_slow(self.id));
        result
    }

    /// Goes through the slow path, step by step.
    async fn slow_path(&self, request: Request) -> Served<Pfn> {
        let cpu = self.cpu();
        let mut slow = self.with(|w| SlowAlloc::new(&w.vm, cpu, request, Caller::default()));
        let mut stall = Stall::default();
        let mut batch = 0;
        loop {
            self.note_stall(&mut stall, slow.is_stalled()).await;
            let cpu = self.cpu();
            let step = self.with(|w| {
                let step = slow.step(&mut w.vm, cpu);
                w.charge_looks();
                w.charge_work();
                batch += w.submit_reclaimed();
                w.wake_daemons();
                step
            });
            match step {
                Slow::Page(pfn) => {
                    // Others run while the stall is paid for: until then the block is the kernel's.
                    self.with(|w| w.vm.own(pfn, request.order, Owner::Driver, 0));
                    self.end_stall(stall, request).await;
                    self.with(|w| w.vm.own(pfn, 0, Owner::None, 0));
                    return Ok(pfn);
                }
                Slow::Failed => {
                    self.end_stall(stall, request).await;
                    return Err(OutOfMemory);
                }
                Slow::Ran => {
                    self.wait_for_queue(&mut batch).await;
                    self.yield_if_ahead().await;
                }
                Slow::Spins(ns) => {
                    self.wait_for_queue(&mut batch).await;
                    self.spend(ns);
                    self.charge_accrued().await;
                }
                Slow::Wait(ns) => self.sleep(ns).await,
                Slow::WaitWrites(ns) => self.wait_writes(ns).await,
            }
        }
    }

    /// Allocates an object of a slab cache.
    pub async fn object(&self, cache: CacheId, flags: Gfp) -> Served<u32> {
        loop {
            let (cpu, node) = self.here();
            let object = self.with(|w| {
                w.pending += w.costs.object;
                w.vm.take_object(cache, cpu, node)
            });
            if let Some(object) = object {
                return Ok(object);
            }
            let preferred = self.with(|w| w.vm.slabs().request(cache, flags, true));
            let smallest = self.with(|w| w.vm.slabs().request(cache, flags, false));
            let (pfn, order) = match self.alloc(preferred).await {
                Ok(pfn) => (Ok(pfn), preferred.order),
                Err(OutOfMemory) if preferred.order > smallest.order => {
                    (self.alloc(smallest).await, smallest.order)
                }
                Err(error) => (Err(error), smallest.order),
            };
            let pfn = match pfn {
                Ok(pfn) => pfn,
                Err(error) => return self.last_object(cache).ok_or(error),
            };
            let cpu = self.cpu();
            self.with(|w| w.vm.add_slab(cache, cpu, pfn, order));
        }
    }

    /// Takes an object of a slab cache although there is no memory for a slab.
    fn last_object(&self, cache: CacheId) -> Option<u32> {
        let cpu = self.cpu();
        self.with(|w| w.vm.take_last_object(cache, cpu))
    }

    /// Returns the CPU and the index of its node.
    pub(super) fn here(&self) -> (usize, usize) {
        let world = self.world.borrow();
        let cpu = world.sched.cpu_of(self.id);
        (cpu, world.vm.node_of_cpu(world.sched.node_of(cpu)))
    }

    /// Allocates a kernel block: page tables, stacks, buffers.
    pub async fn kernel_block(&self, request: Request, kind: Owner) -> Served<Pfn> {
        let pfn = self.alloc(request).await?;
        self.with(|w| w.vm.own(pfn, request.order, kind, 0));
        self.yield_if_ahead().await;
        Ok(pfn)
    }

    /// Frees a kernel block.
    pub fn free_kernel_block(&self, pfn: Pfn) {
        let cpu = self.cpu();
        self.with(|w| w.vm.disown(cpu, pfn));
    }

    /// Ends a program because memory is exhausted. The others continue, and the run reports it.
    pub fn end_program(&self, program: &str) {
        let now = self.now();
        self.with(|w| w.deaths.push((now, program.to_owned())));
    }

    /// Ends the whole simulation: a task that the machine cannot do without got no memory.
    pub fn panic_without_memory(&self) {
        self.with(|w| w.panic_without_memory(self.id));
    }

    /// Ends the whole simulation because of a defect.
    pub fn fail(&self, message: &str) {
        self.with(|w| {
            w.failure.get_or_insert_with(|| message.to_owned());
            w.stopping = true;
        });
    }
}
