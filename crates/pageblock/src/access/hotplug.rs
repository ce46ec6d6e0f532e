//! Memory hotplug of frames of one zone, under its lock.
//!
//! Source: `online_pages`, `offline_pages` (mm/memory_hotplug.c).

use crate::access::contig::{RangeWorker, ends_in_zone, zone_of_range};
use crate::access::local::Access;
use crate::base::event::Observer;
use crate::base::frame::FrameRange;
use crate::percpu::machine::Machine;
use crate::policy::source::PolicySource;
use crate::table::map::Index;
use crate::zone::Zone;
use crate::zone::contig::{ContigError, Migrate};

/// Changes the state of frames of one zone, under its lock.
pub(crate) fn change<'m, P: PolicySource>(
    machine: &Machine<'m, P>,
    mut zones: impl Access<'m, P>,
    range: FrameRange,
    act: impl FnOnce(&mut Zone<'m, P>, Index, Index) -> Result<(), ContigError>,
) -> Result<(), ContigError> {
    let span = |at| zones.with(machine, at, |zone| zone.span());
    let at = zone_of_range(machine.snapshots.len(), range, span)?;
    let (start, end) = ends_in_zone(machine, at, range)?;
    zones.with(machine, at, |zone| act(zone, start, end))
}

/// Empties a range of whole pageblocks, and reserves its frames.
pub(crate) fn take_away<'m, P: PolicySource>(
    worker: &mut impl RangeWorker<'m, P>,
    range: FrameRange,
    migrate: &mut impl Migrate,
    observer: &mut impl Observer,
) -> Result<(), ContigError> {
    let (at, ..) = worker.locate_range(range)?;
    let order = worker.machine().geometry.pageblock_order;
    let span = worker.with_zone(at, |zone| zone.span());
    let whole = (range.start.is_aligned(order) || range.start == span.start)
        && (range.end.is_aligned(order) || range.end == span.end);
    // An isolated pageblock is isolated as a whole, so a part of it cannot leave.
    if !whole {
        return Err(ContigError::Misaligned(range));
    }
    worker.empty_range(range, migrate, observer, |zone, start, end| {
        zone.offline(start, end);
    })
}
