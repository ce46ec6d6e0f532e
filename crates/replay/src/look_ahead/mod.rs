//! Finds the destination of each freed page by looking ahead: the recording says that a page is freed, but not when
//! it reaches a list, or which.
//!
//! * A page that is freed in a batch reaches its CPU list with the later `mm_page_free_batched`.
//! * A page whose next event takes it from the buddy lists, without a drain in between, never was on a CPU list:
//!   the trylock failed, so it went straight to the zone.
//! * From 6.10 compaction reports a free of target pages that it keeps. It frees the remaining ones all at once
//!   before it ends. Without a probe on isolation the replay decides which pages it may keep.
//! * From 7.2 consecutive pages that are freed one by one, such as those of a stack, reach a list as larger blocks
//!   (`__free_contig_range`).

mod bypass;
mod delayed;
mod destination;
mod kswapd;
mod reserve;
mod reuse;
mod tick;
mod untraced;

use std::collections::{BTreeMap, BTreeSet};

use pageblock::frame::{Order, Pfn};
use pageblock::mobility::Migratetype;
use pageblock_recording::{PageUse, Record, Snapshot, What};

use self::bypass::{BypassFinder, PossibleBypass};
use self::delayed::{DelayedFinder, LateReport, LeftBy};
pub use self::destination::{Destination, LookAhead, Taken};
use self::kswapd::KswapdFinder;
use self::reserve::ReserveFinder;
use self::reuse::ReuseFinder;
use self::tick::TickFinder;
pub use self::tick::{PERIOD_US, Ticks};
pub use self::untraced::Untraced;
use self::untraced::UntracedFinder;

/// The last free of each frame's block, until something else happens to it: the index of the event plus one (0 if
/// nothing is pending), the index of the event that ended its batch plus one, and whether the freeing task compacts
/// and may keep it. A tuple of zeros consists of zero bytes, so the table takes no memory for frames without
/// events.
type Pending = (u64, u64, bool);

/// Finds the destination of each freed page, in one pass.
pub struct LookAheadFinder {
    /// The event under way.
    now: u64,
    /// The last event showing that compaction may have isolated free pages.
    last_isolation: u64,
    look_ahead: LookAhead,
    pending: Vec<Pending>,
    orders: CpuListOrders,
    compaction_keeps: bool,
    compacting: BTreeSet<u32>,
    /// The blocks that each task isolated since its last scan of a pageblock: event and pages.
    isolated: BTreeMap<u32, Vec<(u64, u64)>>,
    /// The task that last isolated each free page, plus one. If the recording has this, compaction keeps no other
    /// page.
    isolated_by: Vec<u32>,
    /// The block that each task just took from another type's list, as a whole.
    stolen: BTreeMap<u32, (Pfn, Order)>,
    /// Frees by compacting tasks, until it is known that the recording has isolation.
    unproven: Vec<u64>,
    /// The blocks that each task just freed at once from those it had isolated: events and blocks.
    released: BTreeMap<u32, Vec<(u64, Pfn, Order)>>,
    delayed: DelayedFinder,
    untraced: UntracedFinder,
    untraced_listed: UntracedFinder,
    bypassed: BypassFinder,
    ticks: TickFinder,
    kswapd: KswapdFinder,
    reserve: ReserveFinder,
    reuse: ReuseFinder,
    /// The blocks with which each CPU just refilled a list: the task and the events.
    refills: BTreeMap<u16, (u32, Vec<u64>)>,
}

/// The orders that have CPU lists.
#[derive(Clone, Copy, Debug)]
pub struct CpuListOrders {
    /// All orders up to this one.
    pub up_to: Order,
    /// And this one.
    pub and: Option<Order>,
}

impl CpuListOrders {
    pub(crate) fn has(self, order: Order) -> bool {
        order <= self.up_to || self.and == Some(order)
    }
}

impl LookAheadFinder {
    /// Creates a finder for the frames of the start snapshot. `compaction_keeps`: the kernel's compaction reports a
    /// free of pages that it keeps (6.10 and later). `workers`: the kernel's tasks that work for one CPU.
    #[must_use]
    pub fn new(
        start: &Snapshot,
        pageblock_order: Order,
        orders: CpuListOrders,
        compaction_keeps: bool,
        workers: BTreeSet<u32>,
    ) -> Self {
        let pending = vec![Pending::default(); start.end_pfn().0 as usize];
        let isolated_by = vec![0; pending.len()];
        let look_ahead = LookAhead::default();
        let mut delayed = DelayedFinder::new(start.end_pfn(), pageblock_order);
        for block in &start.blocks {
            if let Some(mt) = block.mt {
                delayed.block_type(block.pfn, mt);
            }
        }
        Self {
            now: 0,
            last_isolation: 0,
            look_ahead,
            pending,
            orders,
            compaction_keeps,
            compacting: BTreeSet::new(),
            isolated: BTreeMap::new(),
            isolated_by,
            stolen: BTreeMap::new(),
            unproven: Vec::new(),
            released: BTreeMap::new(),
            delayed,
            untraced: UntracedFinder::new(start),
            untraced_listed: UntracedFinder::without(start),
            bypassed: BypassFinder::default(),
            ticks: TickFinder::new(workers),
            kswapd: KswapdFinder::default(),
            reserve: ReserveFinder::new(start, pageblock_order),
            reuse: ReuseFinder::new(start),
            refills: BTreeMap::new(),
        }
    }

    /// Follows the event of index `event`. Events come in order.
    pub fn push(&mut self, event: u64, record: &Record) {
        self.ticks.event(record);
        self.kswapd.event(event, record);
        self.reuse.event(event, record);
        if self.compaction_keeps {
            self.reserve.event(event, record);
        }
        self.find_delayed(event, record);
        self.find_bulk(event, record);
        self.find_untraced(event, &record.what);
        self.bypassed.event(event, record);
        self.now = event;
        match &record.what {
            What::Free { pfn, order } => self.free(event, record.pid, *pfn, *order),
            What::FreeBatched { pfn } => {
                if let Some(slot) = self.pending.get_mut(pfn.0 as usize)
                    && slot.0 > 0
                {
                    slot.1 = event + 1;
                    self.look_ahead.set(slot.0 - 1, Destination::Batched);
                }
            }
            What::Drain { pfn, order, .. } | What::Alloc { pfn: Some(pfn), order, .. } => {
                self.join(*pfn, *order);
                self.settle(*pfn, *order, Destination::Listed);
            }
            What::ZoneLocked { pfn, order, .. } => self.settle(*pfn, *order, Destination::Direct),
            What::Extfrag(x) => {
                // From 6.10 a claim names the block that it takes, not the one that it found.
                let found = !self.compaction_keeps
                    || !x.change_ownership
                    || x.pfn.is_aligned(self.orders.and.unwrap_or(0));
                let order = if found { x.fallback_order } else { x.alloc_order };
                if x.alloc_order == x.fallback_order && !x.change_ownership {
                    // If compaction captured the block, the page that completed it is reported next.
                    let before = self.stolen.insert(record.pid, (x.pfn, order));
                    if let Some((pfn, order)) = before {
                        self.settle(pfn, order, Destination::Direct);
                    }
                } else {
                    self.settle(x.pfn, order, Destination::Direct);
                }
            }
            What::Isolate { pfn, order, ret } if *ret > 0 => {
                self.settle(*pfn, *order, Destination::Direct);
                self.look_ahead.isolation = true;
                for event in std::mem::take(&mut self.unproven) {
                    self.look_ahead.set(event, Destination::Listed);
                }
                let pages = pfn.0 as usize..(pfn.0 + (1 << order)) as usize;
                let pages = self.isolated_by.get_mut(pages).unwrap_or_default();
                pages.fill(record.pid.wrapping_add(1));
                self.isolated.entry(record.pid).or_default().push((event, 1 << order));
            }
            What::Other(other) if &*other.name == "mm_compaction_isolate_freepages" => {
                self.last_isolation = event;
                self.scanned(record.pid, other.number("nr_taken").unwrap_or(0) as u64);
            }
            What::Other(other) if &*other.name == "mm_compaction_fast_isolate_freepages" => {
                self.last_isolation = event;
            }
            What::Other(other) if &*other.name == "mm_compaction_begin" => {
                self.compacting.insert(record.pid);
            }
            What::Other(other) if &*other.name == "mm_compaction_end" => {
                self.compacting.remove(&record.pid);
                self.release(record.pid);
            }
            _ => {}
        }
        if let Some((pfn, order)) = self.stolen.get(&record.pid).copied()
            && !matches!(record.what, What::Extfrag(_))
        {
            self.stolen.remove(&record.pid);
            self.settle(pfn, order, Destination::Direct);
        }
        if !matches!(record.what, What::Free { .. } | What::Drain { .. }) {
            self.released.remove(&record.pid);
        }
    }

    /// Follows `mm_page_free`. The destination of the block is not known yet.
    fn free(&mut self, event: u64, pid: u32, pfn: Pfn, order: Order) {
        self.settle(pfn, order, Destination::Kept);
        let compacting = self.may_keep(pid, pfn);
        if compacting {
            self.look_ahead.set(event, Destination::Kept);
            if !self.look_ahead.isolation {
                self.unproven.push(event);
            }
            self.released.entry(pid).or_default().push((event, pfn, order));
        }
        if self.orders.has(order)
            && let Some(slot) = self.pending.get_mut(pfn.0 as usize)
        {
            *slot = (event + 1, 0, compacting);
        }
    }

    /// Releases the blocks that compaction isolated and did not use.
    fn release(&mut self, pid: u32) {
        for (event, pfn, order) in self.released.remove(&pid).unwrap_or_default() {
            self.look_ahead.set(event, Destination::Listed);
            let pages = pfn.0 as usize..(pfn.0 + (1 << order)) as usize;
            self.isolated_by.get_mut(pages.clone()).unwrap_or_default().fill(0);
            for slot in self.pending.get_mut(pages).unwrap_or_default() {
                slot.2 = false;
            }
        }
    }

    /// Returns whether a task may keep a page that it reports free.
    fn may_keep(&self, pid: u32, pfn: Pfn) -> bool {
        let isolated = self.isolated_by.get(pfn.0 as usize) == Some(&pid.wrapping_add(1));
        self.compaction_keeps
            && self.compacting.contains(&pid)
            && (isolated || !self.look_ahead.isolation)
    }

    fn find_untraced(&mut self, event: u64, what: &What) {
        match *what {
            What::Free { pfn, order } => {
                self.untraced.in_use(event, pfn, order);
                self.untraced_listed.in_use(event, pfn, order);
                let listed = self.orders.has(order);
                let lists = if listed { &mut self.untraced_listed } else { &mut self.untraced };
                lists.put(event, pfn, order);
            }
            What::Drain { pfn, order, .. } => {
                self.untraced_listed.take(pfn, order);
                self.untraced.put(event, pfn, order);
            }
            What::ZoneLocked { pfn, order, refill, .. } => {
                self.untraced.take(pfn, order);
                if refill {
                    self.untraced_listed.put(event, pfn, order);
                }
            }
            What::Alloc { pfn: Some(pfn), order, .. } => {
                self.untraced.take(pfn, order);
                self.untraced_listed.take(pfn, order);
            }
            What::Extfrag(x) if !x.change_ownership || self.compaction_keeps => {
                self.untraced.take(x.pfn, x.alloc_order);
            }
            _ => {}
        }
    }

    fn find_bulk(&mut self, event: u64, record: &Record) {
        let of_cpu = self.refills.entry(record.cpu).or_default();
        if of_cpu.0 != record.pid {
            *of_cpu = (record.pid, Vec::new());
        }
        match record.what {
            What::ZoneLocked { .. } | What::Extfrag(_) => of_cpu.1.push(event),
            What::Bulk { pages: 2.. } => {
                let events = std::mem::take(&mut of_cpu.1);
                events
                    .into_iter()
                    .for_each(|event| self.look_ahead.set(event, Destination::ForBulk));
            }
            _ => of_cpu.1.clear(),
        }
    }

    fn find_delayed(&mut self, event: u64, record: &Record) {
        let (cpu, pid) = (record.cpu, record.pid);
        self.delayed.event(event, cpu, pid);
        let finding = match record.what {
            What::Free { pfn, order } if self.orders.has(order) => {
                self.delayed.free(event, cpu, pfn, order);
                None
            }
            What::FreeBatched { pfn } => {
                self.delayed.batched(cpu, pfn);
                None
            }
            What::ZoneLocked { pfn, order, mt, .. } => {
                self.delayed.refilled(cpu, pid, pfn, order, mt);
                None
            }
            What::Alloc { pfn: Some(pfn), order, mt, .. } => {
                let found = self.delayed.left(LeftBy::Taken, cpu, pid, pfn, (order, mt));
                match found {
                    Some(LateReport::TakenBefore(since)) => self.note_taken(since, pid, pfn, true),
                    Some(LateReport::MaybeTakenBefore(since)) => {
                        self.note_taken(since, pid, pfn, false);
                    }
                    _ => {}
                }
                found
            }
            What::Extfrag(ref x) if x.change_ownership => {
                self.delayed.range_type(x.pfn, x.fallback_order, x.alloc_migratetype);
                None
            }
            What::Drain { pfn, order, mt } => {
                if self.compaction_keeps {
                    self.delayed.block_type(pfn, mt);
                }
                self.delayed.left(LeftBy::Drained, cpu, pid, pfn, (order, mt))
            }
            _ => None,
        };
        if let Some(LateReport::FreedLate(free)) = finding {
            self.look_ahead.set(free, Destination::Delayed);
            self.look_ahead.freed_delayed += 1;
        }
    }

    fn note_taken(&mut self, since: u64, pid: u32, pfn: Pfn, sure: bool) {
        self.look_ahead.taken.entry(since).or_default().push(Taken { pid, pfn, sure });
    }

    /// Follows a scan of a pageblock, which took the last `taken` pages that its task isolated. The fast search
    /// found the earlier ones.
    fn scanned(&mut self, pid: u32, mut taken: u64) {
        for (event, pages) in self.isolated.remove(&pid).unwrap_or_default().into_iter().rev() {
            if taken >= pages {
                taken -= pages;
            } else {
                self.look_ahead.set(event, Destination::Sought);
            }
        }
    }

    /// Joins the pages of a block that leaves a CPU list: if they were freed one by one, they reached the list
    /// together.
    fn join(&mut self, pfn: Pfn, order: Order) {
        let start = pfn.0 as usize;
        let pages = self.pending.get(start..start + (1 << order)).unwrap_or_default();
        let in_a_row = |pair: &[Pending]| pair[0].0 < pair[1].0;
        let one_by_one = pages.iter().all(|&(event, batch, _)| event > 0 && batch == 0);
        if order == 0 || !one_by_one || !pages.windows(2).all(in_a_row) {
            return;
        }
        let events: Vec<u64> = pages.iter().map(|page| page.0 - 1).collect();
        for (n, &event) in events.iter().enumerate() {
            let last = n + 1 == events.len();
            self.look_ahead
                .set(event, if last { Destination::Joined(order) } else { Destination::Part });
        }
    }

    /// Settles the frees of a block's frames by the event after them, which shows where they went.
    fn settle(&mut self, pfn: Pfn, order: Order, destination: Destination) {
        let start = pfn.0 as usize;
        let end = (start + (1usize << order)).min(self.pending.len());
        for at in start..end {
            let (event, batch, compacting) = std::mem::take(&mut self.pending[at]);
            let page = Pfn(at as u64);
            let doubt = self.bypassed.settle(page);
            if let Some(doubt) = doubt.filter(|doubt| doubt.freed + 1 == event)
                && (destination == Destination::Direct
                    || destination == Destination::Kept && self.may_be_isolated(page, doubt))
            {
                self.look_ahead.bypass(page, doubt);
                if destination == Destination::Kept {
                    self.untraced.stayed(page, doubt.before, self.now);
                }
                continue;
            }
            match destination {
                _ if event == 0 => {}
                Destination::Listed if compacting && batch == 0 => {
                    self.look_ahead.set(event - 1, destination);
                }
                Destination::Direct if batch > 0 => self.look_ahead.set(batch - 1, destination),
                Destination::Direct => self.look_ahead.set(event - 1, destination),
                Destination::Kept if compacting && batch == 0 => {
                    self.look_ahead.set(event - 1, destination);
                }
                _ => {}
            }
        }
    }

    /// Returns whether a page that bypassed its CPU list may have left the free lists since without an event. Only
    /// compaction takes pages in this way, and not from unmovable pageblocks.
    fn may_be_isolated(&self, pfn: Pfn, doubt: PossibleBypass) -> bool {
        !self.look_ahead.isolation
            && self.last_isolation > doubt.before
            && self.delayed.type_of(pfn) != Some(Migratetype::Unmovable)
    }

    /// Settles pages that are in use at the end without an event since their free: they were isolated.
    fn settle_used(&mut self, end: Option<&Snapshot>) {
        let doubts = self.bypassed.rest();
        for used in end.map(|end| end.used.as_slice()).unwrap_or_default() {
            if matches!(used.state, PageUse::KernelOrPcp | PageUse::Kernel | PageUse::Reserved) {
                continue;
            }
            for (&pfn, &doubt) in doubts.range(used.pfn..Pfn(used.pfn.0 + used.count)) {
                if self.may_be_isolated(pfn, doubt) {
                    self.look_ahead.bypass(pfn, doubt);
                    self.untraced.put(doubt.before, pfn, doubt.order);
                }
            }
        }
    }

    /// Returns the destinations. Pages without a later event are where the end snapshot has them; without an end
    /// snapshot, on their CPU list.
    #[must_use]
    pub fn finish(mut self, end: Option<&Snapshot>) -> LookAhead {
        for (pfn, order) in std::mem::take(&mut self.stolen).into_values() {
            self.settle(pfn, order, Destination::Direct);
        }
        for block in end.map(|end| end.free.as_slice()).unwrap_or_default() {
            self.settle(block.pfn, block.order, Destination::Direct);
        }
        if let Some(end) = end.filter(|end| end.exact) {
            for block in &end.pcp {
                self.settle(block.pfn, block.order, Destination::Listed);
            }
            let is_kept =
                |&&(event, batch, compacting): &&Pending| event > 0 && compacting && batch == 0;
            for event in self.pending.iter().filter(is_kept).map(|page| page.0 - 1) {
                self.look_ahead.set(event, Destination::Kept);
            }
        }
        self.settle_used(end);
        if !self.look_ahead.isolation {
            self.look_ahead.untraced = self.untraced.finish(end);
        }
        self.look_ahead.untraced_listed = self.untraced_listed.finish(None);
        self.look_ahead.ticks = self.ticks.finish();
        self.look_ahead.reclaim_ends = self.kswapd.finish();
        self.look_ahead.reserves = self.reserve.finish();
        self.look_ahead.reused = self.reuse.finish();
        self.look_ahead
    }
}

#[cfg(test)]
mod tests;
