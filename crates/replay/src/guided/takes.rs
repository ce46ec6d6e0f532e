//! Blocks that leave the buddy lists or a CPU list: refills, fallbacks, allocations, isolation.

use pageblock::FrameState;
use pageblock::alloc_flags::{AllocFlags, Watermark};
use pageblock::event::Extfrag;
use pageblock::fallback::{Fallback, FallbackSearch, Mode, Outcome};
use pageblock::frame::{Order, Pfn};
use pageblock::layout::ZoneKind;
use pageblock::mobility::MIGRATE_PCPTYPES;
use pageblock::mobility::Migratetype::{self, Movable};
use pageblock::policy::{BelowHigh, FallbackPick};
use pageblock::replay::ListEnd;
use pageblock::request::Request;
use pageblock::zone::Zone;
use pageblock_measure::verification::Agreement;

use super::attempts::Wanted;
use super::frees::IN_FLIGHT;
use super::frees::Tuning;
use super::tally::{agreement, imposed, kind};
use super::words;
use super::{Delayed, Guided, Inferred, Promise, Refill, Task};
use crate::look_ahead::{Destination, Taken};

const FLAGS: AllocFlags = AllocFlags::KSWAPD;

fn owned(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::Claim | Outcome::ClaimWhole)
}

impl Guided<'_, '_> {
    /// `mm_page_alloc_zone_locked`: which block the zone gives.
    pub(super) fn zone_locked(
        &mut self,
        cpu: usize,
        pid: u32,
        pfn: Pfn,
        order: Order,
        mt: Migratetype,
    ) {
        let Some(at) = self.zone_of(pfn) else { return };
        let mut explained = self.arrive(pfn, order);
        self.free_if_cached(at, pfn);
        let refill = self.refill_for(cpu, pid, at, order, mt);
        let mode = refill.map_or(Mode::Normal, |r| r.mode);
        let strict = self.allocator.policy().list_type_strict();
        while mode == Mode::Normal
            && let Some((next, _)) = self.allocator.zones()[at].next_of_list(order, mt)
            && next != pfn
            && self.withdraw_fresh(at, next, pid)
        {
            explained = true;
        }
        let Some((zone, _)) = self.allocator.zone_and_cache(at, cpu) else { return };
        let own = zone.next_of_list(order, mt).filter(|_| mode == Mode::Normal);
        let actual = zone.free_block_of(pfn);
        let foreign = actual.is_some_and(|(_, _, list)| list != mt);
        self.seen.of_another_type += u64::from(foreign);
        if strict && foreign {
            let flags = refill.map_or(FLAGS, |r| r.flags);
            self.claim_then_take(cpu, at, pfn, order, mt, (mode, flags));
        } else {
            let shape = match (own, actual) {
                (Some((_, order)), Some((_, found, list))) => order == found && list == mt,
                _ => false,
            };
            let exact = shape && own.is_some_and(|(next, _)| next == pfn);
            if shape && !exact {
                zone.rotate_free_list(pfn);
            }
            let kind = if refill.is_some() { kind::REFILL_FRAME } else { kind::ZONE_FRAME };
            let agreement = agreement(exact, shape, explained);
            self.tally.compare_frame(kind, pfn, agreement, || {
                (
                    format!("{pfn} of {}", words::free_block(actual)),
                    format!("next is {}", words::next_block(own)),
                )
            });
        }
        let found = actual.filter(|&(_, _, list)| list == mt).map(|(_, found, _)| found);
        if mode == Mode::Normal && found.is_some() {
            self.empty_lists(at, order, mt, found);
        }
        self.take(at, pfn, order, mt);
        self.received(cpu, at, pfn, order, mt, refill);
    }

    /// The refill that a block taken now belongs to, begun if none is under way; `None` for a block
    /// that goes past the CPU lists.
    fn refill_for(
        &mut self,
        cpu: usize,
        pid: u32,
        at: usize,
        order: Order,
        mt: Migratetype,
    ) -> Option<Refill> {
        let running = self.cpus[cpu].refill;
        if let Some(refill) = running
            && (refill.zone, refill.order, refill.mt) == (at, order, mt)
            && (refill.got < refill.want || (refill.pid == pid && !self.for_bulk))
        {
            self.note_taken_unseen(cpu, refill);
            return running;
        }
        self.close_refill(cpu, pid, None);
        let policy = *self.allocator.policy();
        let (zone, cache) = self.allocator.zone_and_cache(at, cpu)?;
        let list = cache.list_index(order, mt)?;
        if (mt as usize) >= MIGRATE_PCPTYPES {
            return None;
        }
        let unseen = cache.blocks(zone, list).count() as u32;
        let before = Tuning::of(cache);
        let flags = if self.for_bulk {
            FLAGS
        } else {
            let highest = self.allocator.zones()[at].kind().max(ZoneKind::Normal);
            self.attempts_before_refill(at, Wanted { cpu, pid, order, mt, highest })
        };
        let (zone, cache) = self.allocator.zone_and_cache(at, cpu)?;
        let want = cache.refill_count(&policy, order, zone.below_high());
        let mode = Mode::Normal;
        let refill = Refill {
            zone: at,
            order,
            mt,
            want,
            got: 0,
            mode,
            flags,
            before,
            pid,
            unseen,
            first: None,
            dry: false,
        };
        self.cpus[cpu].refill = Some(refill);
        self.cpus[cpu].refill
    }

    /// A list is refilled when it is empty: what the model still has on it was taken by the bulk
    /// allocator or by tasks that were interrupted, whose reports are still to come.
    fn note_taken_unseen(&mut self, cpu: usize, refill: Refill) {
        let Refill { zone: at, order, mt, unseen, .. } = refill;
        let Some((zone, cache)) = self.allocator.zone_and_cache(at, cpu) else { return };
        let list = cache.list_index(order, mt).unwrap_or(0);
        for _ in 0..unseen {
            let Some(pfn) = cache.next(zone, list) else { break };
            self.tally.imposed(imposed::CPU_LIST_TAKE, cache.impose_take(zone, pfn));
            self.holder[pfn.0 as usize] = 0;
            if self.for_bulk {
                self.cpus[cpu].taken_unseen += 1;
            } else {
                self.cpus[cpu].promised.push(Promise { pfn, to: Task::Any, explained: true });
            }
        }
        if let Some(refill) = &mut self.cpus[cpu].refill {
            refill.unseen = 0;
        }
    }

    /// A block was taken from the zone: it goes to the end of a CPU list, or to its request.
    fn received(
        &mut self,
        cpu: usize,
        at: usize,
        pfn: Pfn,
        order: Order,
        mt: Migratetype,
        refill: Option<Refill>,
    ) {
        if refill.is_none() {
            self.cpus[cpu].in_flight.push(pfn);
            return;
        }
        let Some(refill) = &mut self.cpus[cpu].refill else { return };
        refill.got += 1;
        let zone = &self.allocator.zones()[at];
        refill.dry = zone.next_of_list(order, mt).is_none()
            && zone.find_fallback(order, mt, refill.flags, Mode::Normal).found.is_none();
        if refill.got == 1 {
            refill.first = Some(pfn);
            return;
        }
        if let Some(first) = refill.first.take() {
            self.append(cpu, at, first, order, mt);
        }
        self.append(cpu, at, pfn, order, mt);
    }

    fn append(&mut self, cpu: usize, at: usize, pfn: Pfn, order: Order, mt: Migratetype) {
        let Some((zone, cache)) = self.allocator.zone_and_cache(at, cpu) else { return };
        let put = cache.impose_put(zone, pfn, order, mt, ListEnd::Tail);
        if put.is_ok() {
            self.set_holder(pfn, Some(cpu));
        }
        self.tally.imposed(imposed::CPU_LIST_PUT, put);
    }

    /// The refill is over: it should have brought what the model asked for, unless the zone had no
    /// more. One block that goes to the request at once was no refill: the list's lock was taken.
    pub(super) fn close_refill(&mut self, cpu: usize, by: u32, next_alloc: Option<Pfn>) {
        let Some(Refill {
            zone: at, order, mt, want, got, before, unseen, first, pid, dry, ..
        }) = self.cpus[cpu].refill.take()
        else {
            return;
        };
        let Some((_, cache)) = self.allocator.zone_and_cache(at, cpu) else { return };
        let list = cache.list_index(order, mt).unwrap_or(0);
        let at_once = next_alloc.is_some() && next_alloc == first;
        let past_list = unseen > 0 || (!dry && (at_once || by != pid));
        if got <= 1 && want > 1 && past_list {
            before.restore(cache);
            self.past_lists += 1;
            self.cpus[cpu].in_flight.extend(first);
            return;
        }
        let exact = got == want || (got < want && dry);
        if let Some(first) = first {
            self.append(cpu, at, first, order, mt);
        }
        self.tally.compare(kind::REFILL_COUNT, agreement(exact, exact, false), || {
            (format!("{got} blocks of order {order} {mt}"), format!("{want} blocks; {before:?}"))
        });
        // The task that refilled the list takes its first block before anyone else.
        self.promise(cpu, at, list, Task::Is(pid), false);
    }

    /// A block leaves its list before the report.
    pub(super) fn take_before(&mut self, taken: Taken) {
        let Taken { pid, pfn, .. } = taken;
        let (Some(at), Some(cpu)) = (self.zone_of(pfn), self.holder(pfn)) else { return };
        let Some((zone, cache)) = self.allocator.zone_and_cache(at, cpu) else { return };
        let list = cache.list_of(zone, pfn);
        // Only the first can have been taken.
        if list.and_then(|list| cache.next(zone, list)) == Some(pfn)
            && cache.impose_take(zone, pfn).is_ok()
        {
            self.set_holder(pfn, None);
            self.cpus[cpu].promised.push(Promise { pfn, to: Task::Is(pid), explained: true });
        }
    }

    /// Takes the first block of a list for a request that is reported later.
    pub(super) fn promise(
        &mut self,
        cpu: usize,
        at: usize,
        list: usize,
        to: Task,
        explained: bool,
    ) {
        let Some((zone, cache)) = self.allocator.zone_and_cache(at, cpu) else { return };
        if let Some(pfn) = cache.next(zone, list) {
            self.tally.imposed(imposed::CPU_LIST_TAKE, cache.impose_take(zone, pfn));
            self.set_holder(pfn, None);
            self.cpus[cpu].promised.push(Promise { pfn, to, explained });
        }
    }

    /// Takes a block out of the free lists, wherever the model has it.
    fn take(&mut self, at: usize, pfn: Pfn, order: Order, mt: Migratetype) {
        self.unplaced.remove(&pfn);
        let Some((zone, _)) = self.allocator.zone_and_cache(at, 0) else { return };
        let movable = mt == Movable;
        if zone.impose_take(pfn, order, movable).is_err() {
            for page in pfn.0..pfn.0 + (1 << order) {
                self.make_allocated(at, Pfn(page), 0);
            }
            if let Some((zone, _)) = self.allocator.zone_and_cache(at, 0) {
                let marked = zone.impose_allocated(pfn, order, movable);
                self.tally.imposed(imposed::ALLOCATED, marked);
            }
        }
    }

    /// A block that the model has on a CPU list, but the kernel in the zone, went there unseen.
    fn free_if_cached(&mut self, at: usize, pfn: Pfn) {
        let Some(owner) = self.holder(pfn) else { return };
        let Some((zone, cache)) = self.allocator.zone_and_cache(at, owner) else { return };
        if cache.impose_drain(zone, pfn).is_ok() {
            self.set_holder(pfn, None);
        }
    }

    /// From 6.10 a claim reports the block that it takes first, and the fallback after it.
    fn claim_then_take(
        &mut self,
        cpu: usize,
        at: usize,
        pfn: Pfn,
        order: Order,
        mt: Migratetype,
        (mode, flags): (Mode, AllocFlags),
    ) {
        let pageblock_order = self.allocator.geometry().pageblock_order;
        let Some((zone, _)) = self.allocator.zone_and_cache(at, cpu) else { return };
        let own = zone.next_of_list(order, mt).filter(|_| mode == Mode::Normal);
        let search = if own.is_some() {
            FallbackSearch::default()
        } else {
            zone.find_fallback(order, mt, flags, mode)
        };
        zone.impose_failed_claims(search.failed_claims);
        let predicted = search.found;
        let same_block = predicted.filter(|f| {
            f.outcome == Outcome::Claim
                && f.pfn.align_down(pageblock_order) == pfn.align_down(pageblock_order)
        });
        let claim = same_block.or_else(|| {
            let (start, found, from) = zone.free_block_of(pfn)?;
            Some(Fallback { pfn: start, order: found, from, outcome: Outcome::Claim })
        });
        if let Some(claim) = claim {
            self.tally.imposed(imposed::CLAIM, zone.impose_claim(mt, claim));
        }
        let next = zone.next_of_list(order, mt);
        let exact = same_block.is_some() && next.is_some_and(|(next, _)| next == pfn);
        self.cpus[cpu].claim = Some((predicted, exact));
    }

    /// `mm_page_alloc_extfrag`: which block of another type serves, and what becomes of it.
    pub(super) fn extfrag(&mut self, cpu: usize, pid: u32, x: &Extfrag) {
        let Some(at) = self.zone_of(x.pfn) else { return };
        if self.is_capture(at, x) {
            let (pfn, order) = (x.pfn, x.alloc_order);
            self.captured.push(Delayed { cpu, pid, pfn, order, destination: Destination::Direct });
            return;
        }
        let whole = x.fallback_order >= self.allocator.geometry().pageblock_order;
        if !self.allocator.policy().list_type_strict() {
            self.extfrag_loose(cpu, pid, at, x);
            return;
        }
        if let Some((predicted, exact)) = self.cpus[cpu].claim.take() {
            if let Some(f) = predicted.filter(|f| f.outcome == Outcome::Claim && !exact) {
                self.was_not_first(at, f);
            }
            let shape = predicted.is_some_and(|f| {
                (f.order, f.from, owned(f.outcome))
                    == (x.fallback_order, x.fallback_migratetype, x.change_ownership)
            });
            self.tally.compare(kind::FALLBACK, agreement(exact && shape, shape, false), || {
                (words::extfrag(x), words::fallback(predicted))
            });
            return;
        }
        self.arrive(x.pfn, x.alloc_order);
        self.free_if_cached(at, x.pfn);
        let (order, mt) = (x.alloc_order, x.alloc_migratetype);
        let refill = self.refill_for(cpu, pid, at, order, mt);
        let mode = refill.map_or(Mode::Normal, |r| r.mode);
        let flags = refill.map_or(FLAGS, |r| r.flags);
        let Some((zone, _)) = self.allocator.zone_and_cache(at, cpu) else { return };
        let own = zone.next_of_list(order, mt).filter(|_| mode == Mode::Normal);
        let search = match own {
            Some(_) => FallbackSearch::default(),
            None => zone.find_fallback(order, mt, flags, mode),
        };
        let predicted = search.found;
        let outcome = if whole { Outcome::ClaimWhole } else { Outcome::Single };
        let actual =
            Fallback { pfn: x.pfn, order: x.fallback_order, from: x.fallback_migratetype, outcome };
        let exact = predicted == Some(actual);
        let shape = predicted.is_some_and(|f| Fallback { pfn: x.pfn, ..f } == actual);
        if shape && !exact {
            zone.rotate_free_list(x.pfn);
        }
        self.tally.compare(kind::FALLBACK, agreement(exact, shape, false), || {
            (
                format!("{} for {order} {mt}", words::fallback(Some(actual))),
                format!("{} after own {}", words::fallback(predicted), words::next_block(own)),
            )
        });
        if mode == Mode::Normal {
            self.empty_lists(at, order, mt, None);
        }
        if actual.outcome == Outcome::Single {
            self.pass_over_claims(at, |zone| zone.find_fallback(order, mt, flags, mode).found);
        }
        let Some((zone, _)) = self.allocator.zone_and_cache(at, cpu) else { return };
        if own.is_none() && mode <= Mode::Claim && actual.outcome == Outcome::Single {
            // Whatever the model would have claimed, the kernel could not.
            zone.impose_failed_claims(zone.claims_to_try(order, mt, flags));
        }
        if zone.impose_fallback(order, mt, actual, &mut ()).is_err() {
            self.take(at, x.pfn, order, mt);
        }
        if let Some(refill) = &mut self.cpus[cpu].refill
            && self.allocator.policy().fallback_pick == FallbackPick::ClaimThenSteal
        {
            refill.mode = if whole { Mode::Normal } else { Mode::Steal };
        }
        self.received(cpu, at, x.pfn, order, mt, refill);
    }

    /// Compaction is given a block as its last part becomes free, which is reported after it.
    fn is_capture(&self, at: usize, x: &Extfrag) -> bool {
        let free = self.allocator.zones()[at].free_block_of(x.pfn);
        x.alloc_order == x.fallback_order
            && !x.change_ownership
            && free.is_none_or(|(_, order, _)| order < x.alloc_order)
            && self.holder(x.pfn).is_none_or(|_| x.alloc_order > 0)
    }

    /// Up to 6.9 a fallback moves what it found; the block is taken, and reported, after it.
    fn extfrag_loose(&mut self, cpu: usize, pid: u32, at: usize, x: &Extfrag) {
        let (order, mt) = (x.alloc_order, x.alloc_migratetype);
        self.arrive(x.pfn, x.fallback_order);
        self.free_if_cached(at, x.pfn);
        let refill = self.refill_for(cpu, pid, at, order, mt);
        let flags = refill.map_or(FLAGS, |r| r.flags);
        let Some((zone, _)) = self.allocator.zone_and_cache(at, cpu) else { return };
        let own = zone.next_of_list(order, mt);
        let predicted = match own {
            Some(_) => None,
            None => zone.find_fallback(order, mt, flags, Mode::Normal).found,
        };
        let becomes_own =
            |zone: &Zone<'_>, f: &Fallback| owned(f.outcome) || zone.block_type(f.pfn) == Some(mt);
        let shape = predicted.is_some_and(|f| {
            (f.order, f.from, becomes_own(zone, &f))
                == (x.fallback_order, x.fallback_migratetype, x.change_ownership)
        });
        let exact = shape && predicted.is_some_and(|f| f.pfn == x.pfn);
        let found: Vec<_> = zone
            .free_list(x.fallback_order, x.fallback_migratetype)
            .take(16)
            .map(|p| p.0)
            .collect();
        if shape && !exact {
            zone.rotate_free_list(x.pfn);
        }
        self.tally.compare(kind::FALLBACK, agreement(exact, shape, false), || {
            let predicted = words::fallback(predicted);
            (words::extfrag(x), format!("{predicted}; that list begins with {found:?}"))
        });
        let actual = zone.outcome_of(x.pfn, x.fallback_order, x.fallback_migratetype, mt);
        if let Some(mut actual) = actual {
            if x.change_ownership && !becomes_own(zone, &actual) {
                actual.outcome = Outcome::Claim;
            } else if !x.change_ownership && actual.outcome == Outcome::Claim {
                actual.outcome = Outcome::Refile;
            }
            self.tally.imposed(imposed::CLAIM, zone.impose_claim(mt, actual));
        }
    }

    /// `mm_page_alloc`: which block the CPU list gives.
    pub(super) fn alloc(&mut self, pfn: Pfn, wanted: Wanted) {
        let Wanted { cpu, pid, order, mt, .. } = wanted;
        let Some(at) = self.zone_of(pfn) else { return };
        let arrived = self.arrive(pfn, order);
        let owner = self.holder(pfn);
        let Some((_, cache)) = self.allocator.zone_and_cache(at, cpu) else { return };
        let list = cache.list_index(order, mt);
        if list.is_some() {
            cache.impose_alloc();
        }
        if self.was_in_flight(pfn) {
            return;
        }
        if let Some(Promise { to, explained, .. }) = self.was_promised(pfn) {
            let kept = match to {
                Task::Is(task) => task == pid,
                Task::Not(task) => task != pid,
                Task::Any => true,
            };
            let agreement = agreement(kept, true, explained);
            self.tally.compare_frame(kind::CPU_LIST_FRAME, pfn, agreement, || {
                (format!("{pfn} for task {pid}"), "was for another task".to_owned())
            });
        } else if let Some(on) = owner.filter(|&on| on == cpu || self.was_on(pid, on)) {
            self.attempts_before_alloc(at, wanted);
            self.alloc_from_list(on, pid, at, pfn, list, arrived);
        } else if owner.is_none() && self.last_seen.get(&pid).is_some_and(|seen| seen.compacted) {
            // What compaction captured comes from no list.
            self.make_allocated(at, pfn, order);
        } else {
            let zone = &self.allocator.zones()[at];
            let state = zone.state(pfn);
            self.seen.allocated_in_zone += u64::from(zone.free_block_of(pfn).is_some());
            self.tally.compare_frame(kind::CPU_LIST_FRAME, pfn, Agreement::None, || {
                let owner = words::or_none(owner);
                (format!("{pfn}"), format!("{} of CPU {owner}", words::state(state)))
            });
            self.make_allocated(at, pfn, order);
        }
        if let Some((zone, _)) = self.allocator.zone_and_cache(at, cpu) {
            let marked = zone.impose_allocated(pfn, order, mt == Movable);
            self.tally.imposed(imposed::ALLOCATED, marked);
        }
    }

    /// A task may be moved to another CPU between taking a block and reporting it.
    fn was_on(&self, pid: u32, cpu: usize) -> bool {
        self.last_seen.get(&pid).is_some_and(|seen| seen.cpu == cpu)
    }

    /// A list's end was passed over: once, the block that the kernel took had been taken before, or
    /// stood elsewhere; again, it is the block at the end that stands wrongly, and goes to the other.
    pub(super) fn passed_over(&mut self, cpu: usize, at: usize, pfn: Option<Pfn>, to: ListEnd) {
        let before = std::mem::replace(&mut self.cpus[cpu].passed_over, pfn);
        let Some(pfn) = pfn.filter(|_| before == pfn) else { return };
        let Some((zone, cache)) = self.allocator.zone_and_cache(at, cpu) else { return };
        let Some(FrameState::CpuList { order, cached }) = zone.state(pfn) else { return };
        let mt = cache.list_of(zone, pfn).map_or(cached, |list| list_type(list, cached));
        if cache.impose_take(zone, pfn).is_ok() {
            let put = cache.impose_put(zone, pfn, order, mt, to);
            self.tally.imposed(imposed::CPU_LIST_PUT, put);
        }
    }

    /// From 6.7 an allocation notes which zones are under their high watermark: those that it passes,
    /// and the one that serves it.
    pub(super) fn note_below_high(&mut self, cpu: usize, request: Request, served: Option<Pfn>) {
        if self.allocator.policy().below_high == BelowHigh::Off {
            return;
        }
        let highest = request.gfp.highest_zone();
        let served = served.and_then(|pfn| self.zone_of(pfn));
        let node = served.map(|at| self.allocator.zones()[at].node());
        for at in (0..self.allocator.zones().len()).rev() {
            let Some((zone, _)) = self.allocator.zone_and_cache(at, cpu) else { continue };
            if zone.kind() > highest || node.is_some_and(|node| zone.node() != node) {
                continue;
            }
            if !zone.below_high() {
                let high = zone.watermark(Watermark::High);
                let ok = zone.watermark_ok(request.order, high, highest, AllocFlags(0));
                zone.impose_below_high(!ok);
            }
            if served == Some(at) {
                return;
            }
        }
    }

    /// A block comes from the list of this CPU. A task may be interrupted between taking a block and
    /// reporting it: later frees then lie before the block, or blocks before it have left the list
    /// already.
    fn alloc_from_list(
        &mut self,
        cpu: usize,
        pid: u32,
        at: usize,
        pfn: Pfn,
        list: Option<usize>,
        arrived: bool,
    ) {
        let untraced = self.take_untraced(cpu, at, pfn, ListEnd::Head);
        let Some((zone, cache)) = self.allocator.zone_and_cache(at, cpu) else { return };
        let next = list.and_then(|l| cache.next(zone, l));
        let has = cache.list_of(zone, pfn);
        let pushed = self.cpus[cpu].pushed as usize;
        let deep = pushed + IN_FLIGHT + 1;
        let ahead =
            list.map_or(0, |l| cache.blocks(zone, l).take(deep).take_while(|&p| p != pfn).count());
        let shape = list.is_some() && has == list;
        let exact = shape && ahead < deep;
        self.tally.imposed(imposed::CPU_LIST_TAKE, cache.impose_take(zone, pfn));
        let agreement = agreement(exact, shape, ahead > 0 || untraced || arrived);
        self.tally.compare_frame(kind::CPU_LIST_FRAME, pfn, agreement, || {
            let [has, list] = [has, list].map(words::or_none);
            let next = words::or_none(next);
            (format!("{pfn} of list {has}"), format!("next of list {list} is {next}"))
        });
        self.set_holder(pfn, None);
        if !exact && shape {
            self.passed_over(cpu, at, next, ListEnd::Tail);
        }
        if exact && ahead > pushed {
            for _ in 0..ahead {
                self.promise(cpu, at, list.unwrap_or(0), Task::Not(pid), true);
            }
        }
    }

    /// The pages between a block and an end of its CPU list that left the list without an event have
    /// left it by now. Tells whether there were some.
    pub(super) fn take_untraced(
        &mut self,
        owner: usize,
        at: usize,
        pfn: Pfn,
        end: ListEnd,
    ) -> bool {
        let Some((zone, cache)) = self.allocator.zone_and_cache(at, owner) else { return false };
        let Some(list) = cache.list_of(zone, pfn) else { return false };
        let mut any = false;
        loop {
            let next = match end {
                ListEnd::Head => cache.next(zone, list),
                ListEnd::Tail => cache.last(zone, list),
            };
            let untraced = |&next: &Pfn| {
                next != pfn && self.look_ahead.untraced_listed().block(next, 0, self.now)
            };
            let Some(next) = next.filter(untraced) else { return any };
            let mt = zone.block_type(next).unwrap_or(Migratetype::Unmovable);
            let taken = cache.impose_take(zone, next);
            let failed = taken.is_err();
            self.tally.imposed(imposed::CPU_LIST_TAKE, taken);
            if failed {
                return any;
            }
            any = true;
            self.holder[next.0 as usize] = 0;
            if !self.look_ahead.has_isolation() {
                self.inferred.push(Inferred::LeftList { pfn: next, cpu: owner, mt });
            }
        }
    }

    /// Tells whether a block was on its way from the zone to a request, which ends here. The task may
    /// have moved to another CPU since.
    fn was_in_flight(&mut self, pfn: Pfn) -> bool {
        self.cpus.iter_mut().any(|cpu| {
            let place = cpu.in_flight.iter().position(|&p| p == pfn);
            place.map(|place| cpu.in_flight.swap_remove(place)).is_some()
        })
    }

    /// The same for a block that came from a CPU list.
    fn was_promised(&mut self, pfn: Pfn) -> Option<Promise> {
        self.cpus.iter_mut().find_map(|cpu| {
            let place = cpu.promised.iter().position(|p| p.pfn == pfn)?;
            Some(cpu.promised.swap_remove(place))
        })
    }

    /// Makes a block allocated that the model has anywhere.
    pub(super) fn make_allocated(&mut self, at: usize, pfn: Pfn, order: Order) {
        for page in pfn.0..pfn.0 + (1 << order) {
            let page = Pfn(page);
            if let Some(owner) = self.holder(page)
                && let Some((zone, cache)) = self.allocator.zone_and_cache(at, owner)
            {
                self.tally.imposed(imposed::CPU_LIST_TAKE, cache.impose_take(zone, page));
                self.set_holder(page, None);
            }
            if let Some((zone, _)) = self.allocator.zone_and_cache(at, 0)
                && zone.free_block_of(page).is_some()
            {
                self.tally.imposed(imposed::ZONE_TAKE, zone.impose_take(page, 0, false));
            }
        }
        if let Some((zone, _)) = self.allocator.zone_and_cache(at, 0)
            && zone.state(pfn) != Some(FrameState::Allocated { order, movable: true })
        {
            self.tally.imposed(imposed::ALLOCATED, zone.impose_allocated(pfn, order, false));
        }
    }

    /// The compaction free scanner takes a free block; large ones make their pageblock movable.
    pub(super) fn isolate(&mut self, pfn: Pfn, order: Order, destination: Destination) {
        let Some(at) = self.zone_of(pfn) else { return };
        self.arrive(pfn, order);
        self.free_if_cached(at, pfn);
        if destination == Destination::Sought
            && let Some((zone, _)) = self.allocator.zone_and_cache(at, 0)
        {
            zone.rotate_free_list(pfn);
        }
        self.take(at, pfn, order, Movable);
        let pageblock_order = self.allocator.geometry().pageblock_order;
        let Some((zone, _)) = self.allocator.zone_and_cache(at, 0) else { return };
        if order + 1 >= pageblock_order
            && zone.block_type(pfn).is_some_and(Migratetype::is_mergeable)
        {
            // From 6.10 the rest of the pageblock comes along.
            let typed = if zone.policy().list_type_strict() {
                zone.impose_reserve(pfn, Movable)
            } else {
                zone.impose_block_type(pfn, Movable)
            };
            self.tally.imposed(imposed::TYPE, typed);
        }
    }

    /// The bulk allocator took pages from the head of a list without an event each. A single page it
    /// leaves to the ordinary allocator, which reports it.
    pub(super) fn bulk(&mut self, cpu: usize, pid: u32, pages: u32) {
        let promised = self.cpus[cpu].promised.len();
        self.cpus[cpu].promised.retain(|p| p.to != Task::Is(pid));
        let promised = promised - self.cpus[cpu].promised.len();
        let seen = std::mem::take(&mut self.cpus[cpu].taken_unseen) + promised as u32;
        let pages = pages.saturating_sub(seen);
        if pages + seen <= 1 {
            return;
        }
        let mt = Migratetype::Unmovable;
        // It does not leave the node of the zone that it prefers, for which every zone keeps a reserve.
        let Some(node) = self.allocator.node_of_cpu(cpu) else { return };
        let zones = self.allocator.zones();
        let serves = |&at: &usize| {
            let zone = &zones[at];
            zone.node() == node && zone.kind() <= ZoneKind::Normal && zone.managed() > 0
        };
        let zones: Vec<usize> = (0..zones.len()).rev().filter(serves).collect();
        let Some(&preferred) = zones.first() else { return };
        let highest = self.allocator.zones()[preferred].kind();
        for at in zones {
            let Some((zone, cache)) = self.allocator.zone_and_cache(at, cpu) else { continue };
            let Some(list) = cache.list_index(0, mt) else { continue };
            let low = zone.watermark(Watermark::Low) + u64::from(pages);
            if !zone.watermark_ok(0, low, highest, AllocFlags(0)) {
                continue;
            }
            let mut taken = 0;
            while taken < pages
                && let Some(pfn) = cache.next(zone, list)
            {
                cache.impose_alloc();
                self.tally.imposed(imposed::CPU_LIST_TAKE, cache.impose_take(zone, pfn));
                if let Some(slot) = self.holder.get_mut(pfn.0 as usize) {
                    *slot = 0;
                }
                taken += 1;
            }
            if taken > 0 {
                return;
            }
        }
    }
}

/// A type whose blocks share a list; the remembered one where that is one of them.
fn list_type(list: usize, cached: Migratetype) -> Migratetype {
    match Migratetype::ALL.get(list % MIGRATE_PCPTYPES) {
        Some(&mt) if list < 4 * MIGRATE_PCPTYPES => mt,
        _ => cached,
    }
}
