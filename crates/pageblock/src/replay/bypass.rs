//! PCP bypass: requests and frees that pass by the CPU lists, as where a kernel's trylock on them fails.

use crate::access::local::{Access, Owned};
use crate::api::alloc::Allocator;
use crate::base::alloc_flags::AllocFlags;
use crate::base::error::{AllocError, FrameError};
use crate::base::event::{Event, Observer};
use crate::base::frame::{Order, Pfn};
use crate::base::ids::CpuId;
use crate::base::request::Request;
use crate::policy::source::PolicySource;

impl<P: PolicySource> Allocator<'_, P> {
    /// Allocates a block from the zones, past the CPU's lists; with the flags of the fast path if none are
    /// given.
    ///
    /// # Errors
    /// As [`alloc`](Self::alloc).
    pub fn alloc_past_lists(
        &mut self,
        cpu: CpuId,
        request: &Request,
        flags: Option<AllocFlags>,
        observer: &mut impl Observer,
    ) -> Result<Pfn, AllocError> {
        self.local_for(cpu, request.order)?.walk_past_lists(request, flags, observer)
    }

    /// Frees a block to its zone, past the lists of every CPU.
    ///
    /// # Errors
    /// For a frame that no allocated block of this order starts at; nothing changes then.
    pub fn free_past_lists(
        &mut self,
        pfn: Pfn,
        order: Order,
        observer: &mut impl Observer,
    ) -> Result<(), FrameError> {
        let (at, i) = self.machine.find_allocated(pfn, order)?;
        observer.event(Event::PageFree { pfn, order });
        Owned(self.zones).with(&self.machine, at, |zone| zone.free_past_lists(i, order, observer));
        Ok(())
    }
}
