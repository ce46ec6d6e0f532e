//! Many blocks at once, of any order.
//!
//! Source: `alloc_pages_bulk` (mm/page_alloc.c), which in the kernel has order 0 only.

use lock_api::RawMutex;

use crate::alloc::{AllocError, Allocator};
use crate::alloc_flags::Watermark;
use crate::cpu::Cpu;
use crate::event::Observer;
use crate::fallback::Mode;
use crate::frame::{Order, Pfn, pages};
use crate::interrupts::{Interrupts, Off};
use crate::local::{Local, Zones};
use crate::machine::Attempt;
use crate::map::FrameState;
use crate::policy::Fair;
use crate::request::{Gfp, Request};
use crate::zone::FrameError;

/// A bulk free that met a mistake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BulkError {
    /// The blocks before the mistake; they are free.
    pub freed: usize,
    /// The mistake. Its block and those after it are as they were.
    pub error: FrameError,
}

impl core::fmt::Display for BulkError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "after {} blocks: {}", self.freed, self.error)
    }
}

impl core::error::Error for BulkError {}

impl Allocator<'_> {
    /// Allocates up to `blocks.len()` blocks, the first of them in `blocks[0]`; gives how many.
    /// Entries past these are unchanged. The zone's lock is taken once for all blocks that the first
    /// zone serves.
    ///
    /// # Errors
    /// Those of [`alloc`](Self::alloc), where not even one block could be had.
    ///
    /// ```
    /// # use pageblock::{alloc::Allocator, frame::{FrameRange, Pfn}, layout::{ZoneKind, ZoneSpec}};
    /// # use pageblock::{policy::Policy, request::{Gfp, Request}, setup::Setup, zone::Geometry};
    /// # let span = FrameRange::new(0, 1 << 15);
    /// # let zone = ZoneSpec { node: 0, kind: ZoneKind::Normal, span, present: 1 << 15, managed: 1 << 15 };
    /// # let policy = Policy::parse("linux-6.12").unwrap();
    /// # let geometry = Geometry::default();
    /// # let setup = Setup { policy, geometry, zones: &[zone], cpu_nodes: &[0], distances: &[] };
    /// # let mut memory = vec![std::mem::MaybeUninit::uninit(); setup.metadata_size().unwrap()];
    /// # let mut allocator = Allocator::new(&mut memory, &setup).unwrap();
    /// # allocator.release(span).unwrap();
    /// let mut blocks = [Pfn(0); 100];
    /// let request = Request::new(2, Gfp::GFP_KERNEL);
    /// let got = allocator.alloc_bulk(0, &request, &mut blocks, &mut ())?;
    /// allocator.free_bulk(0, &blocks[..got], 2, &mut ()).unwrap();
    /// # assert_eq!(got, 100);
    /// # Ok::<(), pageblock::alloc::AllocError>(())
    /// ```
    pub fn alloc_bulk(
        &mut self,
        cpu: usize,
        request: &Request,
        blocks: &mut [Pfn],
        observer: &mut impl Observer,
    ) -> Result<usize, AllocError> {
        self.local_for(cpu, request.order)?.alloc_bulk(request, blocks, observer)
    }

    /// Frees blocks of one order, as [`free`](Self::free) does each.
    ///
    /// # Errors
    /// The first mistake; blocks before it are free then.
    pub fn free_bulk(
        &mut self,
        cpu: usize,
        blocks: &[Pfn],
        order: Order,
        observer: &mut impl Observer,
    ) -> Result<(), BulkError> {
        for (freed, &pfn) in blocks.iter().enumerate() {
            self.free(cpu, pfn, order, observer).map_err(|error| BulkError { freed, error })?;
        }
        Ok(())
    }
}

impl<R: RawMutex, I: Interrupts> Cpu<'_, '_, R, I> {
    /// See [`Allocator::alloc_bulk`].
    ///
    /// # Errors
    /// Those of [`Allocator::alloc_bulk`].
    pub fn alloc_bulk(
        &mut self,
        request: &Request,
        blocks: &mut [Pfn],
        observer: &mut impl Observer,
    ) -> Result<usize, AllocError> {
        let _off = Off::<I>::now();
        self.attend(observer);
        self.local().alloc_bulk(request, blocks, observer)
    }

    /// See [`Allocator::free_bulk`].
    ///
    /// # Errors
    /// Those of [`Allocator::free_bulk`].
    pub fn free_bulk(
        &mut self,
        blocks: &[Pfn],
        order: Order,
        observer: &mut impl Observer,
    ) -> Result<(), BulkError> {
        for (freed, &pfn) in blocks.iter().enumerate() {
            self.free(pfn, order, observer).map_err(|error| BulkError { freed, error })?;
        }
        Ok(())
    }
}

impl<'m, Z: Zones<'m>> Local<'_, 'm, Z> {
    /// See [`Allocator::alloc_bulk`].
    pub(crate) fn alloc_bulk(
        &mut self,
        request: &Request,
        blocks: &mut [Pfn],
        observer: &mut impl Observer,
    ) -> Result<usize, AllocError> {
        let attempt = self.machine.attempt(self.row.node, request)?;
        let mut done = self.take_bulk(&attempt, blocks, observer);
        while let Some(slot) = blocks.get_mut(done) {
            let warm = self.row.take_warm(request, observer);
            match warm.map_or_else(|| self.take(request, None, observer), Ok) {
                Ok(pfn) => *slot = pfn,
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
            }
            done += 1;
        }
        Ok(done)
    }

    /// Takes blocks from the first zone while its lock is held: those of the CPU list, then the
    /// zone's. Takes none where the zone would fall under its low watermark, or where more than that
    /// decides whether it serves.
    fn take_bulk(
        &mut self,
        attempt: &Attempt,
        blocks: &mut [Pfn],
        observer: &mut impl Observer,
    ) -> usize {
        let Attempt { order, mt, gfp, highest, .. } = *attempt;
        let plain = !gfp.has(Gfp::WRITE) && !gfp.has(Gfp::HIGH) && self.policy_is_plain();
        let Some(at) = self.preferred_zone(attempt).filter(|_| plain && blocks.len() > 1) else {
            return 0;
        };
        let flags = self.fast_flags(at, attempt);
        let wanted = (blocks.len() as u64).saturating_mul(pages(order));
        let in_use = FrameState::Allocated { order, movable: gfp.has(Gfp::MOVABLE) };
        let taken = self.with(at, |zone, cache| {
            let mark = zone.watermark(Watermark::Low).saturating_add(wanted);
            if !zone.watermark_ok(order, mark, highest, flags) {
                return 0;
            }
            zone.counters.lock_acquired += 1;
            let list = cache.list_index(order, mt);
            let mut mode = Mode::Normal;
            for (n, slot) in blocks.iter_mut().enumerate() {
                let cached = list.and_then(|list| cache.pop(&zone.map, list, order));
                let found = cached.or_else(|| {
                    zone.rmqueue(order, mt, flags, &mut mode, observer).map(|(i, _)| i)
                });
                let Some(i) = found else { return n };
                // Under the lock, so that whoever holds it finds every frame in a block.
                zone.map.set(i, in_use);
                *slot = zone.map.pfn(i);
            }
            blocks.len()
        });
        for &mut pfn in &mut blocks[..taken] {
            if let Some(i) = self.machine.fronts[at].map.index(pfn) {
                self.hand_out(at, i, attempt, observer);
            }
        }
        taken
    }

    /// Whether nothing but a watermark decides if a zone serves.
    fn policy_is_plain(&self) -> bool {
        self.machine.policy.fair == Fair::Off && self.machine.first_zone_serves()
    }
}
