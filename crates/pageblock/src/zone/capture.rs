//! Compaction capture: a task that compacts gets the block that its own work frees, before another task can take it
//! (5.1 and later).
//!
//! Source: `compaction_capture` and `task_capc` (mm/page_alloc.c).

use crate::base::event::{Event, Extfrag, Observer};
use crate::base::frame::{Order, Pfn};
use crate::base::mobility::Migratetype::{self, Cma, Isolate, Movable};
use crate::policy::Capture;
use crate::policy::source::PolicySource;
use crate::table::map::{FrameState, Index};
use crate::zone::Zone;

/// A compacting task's wait for a block in a zone (`struct capture_control`). While [`Zone::capture`] holds one,
/// the next block of its order that a free creates, and that the policy grants, is allocated to
/// [`CaptureSlot::pfn`] instead of going to a free list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CaptureSlot {
    /// The order of the block to wait for.
    pub order: Order,
    /// The type of the request.
    pub migratetype: Migratetype,
    /// The captured block.
    pub pfn: Option<Pfn>,
}

impl CaptureSlot {
    /// Returns a slot that waits for a block.
    #[must_use]
    pub const fn new(order: Order, migratetype: Migratetype) -> Self {
        Self { order, migratetype, pfn: None }
    }
}

impl<P: PolicySource> Zone<'_, P> {
    /// Makes a task wait for a block while it compacts the zone.
    pub fn start_capture(&mut self, slot: CaptureSlot) {
        self.capture = Some(slot);
    }

    /// Ends the wait of the task that compacts the zone. Returns its slot with the captured block.
    pub fn end_capture(&mut self) -> Option<CaptureSlot> {
        self.capture.take()
    }

    /// Hands a block that a free has created to the task that waits for it. Returns whether it did.
    pub(crate) fn give_to_capture(
        &mut self,
        i: Index,
        order: Order,
        mt: Migratetype,
        observer: &mut impl Observer,
    ) -> bool {
        let Some(slot) = self.capture.filter(|s| s.order == order && s.pfn.is_none()) else {
            return false;
        };
        // An unmovable request would pollute a movable pageblock that it does not fill.
        let pollutes = mt == Movable
            && !self.is_whole_block(order)
            && match self.policy.capture {
                Capture::Off => return false,
                Capture::NotMovable => true,
                Capture::IfMovable | Capture::IfMovableReported => slot.migratetype != Movable,
            };
        if pollutes || matches!(mt, Cma | Isolate) || self.policy.capture == Capture::Off {
            return false;
        }
        let pfn = self.map.pfn(i);
        if self.policy.capture == Capture::IfMovableReported && mt != slot.migratetype {
            observer.event(Event::Extfrag(Extfrag {
                pfn,
                alloc_order: slot.order,
                fallback_order: order,
                alloc_migratetype: slot.migratetype,
                fallback_migratetype: mt,
                change_ownership: self.map.block_type(i) == slot.migratetype,
            }));
        }
        let movable = slot.migratetype == Movable;
        self.map.set(i, FrameState::Allocated { order, movable });
        self.capture = Some(CaptureSlot { pfn: Some(pfn), ..slot });
        true
    }
}
