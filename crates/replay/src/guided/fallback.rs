//! Fallbacks: which block of another type serves a request, and what becomes of its pageblock.

use pageblock::alloc_flags::AllocFlags;
use pageblock::event::Extfrag;
use pageblock::fallback::{Fallback, FallbackSearch, Mode, Outcome};
use pageblock::frame::{Order, Pfn};
use pageblock::ids::{CpuId, ZoneIndex};
use pageblock::mobility::Migratetype;
use pageblock::policy::FallbackPick;
use pageblock::zone::Zone;

use super::Guided;
use super::in_flight::Delayed;
use super::tally::{Comparison, imposed, kind};
use super::words;
use super::zone::FLAGS;
use crate::look_ahead::Destination;

pub(super) fn owned(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::Claim | Outcome::ClaimWhole)
}

impl Guided<'_, '_> {
    /// Claims a pageblock. From 6.10 the block that was taken is reported first, and the fallback after it.
    pub(super) fn claim_then_take(
        &mut self,
        cpu: usize,
        at: usize,
        pfn: Pfn,
        order: Order,
        mt: Migratetype,
        (mode, flags): (Mode, AllocFlags),
    ) {
        let pageblock_order = self.allocator.geometry().pageblock_order;
        let Some((zone, _)) = self.allocator.zone_and_cache(ZoneIndex::new(at), CpuId(cpu)) else {
            return;
        };
        let own = zone.next_of_list(order, mt).filter(|_| mode == Mode::Normal);
        let search = if own.is_some() {
            FallbackSearch::default()
        } else {
            zone.find_fallback(order, mt, flags, mode)
        };
        zone.impose_failed_claims(mt, search.failed_claims);
        let predicted = search.found;
        let same_block = predicted.filter(|f| {
            f.outcome == Outcome::Claim
                && f.pfn.align_down(pageblock_order) == pfn.align_down(pageblock_order)
        });
        let claim = same_block.or_else(|| {
            let (start, found, from) = zone.free_block_of(pfn)?;
            // A claim changes one pageblock: the other pageblocks of a larger block would keep their type.
            let whole = found > pageblock_order;
            let outcome = if whole { Outcome::ClaimWhole } else { Outcome::Claim };
            Some(Fallback { pfn: start, order: found, from, outcome })
        });
        if let Some(claim) = claim {
            self.tally.imposed(imposed::CLAIM, zone.impose_claim(mt, claim));
        }
        let next = zone.next_of_list(order, mt);
        let exact = same_block.is_some() && next.is_some_and(|(next, _)| next == pfn);
        self.cpus[cpu].claim = Some((predicted, exact));
    }

    /// Compares `mm_page_alloc_extfrag`: which block of another type serves, and what becomes of its pageblock.
    pub(super) fn extfrag(&mut self, cpu: usize, pid: u32, x: &Extfrag) {
        let Some(at) = self.zone_of(x.pfn) else { return };
        if self.is_capture(at, x) {
            let (pfn, order) = (x.pfn, x.alloc_order);
            self.tasks.captured.push(Delayed {
                cpu,
                pid,
                pfn,
                order,
                destination: Destination::Direct,
            });
            return;
        }
        let whole = x.fallback_order >= self.allocator.geometry().pageblock_order;
        if !self.allocator.policy().list_type_strict() {
            self.extfrag_loose(cpu, pid, at, x);
            return;
        }
        // The block left the zone with the event before: only the claim is left to compare.
        if let Some((predicted, exact)) = self.cpus[cpu].claim.take() {
            return self.compare_claim(at, x, predicted, exact);
        }
        self.arrive(x.pfn, x.alloc_order);
        self.free_if_cached(at, x.pfn);
        let (order, mt) = (x.alloc_order, x.alloc_migratetype);
        let refill = self.refill_for(cpu, pid, at, order, mt);
        let mode = refill.map_or(Mode::Normal, |r| r.mode);
        let flags = refill.map_or(FLAGS, |r| r.flags);
        let Some((zone, _)) = self.allocator.zone_and_cache(ZoneIndex::new(at), CpuId(cpu)) else {
            return;
        };
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
        let compared = Comparison { exact, shape, explained: false };
        self.tally.compare(kind::FALLBACK, compared.agreement(), || {
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
        let Some((zone, _)) = self.allocator.zone_and_cache(ZoneIndex::new(at), CpuId(cpu)) else {
            return;
        };
        if own.is_none() && mode <= Mode::Claim && actual.outcome == Outcome::Single {
            // The kernel could not claim anything that the model would have claimed.
            zone.impose_failed_claims(mt, zone.claims_to_try(order, mt, flags));
        }
        // The model has the block elsewhere.
        if zone.impose_fallback(order, mt, actual, &mut ()).is_err() {
            self.take(at, x.pfn, order, mt);
        }
        if let Some(refill) = &mut self.cpus[cpu].refill
            && self.allocator.policy().fallback_pick == FallbackPick::ClaimThenSteal
        {
            // The lists that had no block get none while the refill holds the lock, so the kernel keeps its mode.
            refill.mode = if whole { Mode::Normal } else { Mode::Steal };
        }
        self.received(cpu, at, x.pfn, order, mt, refill);
    }

    /// Compares the report of a claim whose block was taken before it.
    fn compare_claim(&mut self, at: usize, x: &Extfrag, predicted: Option<Fallback>, exact: bool) {
        // The kernel would have claimed this block too if it had been first on its list.
        if let Some(f) = predicted.filter(|f| f.outcome == Outcome::Claim && !exact) {
            self.was_not_first(at, f);
        }
        let shape = predicted.is_some_and(|f| {
            (f.order, f.from, owned(f.outcome))
                == (x.fallback_order, x.fallback_migratetype, x.change_ownership)
        });
        let compared = Comparison { exact: exact && shape, shape, explained: false };
        self.tally.compare(kind::FALLBACK, compared.agreement(), || {
            (words::extfrag(x), words::fallback(predicted))
        });
    }

    /// Returns whether compaction captured the block when its last part was freed, which is reported after this
    /// event.
    pub(super) fn is_capture(&self, at: usize, x: &Extfrag) -> bool {
        let free = self.allocator.zones()[at].free_block_of(x.pfn);
        x.alloc_order == x.fallback_order
            && !x.change_ownership
            && free.is_none_or(|(_, order, _)| order < x.alloc_order)
            && self.holder(x.pfn).is_none_or(|_| x.alloc_order > 0)
    }

    /// Compares a fallback up to 6.9: it moves the block that it found; the block is taken and reported afterwards.
    pub(super) fn extfrag_loose(&mut self, cpu: usize, pid: u32, at: usize, x: &Extfrag) {
        let (order, mt) = (x.alloc_order, x.alloc_migratetype);
        self.arrive(x.pfn, x.fallback_order);
        self.free_if_cached(at, x.pfn);
        let refill = self.refill_for(cpu, pid, at, order, mt);
        let flags = refill.map_or(FLAGS, |r| r.flags);
        let Some((zone, _)) = self.allocator.zone_and_cache(ZoneIndex::new(at), CpuId(cpu)) else {
            return;
        };
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
        let compared = Comparison { exact, shape, explained: false };
        self.tally.compare(kind::FALLBACK, compared.agreement(), || {
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
}
