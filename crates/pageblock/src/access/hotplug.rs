//! Memory that comes and goes: the frames of one zone, under its lock.
//!
//! Source: `online_pages`, `offline_pages` (mm/memory_hotplug.c).

use crate::access::contig::Hands;
use crate::access::reach::Reach;
use crate::base::event::Observer;
use crate::base::frame::FrameRange;
use crate::table::map::Index;
use crate::zone::Zone;
use crate::zone::contig::{ContigError, Migrate};

/// Changes the state of frames of one zone, under its lock.
pub(crate) fn change<'m>(
    reach: &mut impl Reach<'m>,
    range: FrameRange,
    act: impl FnOnce(&mut Zone<'m>, Index, Index) -> Result<(), ContigError>,
) -> Result<(), ContigError> {
    let (at, start, end) = reach.in_one_zone(range)?;
    reach.with_zone(at, |zone| act(zone, start, end))
}

/// Empties a range of whole pageblocks, and makes it reserved.
pub(crate) fn take_away<'m>(
    hands: &mut impl Hands<'m>,
    range: FrameRange,
    migrate: &mut impl Migrate,
    observer: &mut impl Observer,
) -> Result<(), ContigError> {
    let (at, ..) = hands.in_one_zone(range)?;
    let order = hands.machine().geometry.pageblock_order;
    let span = hands.with_zone(at, |zone| zone.span());
    let whole = (range.start.is_aligned(order) || range.start == span.start)
        && (range.end.is_aligned(order) || range.end == span.end);
    if !whole {
        return Err(ContigError::Misaligned(range));
    }
    hands.empty_range(range, migrate, observer, |zone, start, end| {
        zone.offline(start, end);
    })
}
