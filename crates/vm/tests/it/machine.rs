//! A small machine that is driven without a clock: waits end by letting the disk finish.

use std::mem::MaybeUninit;

use pageblock::alloc::Allocator;
use pageblock::decide::Decide;
use pageblock::event::{Event, Observer};
use pageblock::frame::{FrameRange, Pfn};
use pageblock::ids::NodeId;
use pageblock::layout::{ZoneKind, ZoneSpec};
use pageblock::request::{Gfp, Request};
use pageblock::setup::Setup;
use pageblock::slowpath::Caller;
use pageblock_kernel::{Kernel, Named};
use pageblock_vm::Vm;
use pageblock_vm::cache::{GFP_ANON, GFP_CACHE_READ, GFP_CACHE_WRITE};
use pageblock_vm::config::Config;
use pageblock_vm::inode::InodeId;
use pageblock_vm::kswapd::Daemon;
use pageblock_vm::slow::{Slow, SlowAlloc};
use pageblock_vm::space::{Slot, SpaceId};
use pageblock_vm::writeback::Run;

/// Counts fragmentation events; a policy of one's own may decide.
#[derive(Default)]
pub(crate) struct Events {
    pub(crate) extfrag: u64,
    pub(crate) allocs: u64,
    pub(crate) decider: Option<Box<dyn Decide>>,
}

impl Observer for Events {
    fn event(&mut self, event: Event) {
        match event {
            Event::Extfrag(_) => self.extfrag += 1,
            Event::PageAlloc { .. } => self.allocs += 1,
            _ => {}
        }
    }

    fn decider(&mut self) -> Option<impl Decide> {
        self.decider.as_deref_mut()
    }
}

pub(crate) struct Machine<'m> {
    pub(crate) vm: Vm<'m, Events>,
    pub(crate) writing: Vec<Run>,
    pub(crate) cpus: usize,
    /// Every Nth write is delayed; 0: none.
    pub(crate) stalls: u64,
    writes: u64,
}

/// Runs a test on a machine with `nodes` nodes of `pages` pages under a preset as it is.
pub(crate) fn on_nodes<T>(
    kernel: &str,
    nodes: u8,
    pages: u64,
    test: impl FnOnce(&mut Machine<'_>) -> T,
) -> T {
    with_machine(kernel, |_, _| {}, nodes, pages, test)
}

/// Runs a test on a machine with `nodes` nodes of `pages` pages; a quarter of the first node is a DMA32 zone.
pub(crate) fn with_machine<T>(
    kernel: &str,
    set: impl FnOnce(&mut Kernel, &mut Config),
    nodes: u8,
    pages: u64,
    test: impl FnOnce(&mut Machine<'_>) -> T,
) -> T {
    let (mut kernel, mut config) = (Named::parse(kernel).unwrap().kernel, Config::default());
    set(&mut kernel, &mut config);
    let mut zones = Vec::new();
    for node in 0..nodes {
        let start = u64::from(node) * pages;
        let mut add = |kind, start, end| {
            let span = FrameRange::new(start, end);
            zones.push(ZoneSpec::full(NodeId(node), kind, span));
        };
        if node == 0 {
            add(ZoneKind::Dma32, 0, pages / 4);
            add(ZoneKind::Normal, pages / 4, pages);
        } else {
            add(ZoneKind::Normal, start, start + pages);
        }
    }
    let cpu_nodes: Vec<_> = (0..nodes).flat_map(|n| [NodeId(n); 2]).collect();
    let setup = Setup::new(kernel.allocator, &zones, &cpu_nodes);
    let mut memory = vec![MaybeUninit::uninit(); setup.metadata_size().unwrap()];
    let mut allocator = Allocator::new(&mut memory, &setup).unwrap();
    for zone in &zones {
        allocator.release(zone.span).unwrap();
    }
    allocator.retune();
    let vm = Vm::new(allocator, &kernel, config, Events::default());
    let mut machine =
        Machine { vm, writing: Vec::new(), cpus: cpu_nodes.len(), stalls: 0, writes: 0 };
    let seen = test(&mut machine);
    machine.vm.inject = pageblock_vm::inject::Inject::default();
    machine.finish_writes();
    machine.vm.check().unwrap();
    seen
}

impl Machine<'_> {
    pub(crate) fn finish_writes(&mut self) {
        for run in std::mem::take(&mut self.writing) {
            self.writes += 1;
            if self.stalls > 0 && self.writes.is_multiple_of(self.stalls) {
                self.writing.push(run);
            } else {
                self.vm.end_writes(run);
            }
        }
        for run in self.vm.take_file_writes() {
            self.vm.end_writes(run);
        }
        for pfn in self.vm.take_swap_writes().into_iter().flatten() {
            self.vm.end_write(pfn);
        }
    }

    /// Starts to write every dirty file.
    pub(crate) fn flush(&mut self) {
        while let Some(space) = self.vm.take_dirty_file() {
            let mut from = 0;
            while let Some(run) = self.vm.start_write(space, from) {
                from = run.index + run.pages;
                self.writing.push(run);
            }
        }
    }

    /// Runs the background threads of every node until they sleep.
    pub(crate) fn run_daemons(&mut self) {
        for node in 0..self.vm.nodes().len() {
            let mut waits = 0;
            for step in 0.. {
                assert!(step < 1_000_000, "kswapd never sleeps");
                match self.vm.step_kswapd(node, 0) {
                    Daemon::Ran | Daemon::Nap(_) => {}
                    Daemon::Sleep => break,
                    Daemon::WaitIfCongested(_) => {}
                    Daemon::WaitWrites(_) | Daemon::WaitCongestion(_) | Daemon::WaitPages(_) => {
                        self.flush();
                        self.finish_writes();
                        waits += 1;
                        if waits > 50 {
                            break;
                        }
                    }
                }
            }
            for step in 0.. {
                assert!(step < 1_000_000, "kcompactd never sleeps");
                if self.vm.step_kcompactd(node, 0) != Daemon::Ran {
                    break;
                }
            }
        }
    }

    /// Allocates like a task, by the slow path if needed.
    pub(crate) fn alloc(&mut self, cpu: usize, request: Request) -> Option<Pfn> {
        if let Some(pfn) = self.vm.try_alloc(cpu, &request) {
            return Some(pfn);
        }
        let mut slow = SlowAlloc::new(&self.vm, cpu, request, Caller::default());
        for step in 0.. {
            assert!(step < 5_000_000, "the slow path never ends");
            if step % 100_000 == 99_999 {
                // The flusher, the disk and kswapd run concurrently.
                self.flush();
                self.finish_writes();
                self.run_daemons();
            }
            match slow.step(&mut self.vm, cpu) {
                Slow::Ran | Slow::Spins(_) | Slow::Wait(_) => {}
                Slow::WaitWrites(_) => {
                    self.flush();
                    self.finish_writes();
                }
                Slow::Page(pfn) => return Some(pfn),
                Slow::Failed => return None,
            }
        }
        None
    }

    fn object(&mut self, cache: u32, cpu: usize) -> Option<u32> {
        loop {
            if let Some(object) = self.vm.take_object(cache, cpu, 0) {
                return Some(object);
            }
            let slab = [true, false].into_iter().find_map(|preferred| {
                let request = self.vm.slabs().request(cache, Gfp::GFP_KERNEL, preferred);
                Some((self.alloc(cpu, request)?, request.order))
            });
            match slab {
                Some((pfn, order)) => self.vm.add_slab(cache, cpu, pfn, order),
                None => return self.vm.take_last_object(cache, cpu),
            }
        }
    }

    /// Opens a file; allocates its missing objects.
    pub(crate) fn open(&mut self, cpu: usize, inode: InodeId) -> bool {
        while let Some((at, cache)) = self.vm.inodes().missing_object(inode) {
            let Some(object) = self.object(cache, cpu) else { return false };
            self.vm.set_object(inode, at, object);
        }
        if !self.extents(cpu, inode, false) {
            return false;
        }
        self.vm.open(inode);
        true
    }

    fn extents(&mut self, cpu: usize, inode: InodeId, more: bool) -> bool {
        while let Some(cache) = self.vm.missing_extents(inode, more) {
            let Some(object) = self.object(cache, cpu) else { return false };
            self.vm.set_extents(cpu, inode, object);
        }
        true
    }

    /// Commits a change of an inode to the log.
    pub(crate) fn commit(&mut self, cpu: usize, inode: InodeId, extents: bool) -> bool {
        while let Some(cache) = self.vm.missing_vector(inode, extents) {
            let Some(object) = self.object(cache, cpu) else { return false };
            self.vm.set_vector(cpu, inode, object);
        }
        self.vm.commit_inode(inode);
        true
    }

    /// Brings ext4's block of an inode into memory, and changes it.
    pub(crate) fn journal(&mut self, cpu: usize, inode: InodeId) -> bool {
        while !self.vm.journal_inode(inode) {
            let Some((space, index)) = self.vm.inode_block(inode) else { return false };
            if self.vm.folio_at(space, index).is_none()
                && self.cache(cpu, space, index, false).is_none()
                || !self.buffer_heads(cpu, space, index)
            {
                return false;
            }
        }
        true
    }

    /// Reads or writes a page of a file.
    pub(crate) fn touch(&mut self, cpu: usize, inode: InodeId, index: u32, write: bool) -> bool {
        let space = self.vm.inodes().get(inode).space;
        let pfn = if let Slot::Page(pfn) = self.vm.spaces().slot(space, index) {
            self.vm.mark_accessed(pfn);
            pfn
        } else {
            if write {
                if !self.extents(cpu, inode, true) {
                    return false;
                }
                self.vm.delay_extent(inode);
            }
            let Some(pfn) = self.cache(cpu, space, index, write) else { return false };
            pfn
        };
        if write {
            self.vm.dirty(pfn);
            return self.buffer_heads(cpu, space, index);
        }
        true
    }

    fn buffer_heads(&mut self, cpu: usize, space: SpaceId, index: u32) -> bool {
        while let Some((cache, at)) = self.vm.missing_buffer(space, index) {
            let Some(object) = self.object(cache, cpu) else { return false };
            self.vm.set_buffer(cpu, space, at, object);
        }
        true
    }

    /// Adds a page to the page cache.
    fn cache(&mut self, cpu: usize, space: SpaceId, index: u32, write: bool) -> Option<u32> {
        let gfp = if write { GFP_CACHE_WRITE } else { GFP_CACHE_READ };
        let pfn = self.alloc(cpu, Request::new(0, gfp))?;
        // The page counts as a driver's while the index node is allocated.
        self.vm.own(pfn, 0, pageblock_vm::page::Owner::Driver, 0);
        while self.vm.spaces().needs_node(space, index) {
            let nodes = self.vm.radix_nodes();
            let Some(object) = self.object(nodes, cpu) else {
                self.vm.disown(cpu, pfn);
                return None;
            };
            self.vm.set_index_node(space, index, object);
        }
        self.vm.add_page(space, index, pfn, 0);
        Some(pfn.0 as u32)
    }

    /// Faults a page of a mapping.
    pub(crate) fn fault(&mut self, cpu: usize, space: SpaceId, index: u32) -> bool {
        if let Slot::Page(pfn) = self.vm.spaces().slot(space, index) {
            self.vm.mark_accessed(pfn);
            return true;
        }
        let Some(pfn) = self.alloc(cpu, Request::new(0, GFP_ANON)) else { return false };
        match self.vm.spaces().slot(space, index) {
            Slot::Swap(_) if self.vm.zram().is_none() => {
                self.vm.add_swapped(cpu, space, index, pfn);
            }
            _ => self.vm.add_page(space, index, pfn, 0),
        }
        !self.vm.is_killed(space)
    }
}
