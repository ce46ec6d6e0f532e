//! An idea to begin with: requests are served from the fuller of the first few pageblocks, so that the emptier ones
//! become free as a whole.
//!
//! `Decide` has a method for each decision; one that is not written here leaves the decision to Linux.

use std::cmp::Reverse;

use pageblock::decide::{Block, Decide, View, Want};
use pageblock::frame::Pfn;

/// What the idea decides, in a line.
pub(crate) const SUMMARY: &str = "of the first blocks of a list the one in the fullest pageblock";

/// How many blocks of a list are looked at.
const LOOKS: usize = 8;

pub(crate) struct Idea;

impl Decide for Idea {
    fn serve(&mut self, zone: &dyn View, _want: Want, linux: Block) -> Pfn {
        // A whole pageblock is as empty as any other.
        if linux.order >= zone.pageblock_order() {
            return linux.pfn;
        }
        let fullness = |pfn| Reverse(zone.free_in_pageblock(pfn));
        zone.best((linux.order, linux.kind), LOOKS, fullness).unwrap_or(linux.pfn)
    }
}

#[cfg(test)]
mod tests {
    use std::mem::MaybeUninit;

    use pageblock::alloc::Allocator;
    use pageblock::event::{Event, Observer};
    use pageblock::frame::FrameRange;
    use pageblock::ids::{CpuId, NodeId};
    use pageblock::layout::{ZoneKind, ZoneSpec};
    use pageblock::policy::Policy;
    use pageblock::request::{Gfp, Request};
    use pageblock::setup::Setup;

    use super::*;

    /// Has the idea decide, if there is one.
    struct Under(Option<Idea>);

    impl Observer for Under {
        fn event(&mut self, _: Event) {}

        fn decider(&mut self) -> Option<impl Decide> {
            self.0.as_mut()
        }
    }

    /// Fills 64 MiB with blocks of order 4, frees one of pageblock 5 and then three of pageblock 9, and returns the
    /// pageblock that the next request is served from.
    fn served_from(mut under: Under) -> u64 {
        let span = FrameRange::new(0, 1 << 14);
        let zones = [ZoneSpec::full(NodeId(0), ZoneKind::Normal, span)];
        let setup = Setup::new(Policy::parse("linux-7.3").unwrap(), &zones, &[NodeId(0)]);
        let mut memory = vec![MaybeUninit::uninit(); setup.metadata_size().unwrap()];
        let mut allocator = Allocator::new(&mut memory, &setup).unwrap();
        allocator.release(span).unwrap();
        allocator.retune();
        let request = Request::new(4, Gfp::GFP_HIGHUSER_MOVABLE);
        // Up to the low watermark.
        while allocator.alloc(CpuId(0), &request, &mut under).is_ok() {}
        let in_block = |block: u64, piece: u64| Pfn(block * 512 + piece * 16);
        for pfn in [in_block(5, 3), in_block(9, 1), in_block(9, 5), in_block(9, 9)] {
            allocator.free(CpuId(0), pfn, 4, &mut under).unwrap();
        }
        allocator.alloc(CpuId(0), &request, &mut under).unwrap().0 / 512
    }

    #[test]
    fn the_fuller_pageblock_serves() {
        assert_eq!(served_from(Under(None)), 9, "Linux takes the block that was freed last");
        assert_eq!(served_from(Under(Some(Idea))), 5);
    }
}
