//! The decisions of a zone for which a policy of one's own is asked ([`Decide`]), and what it may answer.

use crate::policy::source::{Chosen, PolicySource};
use core::cell::Cell;

use crate::base::alloc_flags::{AllocFlags, Watermark};
use crate::base::decide::{
    Block, Decide, Decision, End, Evacuation, Fallback, Kept, Outcome, Pageblock, View, Want,
};
use crate::base::event::Observer;
use crate::base::frame::{FrameRange, Order, Pfn, pages};
use crate::base::ids::CpuId;
use crate::base::mobility::Migratetype::{self, Cma, HighAtomic};
use crate::policy::ClaimRule;
use crate::table::map::{FrameState, Index};
use crate::zone::Zone;
use crate::zone::fallback::FallbackSearch;
use crate::zone::fallback::Mode;

/// The largest part of a zone by which answers raise its watermarks: an eighth.
pub(super) const BOOST_SHARE: u64 = 8;

/// A zone as a decider sees it.
struct Shown<'z, 'm, P: PolicySource = Chosen> {
    zone: &'z Zone<'m, P>,
    lists: Cell<u64>,
    looks: Cell<u64>,
}

/// What a decider looked at.
#[derive(Clone, Copy)]
struct Steps {
    lists: u64,
    looks: u64,
}

impl<'z, 'm, P: PolicySource> Shown<'z, 'm, P> {
    fn new(zone: &'z Zone<'m, P>) -> Self {
        Self { zone, lists: Cell::new(0), looks: Cell::new(0) }
    }

    fn steps(&self) -> Steps {
        Steps { lists: self.lists.get(), looks: self.looks.get() }
    }

    fn look(&self, pages: u64) {
        self.looks.set(self.looks.get() + pages);
    }
}

impl<P: PolicySource> View for Shown<'_, '_, P> {
    fn pageblock_order(&self) -> Order {
        self.zone.geometry.pageblock_order
    }

    fn max_order(&self) -> Order {
        self.zone.geometry.max_order
    }

    fn span(&self) -> FrameRange {
        self.zone.span
    }

    fn managed(&self) -> u64 {
        self.zone.managed
    }

    fn free_pages(&self) -> u64 {
        self.zone.free_pages
    }

    fn high_watermark(&self) -> u64 {
        self.zone.watermark(Watermark::High)
    }

    fn free_blocks(&self, order: Order, kind: Migratetype) -> u64 {
        self.zone.nr_free_of(order, kind)
    }

    fn each(&self, order: Order, kind: Migratetype, visit: &mut dyn FnMut(Pfn) -> bool) {
        self.lists.set(self.lists.get() + 1);
        for pfn in self.zone.free_list(order, kind) {
            self.look(1);
            if !visit(pfn) {
                return;
            }
        }
    }

    fn shown(&self, order: Order, kind: Migratetype, visit: &mut dyn FnMut(Pfn) -> bool) {
        for pfn in self.zone.free_list(order, kind) {
            if !visit(pfn) {
                return;
            }
        }
    }

    fn looked_at(&self, lists: u64) {
        self.lists.set(self.lists.get().saturating_add(lists));
    }

    fn free_in_block(&self, pfn: Pfn, visit: &mut dyn FnMut(Block) -> bool) {
        let Some(i) = self.zone.map.index(pfn) else { return };
        let Some(range) = self.zone.movable_range(i) else { return };
        let mut at = range.start;
        while at < range.end {
            let order = match self.zone.map.state(at) {
                FrameState::Free { order, list } => {
                    self.look(1);
                    let block = Block { pfn: self.zone.map.pfn(at), order, kind: list };
                    if order > self.pageblock_order() || !visit(block) {
                        return;
                    }
                    order
                }
                FrameState::Allocated { order, .. } | FrameState::CpuList { order, .. } => {
                    self.look(pages(order));
                    order
                }
                FrameState::Hole | FrameState::Reserved | FrameState::Tail => {
                    self.look(1);
                    0
                }
            };
            at += 1 << order;
        }
    }

    fn is_free(&self, Block { pfn, order, kind }: Block) -> bool {
        let at = self.zone.map.index(pfn);
        at.is_some_and(|i| {
            order <= self.max_order() && self.zone.map.free_list(i, order) == Some(kind)
        })
    }

    fn kind_of(&self, pfn: Pfn) -> Option<Migratetype> {
        self.zone.block_type(pfn)
    }

    fn free_in_pageblock(&self, pfn: Pfn) -> Option<u64> {
        self.look(1);
        let range = self.zone.movable_range(self.zone.map.index(pfn)?)?;
        Some(self.zone.count_block(range).free)
    }

    fn pageblock(&self, pfn: Pfn) -> Option<Pageblock> {
        let i = self.zone.map.index(pfn)?;
        let count = self.zone.count_block(self.zone.movable_range(i)?);
        self.look(count.looks.into());
        Some(self.zone.holds(i, count.free, count.movable))
    }
}

impl<P: PolicySource> Zone<'_, P> {
    /// Returns what a pageblock holds.
    pub(super) fn holds(&self, i: Index, free: u64, movable: u64) -> Pageblock {
        let other = self.geometry.pageblock_pages().saturating_sub(free + movable);
        Pageblock { kind: self.map.block_type(i), free, movable, other }
    }

    fn count_steps(&mut self, steps: Steps) {
        self.counters.list_probes += steps.lists;
        self.block_looks += steps.looks;
    }

    /// Takes a block of the requested type for a request: the one that the decider names, or Linux's.
    pub(super) fn rmqueue_own(
        &mut self,
        order: Order,
        start: Migratetype,
        flags: AllocFlags,
        observer: &mut impl Observer,
    ) -> Option<(Index, Migratetype)> {
        let want = Want { order, kind: start, flags };
        let asked = match observer.decider() {
            Some(mut decider) if !self.is_packed() => Some(self.asked_block(want, &mut decider)),
            _ => None,
        };
        let Some(named) = asked else { return self.rmqueue_from(order, start, start, observer) };
        let (i, found) = named?;
        let page = self.take_block(i, found, order, start);
        self.trace_zone_locked(page, order, start, start, observer);
        Some((page, start))
    }

    fn asked_block(&mut self, want: Want, decider: &mut impl Decide) -> Option<(Index, Order)> {
        let (i, found) = self.probe_smallest(want.order, want.kind)?;
        let linux = Block { pfn: self.map.pfn(i), order: found, kind: want.kind };
        let shown = Shown::new(self);
        let passed = decider.passes(&shown, want);
        let answer = if passed { linux.pfn } else { decider.serve(&shown, want, linux) };
        let steps = shown.steps();
        self.count_steps(steps);
        if passed {
            return None;
        }
        if answer == linux.pfn {
            return Some((i, found));
        }
        let named = self.map.index(answer).and_then(|at| {
            let (first, order, list) = self.map.free_block_of(at)?;
            (first == at && list == want.kind && order >= want.order).then_some((at, order))
        });
        if named.is_none() {
            decider.refused(Decision::Serve);
        }
        named.or(Some((i, found)))
    }

    /// Searches for a fallback as [`find_fallback`](Self::find_fallback) does, and asks what it decides.
    pub(super) fn asked_fallback(
        &mut self,
        want: Want,
        mode: Mode,
        decider: &mut impl Decide,
    ) -> FallbackSearch {
        let Want { order, kind, flags } = want;
        let mut search = self.find_fallback_by(order, kind, flags, mode, decider);
        let shown = Shown::new(self);
        let answer = decider.fallback(&shown, want, search.found);
        let steps = shown.steps();
        self.count_steps(steps);
        if answer == search.found {
            return search;
        }
        if answer.is_none_or(|fallback| self.allows(fallback, want)) {
            search.found = answer;
        } else {
            decider.refused(Decision::Fallback);
        }
        search
    }

    /// Tells whether a fallback can be taken for a request.
    fn allows(&self, fallback: Fallback, want: Want) -> bool {
        let Fallback { pfn, order, from, outcome } = fallback;
        let Some(i) = self.map.index(pfn) else { return false };
        let is_candidate = self.map.free_list(i, order) == Some(from)
            && order >= self.min_fallback_order(want.order, want.flags)
            && self.fallback_types(want.kind).contains(&from);
        let rule = self.policy.claim_rule;
        let alike = matches!(rule, ClaimRule::CompatibleCounts | ClaimRule::TypesAgree);
        let keeps_type = from == Cma || (alike && self.map.block_type(i) == HighAtomic);
        is_candidate
            && match outcome {
                Outcome::Single => {
                    keeps_type || rule == ClaimRule::TypesAgree || !self.is_whole_block(order)
                }
                _ if keeps_type => false,
                Outcome::ClaimWhole => self.is_whole_block(order),
                Outcome::Claim => !self.is_whole_block(order) && self.movable_range(i).is_some(),
                Outcome::Refile => self.may_refile(i, order),
            }
    }

    fn may_refile(&self, i: Index, order: Order) -> bool {
        self.policy.claim_rule != ClaimRule::TypesAgree
            && !self.is_whole_block(order)
            && self.movable_range(i).is_some()
    }

    /// Asks what becomes of a pageblock. `linux` is what Linux would do.
    pub(super) fn asked_outcome(
        &self,
        want: Want,
        (i, order, kind): (Index, Order, Migratetype),
        holds: Pageblock,
        linux: Outcome,
        decider: &mut impl Decide,
    ) -> Outcome {
        let block = Block { pfn: self.map.pfn(i), order, kind };
        let answer = decider.claim(want, block, holds, linux);
        let possible = match answer {
            Outcome::ClaimWhole => false,
            Outcome::Claim => self.movable_range(i).is_some(),
            Outcome::Refile => self.may_refile(i, order),
            Outcome::Single => true,
        };
        if possible || answer == linux {
            return answer;
        }
        decider.refused(Decision::Claim);
        linux
    }

    /// Asks by how many pages the watermarks rise if Linux would raise the boost to `linux`. Returns the new boost.
    pub(super) fn asked_boost(
        &mut self,
        kind: Migratetype,
        linux: Option<u64>,
        decider: &mut impl Decide,
    ) -> Option<u64> {
        let rise = linux.map_or(0, |boost| boost.saturating_sub(self.boost));
        let shown = Shown::new(self);
        let answer = decider.boost(&shown, kind, rise);
        let steps = shown.steps();
        self.count_steps(steps);
        if answer == rise {
            return linux;
        }
        let most = self.managed / BOOST_SHARE;
        if answer > most.saturating_sub(self.boost) {
            decider.refused(Decision::Boost);
            return linux;
        }
        (answer > 0).then_some(self.boost + answer)
    }

    /// Asks to which end of its list a freed block goes.
    pub(super) fn asked_end(
        &mut self,
        (i, order, kind): (Index, Order, Migratetype),
        linux: End,
        decider: &mut impl Decide,
    ) -> End {
        let block = Block { pfn: self.map.pfn(i), order, kind };
        let shown = Shown::new(self);
        let end = decider.freed_to(&shown, block, linux);
        let steps = shown.steps();
        self.count_steps(steps);
        end
    }

    /// Asks whether a request that may use CMA tries it first.
    pub(super) fn asked_cma(&mut self, want: Want, linux: bool, decider: &mut impl Decide) -> bool {
        let shown = Shown::new(self);
        let first = decider.cma_first(&shown, want, linux);
        let steps = shown.steps();
        self.count_steps(steps);
        first
    }

    /// Asks to whose lists a freed block goes.
    pub(crate) fn asked_owner(
        &mut self,
        (i, order, kind): (Index, Order, Migratetype),
        linux: CpuId,
        decider: &mut impl Decide,
    ) -> CpuId {
        let block = Block { pfn: self.map.pfn(i), order, kind };
        let shown = Shown::new(self);
        let owner = decider.owner(&shown, block, linux);
        let steps = shown.steps();
        self.count_steps(steps);
        owner
    }

    /// Asks the observer's decider what to empty in the background: whole pageblocks of this zone. Linux: nothing.
    pub fn evacuation(&mut self, observer: &mut impl Observer) -> Option<Evacuation> {
        let mut decider = observer.decider()?;
        let shown = Shown::new(self);
        let answer = decider.evacuate(&shown);
        let steps = shown.steps();
        self.count_steps(steps);
        let Evacuation { from, apart } = answer?;
        let whole = self.geometry.pageblock_order;
        let within = |outer: FrameRange, start, end| outer.start <= start && end <= outer.end;
        let allowed = from.start < from.end
            && from.start.is_aligned(whole)
            && from.end.is_aligned(whole)
            && within(self.span, from.start, from.end)
            && within(apart, from.start, from.end);
        if !allowed {
            decider.refused(Decision::Evacuate);
            return None;
        }
        answer
    }

    /// Asks where a block goes that is freed to a CPU list.
    pub(crate) fn asked_keep(
        &mut self,
        (i, order, kind): (Index, Order, Migratetype),
        decider: &mut impl Decide,
    ) -> Kept {
        let block = Block { pfn: self.map.pfn(i), order, kind };
        let shown = Shown::new(self);
        let kept = decider.keep(&shown, block, Kept::Head);
        let steps = shown.steps();
        self.count_steps(steps);
        kept
    }
}
