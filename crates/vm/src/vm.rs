//! The memory management of a machine: an allocator and the subsystems around it.

use pageblock::alloc::Allocator;
use pageblock::alloc_flags::AllocFlags;
use pageblock::decide::Decide;
use pageblock::event::{Event, NodeReclaim, Observer};
use pageblock::frame::{Order, Pfn};
use pageblock::ids::{CpuId, NodeId};
use pageblock::layout::ZoneKind;
use pageblock::request::{Gfp, Request};
use pageblock_kernel::Kernel;
use pageblock_kernel::rules::reclaim::LruLists;

use crate::base::inject::Inject;
use crate::base::stalls::Stalls;
use crate::base::stat::VmStat;
use crate::base::work::Work;
use crate::compact::ZoneCompact;
use crate::config::Config;
use crate::fs::FileSystem;
use crate::huge::HugePages;
use crate::node::{NodeState, Nodes};
use crate::page::placed::Placed;
use crate::page::{NO_ZONE, Owner, PageTable};
use crate::pagecache::PageCache;
use crate::slab::Slabs;
use crate::swap::Swap;

/// A machine's memory management. Nothing in it waits: what takes time or must wait says so to the
/// caller, who has the clock.
///
/// Each subsystem is a field, whose own fields are private to the subsystem's folder.
pub struct Vm<'m, O> {
    pub(crate) allocator: Allocator<'m>,
    pub(crate) kernel: &'m Kernel,
    pub(crate) config: Config,
    pub(crate) nodes: Nodes,
    pub(crate) pages: PageTable,
    pub(crate) slabs: Slabs,
    pub(crate) pagecache: PageCache,
    pub(crate) swap: Swap,
    pub(crate) fs: FileSystem,
    pub(crate) huge: HugePages,
    /// What compaction remembers of each zone.
    pub(crate) compact: Vec<ZoneCompact>,
    /// Counters of `/proc/vmstat`.
    pub stat: VmStat,
    /// Stalls by order and zone.
    pub stalls: Stalls,
    /// Pages by the type of their request and of their pageblock.
    pub placed: Placed,
    /// Work done since it was last taken.
    pub(crate) work: Work,
    /// Injected faults, for tests.
    pub inject: Inject,
    /// Receives the allocator's events.
    pub observer: O,
}

/// Answers what the allocator asks while it works.
pub(crate) struct Hook<'a, O> {
    observer: &'a mut O,
    nodes: &'a mut Nodes,
    /// One bit for each node whose dirty pages are within its limit.
    dirty_ok: u64,
}

impl<O: Observer> Observer for Hook<'_, O> {
    #[inline(always)]
    fn event(&mut self, event: Event) {
        self.observer.event(event);
    }
    fn node_dirty_ok(&mut self, node: NodeId) -> bool {
        self.dirty_ok & 1 << node.0 != 0
    }
    fn node_reclaim(&mut self, _: NodeId, _: Order) -> NodeReclaim {
        // Reclaim takes time: it is done before the walk (node_reclaim.rs).
        NodeReclaim::NoScan
    }
    fn wake_kswapd(&mut self, node: NodeId, zone: ZoneKind, order: Order) {
        self.nodes.wake_for_boost(node.0, zone, order);
    }
    #[inline(always)]
    fn decider(&mut self) -> Option<impl Decide> {
        self.observer.decider()
    }
}

/// Evaluates an expression with the allocator and a [`Hook`], which borrow different fields.
macro_rules! with_hook {
    ($vm:expr, $allocator:ident, $hook:ident => $body:expr) => {{
        let $allocator = &mut $vm.allocator;
        let $hook = &mut $crate::vm::Hook::new(&mut $vm.observer, &mut $vm.nodes, u64::MAX);
        $body
    }};
}
pub(crate) use with_hook;

impl<'a, O> Hook<'a, O> {
    pub(crate) fn new(observer: &'a mut O, nodes: &'a mut Nodes, dirty_ok: u64) -> Self {
        Self { observer, nodes, dirty_ok }
    }
}

impl<'m, O: Observer> Vm<'m, O> {
    /// Returns a machine around an allocator whose memory is released. Blocks in use count as a driver's.
    #[must_use]
    pub fn new(allocator: Allocator<'m>, kernel: &'m Kernel, config: Config, observer: O) -> Self {
        let zones = allocator.zones();
        let frames = zones.iter().map(|z| z.span().end.0).max().unwrap_or(0);
        let mut pages = PageTable::new(frames as usize);
        if kernel.reclaim.lru == LruLists::Mglru {
            pages.tell_young();
        }
        for (at, zone) in zones.iter().enumerate() {
            for pfn in zone.span().start.0..zone.span().end.0 {
                pages[pfn as u32].zone = at as u8;
            }
        }
        let nodes = Nodes::new(zones);
        let of_cpu = |cpu| allocator.node_of_cpu(CpuId(cpu)).map_or(0, |id| nodes.of_id(id.0));
        let cpus = (0..allocator.cpus()).map(of_cpu).collect();
        let mut slabs = Slabs::new(config.slab, cpus, nodes.len(), &kernel.memory);
        let fs = FileSystem::new(&config, &mut slabs, nodes.len());
        let pagecache = PageCache::new(zones, &nodes, &mut slabs, kernel, &config);
        slabs.create_process_caches();
        Self {
            compact: zones.iter().map(ZoneCompact::new).collect(),
            swap: Swap::new(config.swap_pages, config.zram, &kernel.memory),
            huge: HugePages::default(),
            inject: Inject::default(),
            stat: VmStat::default(),
            stalls: Stalls::default(),
            placed: Placed::default(),
            work: Work::default(),
            allocator,
            kernel,
            config,
            nodes,
            pages,
            slabs,
            pagecache,
            fs,
            observer,
        }
    }

    /// Returns the allocator.
    #[must_use]
    pub fn allocator(&self) -> &Allocator<'m> {
        &self.allocator
    }

    /// Returns the configuration of the machine and its file systems.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the kernel.
    #[must_use]
    pub fn kernel(&self) -> &'m Kernel {
        self.kernel
    }

    /// Returns the entries of all pages.
    #[must_use]
    pub fn pages(&self) -> &PageTable {
        &self.pages
    }

    /// Returns the state of each node's background threads.
    #[must_use]
    pub fn nodes(&self) -> &[NodeState] {
        self.nodes.states()
    }

    /// Takes the work done since the last call.
    pub fn take_work(&mut self) -> Work {
        std::mem::take(&mut self.work)
    }

    /// Returns the index of the node of a frame.
    pub(crate) fn node_of(&self, pfn: u32) -> usize {
        match self.pages[pfn].zone {
            NO_ZONE => 0,
            zone => self.nodes.of_zone(zone.into()),
        }
    }

    /// Returns the zones of a node, lowest first.
    pub(crate) fn zones_of(&self, node: usize) -> impl Iterator<Item = usize> + use<'_, 'm, O> {
        self.nodes.zones_of(node)
    }

    /// Returns the index of the node with a number; 0 if there is none.
    #[must_use]
    pub fn node_of_cpu(&self, cpu_node: u8) -> usize {
        self.nodes.of_id(cpu_node)
    }

    /// Returns the nodes that a request may use, nearest first.
    pub(crate) fn nodes_for(&self, cpu: usize, request: &Request) -> Vec<usize> {
        let mut nodes = Vec::new();
        if let Ok(zones) = self.allocator.zones_for(CpuId(cpu), request) {
            for zone in zones {
                let node = self.nodes.of_zone(zone.index());
                if !nodes.contains(&node) {
                    nodes.push(node);
                }
            }
        }
        nodes
    }

    /// Tries the fast path for a request. The block has no owner yet: set one at once.
    #[inline]
    pub fn try_alloc(&mut self, cpu: usize, request: &Request) -> Option<Pfn> {
        if self.inject.refuses_alloc() {
            return None;
        }
        let dirty_ok = if request.gfp.has(Gfp::WRITE) { self.dirty_ok() } else { u64::MAX };
        let hook = &mut Hook::new(&mut self.observer, &mut self.nodes, dirty_ok);
        let pfn = self.allocator.alloc(CpuId(cpu), request, hook).ok()?;
        self.count_placed(request, pfn);
        Some(pfn)
    }

    /// Makes one attempt of the slow path.
    pub(crate) fn try_alloc_with(
        &mut self,
        cpu: usize,
        request: &Request,
        flags: AllocFlags,
    ) -> Option<Pfn> {
        self.work.attempts += 1;
        if self.inject.refuses_alloc() {
            return None;
        }
        let pfn = with_hook!(self, allocator, hook => allocator.alloc_with(CpuId(cpu), request, flags, hook).ok())?;
        self.count_placed(request, pfn);
        Some(pfn)
    }

    /// Reports that a request finally failed.
    pub fn report_failure(&mut self, cpu: usize, request: &Request) {
        // An invalid request was refused before.
        let _ = with_hook!(self, allocator, hook => allocator.report_failure(CpuId(cpu), request, hook));
    }

    /// Sets the owner of a block that was just allocated to the kernel or a driver: page tables, stacks, buffers.
    pub fn own(&mut self, pfn: Pfn, order: Order, kind: Owner, owner: u32) {
        debug_assert!(!kind.is_lru() && kind != Owner::Slab);
        debug_assert!(!self.pages.get(pfn).kind().is_lru(), "{pfn} is in use already");
        self.pages[pfn.0 as u32].own(kind, order, owner, 0);
    }

    /// Frees a block of the kernel or a driver.
    ///
    /// # Panics
    /// If the block is not in use: a frame freed twice is a defect of the simulation.
    pub fn disown(&mut self, cpu: usize, pfn: Pfn) {
        let order = self.pages[pfn.0 as u32].order();
        self.free_block(cpu, pfn.0 as u32, order);
    }

    /// Frees a block of any owner.
    pub(crate) fn free_block(&mut self, cpu: usize, pfn: u32, order: Order) {
        self.pages[pfn].disown();
        let freed = with_hook!(self, allocator, hook => allocator.free(CpuId(cpu), Pfn(pfn.into()), order, hook));
        if let Err(error) = freed {
            panic!("freeing frame {pfn} of order {order}: {error}");
        }
    }

    /// Frees the pages of every CPU's lists (`drain_all_pages`).
    pub fn drain_all(&mut self) {
        self.work.drains += 1;
        with_hook!(self, allocator, hook => allocator.drain_all(hook));
    }

    /// Frees the pages of a CPU's lists (`drain_local_pages`).
    pub(crate) fn drain_cpu(&mut self, cpu: usize) {
        self.work.drains += 1;
        let drained = with_hook!(self, allocator, hook => allocator.drain_cpu(CpuId(cpu), hook));
        debug_assert!(drained.is_ok(), "{drained:?}");
    }

    /// Runs one second's tick of a CPU: the limits of its lists decay (6.7 and later).
    pub fn vmstat_tick(&mut self, cpu: usize) {
        let ticked = with_hook!(self, allocator, hook => allocator.vmstat_tick(CpuId(cpu), hook));
        debug_assert!(ticked.is_ok(), "{ticked:?}");
    }
}
