//! A number of pages in one range, or else in the fewest blocks that there are.

use crate::access::contig::RangeWorker;
use crate::base::error::AllocError;
use crate::base::event::Observer;
use crate::base::frame::{FrameRange, Order, pages};
use crate::base::request::Request;
use crate::policy::source::PolicySource;
use crate::zone::contig::ContigError;

/// What every [`RangeWorker`] can do.
pub(crate) trait Extents<'m, P: PolicySource>: RangeWorker<'m, P> {
    /// See `Allocator::alloc_extents`.
    fn take_extents(
        &mut self,
        count: u64,
        request: &Request,
        extents: &mut [FrameRange],
        observer: &mut impl Observer,
    ) -> Result<usize, ContigError> {
        if count == 0 {
            return Err(ContigError::Empty);
        }
        let Some(first) = extents.first_mut() else { return Err(ContigError::Extents(0)) };
        if let Some(range) = self.take_one(count, request, observer)? {
            *first = range;
            return Ok(1);
        }
        let mut taken = 0;
        let done = self.take_blocks(count, request, extents, &mut taken, observer);
        if let Err(error) = done {
            // All or nothing: the caller could not tell which extents it has.
            for &range in &extents[..taken] {
                self.free_range(range, observer)?;
            }
            return Err(error);
        }
        Ok(taken)
    }

    /// Takes the smallest block that holds all pages, and frees what is beyond them; `None` where there is no such
    /// block.
    fn take_one(
        &mut self,
        count: u64,
        request: &Request,
        observer: &mut impl Observer,
    ) -> Result<Option<FrameRange>, ContigError> {
        let max_order = self.machine().geometry.max_order;
        let whole = count.checked_next_power_of_two().map_or(u32::MAX, u64::ilog2);
        let Some(mut order) = Order::try_from(whole).ok().filter(|&order| order <= max_order)
        else {
            return Ok(None);
        };
        let start = match self.get(&Request { order, ..*request }, None, observer) {
            Ok(start) => start,
            Err(AllocError::NoMemory) => return Ok(None),
            Err(error) => return Err(ContigError::Request(error)),
        };
        let (mut at, mut left) = (start, count);
        while left < pages(order) {
            self.split(at, order, order - 1).map_err(ContigError::NotContiguous)?;
            order -= 1;
            if left <= pages(order) {
                let beyond = at.plus(pages(order));
                self.put(beyond, order, observer).map_err(ContigError::NotContiguous)?;
            } else {
                at = at.plus(pages(order));
                left -= pages(order);
            }
        }
        Ok(Some(FrameRange { start, end: start.plus(count) }))
    }

    /// Takes blocks, the largest first.
    fn take_blocks(
        &mut self,
        count: u64,
        request: &Request,
        extents: &mut [FrameRange],
        taken: &mut usize,
        observer: &mut impl Observer,
    ) -> Result<(), ContigError> {
        let mut largest = self.machine().geometry.max_order;
        let mut left = count;
        while left > 0 {
            let order = largest.min(left.ilog2() as Order);
            match self.get(&Request { order, ..*request }, None, observer) {
                Ok(start) => {
                    let range = FrameRange { start, end: start.plus(pages(order)) };
                    let slots = extents.len();
                    let Some(slot) = extents.get_mut(*taken) else {
                        self.free_range(range, observer)?;
                        return Err(ContigError::Extents(slots));
                    };
                    *slot = range;
                    *taken += 1;
                    left -= pages(order);
                }
                // What failed once fails again: nothing is freed meanwhile that would be worth the search.
                Err(AllocError::NoMemory) if order > 0 => largest = order - 1,
                Err(AllocError::NoMemory) => return Err(ContigError::NotFound),
                Err(error) => return Err(ContigError::Request(error)),
            }
        }
        Ok(())
    }
}

impl<'m, T: RangeWorker<'m, P>, P: PolicySource> Extents<'m, P> for T {}
