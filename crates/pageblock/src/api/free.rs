//! Frees: the fast path, and draining of CPU lists.
//!
//! Source: `__free_pages` / `free_unref_page_commit` / `drain_pages` (mm/page_alloc.c).

use crate::api::alloc::Allocator;
use crate::base::decide::{Decide, Decision};
use crate::base::error::{FrameError, NoSuchCpu};
use crate::base::event::Observer;
use crate::base::frame::{Order, Pfn};
use crate::base::ids::{CpuId, ZoneIndex};
use crate::percpu::fast_path::{Page, PageFree};
use crate::policy::source::{Chosen, PolicySource};

/// A free that the fastest path does not handle. It is passed in memory, so that the fastest path saves no
/// registers for two calls.
struct Free<'a, 'm, P: PolicySource = Chosen> {
    allocator: &'a mut Allocator<'m, P>,
    cpu: CpuId,
    pfn: Pfn,
    order: Order,
}

impl<P: PolicySource> Free<'_, '_, P> {
    #[inline(never)]
    fn is_done_fast(&mut self, observer: &mut impl Observer) -> bool {
        let caches = self.allocator.caches.get_mut(self.cpu.index());
        caches.is_some_and(|caches| caches.free_again(self.pfn, self.order, observer))
    }

    #[inline(always)]
    fn is_done_otherwise(&mut self, page: Page, observer: &mut impl Observer) -> bool {
        let caches = self.allocator.caches.get_mut(self.cpu.index());
        caches.is_some_and(|caches| caches.free_other_page(page, observer))
    }

    #[inline(never)]
    fn run_asked(&mut self, observer: &mut impl Observer) -> Result<(), FrameError> {
        let Self { cpu, pfn, order, .. } = *self;
        let cpus = self.allocator.cpus();
        let mut local = self.allocator.local(cpu).ok_or(NoSuchCpu(cpu))?;
        let mut owner = local.owner_asked(pfn, order, observer)?;
        if owner.index() >= cpus {
            if let Some(mut decider) = observer.decider() {
                decider.refused(Decision::Owner);
            }
            owner = cpu;
        }
        let mut local = self.allocator.local(owner).ok_or(NoSuchCpu(owner))?;
        local.free_asked(pfn, order, observer)
    }

    #[inline(never)]
    fn run_in_full(&mut self, observer: &mut impl Observer) -> Result<(), FrameError> {
        let Self { cpu, pfn, order, .. } = *self;
        let mut local = self.allocator.local(cpu).ok_or(NoSuchCpu(cpu))?;
        local.free(pfn, order, observer)
    }
}

impl<P: PolicySource> Allocator<'_, P> {
    /// Frees a block, to the CPU's cache if that has a list for it (`__free_pages`).
    ///
    /// # Errors
    /// For a frame that no allocated block of this order starts at, or a CPU that does not exist; nothing
    /// changes then.
    #[inline(always)]
    pub fn free(
        &mut self,
        cpu: CpuId,
        pfn: Pfn,
        order: Order,
        observer: &mut impl Observer,
    ) -> Result<(), FrameError> {
        if observer.decider().is_some() {
            return Free { allocator: self, cpu, pfn, order }.run_asked(observer);
        }
        if order == 0 {
            if let Some(caches) = self.caches.get_mut(cpu.index()) {
                match caches.free_page_fast(pfn, observer) {
                    PageFree::Done => return Ok(()),
                    PageFree::Other(page) => {
                        let mut free = Free { allocator: self, cpu, pfn, order: 0 };
                        if free.is_done_otherwise(page, observer) {
                            return Ok(());
                        }
                        return free.run_in_full(observer);
                    }
                    PageFree::No => {}
                }
            }
        }
        let mut free = Free { allocator: self, cpu, pfn, order };
        if free.is_done_fast(observer) {
            return Ok(());
        }
        free.run_in_full(observer)
    }

    /// Drains a CPU's caches to the zones (`drain_pages`).
    ///
    /// # Errors
    /// [`NoSuchCpu`].
    pub fn drain_cpu(&mut self, cpu: CpuId, observer: &mut impl Observer) -> Result<(), NoSuchCpu> {
        self.local(cpu).ok_or(NoSuchCpu(cpu))?.drain(observer);
        Ok(())
    }

    /// Drains up to `pages` pages of a CPU's caches, from the highest zone down.
    ///
    /// # Errors
    /// [`NoSuchCpu`].
    pub fn drain_pages(
        &mut self,
        cpu: CpuId,
        pages: u32,
        observer: &mut impl Observer,
    ) -> Result<(), NoSuchCpu> {
        self.local(cpu).ok_or(NoSuchCpu(cpu))?.drain_pages(pages, observer);
        Ok(())
    }

    /// Drains a CPU's cache of one zone (`drain_pages_zone`). Does nothing for a zone that does not exist.
    ///
    /// # Errors
    /// [`NoSuchCpu`].
    pub fn drain_zone(
        &mut self,
        cpu: CpuId,
        zone: ZoneIndex,
        observer: &mut impl Observer,
    ) -> Result<(), NoSuchCpu> {
        let mut local = self.local(cpu).ok_or(NoSuchCpu(cpu))?;
        if zone.index() < local.caches.zones.len() {
            local.drain_zone(zone, observer);
        }
        Ok(())
    }

    /// Drains every CPU's caches (`drain_all_pages`).
    pub fn drain_all(&mut self, observer: &mut impl Observer) {
        for cpu in CpuId::up_to(self.cpus()) {
            if let Some(mut local) = self.local(cpu) {
                local.drain(observer);
            }
        }
    }

    /// Runs a vmstat tick of a CPU: the limits of its caches decay (6.7 and later).
    ///
    /// # Errors
    /// [`NoSuchCpu`].
    pub fn vmstat_tick(
        &mut self,
        cpu: CpuId,
        observer: &mut impl Observer,
    ) -> Result<(), NoSuchCpu> {
        self.local(cpu).ok_or(NoSuchCpu(cpu))?.vmstat_tick(observer);
        Ok(())
    }

    /// Sets whether the content of an allocated block can be moved. Claims of its pageblock take this into account.
    /// A new block counts as movable if its request was.
    ///
    /// # Errors
    /// [`FrameError::Foreign`]; [`FrameError::NotAllocated`] if no allocated block starts there.
    pub fn set_movable(&mut self, pfn: Pfn, movable: bool) -> Result<(), FrameError> {
        self.machine.set_movable(pfn, movable)
    }
}
