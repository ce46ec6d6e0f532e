//! Counts what happened in a recording, in the way that a free replay counts it.

use pageblock::FrameState;
use pageblock::alloc::Allocator;
use pageblock::frame::{Order, Pfn};
use pageblock::mobility::Migratetype;
use pageblock_measure::certificate::{Course, EndState, Outcome};
use pageblock_measure::value::blocks::TypeCounts;
use pageblock_measure::value::mismatch::TypeMismatch;
use pageblock_measure::{ExtfragKey, ExtfragMatrix};
use pageblock_recording::{Record, Snapshot, What};

use crate::census::Requested;

/// Counts the events of a recording, beside a guided replay that knows the types of pageblocks.
pub(crate) struct RecordedOutcome {
    extfrag: ExtfragMatrix,
    fallbacks: Course,
    mismatch: TypeMismatch,
    failed: u64,
    requested: Requested,
}

impl RecordedOutcome {
    /// Begins to count. The allocator must be in the state before the first event.
    pub(crate) fn new(first_t_us: u64, allocator: &Allocator<'_>) -> Self {
        Self {
            extfrag: ExtfragMatrix::new(),
            fallbacks: Course::starting(first_t_us / 1000),
            mismatch: TypeMismatch::new(),
            failed: 0,
            requested: Requested::of(allocator),
        }
    }

    /// Counts an event. The allocator must be in the state after it.
    pub(crate) fn push(&mut self, record: &Record, allocator: &Allocator<'_>) {
        match &record.what {
            What::Alloc { pfn: Some(pfn), order, gfp, .. } => {
                let requested = gfp.migratetype().unwrap_or(Migratetype::Unmovable);
                self.requested.note(*pfn, *order, requested);
                if let Some(block) = block_type(allocator, *pfn) {
                    self.mismatch.record(requested, block, *order);
                }
            }
            What::Free { pfn, order } => self.requested.end(*pfn, *order),
            What::Alloc { pfn: None, .. } => self.failed += 1,
            What::Extfrag(extfrag) => {
                self.extfrag.record(extfrag);
                if ExtfragKey::from(extfrag).fragmenting(allocator.geometry().pageblock_order) {
                    self.fallbacks.push(record.t_us / 1000);
                }
            }
            _ => {}
        }
    }

    /// Returns the outcome. `end` is the recorded end state. Without one the allocator's state is used, on which
    /// all recorded changes were imposed.
    pub(crate) fn finish(self, end: Option<&Snapshot>, allocator: &Allocator<'_>) -> Outcome {
        let recorded = end.and_then(|end| recorded_end(end, allocator.geometry().pageblock_order));
        Outcome {
            extfrag: Some(self.extfrag),
            fallbacks: self.fallbacks,
            mismatch: Some(self.mismatch.counters()),
            failed: self.failed,
            mixed: Some(self.requested.census_of_states(allocator).mixed.total()),
            end: recorded.or_else(|| Some(end_state(allocator))),
        }
    }
}

pub(crate) fn block_type(allocator: &Allocator<'_>, pfn: Pfn) -> Option<Migratetype> {
    let zone = allocator.zone_of(pfn)?;
    allocator.zones()[zone.index()].block_type(pfn)
}

/// Returns the free blocks and the types of pageblocks of an allocator.
#[must_use]
pub fn end_state(allocator: &Allocator<'_>) -> EndState {
    let mut end = EndState::default();
    let geometry = allocator.geometry();
    let mut blocks = TypeCounts::default();
    for zone in allocator.zones() {
        for order in 0..=geometry.max_order {
            for mt in Migratetype::ALL {
                let free = zone.nr_free_of(order, mt);
                if free > 0 {
                    end.add_free(order, Some(mt), free);
                }
            }
        }
        // As /proc/pagetypeinfo counts them: from the zone's first frame on, which need not be the first of its
        // pageblock, and without holes.
        let pages = geometry.pageblock_pages();
        for frame in (zone.span().start.0..zone.span().end.0).step_by(pages as usize) {
            let block = frame / pages * pages;
            let mut frames = (block..block + pages).map(|frame| zone.state(Pfn(frame)));
            if frames.any(|state| !matches!(state, None | Some(FrameState::Hole)))
                && let Some(mt) = zone.block_type(Pfn(frame))
            {
                blocks[mt] += 1;
            }
        }
    }
    end.blocks = Some(blocks);
    end
}

/// Returns the free blocks and the types of pageblocks of a snapshot; `None` if it has neither.
fn recorded_end(snapshot: &Snapshot, pageblock_order: Order) -> Option<EndState> {
    let mut end = EndState::default();
    let types = snapshot.pagetypeinfo.as_ref();
    if snapshot.exact {
        for block in &snapshot.free {
            end.add_free(block.order, block.mt, 1);
        }
    } else if let Some(types) = types {
        for ((_, mt), free) in &types.free {
            for (order, &blocks) in free.iter().enumerate() {
                if blocks > 0 {
                    end.add_free(order as Order, Some(*mt), blocks);
                }
            }
        }
    } else {
        for block in &snapshot.free {
            end.add_free(block.order, None, 1);
        }
    }
    let mut blocks = TypeCounts::default();
    if snapshot.blocks.is_empty() {
        let types = types.filter(|types| types.pageblock_order == Some(pageblock_order));
        for ((_, mt), count) in types.into_iter().flat_map(|types| &types.blocks) {
            blocks[*mt] += count;
        }
    } else {
        for mt in snapshot.blocks.iter().filter_map(|block| block.mt) {
            blocks[mt] += 1;
        }
    }
    end.blocks = (blocks.total() > 0).then_some(blocks);
    (!end.free_pages.is_empty()).then_some(end)
}
