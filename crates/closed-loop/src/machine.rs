//! The machine that serves the demand.

use pageblock::FrameState;
use pageblock::alloc::Allocator;
use pageblock::frame::{Order, Pfn};
use pageblock::mobility::Migratetype;
use pageblock::request::{Gfp, Request};
use pageblock::slowpath::Caller;
use pageblock_kernel::Kernel;
use pageblock_measure::value::mismatch::TypeMismatch;
use pageblock_recording::{PageUse, Snapshot};
use pageblock_replay::demand::{Demand, Instead, SINGLE, Timed, assumed_type};
use pageblock_replay::watch::Watch;
use pageblock_vm::Vm;
use pageblock_vm::config::Config;
use pageblock_vm::page::Owner;
use pageblock_vm::slow::{Slow, SlowAlloc};
use pageblock_vm::space::{Slot, SpaceId};

use crate::content::Use;
use crate::daemons::Daemons;
use crate::flusher::Flusher;
use crate::names::{Content, Names};
use crate::pace::Pace;

/// Nanoseconds after which a task that only waits in the slow path gives up, because the recording shows that its
/// request ended.
const PATIENCE_NS: u64 = 1_000_000_000;
/// Steps after which a task in the slow path gives up if it never waits.
const STEPS: u32 = 1 << 20;

/// A closed-loop replay under way.
pub(crate) struct Machine<'m> {
    pub(crate) vm: Vm<'m, Watch>,
    daemons: Daemons,
    flusher: Flusher,
    names: Names,
    instead: Instead,
    /// The pages of all files and mappings.
    files: Indexes,
    mappings: Indexes,
    /// By frame: the type that a kernel block was requested as, plus one.
    pub(crate) requested: Vec<u8>,
    pub(crate) mismatch: TypeMismatch,
    pub(crate) counts: Counts,
}

/// The counts of a replay, beside those of events.
#[derive(Clone, Copy, Default)]
pub(crate) struct Counts {
    /// Requests that the fast path did not serve.
    pub(crate) slow: u64,
    /// Requests that got the same frame as in the recording.
    pub(crate) same_frame: u64,
    /// Requests that failed in the recording, and that this machine serves.
    pub(crate) rescued: u64,
    /// Frees of frames whose allocation was not recorded, and for which no unnamed block was left.
    pub(crate) unknown_frees: u64,
    /// Pages and folios of files that were used again.
    pub(crate) reused: u64,
}

/// The indices of a file or mapping, given to one page after the other.
struct Indexes {
    space: SpaceId,
    used: Vec<bool>,
    next: usize,
}

impl Indexes {
    fn new(space: SpaceId, len: usize) -> Self {
        Self { space, used: vec![false; len], next: 0 }
    }

    /// Takes consecutive indices without a name or a page, one for each page of a block. Returns the first index; `None` if too
    /// few are left.
    fn take(&mut self, vm: &mut Vm<'_, Watch>, order: Order) -> Option<u32> {
        let (pages, mut free) = (1 << order, 0);
        for _ in 0..2 * self.used.len() {
            let at = self.next;
            self.next = (at + 1) % self.used.len();
            let holds = matches!(vm.spaces().slot(self.space, at as u32), Slot::Page(_));
            // A run of indices does not wrap around.
            let before = if at == 0 { 0 } else { free };
            free = if self.used[at] || holds { 0 } else { before + 1 };
            if free == pages {
                let first = at + 1 - pages;
                for index in first..=at {
                    vm.forget_index(self.space, index as u32);
                    self.used[index] = true;
                }
                return Some(first as u32);
            }
        }
        None
    }

    /// Notes that no name refers to the index any longer.
    fn forget(&mut self, index: u32) {
        debug_assert!(self.used[index as usize], "index {index} is not named");
        self.used[index as usize] = false;
    }
}

impl<'m> Machine<'m> {
    /// Returns a machine in the state of a snapshot. The allocator must be in that state.
    pub(crate) fn new(
        allocator: Allocator<'m>,
        kernel: &'m Kernel,
        start: &Snapshot,
        pace: Pace,
    ) -> Self {
        let end = start.end_pfn().0 as usize;
        let huge = allocator.geometry().pageblock_order;
        let watch = Watch::new(huge);
        let mut vm = Vm::new(allocator, kernel, Config::default(), watch);
        // As many names as frames, and as many pages without a name.
        let len = 2 * end + 1;
        let files = Indexes::new(vm.create_plain_file(len as u32), len);
        let mappings = Indexes::new(vm.create_mapping(len as u32), len);
        vm.never_kill(mappings.space);
        let daemons = Daemons::new(vm.nodes().len(), pace);
        let flusher = Flusher::new(files.space, pace.write_ns);
        let mut machine = Self {
            vm,
            daemons,
            flusher,
            names: Names::new(end),
            instead: Instead::new(huge),
            files,
            mappings,
            requested: vec![0; end],
            mismatch: TypeMismatch::new(),
            counts: Counts::default(),
        };
        machine.own_all(start);
        machine
    }

    /// Gives every page that is allocated at the start an owner.
    fn own_all(&mut self, start: &Snapshot) {
        for used in &start.used {
            let on_list = match used.state {
                PageUse::File => Use::File,
                PageUse::Anon | PageUse::Shmem | PageUse::OtherLru => Use::Anon,
                _ => Use::Fixed,
            };
            for pfn in (used.pfn.0..used.pfn.0 + used.count).map(Pfn) {
                if let Some(FrameState::Allocated { order, .. }) = self.state(pfn) {
                    let block = self.block_type(pfn).unwrap_or(Migratetype::Movable);
                    let content =
                        if order > 0 && on_list == Use::Anon { Use::Fixed } else { on_list };
                    self.name(pfn, pfn, order, content, assumed_type(false, block));
                }
            }
        }
        // Frames that a snapshot does not name belong to the kernel.
        for pfn in (0..self.requested.len() as u64).map(Pfn) {
            if let Some(FrameState::Allocated { order, movable }) = self.state(pfn)
                && self.vm.pages().get(pfn).kind() == Owner::None
            {
                let block = self.block_type(pfn).unwrap_or(Migratetype::Movable);
                self.name(pfn, pfn, order, Use::Fixed, assumed_type(movable, block));
            }
        }
    }

    fn state(&self, pfn: Pfn) -> Option<FrameState> {
        let zone = self.vm.allocator().zone_of(pfn)?;
        self.vm.allocator().zones()[zone.index()].state(pfn)
    }

    fn block_type(&self, pfn: Pfn) -> Option<Migratetype> {
        let zone = self.vm.allocator().zone_of(pfn)?;
        self.vm.allocator().zones()[zone.index()].block_type(pfn)
    }

    /// Gives a block an owner, and names it by a recorded frame.
    fn name(
        &mut self,
        recorded: Pfn,
        here: Pfn,
        order: Order,
        used: Use,
        mt: Migratetype,
    ) -> Content {
        let indexes = match used {
            Use::Fixed => None,
            Use::File => Some(&mut self.files),
            Use::Anon => Some(&mut self.mappings),
        };
        let taken = indexes.and_then(|of| Some((of.space, of.take(&mut self.vm, order)?)));
        let Some((space, index)) = taken else {
            self.own(here, order, mt);
            self.names.set_block(recorded, here, order);
            return Content::Fixed(here);
        };
        self.vm.add_page(space, index, here, order);
        let of =
            |index| if used == Use::File { Content::File(index) } else { Content::Anon(index) };
        for n in 0..1 << order {
            self.names.set(Pfn(recorded.0 + u64::from(n)), of(index + n));
        }
        of(index)
    }

    fn own(&mut self, here: Pfn, order: Order, mt: Migratetype) {
        self.vm.own(here, order, Owner::Driver, 0);
        let start = here.0 as usize;
        debug_assert_eq!(self.requested[start], 0, "block {here} has an owner");
        self.requested[start..start + (1 << order)].fill(mt as u8 + 1);
    }

    /// Serves one demand.
    pub(crate) fn push(&mut self, timed: Timed) {
        let cpu = usize::from(timed.cpu).min(self.vm.allocator().cpus() - 1);
        self.vm.observer.at(timed.t_ms);
        let now = u64::from(timed.t_ms) * 1_000_000;
        self.flusher.until(&mut self.vm, now);
        self.daemons.until(&mut self.vm, now);
        match timed.demand {
            Demand::Alloc { pfn, order, gfp, instead_of, .. } => {
                for frame in pfn.0..pfn.0 + (1 << order) {
                    if let Some(left) = self.names.take(Pfn(frame)) {
                        self.leave(left);
                    }
                }
                self.release(cpu, pfn, order);
                match instead_of.filter(|&fault| self.instead.has(fault)) {
                    Some(fault) => {
                        if let Some(block) = self.instead.stand_for(fault, pfn, order) {
                            self.names.set_block(pfn, block, order);
                        }
                    }
                    None => self.serve(cpu, pfn, order, gfp, now),
                }
            }
            Demand::Failed { order, gfp, fault } => {
                if !fault.is_some_and(|fault| self.instead.has(fault)) {
                    self.alloc_again(cpu, order, gfp, (fault, timed.t_ms));
                }
            }
            Demand::Free { pfn, order, reclaimed, .. } => {
                if self.release(cpu, pfn, order) == 0 {
                    self.free(cpu, pfn, order, reclaimed);
                }
            }
            Demand::Reuse { pfn } => self.reuse(pfn),
            Demand::Isolate { pfn, order } => self.names.hold(pfn, order),
            Demand::MoveAway { pfn, to } => {
                if self.instead.relocate(pfn, to) {
                    self.names.hold(pfn, 0);
                } else if let Some(left) = self.names.rename(pfn, to) {
                    self.leave(left);
                }
            }
            Demand::Bulk { pages } => {
                // As in the open loop, a bulk request ends with the first page that it does not get.
                for _ in 0..pages {
                    let Some(here) = self.alloc(cpu, 0, Gfp::GFP_KERNEL) else { break };
                    self.own(here, 0, Migratetype::Unmovable);
                    self.names.keep_unnamed(Content::Fixed(here));
                }
            }
            Demand::Tick => {
                self.vm.vmstat_tick(cpu);
                for block in self.instead.unused(timed.t_ms) {
                    self.disown(cpu, block, self.huge());
                }
            }
            // This machine decides reclaim and compaction itself.
            Demand::Evacuate { .. } | Demand::Drain { .. } | Demand::Kswapd { .. } => {}
        }
    }

    /// Uses a page of a file again: the first use makes it referenced, the second active.
    fn reuse(&mut self, recorded: Pfn) {
        if let Some(Content::File(index)) = self.names.get(recorded)
            && let Slot::Page(pfn) = self.vm.spaces().slot(self.files.space, index)
        {
            self.vm.mark_accessed(pfn);
            self.vm.mark_accessed(pfn);
            self.counts.reused += 1;
        }
    }

    /// Serves a recorded request. A page fault that gets no huge page here takes single pages.
    fn serve(&mut self, cpu: usize, pfn: Pfn, order: Order, gfp: Gfp, now: u64) {
        let mt = gfp.migratetype().unwrap_or(Migratetype::Unmovable);
        if let Some(here) = self.alloc(cpu, order, gfp) {
            self.counts.same_frame += u64::from(here == pfn);
            let content = self.name(pfn, here, order, Use::of(order, gfp), mt);
            if let Content::File(index) = content
                && gfp.has(Gfp::WRITE)
            {
                self.vm.dirty_plain(here.0 as u32);
                self.flusher.push(index, now);
            }
        } else if order == self.huge() && mt == Migratetype::Movable {
            for page in (0..1 << order).map(|n| pfn.plus(n)) {
                if let Some(here) = self.alloc(cpu, 0, SINGLE) {
                    self.name(page, here, 0, Use::Anon, mt);
                }
            }
        }
    }

    fn alloc(&mut self, cpu: usize, order: Order, gfp: Gfp) -> Option<Pfn> {
        let request = Request::new(order, gfp);
        if gfp.migratetype().is_none() || order > self.vm.allocator().geometry().max_order {
            // No allocator can serve such a request.
            return None;
        }
        let served = self.vm.try_alloc(cpu, &request).or_else(|| {
            self.counts.slow += 1;
            self.alloc_slow(cpu, request)
        });
        match served {
            Some(pfn) => {
                if let Some(block) = self.block_type(pfn) {
                    let mt = gfp.migratetype().unwrap_or(Migratetype::Unmovable);
                    self.mismatch.record(mt, block, order);
                }
            }
            // The slow path reports the failure of a request that may warn.
            None if gfp.has(Gfp::NOWARN) => self.vm.report_failure(cpu, &request),
            None => {}
        }
        served
    }

    fn alloc_slow(&mut self, cpu: usize, request: Request) -> Option<Pfn> {
        let mut task = SlowAlloc::new(&self.vm, cpu, request, Caller::default());
        let mut waited = 0;
        for _ in 0..STEPS {
            match task.step(&mut self.vm, cpu) {
                Slow::Ran => {}
                Slow::Page(pfn) => return Some(pfn),
                Slow::Failed => return None,
                Slow::Spins(ns) | Slow::WaitWrites(ns) | Slow::Wait(ns) => {
                    self.daemons.wait(&mut self.vm, ns);
                    waited += ns;
                    if waited > PATIENCE_NS {
                        break;
                    }
                }
            }
        }
        if !request.gfp.has(Gfp::NOWARN) {
            self.vm.report_failure(cpu, &request);
        }
        None
    }

    /// Tries a request that failed in the recording. Only for huge pages is it known what the task would have done
    /// with it ([`Instead`]); all others are freed at once.
    fn alloc_again(
        &mut self,
        cpu: usize,
        order: Order,
        gfp: Gfp,
        (fault, t_ms): (Option<u32>, u32),
    ) {
        let Some(pfn) = self.alloc(cpu, order, gfp) else { return };
        self.counts.rescued += 1;
        self.own(pfn, order, gfp.migratetype().unwrap_or(Migratetype::Unmovable));
        match fault {
            Some(fault) => self.instead.hold(fault, pfn, t_ms),
            None => self.disown(cpu, pfn, order),
        }
    }

    fn huge(&self) -> Order {
        self.vm.allocator().geometry().pageblock_order
    }

    /// Ends the use of a recorded block. Returns the number of its pages for which huge pages stood.
    fn release(&mut self, cpu: usize, pfn: Pfn, order: Order) -> u32 {
        let mut gone = Vec::new();
        let pages = self.instead.release(pfn, order, &mut gone);
        for block in gone {
            self.disown(cpu, block, self.huge());
        }
        pages
    }

    fn disown(&mut self, cpu: usize, pfn: Pfn, order: Order) {
        let start = pfn.0 as usize;
        debug_assert_ne!(self.requested[start], 0, "block {pfn} has no owner");
        self.requested[start..start + (1 << order)].fill(0);
        self.vm.disown(cpu, pfn);
    }

    /// Removes a name without a free: a file's page stays until it is reclaimed.
    fn leave(&mut self, content: Content) {
        match content {
            Content::File(index) => self.files.forget(index),
            left => self.names.keep_unnamed(left),
        }
    }

    /// Frees what a recorded block stands for, unless reclaim decides about it.
    fn free(&mut self, cpu: usize, pfn: Pfn, order: Order, reclaimed: bool) {
        let mut known = false;
        let mut frame = pfn.0;
        while frame < pfn.0 + (1 << order) {
            let (at, left) = (Pfn(frame), pfn.0 + (1 << order) - frame);
            frame += 1;
            match self.names.take(at) {
                Some(Content::Fixed(here)) => {
                    let freed = self.free_fixed(cpu, here, left);
                    (1..freed).for_each(|n| {
                        self.names.take(Pfn(at.0 + n));
                    });
                    frame += freed - 1;
                }
                Some(Content::File(index)) if reclaimed => self.files.forget(index),
                Some(Content::File(index)) if at == pfn && order > 0 => {
                    self.free_folio(cpu, index, order);
                }
                Some(content) => self.free_page(cpu, content),
                None => {
                    known |= self.names.release(at);
                    continue;
                }
            }
            known = true;
        }
        if !known {
            match self.names.take_unnamed() {
                Some(content) if order == 0 => self.free_page(cpu, content),
                Some(content) => self.names.keep_unnamed(content),
                None => self.counts.unknown_frees += 1,
            }
        }
    }

    /// Frees a page of a file whose recorded frame is the first of a folio, together with the folio if it still is
    /// one.
    fn free_folio(&mut self, cpu: usize, index: u32, order: Order) {
        if self.vm.free_folio(cpu, self.files.space, index, order) {
            self.files.forget(index);
        } else {
            self.free_page(cpu, Content::File(index));
        }
    }

    fn free_page(&mut self, cpu: usize, content: Content) {
        let (indexes, index) = match content {
            Content::Fixed(here) => {
                self.free_fixed(cpu, here, 1);
                return;
            }
            Content::File(index) => (&mut self.files, index),
            Content::Anon(index) => (&mut self.mappings, index),
        };
        indexes.forget(index);
        if let Slot::Page(pfn) = self.vm.spaces().slot(indexes.space, index) {
            self.vm.clean_plain(pfn);
        }
        self.vm.unmap_page(cpu, indexes.space, index);
    }

    /// Frees the kernel block that starts at a frame, at most a number of pages: a larger block is split. Returns
    /// the number of pages freed.
    fn free_fixed(&mut self, cpu: usize, here: Pfn, most: u64) -> u64 {
        let of = |pfn: Pfn| {
            let page = self.vm.pages().get(pfn);
            (page.kind() == Owner::Driver).then_some(page.order())
        };
        let orders = 0..=self.vm.allocator().geometry().max_order;
        let head = orders.map(|order| (here.align_down(order), order));
        let block = head.into_iter().find(|&(head, order)| of(head) == Some(order));
        let Some((head, order)) = block else { return 1 };
        let fits = |order: &Order| here.is_aligned(*order) && 1 << order <= most;
        let into = (0..=order).rev().find(fits).unwrap_or(0);
        debug_assert!(here.is_aligned(into) && 1 << into <= most, "{most} pages from {here}");
        self.vm.split_owned(head, into);
        self.disown(cpu, here, into);
        1 << into
    }
}
