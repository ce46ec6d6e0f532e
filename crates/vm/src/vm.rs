//! The machine around an allocator: pages and their owners, lists, caches.

use pageblock::alloc::Allocator;
use pageblock::alloc_flags::AllocFlags;
use pageblock::event::{Event, NodeReclaim, Observer};
use pageblock::frame::{Order, Pfn};
use pageblock::ids::{CpuId, NodeId};
use pageblock::layout::ZoneKind;
use pageblock::request::{Gfp, Request};
use pageblock_kernel::Kernel;
use pageblock_kernel::rules::reclaim::LruLists;

use crate::age::Ages;
use crate::buffer::Buffers;
use crate::cil::{self, Cil};
use crate::compact::ZoneCompact;
use crate::config::Config;
use crate::extent;
use crate::hugetlb::Pool;
use crate::inject::Inject;
use crate::inode::{FILP, Inodes, RADIX_TREE_NODE};
use crate::khugepaged::Khugepaged;
use crate::lru::Lru;
use crate::node::NodeState;
use crate::page::{NO_ZONE, Owner, PageTable};
use crate::placed::Placed;
use crate::process;
use crate::slab::{CacheId, CacheSpec, Slabs};
use crate::space::Spaces;
use crate::stalls::Stalls;
use crate::stat::VmStat;
use crate::swap::Swap;
use crate::work::Work;
use crate::writeback::{self, Run};
use crate::zram::Zram;

/// A machine's memory management. Nothing in it waits: what takes time or must wait says so to the
/// caller, who has the clock.
pub struct Vm<'m, O> {
    pub(crate) allocator: Allocator<'m>,
    pub(crate) kernel: &'m Kernel,
    pub(crate) config: Config,
    pub(crate) pages: PageTable,
    pub(crate) lru: Lru,
    pub(crate) spaces: Spaces,
    pub(crate) slabs: Slabs,
    pub(crate) inodes: Inodes,
    pub(crate) buffers: Buffers,
    pub(crate) cil: Cil,
    pub(crate) radix_nodes: CacheId,
    /// The caches of lists of extents.
    pub(crate) extent_caches: Vec<CacheId>,
    /// The caches of [`crate::cil::CACHES`].
    pub(crate) vector_caches: Vec<CacheId>,
    /// The cache of open files, where they are modelled.
    pub(crate) file_cache: Option<CacheId>,
    /// The caches of [`crate::process::OBJECTS`].
    pub(crate) process_caches: Vec<CacheId>,
    pub(crate) swap: Swap,
    /// Where swap is in memory.
    pub(crate) zram: Option<Zram>,
    pub(crate) khugepaged: Khugepaged,
    pub(crate) hugetlb: Pool,
    pub(crate) nodes: Vec<NodeState>,
    /// The node of each zone, as a place in `nodes`.
    pub(crate) node_of_zone: Vec<u8>,
    /// What the kernel keeps for itself of each zone; nobody changes watermarks any more.
    pub(crate) reserves: Vec<u64>,
    pub(crate) compact: Vec<ZoneCompact>,
    /// Faults on purpose, for tests.
    pub inject: Inject,
    /// Counters as of `/proc/vmstat`.
    pub stat: VmStat,
    /// Stalls by order and zone.
    pub stalls: Stalls,
    /// Pages by the type of their request and of their pageblock.
    pub placed: Placed,
    /// What was done since it was last taken.
    pub work: Work,
    /// Pages dirty and pages under writeback, by node.
    pub(crate) nr_dirty: Vec<u64>,
    pub(crate) nr_writeback: Vec<u64>,
    /// Reclaim met dirty pages that nobody writes: the flusher should.
    pub(crate) flusher_wanted: bool,
    /// Pages that reclaim gave to swap and that must be written.
    pub(crate) swap_writes: Vec<Vec<u32>>,
    /// Pages of files that reclaim writes.
    pub(crate) file_writes: Vec<Run>,
    /// The ages of pages, where somebody asked for them.
    pub(crate) ages: Option<Box<Ages>>,
    /// Writes that ended.
    pub(crate) writes_ended: u64,
    /// Receives the allocator's events.
    pub observer: O,
}

/// What the allocator asks of its surroundings while it works.
pub(crate) struct Hook<'a, O> {
    observer: &'a mut O,
    nodes: &'a mut [NodeState],
    /// One bit a node whose dirty pages are within its limit.
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
        if let Some(node) = self.nodes.iter_mut().find(|n| n.id == node.0) {
            node.kswapd.boost_wake(zone, order);
        }
    }
}

/// Lends the allocator and what observes it, which are apart from the rest.
macro_rules! with_hook {
    ($vm:expr, $allocator:ident, $hook:ident => $body:expr) => {{
        let $allocator = &mut $vm.allocator;
        let $hook = &mut $crate::vm::Hook::new(&mut $vm.observer, &mut $vm.nodes, u64::MAX);
        $body
    }};
}
pub(crate) use with_hook;

impl<'a, O> Hook<'a, O> {
    pub(crate) fn new(observer: &'a mut O, nodes: &'a mut [NodeState], dirty_ok: u64) -> Self {
        Self { observer, nodes, dirty_ok }
    }
}

impl<'m, O: Observer> Vm<'m, O> {
    /// A machine around an allocator whose memory is released. Memory in use counts as a driver's.
    #[must_use]
    pub fn new(allocator: Allocator<'m>, kernel: &'m Kernel, config: Config, observer: O) -> Self {
        let zones = allocator.zones();
        let frames = zones.iter().map(|z| z.span().end.0).max().unwrap_or(0);
        let mut pages = PageTable::new(frames as usize);
        let mut ids: Vec<u8> = zones.iter().map(|zone| zone.node().0).collect();
        ids.dedup();
        let place = |id: u8| ids.iter().position(|&n| n == id).unwrap_or(0) as u8;
        let node_of_zone: Vec<u8> = zones.iter().map(|z| place(z.node().0)).collect();
        for (at, zone) in zones.iter().enumerate() {
            for pfn in zone.span().start.0..zone.span().end.0 {
                pages[pfn as u32].zone = at as u8;
            }
        }
        let vecs = match kernel.reclaim.lru {
            LruLists::Node => node_of_zone.clone(),
            LruLists::Zone => (0..zones.len() as u8).collect(),
        };
        let cpus = allocator.cpus();
        let mut slabs = Slabs::default();
        slabs.waits = kernel.memory.slab_waits;
        let mut names: Vec<(&str, CacheId)> = Vec::new();
        let mut objects = Vec::new();
        for object in config.file_objects {
            let known = names.iter().find(|(name, _)| *name == object.cache.name);
            let id = known.map(|&(_, id)| id).unwrap_or_else(|| {
                let id = slabs.create(object.cache, config.slab, cpus, ids.len());
                names.push((object.cache.name, id));
                id
            });
            objects.push((id, object.lifetime));
        }
        let mut create = |spec| slabs.create(spec, config.slab, cpus, ids.len());
        let radix_nodes = create(RADIX_TREE_NODE);
        let extent_caches = extent::CACHES.iter().map(|&spec| create(spec)).collect();
        let with_cil = config.checkpoint_bytes > 0;
        let vector_caches = cil::CACHES.iter().filter(|_| with_cil).map(|&s| create(s)).collect();
        let file_cache = with_cil.then(|| create(FILP));
        let process_caches = process::OBJECTS.iter().map(|o| create(o.cache)).collect();
        Self {
            compact: zones.iter().map(ZoneCompact::new).collect(),
            reserves: zones.iter().map(writeback::reserve).collect(),
            nodes: ids.iter().map(|&id| NodeState::new(id)).collect(),
            nr_dirty: vec![0; ids.len()],
            nr_writeback: vec![0; ids.len()],
            lru: Lru::new(vecs),
            inodes: Inodes::new(objects, ids.len()),
            buffers: Buffers::new(ids.len()),
            cil: Cil::default(),
            swap: Swap::new(config.swap_pages),
            zram: config.zram.then(|| Zram::new(&kernel.memory, config.swap_pages)),
            khugepaged: Khugepaged::default(),
            hugetlb: Pool::default(),
            spaces: Spaces::default(),
            inject: Inject::default(),
            stat: VmStat::default(),
            stalls: Stalls::default(),
            placed: Placed::default(),
            work: Work::default(),
            flusher_wanted: false,
            swap_writes: Vec::new(),
            file_writes: Vec::new(),
            ages: None,
            writes_ended: 0,
            allocator,
            kernel,
            config,
            pages,
            slabs,
            radix_nodes,
            extent_caches,
            vector_caches,
            file_cache,
            process_caches,
            node_of_zone,
            observer,
        }
    }

    /// The allocator.
    #[must_use]
    pub fn allocator(&self) -> &Allocator<'m> {
        &self.allocator
    }

    /// What the machine brings.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The kernel.
    #[must_use]
    pub fn kernel(&self) -> &'m Kernel {
        self.kernel
    }

    /// The entries of all pages.
    #[must_use]
    pub fn pages(&self) -> &PageTable {
        &self.pages
    }

    /// The LRU lists.
    #[must_use]
    pub fn lru(&self) -> &Lru {
        &self.lru
    }

    /// The files and mappings.
    #[must_use]
    pub fn spaces(&self) -> &Spaces {
        &self.spaces
    }

    /// The inodes.
    #[must_use]
    pub fn inodes(&self) -> &Inodes {
        &self.inodes
    }

    /// The slab caches.
    #[must_use]
    pub fn slabs(&self) -> &Slabs {
        &self.slabs
    }

    /// What each node's background threads know.
    #[must_use]
    pub fn nodes(&self) -> &[NodeState] {
        &self.nodes
    }

    /// Takes what was done since the last call.
    pub fn take_work(&mut self) -> Work {
        std::mem::take(&mut self.work)
    }

    /// The node of a frame, as a place among the nodes.
    pub(crate) fn node_of(&self, pfn: u32) -> usize {
        match self.pages[pfn].zone {
            NO_ZONE => 0,
            zone => usize::from(self.node_of_zone[usize::from(zone)]),
        }
    }

    /// The places of a node's zones, lowest first.
    pub(crate) fn zones_of(&self, node: usize) -> impl Iterator<Item = usize> + use<'_, 'm, O> {
        (0..self.node_of_zone.len()).filter(move |&z| usize::from(self.node_of_zone[z]) == node)
    }

    /// The place of the node of a CPU.
    #[must_use]
    pub fn node_of_cpu(&self, cpu_node: u8) -> usize {
        self.nodes.iter().position(|n| n.id == cpu_node).unwrap_or(0)
    }

    /// Tries the fast path for a request. The block is nobody's yet: give it to an owner at once.
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

    /// Says that a request finally failed.
    pub fn report_failure(&mut self, cpu: usize, request: &Request) {
        // A request that is no request was refused before.
        let _ = with_hook!(self, allocator, hook => allocator.report_failure(CpuId(cpu), request, hook));
    }

    /// Gives a block that was just allocated to the kernel or a driver: page tables, stacks, buffers.
    pub fn own(&mut self, pfn: Pfn, order: Order, kind: Owner, owner: u32) {
        debug_assert!(!kind.is_lru() && kind != Owner::Slab);
        self.pages[pfn.0 as u32].give(kind, order, owner, 0);
    }

    /// Frees a block of the kernel's or a driver's.
    ///
    /// # Panics
    /// Where the block is not in use: a frame freed twice is a defect of the simulation.
    pub fn disown(&mut self, cpu: usize, pfn: Pfn) {
        let order = self.pages[pfn.0 as u32].order();
        self.free_block(cpu, pfn.0 as u32, order);
    }

    /// Gives a block back to the allocator, whoever owned it.
    pub(crate) fn free_block(&mut self, cpu: usize, pfn: u32, order: Order) {
        self.pages[pfn].disown();
        let freed = with_hook!(self, allocator, hook => allocator.free(CpuId(cpu), Pfn(pfn.into()), order, hook));
        if let Err(error) = freed {
            panic!("freeing frame {pfn} of order {order}: {error}");
        }
    }

    /// Makes a slab cache, or finds the one of this name and size.
    pub fn create_cache(&mut self, spec: CacheSpec) -> CacheId {
        if let Some(id) = self.slabs.caches().iter().position(|cache| cache.spec == spec) {
            return id as CacheId;
        }
        let cpus = self.allocator().cpus();
        self.slabs.create(spec, self.config.slab, cpus, self.nodes.len())
    }

    /// Takes an object of a cache for a CPU; `None` where it needs a new slab.
    pub fn take_object(&mut self, cache: CacheId, cpu: usize, node: usize) -> Option<u32> {
        self.slabs.take(&mut self.pages, cache, cpu, node)
    }

    /// Makes a block that was just allocated a slab.
    pub fn add_slab(&mut self, cache: CacheId, cpu: usize, pfn: Pfn, order: Order) {
        let nodes = &self.node_of_zone;
        let node = |pages: &PageTable, pfn: u32| usize::from(nodes[usize::from(pages[pfn].zone)]);
        self.slabs.add(&mut self.pages, cache, cpu, pfn.0 as u32, order, node);
    }

    /// Frees an object; a slab that is empty then may go.
    pub fn put_object(&mut self, cpu: usize, object: u32) {
        let nodes = &self.node_of_zone;
        let node = |pages: &PageTable, pfn: u32| usize::from(nodes[usize::from(pages[pfn].zone)]);
        for empty in self.slabs.put(&mut self.pages, object, cpu, node) {
            self.free_block(cpu, empty.pfn, empty.order);
        }
    }

    /// Takes the requests to wake kswapd that came from watermark boosts (from 5.0): places of nodes.
    pub fn take_boost_wakes(&mut self) -> Vec<usize> {
        let woken = |n: &mut NodeState| n.kswapd.take_boost_wake();
        let nodes = self.nodes.iter_mut().enumerate();
        nodes.filter_map(|(at, node)| woken(node).then_some(at)).collect()
    }
}
