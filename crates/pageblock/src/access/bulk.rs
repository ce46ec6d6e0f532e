//! Bulk allocation, for blocks of any order.
//!
//! Source: `alloc_pages_bulk` (mm/page_alloc.c), which in the kernel allocates only order 0.

use crate::access::local::{Access, Local};
use crate::base::alloc_flags::Watermark;
use crate::base::decide::Decide;
use crate::base::error::AllocError;
use crate::base::event::Observer;
use crate::base::frame::{Pfn, pages};
use crate::base::request::{Gfp, Request};
use crate::percpu::machine::Attempt;
use crate::policy::Fair;
use crate::policy::source::PolicySource;
use crate::table::map::FrameState;
use crate::zone::fallback::Mode;

impl<'m, Z: Access<'m, P>, P: PolicySource> Local<'_, 'm, Z, P> {
    /// See `Allocator::alloc_bulk`.
    pub(crate) fn alloc_bulk(
        &mut self,
        request: &Request,
        blocks: &mut [Pfn],
        observer: &mut impl Observer,
    ) -> Result<usize, AllocError> {
        let attempt = self.machine.attempt(self.caches.node, request)?;
        let mut done = self.take_bulk(&attempt, blocks, observer);
        while let Some(slot) = blocks.get_mut(done) {
            let warm = self.caches.alloc_fast(request, observer);
            match warm.map_or_else(|| self.take(request, None, observer), Ok) {
                Ok(pfn) => *slot = pfn,
                // As in the kernel, a bulk request that got anything succeeds with what it got.
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
            }
            done += 1;
        }
        Ok(done)
    }

    /// Takes blocks from the first zone while holding its lock: first those of the CPU list, then the zone's. Takes
    /// none if the zone would fall below its low watermark, or if anything else decides whether it serves.
    fn take_bulk(
        &mut self,
        attempt: &Attempt,
        blocks: &mut [Pfn],
        observer: &mut impl Observer,
    ) -> usize {
        let Attempt { order, mt, gfp, highest, .. } = *attempt;
        let plain = !gfp.has(Gfp::WRITE) && !gfp.has(Gfp::HIGH) && self.policy_is_plain();
        // The kernel too leaves a single page to the ordinary path.
        let Some(at) = self.preferred_zone(attempt).filter(|_| plain && blocks.len() > 1) else {
            return 0;
        };
        if let Some(mut decider) = observer.decider() {
            decider.on(self.caches.cpu(), attempt.gfp);
        }
        let flags = self.fast_flags(at, attempt);
        let wanted = (blocks.len() as u64).saturating_mul(pages(order));
        let in_use = FrameState::Allocated { order, movable: gfp.has(Gfp::MOVABLE) };
        let taken = self.with(at, |zone, cache| {
            let mark = zone.watermark(Watermark::Low).saturating_add(wanted);
            // Checked once for all blocks: the pages of this request are added to the mark.
            if !zone.watermark_ok(order, mark, highest, flags) {
                return 0;
            }
            zone.count_lock();
            let list = cache.list_index(order, mt);
            let mut mode = Mode::Normal;
            for (n, slot) in blocks.iter_mut().enumerate() {
                let cached = list.and_then(|list| cache.pop(zone.map(), list, order));
                let found = cached.or_else(|| {
                    zone.rmqueue(order, mt, flags, &mut mode, observer).map(|(i, _)| i)
                });
                let Some(i) = found else { return n };
                // Done under the lock, so that another holder of the lock finds every frame in a block.
                zone.map().set(i, in_use);
                *slot = zone.map().pfn(i);
            }
            blocks.len()
        });
        for &mut pfn in &mut blocks[..taken] {
            if let Some(i) = self.machine.snapshots[at.index()].map.index(pfn) {
                self.hand_out(at, i, attempt, observer);
            }
        }
        debug_assert!(taken <= blocks.len(), "more blocks than slots");
        taken
    }

    /// Returns whether only a watermark decides if a zone serves.
    fn policy_is_plain(&self) -> bool {
        self.machine.policy.fair == Fair::Off && self.machine.first_zone_serves()
    }
}
