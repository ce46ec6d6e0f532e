//! A number of pages in one range, or else in the fewest blocks that there are: for buffers that a device reaches by a
//! list of ranges, for guests and for pools.
//!
//! ```
//! # use pageblock::{alloc::Allocator, frame::FrameRange, ids::*, request::Request, setup::OneZone};
//! # let zone = OneZone::new(FrameRange::new(0, 1 << 15));
//! # let mut memory = vec![std::mem::MaybeUninit::uninit(); zone.metadata_size()?];
//! # let mut allocator = zone.build(&mut memory)?;
//! // 300 pages for a device that takes at most eight ranges.
//! let mut extents = [FrameRange::new(0, 0); 8];
//! let n = allocator.alloc_extents(CpuId(0), 300, &Request::unmovable(0), &mut extents, &mut ())?;
//! assert_eq!((n, extents[0].len()), (1, 300));
//! for &extent in &extents[..n] {
//!     allocator.free_contig(CpuId(0), extent, &mut ())?;
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::access::extents::Extents;
use crate::api::alloc::Allocator;
use crate::api::cpu::Cpu;
use crate::base::event::Observer;
use crate::base::frame::FrameRange;
use crate::base::ids::CpuId;
use crate::base::interrupts::Interrupts;
use crate::base::locks::Locks;
use crate::base::request::Request;
use crate::policy::source::PolicySource;
use crate::zone::contig::ContigError;

impl<P: PolicySource> Allocator<'_, P> {
    /// Allocates `pages` pages: one range, where some block holds them all (what is beyond them stays free), or else
    /// blocks, the largest first. Returns the number of ranges, which are at the start of `extents`. The request's order
    /// is ignored. Free each range with [`free_contig`](Self::free_contig).
    ///
    /// Ranges larger than the largest block are those of [`alloc_contig`](Self::alloc_contig).
    ///
    /// # Errors
    /// [`ContigError::NotFound`] where so many pages are not free, [`ContigError::Extents`] where they are in more
    /// ranges than `extents` has room for, [`ContigError::Request`] and [`ContigError::Empty`] for a caller's mistakes.
    /// Nothing is allocated then.
    pub fn alloc_extents(
        &mut self,
        cpu: CpuId,
        pages: u64,
        request: &Request,
        extents: &mut [FrameRange],
        observer: &mut impl Observer,
    ) -> Result<usize, ContigError> {
        self.range_worker(cpu)?.take_extents(pages, request, extents, observer)
    }
}

impl<L: Locks, I: Interrupts, P: PolicySource> Cpu<'_, '_, L, I, P> {
    /// See [`Allocator::alloc_extents`].
    ///
    /// # Errors
    /// Those of [`Allocator::alloc_extents`].
    pub fn alloc_extents(
        &mut self,
        pages: u64,
        request: &Request,
        extents: &mut [FrameRange],
        observer: &mut impl Observer,
    ) -> Result<usize, ContigError> {
        self.take_extents(pages, request, extents, observer)
    }
}
