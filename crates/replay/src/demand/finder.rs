//! Finds the demands in a recording's events.

use std::collections::BTreeMap;

use pageblock::frame::{FrameRange, Order, Pfn, pages};
use pageblock::mobility::Migratetype;
use pageblock::request::Gfp;
use pageblock_recording::{Record, Recording, What, ZoneSnapshot};

use super::faults::Faults;
use super::queue::{Place, Queue};
use super::targets::Targets;
use super::{Demand, Timed};
use crate::guided::{Inferred, range};
use crate::look_ahead::{CpuListOrders, Destination, LookAhead, PERIOD_US};
use crate::machine::recorded_kernel;

/// At most this many other events of a task (those of interrupts) come between a free and the drain that it causes.
const INTERRUPTING: u32 = 3;

/// Blocks that left the zone for a request that is not yet reported.
#[derive(Clone, Copy)]
struct Begun {
    place: Place,
    cpu: u16,
    order: Order,
    mt: Migratetype,
    /// The first block, which the request gets.
    first: Pfn,
    blocks: u32,
}

/// The state of a task.
#[derive(Default)]
struct Task {
    /// The CPU of its last event.
    cpu: Option<u16>,
    begun: Option<Begun>,
    /// The target pages that it holds during a run of compaction.
    compacts: Option<Targets>,
    /// The number of its events since it last freed a block to a CPU list; `None` after other work.
    freed: Option<u32>,
    /// The drain that it makes for another reason than a free: the lists' CPU and zone.
    draining: Option<(u16, usize)>,
    /// Blocks that it has reported free, and puts on a list when it runs again.
    delayed: Vec<(Pfn, Order, bool)>,
    /// It is kswapd, or in direct reclaim.
    reclaims: bool,
}

impl Task {
    /// Follows a free. Returns the frame to which compaction has moved the page or folio, if it has.
    fn moved(&mut self, pfn: Pfn, order: Order) -> Option<Option<Pfn>> {
        let targets = self.compacts.as_mut()?;
        if targets.give_back(pfn, order) {
            return None;
        }
        let to = targets.take(order);
        // A larger block without a target was freed by an interrupt.
        (order == 0 || to.is_some()).then_some(to)
    }
}

/// Finds the demands in a recording's events, in the order in which the kernel served them.
pub struct DemandFinder<'f> {
    look_ahead: &'f LookAhead,
    orders: CpuListOrders,
    /// Compaction moves folios, and keeps free blocks whole.
    moves_folios: bool,
    /// Whether a task drains in the background: such drains follow from the policy.
    background: Box<dyn Fn(u32) -> bool + 'f>,
    zones: Vec<FrameRange>,
    /// By zone: whether a list may be refilled with a single block.
    single_refills: Vec<bool>,
    queue: Queue,
    tasks: BTreeMap<u32, Task>,
    faults: Faults,
    /// By CPU: a block that was reported free reaches a list before anything else happens there.
    reported: BTreeMap<u16, (Timed, Pfn)>,
    /// By CPU: the second of its last vmstat work.
    second: Vec<Option<u64>>,
    /// Blocks that were taken before the reports of others: the task and block; the place, event and CPU.
    taken: BTreeMap<(u32, Pfn), (Place, u64, u16)>,
    /// By frame: the CPU whose list it went to last.
    holder: Vec<u16>,
    /// By frame: the event at which it did, plus one.
    held_since: Vec<u64>,
    /// The event under way.
    now: u64,
    /// Blocks that are freed with a batch that is still to come.
    batched: Vec<Order>,
}

impl<'f> DemandFinder<'f> {
    /// Creates a finder for a recording's events and their look-ahead.
    #[must_use]
    pub fn new(recording: &'f Recording, look_ahead: &'f LookAhead, orders: CpuListOrders) -> Self {
        let start = &recording.start;
        let end = start.end_pfn().0 as usize;
        let comms = &recording.comms;
        let background = move |pid: u32| comms.get(&pid).is_some_and(|c| c.starts_with("kworker"));
        let mut holder = vec![0; end];
        for page in &start.pcp {
            holder[page.pfn.0 as usize] = page.cpu;
        }
        let single =
            |zone: usize| start.pcpinfo.iter().any(|p| usize::from(p.zone) == zone && p.batch <= 1);
        Self {
            look_ahead,
            orders,
            moves_folios: recorded_kernel(recording).compaction.moves_folios,
            background: Box::new(background),
            zones: start.zones.iter().map(ZoneSnapshot::span).collect(),
            single_refills: (0..start.zones.len()).map(single).collect(),
            queue: Queue::default(),
            tasks: BTreeMap::new(),
            faults: Faults::new(recording.pageblock_order),
            reported: BTreeMap::new(),
            second: Vec::new(),
            taken: BTreeMap::new(),
            held_since: vec![0; end],
            now: 0,
            holder,
            batched: vec![0; end],
        }
    }

    /// Follows one event and what guided replay inferred from it, and appends the demands that are complete to
    /// `out`.
    pub fn push(
        &mut self,
        event: u64,
        record: &Record,
        inferred: &[Inferred],
        out: &mut Vec<Timed>,
    ) {
        let cpu = record.cpu;
        let t_ms = (record.t_us / 1000) as u32;
        let timed = |demand| Timed { t_ms, cpu, demand };
        debug_assert!(event >= self.now, "event {event} follows event {}", self.now);
        self.now = event;
        self.commit(cpu);
        self.tick(timed(Demand::Tick), record.t_us);
        for taken in self.look_ahead.taken_before(event).iter().filter(|taken| taken.sure) {
            let place = self.queue.keep_place();
            self.taken.insert((taken.pid, taken.pfn), (place, event, cpu));
        }
        for &(pfn, order) in self.look_ahead.bypassed_before(event) {
            let free = Demand::Free { pfn, order, past_list: true, reclaimed: false };
            self.queue.push(timed(free));
        }
        let delayed = self.tasks.get_mut(&record.pid).map(|task| std::mem::take(&mut task.delayed));
        for (pfn, order, reclaimed) in delayed.unwrap_or_default() {
            self.hold(pfn, cpu);
            let free = Demand::Free { pfn, order, past_list: false, reclaimed };
            self.queue.push(timed(free));
        }
        for &inferred in inferred {
            self.inferred(timed(Demand::Tick), record.pid, inferred);
        }
        match &record.what {
            What::Free { pfn, order } => {
                let destination = match self.look_ahead.destination(event) {
                    Destination::Kept if inferred.contains(&Inferred::Freed) => Destination::Listed,
                    destination => destination,
                };
                self.end_request(record.pid);
                self.free(timed(Demand::Tick), record.pid, *pfn, *order, destination);
            }
            What::FreeBatched { pfn } => {
                self.end_request(record.pid);
                let order = self.batched.get_mut(pfn.0 as usize).map_or(0, std::mem::take);
                if let Some(order) = order.checked_sub(1) {
                    let destination = self.look_ahead.destination(event);
                    self.free(timed(Demand::Tick), record.pid, *pfn, order, destination);
                }
            }
            What::Drain { pfn, .. } => {
                self.end_request(record.pid);
                self.drained(timed(Demand::Drain { pfn: *pfn }), record.pid, *pfn);
            }
            what => {
                let task = self.tasks.entry(record.pid).or_default();
                task.draining = None;
                let interrupts =
                    matches!(what, What::Alloc { .. } | What::ZoneLocked { .. } | What::Extfrag(_));
                task.freed = task.freed.filter(|&n| interrupts && n < INTERRUPTING).map(|n| n + 1);
                self.other(timed(Demand::Tick), record.pid, what);
                if let What::Alloc { pfn: Some(pfn), .. } = *what
                    && self.look_ahead.is_reused(event)
                {
                    self.queue.push(timed(Demand::Reuse { pfn }));
                }
            }
        }
        self.tasks.entry(record.pid).or_default().cpu = Some(cpu);
        if let Some(node) = self.look_ahead.reclaim_end(event) {
            self.queue.push(timed(Demand::Kswapd { node, running: false }));
        }
        self.queue.take(false, out);
    }

    /// Appends the remaining demands, after the last event.
    pub fn finish(&mut self, out: &mut Vec<Timed>) {
        for (timed, _) in std::mem::take(&mut self.reported).into_values() {
            self.queue.push(timed);
        }
        self.queue.take(true, out);
    }

    /// Follows events other than frees and drains. `timed` has their time and CPU.
    fn other(&mut self, timed: Timed, pid: u32, what: &What) {
        let at = |demand| Timed { demand, ..timed };
        match what {
            What::Alloc { pfn: Some(pfn), order, gfp, .. } => {
                let instead_of = self.faults.served(pid, *order, *gfp);
                let (pfn, order, gfp) = (*pfn, *order, *gfp);
                let demand = Demand::Alloc { pfn, order, gfp, past_list: false, instead_of };
                self.allocated(at(demand), pid, pfn, order);
            }
            What::Alloc { pfn: None, order, gfp, .. } => {
                self.end_request(pid);
                let fault = self.faults.failed(pid, *order, *gfp);
                self.queue.push(at(Demand::Failed { order: *order, gfp: *gfp, fault }));
            }
            What::ZoneLocked { pfn, order, mt, .. } => {
                self.hold(*pfn, timed.cpu);
                self.begin_request(timed.cpu, pid, *pfn, *order, *mt);
            }
            What::Extfrag(x) => {
                self.hold(x.pfn, timed.cpu);
                self.begin_request(timed.cpu, pid, x.pfn, x.alloc_order, x.alloc_migratetype);
                // Its block may be reported twice, so a single block is not recognised as such.
                if let Some(begun) = self.tasks.get_mut(&pid).and_then(|task| task.begun.as_mut()) {
                    begun.blocks += 1;
                }
            }
            What::Isolate { pfn, order, ret } if *ret > 0 => {
                self.end_request(pid);
                self.isolated(timed, pid, *pfn, *order);
            }
            // A bulk request leaves a single page to the ordinary allocator, which reports it.
            What::Bulk { pages } if *pages > 1 => {
                let demand = at(Demand::Bulk { pages: *pages });
                match self.tasks.get_mut(&pid).and_then(|task| task.begun.take()) {
                    Some(begun) => self.queue.fill(begun.place, demand),
                    None => self.queue.push(demand),
                }
            }
            What::Other(other) => match &*other.name {
                "mm_vmscan_kswapd_wake" => {
                    self.tasks.entry(pid).or_default().reclaims = true;
                    let node = other.number("nid").and_then(|n| u8::try_from(n).ok());
                    if let Some(node) = node {
                        self.queue.push(at(Demand::Kswapd { node, running: true }));
                    }
                }
                "mm_compaction_isolate_migratepages" => {
                    if let Some((pfn, end)) =
                        range(other).filter(|_| other.number("nr_taken") > Some(0))
                    {
                        let pages = end.0.saturating_sub(pfn.0) as u32;
                        self.queue.push(at(Demand::Evacuate { pfn, pages }));
                    }
                }
                "mm_vmscan_direct_reclaim_begin" | "mm_vmscan_direct_reclaim_end" => {
                    self.tasks.entry(pid).or_default().reclaims = other.name.ends_with("begin");
                }
                "mm_compaction_begin" | "mm_compaction_end" => {
                    let task = self.tasks.entry(pid).or_default();
                    let begins = &*other.name == "mm_compaction_begin";
                    task.compacts = begins.then(|| Targets::new(self.moves_folios));
                }
                _ => {}
            },
            _ => {}
        }
    }

    /// Adds a page that left a list without an event. `timed` has the time.
    fn inferred(&mut self, timed: Timed, pid: u32, inferred: Inferred) {
        match inferred {
            Inferred::Isolated { pfn, order } => self.isolated(timed, pid, pfn, order),
            Inferred::LeftList { pfn, cpu, mt } => {
                let gfp = match mt {
                    Migratetype::Movable => Gfp::GFP_HIGHUSER_MOVABLE,
                    Migratetype::Reclaimable => Gfp(Gfp::GFP_KERNEL.0 | Gfp::RECLAIMABLE.0),
                    _ => Gfp::GFP_KERNEL,
                };
                let demand =
                    Demand::Alloc { pfn, order: 0, gfp, past_list: false, instead_of: None };
                self.queue.push(Timed { cpu: cpu as u16, demand, ..timed });
            }
            Inferred::Freed => {}
        }
    }

    /// Adds a free block that compaction takes as a target.
    fn isolated(&mut self, timed: Timed, pid: u32, pfn: Pfn, order: Order) {
        let task = self.tasks.entry(pid).or_default();
        if let Some(targets) = &mut task.compacts {
            targets.isolate(pfn, order);
        }
        self.queue.push(Timed { demand: Demand::Isolate { pfn, order }, ..timed });
    }

    /// Adds the vmstat work of a CPU, once a second.
    fn tick(&mut self, tick: Timed, now: u64) {
        let at = usize::from(tick.cpu);
        let usual = || now / PERIOD_US;
        let second = self.look_ahead.ticks().second(tick.cpu, now).unwrap_or_else(usual);
        if at >= self.second.len() {
            self.second.resize(at + 1, None);
        }
        let last = self.second[at].replace(second);
        for _ in last.map_or(second..second, |last| last..second.min(last + 64)) {
            self.queue.push(tick);
        }
    }

    /// Adds the block that a CPU has reported free, when it reaches its list.
    fn commit(&mut self, cpu: u16) {
        if let Some((timed, pfn)) = self.reported.remove(&cpu) {
            self.hold(pfn, cpu);
            self.queue.push(timed);
        }
    }

    /// Adds the free of a block, or of one block of a batch. `timed` has the time and CPU.
    fn free(&mut self, timed: Timed, pid: u32, pfn: Pfn, order: Order, destination: Destination) {
        let task = self.tasks.entry(pid).or_default();
        task.draining = None;
        task.freed = Some(0);
        let reclaimed = task.reclaims;
        let free = |pfn, order, past_list| Timed {
            demand: Demand::Free { pfn, order, past_list, reclaimed },
            ..timed
        };
        if matches!(destination, Destination::Direct | Destination::Listed)
            && let Some(to) = task.moved(pfn, order)
        {
            for n in 0..pages(order) {
                let demand = Demand::MoveAway { pfn: pfn.plus(n), to: to.map(|to| to.plus(n)) };
                self.queue.push(Timed { demand, ..timed });
            }
        }
        match destination {
            Destination::Batched => {
                if let Some(slot) = self.batched.get_mut(pfn.0 as usize) {
                    *slot = order + 1;
                }
            }
            Destination::Kept | Destination::Part => {}
            Destination::Delayed => task.delayed.push((pfn, order, reclaimed)),
            Destination::Direct => self.queue.push(free(pfn, order, true)),
            Destination::Listed if !self.orders.has(order) => {
                self.queue.push(free(pfn, order, false));
            }
            Destination::Listed => self.report(free(pfn, order, false), pfn),
            Destination::Joined(joined) => {
                let head = pfn.align_down(joined);
                self.report(free(head, joined, false), head);
            }
        }
    }

    /// Holds the free of a block back until its CPU's next event.
    fn report(&mut self, free: Timed, pfn: Pfn) {
        let lost = self.reported.insert(free.cpu, (free, pfn));
        debug_assert_eq!(lost, None, "a block never reached its list");
    }

    fn hold(&mut self, pfn: Pfn, cpu: u16) {
        if let Some(slot) = self.holder.get_mut(pfn.0 as usize) {
            *slot = cpu;
            self.held_since[pfn.0 as usize] = self.now + 1;
        }
    }

    /// Returns the zone that holds a frame.
    fn zone_of(&self, pfn: Pfn) -> usize {
        self.zones.iter().position(|zone| (zone.start..zone.end).contains(&pfn)).unwrap_or(0)
    }

    /// Follows a drain. One right after a free of the same task follows from the policy.
    fn drained(&mut self, drain: Timed, pid: u32, pfn: Pfn) {
        let owner = self.holder.get(pfn.0 as usize).copied().unwrap_or(drain.cpu);
        let zone = self.zone_of(pfn);
        let background = (self.background)(pid);
        let task = self.tasks.entry(pid).or_default();
        if background || (task.freed.is_some() && owner == drain.cpu) {
            return;
        }
        if task.draining.replace((owner, zone)) == Some((owner, zone)) {
            return;
        }
        self.commit(owner);
        self.queue.push(Timed { cpu: owner, ..drain });
    }

    /// Follows a block that leaves the zone for a request, or to refill a list that a request found empty.
    fn begin_request(&mut self, cpu: u16, pid: u32, pfn: Pfn, order: Order, mt: Migratetype) {
        let same = |begun: &&mut Begun| (begun.cpu, begun.order, begun.mt) == (cpu, order, mt);
        let task = self.tasks.entry(pid).or_default();
        if let Some(begun) = task.begun.as_mut().filter(same) {
            begun.blocks += u32::from(begun.first != pfn);
            return;
        }
        self.end_request(pid);
        debug_assert!(self.tasks.get(&pid).is_none_or(|task| task.begun.is_none()));
        let place = self.queue.keep_place();
        let begun = Begun { place, cpu, order, mt, first: pfn, blocks: 1 };
        self.tasks.entry(pid).or_default().begun = Some(begun);
    }

    /// Drops the blocks that a task took for a request that it does not report.
    fn end_request(&mut self, pid: u32) {
        if let Some(begun) = self.tasks.get_mut(&pid).and_then(|task| task.begun.take()) {
            self.queue.give_up(begun.place);
        }
    }

    /// Follows the report of a request. The request was served earlier if blocks left the zone for it, or if others
    /// have run since; it was served on the CPU that held the block if its task has moved since.
    fn allocated(&mut self, mut alloc: Timed, pid: u32, pfn: Pfn, order: Order) {
        if let Some((place, since, cpu)) = self.taken.remove(&(pid, pfn)) {
            // A block that reached the list later was taken after that.
            if self.held_since.get(pfn.0 as usize).is_some_and(|&held| held <= since) {
                return self.queue.fill(place, Timed { cpu, ..alloc });
            }
            self.queue.give_up(place);
        }
        let single_refills = self.single_refills.get(self.zone_of(pfn)).copied().unwrap_or(true);
        let has_list = self.orders.has(order);
        let task = self.tasks.entry(pid).or_default();
        if let Some(begun) = task.begun.take_if(|begun| begun.first == pfn) {
            alloc.cpu = begun.cpu;
            if let Demand::Alloc { past_list, .. } = &mut alloc.demand {
                *past_list = begun.blocks == 1 && has_list && !single_refills;
            }
            return self.queue.fill(begun.place, alloc);
        }
        let reported = self.reported.iter().find(|(_, (_, freed))| *freed == pfn);
        if let Some((&cpu, _)) = reported {
            self.commit(cpu);
        }
        let task = self.tasks.entry(pid).or_default();
        let holder = self.holder.get(pfn.0 as usize).copied();
        alloc.cpu = task.cpu.filter(|_| task.cpu == holder).unwrap_or(alloc.cpu);
        self.queue.push(alloc);
    }
}

#[cfg(test)]
mod tests;
