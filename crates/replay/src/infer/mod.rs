//! Infers the start state of a recording whose snapshot comes from `/proc` of the running machine. Such a snapshot
//! does not contain the pages on CPU lists, the types of pageblocks, or the order of lists. They are inferred from
//! what the events take first.
//!
//! * The state is that before the first event. A page that was touched before or during the snapshot was then what
//!   its first event implies; all others are as the snapshot says.
//! * A page that is allocated or drained before anything put it on a CPU list was on one: the sooner it is
//!   allocated, the nearer to the head; the sooner it is drained, the nearer to the tail.
//! * A task may drain the lists of other CPUs: a page that it drains right after those of one CPU was on a list of
//!   that CPU.
//! * A list that a refill found empty has no pages that no event touches.
//! * A pageblock has the type of the list that a block of it first leaves or reaches (from 6.10 they are the same),
//!   and the type of the request that takes a block again which the same CPU freed.
//! * A free block is the nearer to the head of its list the sooner it is taken.
//!
//! A place that is inferred from a decision cannot judge that decision; such cases are counted separately.

mod cpu_lists;
mod fill;
mod moment;
mod rest_of_block;
mod without_snapshot;

use std::collections::{BTreeMap, BTreeSet};

use pageblock::frame::{FrameRange, Order, Pfn};
use pageblock::mobility::Migratetype::{self, Movable, Unmovable};
use pageblock::zone::Geometry;
use pageblock_recording::{
    BlockInfo, Columnar, FreeBlock, PageUse, Recording, Snapshot, UsedRange, What, ZoneSnapshot,
};

use self::cpu_lists::COSTLY_ORDER;
use self::moment::Counters;
pub use self::without_snapshot::complete;
use crate::error::Error;
use crate::holes;
use crate::look_ahead::CpuListOrders;

/// A start state, and which of its parts were inferred.
#[derive(Default)]
pub struct Start {
    /// The state: complete, but not exact where it was inferred.
    pub snapshot: Snapshot,
    /// Frames of blocks whose place on a list was inferred.
    pub inferred: Vec<Pfn>,
    /// The first frames of pageblocks whose type no event tells.
    pub guessed: Vec<Pfn>,
    /// The first event after the limits of the CPU lists were read, if it is not the very first.
    pub limits_read_before: Option<u64>,
    /// Notes for the reader.
    pub notes: Vec<String>,
}

/// Returns the first event after the start state. An inferred state is that before all events.
#[must_use]
pub fn first_event(recording: &Recording, columnar: &Columnar) -> u64 {
    if recording.start.exact { columnar.windows.start_event() } else { 0 }
}

/// Returns the start state of a recording.
///
/// # Errors
/// If the events cannot be read.
pub fn start(
    recording: &Recording,
    columnar: &Columnar,
    orders: CpuListOrders,
) -> Result<Start, Error> {
    if recording.start.exact {
        let snapshot = recording.start.clone();
        return Ok(Start { snapshot, ..Start::default() });
    }
    if !recording.start_known {
        return without_snapshot::start(recording, columnar, orders);
    }
    let markers = columnar.windows.start.markers.clone();
    let mut evidence = Evidence::new(recording, markers.end, orders);
    let window = first_event(recording, columnar)..columnar.end_event();
    let mut chunks = columnar.chunks()?;
    let mut event = 0;
    while let Some(chunk) = chunks.next_chunk()? {
        for record in chunk {
            if window.contains(&event) {
                evidence.push(event, record.cpu, record.pid, &record.what);
                if event < markers.end {
                    evidence.counters.push(event, record.cpu, &record.what, &recording.start);
                }
            }
            event += 1;
        }
    }
    Ok(evidence.conclude(recording, markers.start))
}

/// A page on a CPU list at the start.
struct Listed {
    pfn: Pfn,
    order: Order,
    mt: Migratetype,
}

/// What a frame was before the snapshot. A table of zeros takes no memory until it is written.
const UNKNOWN: u8 = 0;
const IN_USE: u8 = 1;
const FREE: u8 = 2;

/// What the events tell about the state before them.
struct Evidence {
    /// Whether an event told where the frame was at the start.
    touched: Vec<bool>,
    /// What the frame was, for events that may be older than the snapshot.
    before_snapshot: Vec<u8>,
    /// The first event after the snapshot.
    snapshot_end: u64,
    counters: Counters,
    /// The event that first takes the frame from the free lists, plus one.
    taken: Vec<u64>,
    /// The order for which it was taken.
    asked: Vec<Order>,
    /// By pageblock.
    types: Vec<Option<Migratetype>>,
    /// By CPU: the blocks allocated from its lists, in order, and those drained from them, in order.
    heads: BTreeMap<u16, Vec<Listed>>,
    tails: BTreeMap<u16, Vec<Listed>>,
    /// The pageblock whose type the last event of each CPU told, and its frame.
    told: BTreeMap<u16, (usize, Pfn)>,
    /// By frame: the CPU whose list it reached last, plus one.
    holder: Vec<u16>,
    /// Whether the frame was freed to that list, and has been there since.
    freed: Vec<bool>,
    /// By task: the CPU whose lists it drained last.
    drains: BTreeMap<u32, u16>,
    zones: Vec<FrameRange>,
    /// The lists of pages that a refill found empty: CPU, zone, type.
    ran_out: BTreeSet<(u16, u16, Migratetype)>,
    /// The lists of blocks of an order above 0 that a refill found empty: CPU, zone, order.
    blocks_ran_out: BTreeSet<(u16, u16, Order)>,
    pageblock_order: Order,
}

impl Evidence {
    fn new(recording: &Recording, snapshot_end: u64, orders: CpuListOrders) -> Self {
        let end = recording.start.end_pfn().0 as usize;
        let blocks = (end >> recording.pageblock_order) + 1;
        Self {
            touched: vec![false; end],
            before_snapshot: vec![UNKNOWN; end],
            snapshot_end,
            counters: Counters::new(orders),
            taken: vec![0; end],
            asked: vec![0; end],
            types: vec![None; blocks],
            heads: BTreeMap::new(),
            tails: BTreeMap::new(),
            told: BTreeMap::new(),
            holder: vec![0; end],
            freed: vec![false; end],
            drains: BTreeMap::new(),
            zones: recording.start.zones.iter().map(ZoneSnapshot::span).collect(),
            ran_out: BTreeSet::new(),
            blocks_ran_out: BTreeSet::new(),
            pageblock_order: recording.pageblock_order,
        }
    }

    fn push(&mut self, event: u64, cpu: u16, pid: u32, what: &What) {
        let told = self.told.remove(&cpu);
        match *what {
            What::ZoneLocked { pfn, order, mt, refill } => {
                if self.learn(pfn, mt) {
                    self.told.insert(cpu, (self.block(pfn), pfn));
                }
                self.take(event, pfn, order);
                self.lies_freed(pfn, false);
                if refill {
                    self.hold(cpu, pfn);
                    let zone = self.zones.iter().position(|z| (z.start..z.end).contains(&pfn));
                    if let Some(zone) = zone.map(|zone| zone as u16) {
                        match order {
                            0 => drop(self.ran_out.insert((cpu, zone, mt))),
                            _ => drop(self.blocks_ran_out.insert((cpu, zone, order))),
                        }
                    }
                }
            }
            What::Extfrag(x) => {
                let block = self.block(x.pfn);
                // A claim first reports the page under its new type.
                if told == Some((block, x.pfn)) && x.change_ownership {
                    self.types[block] = Some(x.fallback_migratetype);
                }
                self.learn(x.pfn, x.fallback_migratetype);
                self.take(event, x.pfn, x.alloc_order);
            }
            What::Alloc { pfn: Some(pfn), order, mt, .. } => {
                if self.reused(cpu, pfn) {
                    self.learn(pfn, mt);
                }
                if self.first(event, pfn, order, false) {
                    self.heads.entry(cpu).or_default().push(Listed { pfn, order, mt });
                }
            }
            What::Drain { pfn, order, mt } => {
                self.learn(pfn, mt);
                self.lies_freed(pfn, false);
                let first = self.first(event, pfn, order, false);
                let owner = self.drained(cpu, pid, pfn, first);
                if first {
                    self.tails.entry(owner).or_default().push(Listed { pfn, order, mt });
                }
            }
            What::Free { pfn, order } => {
                self.first(event, pfn, order, false);
                self.hold(cpu, pfn);
                self.lies_freed(pfn, order <= COSTLY_ORDER);
                // What it drains now belongs to this CPU.
                self.drains.remove(&pid);
            }
            _ => {}
        }
    }

    /// Notes that a block reaches a CPU's list.
    fn hold(&mut self, cpu: u16, pfn: Pfn) {
        if let Some(slot) = self.holder.get_mut(pfn.0 as usize) {
            *slot = cpu.saturating_add(1);
        }
    }

    fn lies_freed(&mut self, pfn: Pfn, lies: bool) {
        if let Some(slot) = self.freed.get_mut(pfn.0 as usize) {
            *slot = lies;
        }
    }

    /// Notes that a block is allocated. Returns whether it came from a list of the CPU that freed it, whose type is
    /// then that of the block's pageblock.
    fn reused(&mut self, cpu: u16, pfn: Pfn) -> bool {
        let at = pfn.0 as usize;
        let freed = self.freed.get_mut(at).is_some_and(std::mem::take);
        freed && self.holder[at] == cpu.saturating_add(1)
    }

    /// Returns the CPU whose list contained a block that a task drains. For a block that was there at the start
    /// (`first`), the task's earlier drains tell.
    fn drained(&mut self, cpu: u16, pid: u32, pfn: Pfn, first: bool) -> u16 {
        let held = self.holder.get(pfn.0 as usize).and_then(|slot| slot.checked_sub(1));
        let before = self.drains.get(&pid).copied();
        let owner = held.filter(|_| !first).or(before).unwrap_or(cpu);
        self.drains.insert(pid, owner);
        owner
    }

    fn block(&self, pfn: Pfn) -> usize {
        (pfn.0 >> self.pageblock_order) as usize
    }

    /// Notes a pageblock's type if it was not known. Returns whether it was not.
    fn learn(&mut self, pfn: Pfn, mt: Migratetype) -> bool {
        let block = self.block(pfn);
        match self.types.get_mut(block) {
            Some(slot @ None) => {
                *slot = Some(mt);
                true
            }
            _ => false,
        }
    }

    /// Marks the frames of a block as free or not before this event. Returns whether its first frame had not been
    /// marked before.
    fn first(&mut self, event: u64, pfn: Pfn, order: Order, free: bool) -> bool {
        let start = pfn.0 as usize;
        let end = (start + (1 << order)).min(self.touched.len());
        if event < self.snapshot_end {
            for state in self.before_snapshot.get_mut(start..end).unwrap_or_default() {
                if *state == UNKNOWN {
                    *state = if free { FREE } else { IN_USE };
                }
            }
        }
        let Some(frames) = self.touched.get_mut(start..end) else { return false };
        let first = frames.first().is_some_and(|touched| !touched);
        frames.fill(true);
        first
    }

    fn take(&mut self, event: u64, pfn: Pfn, order: Order) {
        if self.first(event, pfn, order, true)
            && let Some(slot) = self.taken.get_mut(pfn.0 as usize)
        {
            *slot = event + 1;
            self.asked[pfn.0 as usize] = order;
        }
    }

    fn conclude(mut self, recording: &Recording, since: u64) -> Start {
        let mut snapshot = recording.start.clone();
        holes::forget(&mut snapshot, self.pageblock_order);
        let read = self.go_back(&mut snapshot, since);
        let guessed = self.guess_types(&snapshot);
        self.give_each_block_one_type(&snapshot);
        let mut inferred = self.order_lists(&mut snapshot);
        let known = self.fill_cpu_lists(&mut snapshot);
        inferred.extend(snapshot.pcp.iter().map(|page| page.pfn));
        let told = format!(
            "the start state is inferred, as the snapshot is from /proc: {} free blocks were put in \
             the order in which they are taken, {known} pages on CPU lists; decisions on those are \
             counted apart, as inferred",
            inferred.len() - snapshot.pcp.len(),
        );
        Start { snapshot, inferred, guessed, limits_read_before: Some(read), notes: vec![told] }
    }

    /// Changes a snapshot into the state before the first event. `since` is its first marker. Returns the first
    /// event after the kernel's counters were read.
    fn go_back(&self, snapshot: &mut Snapshot, since: u64) -> u64 {
        let mut free = free_frames(snapshot, self.touched.len());
        for (pfn, state) in self.before_snapshot.iter().enumerate() {
            if *state == UNKNOWN {
                continue;
            }
            let is_free = *state == FREE;
            if free[pfn] && !is_free {
                let (state, pfn) = (PageUse::KernelOrPcp, Pfn(pfn as u64));
                snapshot.used.push(UsedRange { state, pfn, count: 1 });
            }
            free[pfn] = is_free;
        }
        snapshot.free = free_blocks(snapshot, &free);
        let mut pages = vec![0; snapshot.zones.len()];
        for block in &snapshot.free {
            pages[usize::from(block.zone)] += 1 << block.order;
        }
        let (read, listed) = self.counters.listed_when_read(snapshot, pages, since);
        for info in &mut snapshot.pcpinfo {
            let more = listed.get(&(info.cpu, info.zone)).copied().unwrap_or(0);
            info.count = info.count.saturating_add_signed(-more);
        }
        read
    }

    /// Sets every pageblock's type. If no event tells it, the pageblock is movable unless only the kernel uses it.
    /// Returns the pageblocks without such an event.
    fn guess_types(&mut self, snapshot: &Snapshot) -> Vec<Pfn> {
        let mut kernel = vec![false; self.types.len()];
        let mut movable = vec![false; self.types.len()];
        for used in &snapshot.used {
            let by_kernel = match used.state {
                PageUse::Slab | PageUse::PageTable | PageUse::Kernel => true,
                PageUse::File | PageUse::Anon | PageUse::Shmem | PageUse::OtherLru => false,
                _ => continue,
            };
            let last = Pfn(used.pfn.0 + used.count.saturating_sub(1));
            for block in self.block(used.pfn)..=self.block(last) {
                let seen = if by_kernel { &mut kernel } else { &mut movable };
                if let Some(slot) = seen.get_mut(block) {
                    *slot = true;
                }
            }
        }
        let mut guessed = Vec::new();
        for (block, slot) in self.types.iter_mut().enumerate() {
            if slot.is_none() {
                let by_kernel = kernel[block] && !movable[block];
                *slot = Some(if by_kernel { Unmovable } else { Movable });
                guessed.push(Pfn((block as u64) << self.pageblock_order));
            }
        }
        guessed
    }

    /// Gives all pageblocks of a free block the type of its first one: it is on one list. A claim takes the first page, so what
    /// events tell of the others first is the type that the claim gave them.
    fn give_each_block_one_type(&mut self, snapshot: &Snapshot) {
        for block in snapshot.free.iter().filter(|block| block.order > self.pageblock_order) {
            let first = self.block(block.pfn);
            let pageblocks = 1 << (block.order - self.pageblock_order);
            let mt = self.types[first];
            self.types[first..][..pageblocks].fill(mt);
        }
    }

    fn type_of(&self, pfn: Pfn) -> Migratetype {
        self.types.get(self.block(pfn)).copied().flatten().unwrap_or(Movable)
    }

    /// Orders the free lists. Returns the blocks whose place is inferred.
    fn order_lists(&self, snapshot: &mut Snapshot) -> Vec<Pfn> {
        let taken = |pfn: Pfn, order: Order| {
            let start = pfn.0 as usize;
            let frames = self.taken.get(start..start + (1 << order)).unwrap_or_default();
            frames.iter().copied().filter(|&event| event > 0).min().unwrap_or(u64::MAX)
        };
        let mut inferred = Vec::new();
        for block in &mut snapshot.free {
            block.mt = Some(self.type_of(block.pfn));
            if taken(block.pfn, block.order) != u64::MAX {
                inferred.push(block.pfn);
            }
        }
        snapshot.free.sort_by_key(|block| taken(block.pfn, block.order));
        for (at, zone) in snapshot.zones.iter().enumerate() {
            let span = zone.span();
            let pages = 1 << self.pageblock_order;
            let first = span.start.align_down(self.pageblock_order).0;
            for pfn in (first..span.end.0).step_by(pages).map(Pfn) {
                let mt = Some(self.type_of(pfn));
                snapshot.blocks.push(BlockInfo { zone: at as u16, pfn, mt, skip: false });
            }
        }
        inferred
    }
}

/// Returns the frames in free blocks.
fn free_frames(snapshot: &Snapshot, frames: usize) -> Vec<bool> {
    let mut free = vec![false; frames];
    for block in &snapshot.free {
        let start = block.pfn.0 as usize;
        free[start..start + (1 << block.order)].fill(true);
    }
    free
}

/// Returns the blocks that free frames form: free buddies are merged.
fn free_blocks(snapshot: &Snapshot, free: &[bool]) -> Vec<FreeBlock> {
    let max_order = Geometry::default().max_order;
    let mut blocks = Vec::new();
    for (at, zone) in snapshot.zones.iter().enumerate() {
        let mut pfn = zone.span().start;
        while pfn < zone.span().end {
            let is_free = |order: Order| {
                let end = (pfn.0 + (1 << order)) as usize;
                pfn.is_aligned(order)
                    && Pfn(end as u64) <= zone.span().end
                    && free[pfn.0 as usize..end].iter().all(|&free| free)
            };
            let order = (0..=max_order).take_while(|&order| is_free(order)).last();
            if let Some(order) = order {
                blocks.push(FreeBlock { zone: at as u16, order, mt: None, pfn });
            }
            pfn = Pfn(pfn.0 + (1 << order.unwrap_or(0)));
        }
    }
    blocks
}

#[cfg(test)]
mod tests;
