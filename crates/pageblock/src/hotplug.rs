//! Memory that comes and goes while the allocator runs.
//!
//! Tables exist for the spans that the allocator was set up with, so a zone's span says how far it can
//! grow. A frame in a span is a hole (no memory), reserved (memory that the allocator does not
//! have), or managed. At setup every frame is reserved.
//!
//! | from | to | by |
//! |---|---|---|
//! | reserved | managed | [`release`](Allocator::release) at boot, [`online`](Allocator::online) later |
//! | managed | reserved | [`offline`](Allocator::offline) |
//! | reserved | hole | [`mark_holes`](Allocator::mark_holes) |
//! | hole | reserved | [`fill_holes`](Allocator::fill_holes) |
//!
//! Source: `online_pages`, `offline_pages` (mm/memory_hotplug.c).
//!
//! ```
//! # use pageblock::{alloc::Allocator, frame::FrameRange, layout::{ZoneKind, ZoneSpec}};
//! # use pageblock::{policy::Policy, request::{Gfp, Request}, setup::Setup, zone::Geometry};
//! # let span = FrameRange::new(0, 1 << 15);
//! # let zone = ZoneSpec { node: 0, kind: ZoneKind::Normal, span, present: 1 << 15, managed: 1 << 15 };
//! # let policy = Policy::parse("linux-6.12").unwrap();
//! # let geometry = Geometry::default();
//! # let setup = Setup { policy, geometry, zones: &[zone], cpu_nodes: &[0], distances: &[] };
//! # let mut memory = vec![std::mem::MaybeUninit::uninit(); setup.metadata_size().unwrap()];
//! # let mut allocator = Allocator::new(&mut memory, &setup).unwrap();
//! # allocator.release(span).unwrap();
//! // Four MiB go, and are no memory then; later others are put in their place.
//! let range = FrameRange::new(1024, 2048);
//! allocator.offline(0, range, &mut (), &mut ())?;
//! allocator.mark_holes(range)?;
//! assert_eq!(allocator.zones()[0].managed, (1 << 15) - 1024);
//! allocator.fill_holes(range)?;
//! allocator.online(range)?;
//! assert_eq!(allocator.zones()[0].free_pages(), 1 << 15);
//! # Ok::<(), pageblock::contig::ContigError>(())
//! ```

use crate::alloc::Allocator;
use crate::contig::{ContigError, Migrate};
use crate::empty::Hands;
use crate::event::Observer;
use crate::frame::FrameRange;
use crate::map::{FrameState, Index};

#[cfg(doc)]
use crate::layout::ZoneSpec;

impl Allocator<'_> {
    /// Hands reserved memory of one zone to the allocator, and tunes it for its new size
    /// ([`retune`](Self::retune)).
    ///
    /// # Errors
    /// [`ContigError::WrongState`] for a frame that is not reserved, and those of a range that is none;
    /// nothing changes then.
    pub fn online(&mut self, range: FrameRange) -> Result<(), ContigError> {
        let (at, ..) = self.all_in_state(range, FrameState::Reserved)?;
        let zone = self.zone_at(at);
        zone.release(range).map_err(ContigError::NotContiguous)?;
        zone.managed += range.len();
        self.retune();
        Ok(())
    }

    /// Takes memory of one zone from the allocator: what is in use there is moved away. The range
    /// consists of whole pageblocks, but for the ends of the zone. The rest is tuned for its new size.
    ///
    /// # Errors
    /// [`ContigError`]; the memory stays then.
    pub fn offline(
        &mut self,
        cpu: usize,
        range: FrameRange,
        migrate: &mut impl Migrate,
        observer: &mut impl Observer,
    ) -> Result<(), ContigError> {
        let (at, ..) = self.hands(cpu)?.in_one_zone(range)?;
        let order = self.machine.geometry.pageblock_order;
        let span = self.zones[at].span;
        let whole = (range.start.is_aligned(order) || range.start == span.start)
            && (range.end.is_aligned(order) || range.end == span.end);
        if !whole {
            return Err(ContigError::Misaligned(range));
        }
        self.hands(cpu)?.empty_range(range, migrate, observer, |zone, start, end| {
            zone.carve(start, end);
            for i in start..end {
                zone.map.set_returned(i);
            }
            zone.managed = zone.managed.saturating_sub(range.len());
        })?;
        self.retune();
        Ok(())
    }

    /// Says that reserved frames of one zone are no memory (any more). Frames that never were memory to
    /// the allocator are first taken for those that [`ZoneSpec::present`] left out, and not counted
    /// twice.
    ///
    /// # Errors
    /// As [`online`](Self::online).
    pub fn mark_holes(&mut self, range: FrameRange) -> Result<(), ContigError> {
        let (at, start, end) = self.all_in_state(range, FrameState::Reserved)?;
        let zone = self.zone_at(at);
        let unknown = (start..end).filter(|&i| !zone.map.is_returned(i)).count() as u64;
        let left_out = unknown.min(zone.unmarked_holes);
        (start..end).for_each(|i| zone.map.set(i, FrameState::Hole));
        zone.unmarked_holes -= left_out;
        zone.present = zone.present.saturating_sub(range.len() - left_out);
        Ok(())
    }

    /// Says that holes of one zone are memory now, which is reserved at first.
    ///
    /// # Errors
    /// [`ContigError::WrongState`] for a frame that is no hole, and those of a range that is none;
    /// nothing changes then.
    pub fn fill_holes(&mut self, range: FrameRange) -> Result<(), ContigError> {
        let (at, start, end) = self.all_in_state(range, FrameState::Hole)?;
        let zone = self.zone_at(at);
        (start..end).for_each(|i| zone.map.set_returned(i));
        zone.present += range.len();
        Ok(())
    }

    /// The zone of a range all of whose frames are in a state, and its ends there.
    fn all_in_state(
        &mut self,
        range: FrameRange,
        state: FrameState,
    ) -> Result<(usize, Index, Index), ContigError> {
        let (at, start, end) = self.hands(0)?.in_one_zone(range)?;
        let map = &self.zones[at].map;
        match (start..end).find(|&i| map.state(i) != state) {
            None => Ok((at, start, end)),
            Some(i) => Err(ContigError::WrongState(map.pfn(i), map.block_at(i).1)),
        }
    }
}
