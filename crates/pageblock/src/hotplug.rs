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

use crate::alloc::Allocator;
use crate::contig::{ContigError, Migrate};
use crate::event::Observer;
use crate::frame::FrameRange;
use crate::map::FrameState;

impl Allocator<'_> {
    /// Hands reserved memory of one zone to the allocator, and tunes it for its new size
    /// ([`retune`](Self::retune)).
    ///
    /// # Errors
    /// [`ContigError::WrongState`] for a frame that is not reserved, and those of a range that is none;
    /// nothing changes then.
    pub fn online(&mut self, range: FrameRange) -> Result<(), ContigError> {
        let at = self.all_in_state(range, FrameState::Reserved)?;
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
        let (at, ..) = self.in_one_zone(range)?;
        let order = self.machine.geometry.pageblock_order;
        let span = self.zones[at].span;
        let whole = (range.start.is_aligned(order) || range.start == span.start)
            && (range.end.is_aligned(order) || range.end == span.end);
        if !whole {
            return Err(ContigError::Misaligned(range));
        }
        self.empty_range(cpu, range, migrate, observer, |zone, start, end| {
            zone.carve(start, end);
            for i in start..end {
                zone.map.set(i, FrameState::Reserved);
            }
            zone.managed = zone.managed.saturating_sub(range.len());
        })?;
        self.retune();
        Ok(())
    }

    /// Says that reserved frames of one zone are no memory (any more).
    ///
    /// # Errors
    /// As [`online`](Self::online).
    pub fn mark_holes(&mut self, range: FrameRange) -> Result<(), ContigError> {
        let at = self.all_in_state(range, FrameState::Reserved)?;
        self.set_state(at, range, FrameState::Hole);
        let zone = self.zone_at(at);
        zone.present = zone.present.saturating_sub(range.len());
        Ok(())
    }

    /// Says that holes of one zone are memory now, which is reserved at first.
    ///
    /// # Errors
    /// [`ContigError::WrongState`] for a frame that is no hole, and those of a range that is none;
    /// nothing changes then.
    pub fn fill_holes(&mut self, range: FrameRange) -> Result<(), ContigError> {
        let at = self.all_in_state(range, FrameState::Hole)?;
        self.set_state(at, range, FrameState::Reserved);
        self.zone_at(at).present += range.len();
        Ok(())
    }

    fn all_in_state(&self, range: FrameRange, state: FrameState) -> Result<usize, ContigError> {
        let (at, start, end) = self.in_one_zone(range)?;
        let map = &self.zones[at].map;
        match (start..end).find(|&i| map.state(i) != state) {
            None => Ok(at),
            Some(i) => Err(ContigError::WrongState(map.pfn(i), map.block_at(i).1)),
        }
    }

    fn set_state(&mut self, at: usize, range: FrameRange, state: FrameState) {
        let map = &self.zones[at].map;
        for pfn in range.start.0..range.end.0 {
            if let Some(i) = map.index(crate::frame::Pfn(pfn)) {
                map.set(i, state);
            }
        }
    }
}
