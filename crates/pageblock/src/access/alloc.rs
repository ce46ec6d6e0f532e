//! The entry to the fast path: one attempt to serve a request.
//!
//! Source: `__alloc_pages` / `prepare_alloc_pages` (mm/page_alloc.c).

use crate::access::local::{Access, Local};
use crate::base::alloc_flags::AllocFlags;
use crate::base::error::AllocError;
use crate::base::event::{Event, Observer};
use crate::base::frame::Pfn;
use crate::base::ids::ZoneIndex;
use crate::base::mobility::Migratetype::Movable;
use crate::base::request::{Gfp, Request};
use crate::percpu::machine::Attempt;
use crate::policy::source::PolicySource;
use crate::policy::{Policy, Reserve, WmarkGap};
use crate::zone::stat::ZoneStat;

/// Returns the flags that follow from the request alone (`prepare_alloc_pages`).
fn own_flags(policy: &Policy, attempt: &Attempt) -> AllocFlags {
    let mut flags = AllocFlags(0);
    if attempt.gfp.has(Gfp::KSWAPD_RECLAIM) {
        flags = flags.with(AllocFlags::KSWAPD);
    }
    if attempt.mt == Movable {
        flags = flags.with(AllocFlags::CMA);
    }
    // Embedders need not go through the slow path to their reserve.
    if policy.wmark_gap == WmarkGap::None && attempt.gfp.has(Gfp::HIGH) {
        flags = flags.with(AllocFlags::MIN_RESERVE);
    }
    if attempt.order > 0
        && policy.reserve == Reserve::HighatomicBelowLow
        && !attempt.gfp.has(Gfp::DIRECT_RECLAIM)
        && attempt.gfp.has(Gfp::HIGH)
        && !attempt.gfp.has(Gfp::NOMEMALLOC)
    {
        flags = flags.with(AllocFlags::HIGHATOMIC);
    }
    flags
}

impl<'m, Z: Access<'m, P>, P: PolicySource> Local<'_, 'm, Z, P> {
    /// Takes a block, with the fast path's flags if none are given.
    pub(crate) fn take(
        &mut self,
        request: &Request,
        flags: Option<AllocFlags>,
        observer: &mut impl Observer,
    ) -> Result<Pfn, AllocError> {
        // Explicit flags may name another watermark or a reserve, which the fast path does not support.
        if flags.is_none() {
            if let Some(pfn) = self.caches.alloc_again(request, observer) {
                return Ok(pfn);
            }
        }
        self.walk_for(request, flags, observer)
    }

    /// Walks the zonelist.
    #[inline(never)]
    fn walk_for(
        &mut self,
        request: &Request,
        flags: Option<AllocFlags>,
        observer: &mut impl Observer,
    ) -> Result<Pfn, AllocError> {
        let attempt = self.machine.attempt(self.caches.node, request)?;
        self.walk_with(&attempt, flags, observer)
    }

    /// See `Allocator::alloc_past_lists`.
    #[cfg(feature = "replay")]
    pub(crate) fn walk_past_lists(
        &mut self,
        request: &Request,
        flags: Option<AllocFlags>,
        observer: &mut impl Observer,
    ) -> Result<Pfn, AllocError> {
        let mut attempt = self.machine.attempt(self.caches.node, request)?;
        attempt.past_lists = true;
        self.walk_with(&attempt, flags, observer)
    }

    fn walk_with(
        &mut self,
        attempt: &Attempt,
        flags: Option<AllocFlags>,
        observer: &mut impl Observer,
    ) -> Result<Pfn, AllocError> {
        let preferred = self.preferred_zone(attempt).ok_or(AllocError::NoMemory)?;
        let flags = flags.unwrap_or_else(|| self.fast_flags(preferred, attempt));
        let taken = self.get_page_from_freelist(attempt, preferred, flags, observer);
        // Where nothing has to stay free, what this CPU holds back itself is no reason to refuse.
        let drains = self.machine.spends_all() && self.caches.hold_enough_for(attempt.order);
        if taken.is_none() && drains {
            self.drain(observer);
            let again = self.get_page_from_freelist(attempt, preferred, flags, observer);
            return again.ok_or(AllocError::NoMemory);
        }
        taken.ok_or(AllocError::NoMemory)
    }

    /// See `Allocator::report_failure`.
    pub(crate) fn report_failure(
        &self,
        request: &Request,
        observer: &mut impl Observer,
    ) -> Result<(), AllocError> {
        let Attempt { order, mt, gfp, .. } = self.machine.attempt(self.caches.node, request)?;
        observer.event(Event::PageAlloc { pfn: None, order, migratetype: mt, gfp });
        Ok(())
    }

    /// Returns the fast path's flags (`prepare_alloc_pages`) for a walk that prefers a zone.
    pub(crate) fn fast_flags(&self, preferred: ZoneIndex, attempt: &Attempt) -> AllocFlags {
        let own = own_flags(&self.machine.policy, attempt);
        self.machine.snapshots[preferred.index()].fast_flags.with(own)
    }

    #[inline]
    pub(crate) fn eligible(&self, at: ZoneIndex, attempt: &Attempt) -> bool {
        let snapshot = &self.machine.snapshots[at.index()];
        snapshot.kind <= attempt.highest
            && attempt.may_use(snapshot.node)
            && self.stat(at).managed() > 0
    }

    #[inline]
    pub(crate) fn preferred_zone(&self, attempt: &Attempt) -> Option<ZoneIndex> {
        self.machine.zonelist(attempt).find(|&z| self.eligible(z, attempt))
    }
}
