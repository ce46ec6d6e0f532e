//! Allocation of blocks at a given frame, or anywhere in a range of frames.

use crate::access::local::{Access, Local};
use crate::base::alloc_flags::Watermark;
use crate::base::error::{AllocError, ExactError, FrameError};
use crate::base::event::Observer;
use crate::base::frame::{FrameRange, Pfn};
use crate::base::request::Request;
use crate::policy::source::PolicySource;

impl<'m, Z: Access<'m, P>, P: PolicySource> Local<'_, 'm, Z, P> {
    /// See `Allocator::alloc_at`.
    pub(crate) fn alloc_at(
        &mut self,
        pfn: Pfn,
        request: &Request,
        observer: &mut impl Observer,
    ) -> Result<(), ExactError> {
        let attempt = self.machine.attempt(self.caches.node, request)?;
        if !pfn.is_aligned(attempt.order) {
            return Err(FrameError::Misaligned(pfn, attempt.order).into());
        }
        let (at, i) = self.machine.locate(pfn).ok_or(FrameError::Foreign(pfn))?;
        if !self.eligible(at, &attempt) {
            return Err(ExactError::ZoneNotAllowed(pfn));
        }
        let flags = self.fast_flags(at, &attempt);
        self.with(at, |zone, _| {
            zone.all_free(i, i + (1 << attempt.order))?;
            let mark = zone.watermark(Watermark::Low);
            if !zone.watermark_ok(attempt.order, mark, attempt.highest, flags) {
                return Err(ExactError::Request(AllocError::NoMemory));
            }
            zone.count_lock();
            zone.carve(i, i + (1 << attempt.order));
            Ok(())
        })?;
        self.hand_out(at, i, &attempt, observer);
        Ok(())
    }

    /// See `Allocator::alloc_within`.
    pub(crate) fn alloc_within(
        &mut self,
        range: FrameRange,
        request: &Request,
        observer: &mut impl Observer,
    ) -> Result<Pfn, ExactError> {
        if range.is_empty() {
            return Err(ExactError::EmptyRange(range));
        }
        let attempt = self.machine.attempt(self.caches.node, request)?;
        for at in self.machine.zonelist(&attempt) {
            if !self.eligible(at, &attempt) {
                continue;
            }
            let flags = self.fast_flags(at, &attempt);
            let found = self.with(at, |zone, _| {
                let mark = zone.watermark(Watermark::Low);
                if !zone.watermark_ok(attempt.order, mark, attempt.highest, flags) {
                    return None;
                }
                let i = zone.lowest_free(range, attempt.order)?;
                zone.count_lock();
                zone.carve(i, i + (1 << attempt.order));
                Some(i)
            });
            if let Some(i) = found {
                return Ok(self.hand_out(at, i, &attempt, observer));
            }
        }
        Err(AllocError::NoMemory.into())
    }
}
