//! What becomes of each freed page, found by looking ahead: the recording says that a page is freed,
//! but not when it reaches a list, nor which.
//!
//! * A page that is freed in a batch reaches its CPU list with the later `mm_page_free_batched`.
//! * A page whose next event takes it from the buddy lists, without a drain between, never was on a
//!   CPU list: the list's lock was taken, so it went straight to the zone.
//! * From 6.10 compaction reports a free of target pages that it keeps. Those that it has left it frees
//!   in one go before it ends. Without a probe on isolation the replay tells which pages it may keep.
//! * From 7.2 pages in a row that are freed one by one, as those of a stack, reach a list as larger
//!   blocks (`__free_contig_range`).

mod fates;
mod kswapd;
mod late;
mod passed;
mod reserve;
mod silent;
mod tick;

use std::collections::{BTreeMap, BTreeSet};

use pageblock::frame::{Order, Pfn};
use pageblock::mobility::Migratetype;
use pageblock_recording::{PageUse, Record, Snapshot, What};

pub use self::fates::{Fate, Fates, Taken};
use self::kswapd::KswapdFinder;
use self::late::{Finding, LateFinder, Left};
use self::passed::{Doubt, PassedFinder};
use self::reserve::ReserveFinder;
pub use self::silent::Silent;
use self::silent::SilentFinder;
use self::tick::TickFinder;
pub use self::tick::{PERIOD_US, Ticks};

/// The last free of each frame's block, until something else happens to it: the index of the event
/// plus one, 0 where nothing is pending; the same of the event that ended its batch; whether the task
/// that freed it compacts, and may keep it. A tuple of zeros is one of zero bytes, so that the table
/// takes no memory for frames that no event has.
type Pending = (u64, u64, bool);

/// Finds the fates in one pass.
pub struct FateFinder {
    /// The event under way.
    now: u64,
    /// The last event that says that compaction may have isolated free pages.
    last_isolation: u64,
    fates: Fates,
    pending: Vec<Pending>,
    orders: CpuListOrders,
    compaction_keeps: bool,
    compacting: BTreeSet<u32>,
    /// The blocks that each task isolated since its last scan of a pageblock: event and pages.
    isolated: BTreeMap<u32, Vec<(u64, u64)>>,
    /// The task that isolated each free page last, plus one: where the recording has this, compaction
    /// keeps no other page.
    isolated_by: Vec<u32>,
    /// The block that each task took from another type's list just now, whole.
    stolen: BTreeMap<u32, (Pfn, Order)>,
    /// Frees by tasks that compact, as long as it is not known that the recording has isolation.
    unproven: Vec<u64>,
    /// What each task freed in one go just now of what it had isolated: events and blocks.
    released: BTreeMap<u32, Vec<(u64, Pfn, Order)>>,
    late: LateFinder,
    silent: SilentFinder,
    silent_listed: SilentFinder,
    passed: PassedFinder,
    ticks: TickFinder,
    kswapd: KswapdFinder,
    reserve: ReserveFinder,
    /// The blocks that each CPU refilled a list with just now: the task and the events.
    refills: BTreeMap<u16, (u32, Vec<u64>)>,
}

/// The orders that have CPU lists.
#[derive(Clone, Copy, Debug)]
pub struct CpuListOrders {
    /// All up to this one.
    pub up_to: Order,
    /// And this one.
    pub and: Option<Order>,
}

impl CpuListOrders {
    pub(crate) fn has(self, order: Order) -> bool {
        order <= self.up_to || self.and == Some(order)
    }
}

impl FateFinder {
    /// For the frames of the start snapshot. `compaction_keeps`: whether the kernel's compaction reports a free of
    /// pages that it keeps (6.10 and later). `workers`: the kernel's tasks that work for one CPU.
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
        let fates = Fates::default();
        let mut late = LateFinder::new(pageblock_order);
        for block in &start.blocks {
            if let Some(mt) = block.mt {
                late.block_type(block.pfn, mt);
            }
        }
        Self {
            now: 0,
            last_isolation: 0,
            fates,
            pending,
            orders,
            compaction_keeps,
            compacting: BTreeSet::new(),
            isolated: BTreeMap::new(),
            isolated_by,
            stolen: BTreeMap::new(),
            unproven: Vec::new(),
            released: BTreeMap::new(),
            late,
            silent: SilentFinder::new(start),
            silent_listed: SilentFinder::without(start),
            passed: PassedFinder::default(),
            ticks: TickFinder::new(workers),
            kswapd: KswapdFinder::default(),
            reserve: ReserveFinder::new(start, pageblock_order),
            refills: BTreeMap::new(),
        }
    }

    /// Takes the event of index `event`. Events come in order.
    pub fn push(&mut self, event: u64, record: &Record) {
        self.ticks.event(record);
        self.kswapd.event(event, record);
        if self.compaction_keeps {
            self.reserve.event(event, record);
        }
        self.find_late(event, record);
        self.find_bulk(event, record);
        self.find_silent(event, &record.what);
        self.passed.event(event, record);
        self.now = event;
        match &record.what {
            What::Free { pfn, order } => {
                self.settle(*pfn, *order, Fate::Kept);
                let compacting = self.may_keep(record.pid, *pfn);
                if compacting {
                    self.fates.set(event, Fate::Kept);
                    if !self.fates.isolation {
                        self.unproven.push(event);
                    }
                    self.released.entry(record.pid).or_default().push((event, *pfn, *order));
                }
                if self.orders.has(*order)
                    && let Some(slot) = self.pending.get_mut(pfn.0 as usize)
                {
                    *slot = (event + 1, 0, compacting);
                }
            }
            What::FreeBatched { pfn } => {
                if let Some(slot) = self.pending.get_mut(pfn.0 as usize)
                    && slot.0 > 0
                {
                    slot.1 = event + 1;
                    self.fates.set(slot.0 - 1, Fate::Batched);
                }
            }
            What::Drain { pfn, order, .. } | What::Alloc { pfn: Some(pfn), order, .. } => {
                self.join(*pfn, *order);
                self.settle(*pfn, *order, Fate::Listed);
            }
            What::ZoneLocked { pfn, order, .. } => self.settle(*pfn, *order, Fate::Direct),
            What::Extfrag(x) => {
                // A claim from 6.10 on names the block that it takes, not the one that it found.
                let found = !self.compaction_keeps
                    || !x.change_ownership
                    || x.pfn.is_aligned(self.orders.and.unwrap_or(0));
                let order = if found { x.fallback_order } else { x.alloc_order };
                if x.alloc_order == x.fallback_order && !x.change_ownership {
                    // If compaction captured the block, the page that completed it is reported next.
                    let before = self.stolen.insert(record.pid, (x.pfn, order));
                    if let Some((pfn, order)) = before {
                        self.settle(pfn, order, Fate::Direct);
                    }
                } else {
                    self.settle(x.pfn, order, Fate::Direct);
                }
            }
            What::Isolate { pfn, order, ret } if *ret > 0 => {
                self.settle(*pfn, *order, Fate::Direct);
                self.fates.isolation = true;
                for event in std::mem::take(&mut self.unproven) {
                    self.fates.set(event, Fate::Listed);
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
            self.settle(pfn, order, Fate::Direct);
        }
        if !matches!(record.what, What::Free { .. } | What::Drain { .. }) {
            self.released.remove(&record.pid);
        }
    }

    /// Compaction frees what it has left of the blocks that it isolated.
    fn release(&mut self, pid: u32) {
        for (event, pfn, order) in self.released.remove(&pid).unwrap_or_default() {
            self.fates.set(event, Fate::Listed);
            let pages = pfn.0 as usize..(pfn.0 + (1 << order)) as usize;
            self.isolated_by.get_mut(pages.clone()).unwrap_or_default().fill(0);
            for slot in self.pending.get_mut(pages).unwrap_or_default() {
                slot.2 = false;
            }
        }
    }

    /// Whether a task may keep a page that it reports free.
    fn may_keep(&self, pid: u32, pfn: Pfn) -> bool {
        let isolated = self.isolated_by.get(pfn.0 as usize) == Some(&pid.wrapping_add(1));
        self.compaction_keeps
            && self.compacting.contains(&pid)
            && (isolated || !self.fates.isolation)
    }

    fn find_silent(&mut self, event: u64, what: &What) {
        match *what {
            What::Free { pfn, order } => {
                self.silent.in_use(event, pfn, order);
                self.silent_listed.in_use(event, pfn, order);
                let listed = self.orders.has(order);
                let lists = if listed { &mut self.silent_listed } else { &mut self.silent };
                lists.put(event, pfn, order);
            }
            What::Drain { pfn, order, .. } => {
                self.silent_listed.take(pfn, order);
                self.silent.put(event, pfn, order);
            }
            What::ZoneLocked { pfn, order, refill, .. } => {
                self.silent.take(pfn, order);
                if refill {
                    self.silent_listed.put(event, pfn, order);
                }
            }
            What::Alloc { pfn: Some(pfn), order, .. } => {
                self.silent.take(pfn, order);
                self.silent_listed.take(pfn, order);
            }
            What::Extfrag(x) if !x.change_ownership || self.compaction_keeps => {
                self.silent.take(x.pfn, x.alloc_order);
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
                events.into_iter().for_each(|event| self.fates.set(event, Fate::ForBulk));
            }
            _ => of_cpu.1.clear(),
        }
    }

    fn find_late(&mut self, event: u64, record: &Record) {
        let (cpu, pid) = (record.cpu, record.pid);
        self.late.event(event, cpu, pid);
        let finding = match record.what {
            What::Free { pfn, order } if self.orders.has(order) => {
                self.late.free(event, cpu, pfn, order);
                None
            }
            What::FreeBatched { pfn } => {
                self.late.batched(cpu, pfn);
                None
            }
            What::ZoneLocked { pfn, order, mt, .. } => {
                self.late.refilled(cpu, pid, pfn, order, mt);
                None
            }
            What::Alloc { pfn: Some(pfn), order, mt, .. } => {
                let found = self.late.left(Left::Taken, cpu, pid, pfn, (order, mt));
                match found {
                    Some(Finding::TakenBefore(since)) => self.note_taken(since, pid, pfn, true),
                    Some(Finding::PerhapsBefore(since)) => self.note_taken(since, pid, pfn, false),
                    _ => {}
                }
                found
            }
            What::Extfrag(ref x) if x.change_ownership => {
                self.late.range_type(x.pfn, x.fallback_order, x.alloc_migratetype);
                None
            }
            What::Drain { pfn, order, mt } => {
                if self.compaction_keeps {
                    self.late.block_type(pfn, mt);
                }
                self.late.left(Left::Drained, cpu, pid, pfn, (order, mt))
            }
            _ => None,
        };
        if let Some(Finding::FreedLate(free)) = finding {
            self.fates.set(free, Fate::Late);
            self.fates.freed_late += 1;
        }
    }

    fn note_taken(&mut self, since: u64, pid: u32, pfn: Pfn, sure: bool) {
        self.fates.taken.entry(since).or_default().push(Taken { pid, pfn, sure });
    }

    /// A scan of a pageblock took the last `taken` pages that its task isolated; those before were
    /// found by the fast search.
    fn scanned(&mut self, pid: u32, mut taken: u64) {
        for (event, pages) in self.isolated.remove(&pid).unwrap_or_default().into_iter().rev() {
            if taken >= pages {
                taken -= pages;
            } else {
                self.fates.set(event, Fate::Sought);
            }
        }
    }

    /// A block leaves a CPU list: if its pages were freed one by one, they reached it together.
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
            self.fates.set(event, if last { Fate::Joined(order) } else { Fate::Part });
        }
    }

    /// The frees of the frames of a block are followed by an event that shows their fate.
    fn settle(&mut self, pfn: Pfn, order: Order, fate: Fate) {
        let start = pfn.0 as usize;
        let end = (start + (1usize << order)).min(self.pending.len());
        for at in start..end {
            let (event, batch, compacting) = std::mem::take(&mut self.pending[at]);
            let page = Pfn(at as u64);
            let doubt = self.passed.settle(page);
            if let Some(doubt) = doubt.filter(|doubt| doubt.freed + 1 == event)
                && (fate == Fate::Direct || fate == Fate::Kept && self.may_be_isolated(page, doubt))
            {
                self.fates.go_past(page, doubt);
                if fate == Fate::Kept {
                    self.silent.stayed(page, doubt.before, self.now);
                }
                continue;
            }
            match fate {
                _ if event == 0 => {}
                Fate::Listed if compacting && batch == 0 => self.fates.set(event - 1, fate),
                Fate::Direct if batch > 0 => self.fates.set(batch - 1, fate),
                Fate::Direct => self.fates.set(event - 1, fate),
                Fate::Kept if compacting && batch == 0 => self.fates.set(event - 1, fate),
                _ => {}
            }
        }
    }

    /// Whether a page that went past its CPU list may since have left the free lists unseen: only
    /// compaction takes pages so, and not from unmovable pageblocks.
    fn may_be_isolated(&self, pfn: Pfn, doubt: Doubt) -> bool {
        !self.fates.isolation
            && self.last_isolation > doubt.before
            && self.late.type_of(pfn) != Some(Migratetype::Unmovable)
    }

    /// Pages in use at the end, and without an event since their free, were isolated.
    fn settle_used(&mut self, end: Option<&Snapshot>) {
        let doubts = self.passed.rest();
        for used in end.map(|end| end.used.as_slice()).unwrap_or_default() {
            if matches!(used.state, PageUse::KernelOrPcp | PageUse::Kernel | PageUse::Reserved) {
                continue;
            }
            for (&pfn, &doubt) in doubts.range(used.pfn..Pfn(used.pfn.0 + used.count)) {
                if self.may_be_isolated(pfn, doubt) {
                    self.fates.go_past(pfn, doubt);
                    self.silent.put(doubt.before, pfn, doubt.order);
                }
            }
        }
    }

    /// The fates found. Pages without a later event are where the end snapshot has them; without one,
    /// on their CPU list.
    #[must_use]
    pub fn finish(mut self, end: Option<&Snapshot>) -> Fates {
        for (pfn, order) in std::mem::take(&mut self.stolen).into_values() {
            self.settle(pfn, order, Fate::Direct);
        }
        for block in end.map(|end| end.free.as_slice()).unwrap_or_default() {
            self.settle(block.pfn, block.order, Fate::Direct);
        }
        if let Some(end) = end.filter(|end| end.exact) {
            for block in &end.pcp {
                self.settle(block.pfn, block.order, Fate::Listed);
            }
            let is_kept =
                |&&(event, batch, compacting): &&Pending| event > 0 && compacting && batch == 0;
            for event in self.pending.iter().filter(is_kept).map(|page| page.0 - 1) {
                self.fates.set(event, Fate::Kept);
            }
        }
        self.settle_used(end);
        if !self.fates.isolation {
            self.fates.silent = self.silent.finish(end);
        }
        self.fates.silent_listed = self.silent_listed.finish(None);
        self.fates.ticks = self.ticks.finish();
        self.fates.reclaim_ends = self.kswapd.finish();
        self.fates.reserves = self.reserve.finish();
        self.fates
    }
}

#[cfg(test)]
mod tests;
