//! The demand of a recorded machine on its allocator, without the allocator's own decisions: the input of a free
//! replay.
//!
//! A block is named by the frame that the recorded kernel gave, which has one use at a time. Demands are in the
//! order in which the kernel served them, on the CPU whose lists it used; the reports may be in another order.

mod faults;
mod finder;
mod instead;
mod queue;
mod store;
mod targets;

use pageblock::frame::{Order, Pfn};
use pageblock::mobility::Migratetype;
use pageblock::request::Gfp;
use pageblock_recording::{Record, What};

use self::faults::Faults;
pub use self::finder::DemandFinder;
pub use self::instead::Instead;
pub use self::store::{DemandChunks, Demands};

/// The flags of a page fault that takes a single page instead of a huge one (`vma_alloc_zeroed_movable_folio`).
pub const SINGLE: Gfp = Gfp(Gfp::GFP_HIGHUSER_MOVABLE.0 | Gfp::ZERO.0 | Gfp::COMP.0);

/// One demand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Demand {
    /// A request, served in the recording.
    Alloc {
        /// The block in the recording.
        pfn: Pfn,
        /// Its order.
        order: Order,
        /// The request's flags.
        gfp: Gfp,
        /// The CPU list was bypassed because its trylock failed: the block came from the zone.
        past_list: bool,
        /// The page fault whose request for a huge page failed, and for which this request is made instead.
        instead_of: Option<u32>,
    },
    /// A request that failed in the recording.
    Failed {
        /// Its order.
        order: Order,
        /// Its flags.
        gfp: Gfp,
        /// The page fault that it is for, if it asks for a huge page. A fault asks once or twice.
        fault: Option<u32>,
    },
    /// The block of a file that was just allocated is used again.
    Reuse {
        /// The block in the recording.
        pfn: Pfn,
    },
    /// A free.
    Free {
        /// The block in the recording.
        pfn: Pfn,
        /// Its order.
        order: Order,
        /// The CPU list is bypassed because its trylock fails: the block goes to the zone.
        past_list: bool,
        /// kswapd or a task in direct reclaim freed it, not its owner.
        reclaimed: bool,
    },
    /// Compaction isolates the movable pages of a range.
    Evacuate {
        /// The first frame.
        pfn: Pfn,
        /// The number of frames.
        pages: u32,
    },
    /// Compaction has moved a page to another frame, and frees this one next.
    MoveAway {
        /// The page in the recording.
        pfn: Pfn,
        /// The frame that it moved to, one that compaction had isolated.
        to: Option<Pfn>,
    },
    /// Compaction takes a free block.
    Isolate {
        /// The block in the recording.
        pfn: Pfn,
        /// Its order.
        order: Order,
    },
    /// Order-0 pages are allocated in bulk. The recording does not say which.
    Bulk {
        /// The number of pages.
        pages: u32,
    },
    /// A CPU's lists of one zone are emptied for another reason than a free, by direct reclaim or compaction.
    Drain {
        /// A recorded block that is drained. It names the zone.
        pfn: Pfn,
    },
    /// A CPU's vmstat work runs.
    Tick,
    /// A node's kswapd begins or ends a run.
    Kswapd {
        /// The node.
        node: u8,
        /// It runs now.
        running: bool,
    },
}

/// A demand with its CPU; for a drain, the CPU whose lists are drained.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timed {
    /// Milliseconds of the recorder's clock.
    pub t_ms: u32,
    /// The CPU.
    pub cpu: u16,
    /// The demand.
    pub demand: Demand,
}

/// Returns the demand of a request or a free by itself, without the events around it.
fn request(record: &Record, faults: &mut Faults) -> Option<Timed> {
    let demand = match record.what {
        What::Alloc { pfn: Some(pfn), order, gfp, .. } => {
            let instead_of = faults.served(record.pid, order, gfp);
            Demand::Alloc { pfn, order, gfp, past_list: false, instead_of }
        }
        What::Alloc { pfn: None, order, gfp, .. } => {
            Demand::Failed { order, gfp, fault: faults.failed(record.pid, order, gfp) }
        }
        What::Free { pfn, order } => {
            Demand::Free { pfn, order, past_list: false, reclaimed: false }
        }
        _ => return None,
    };
    Some(Timed { t_ms: (record.t_us / 1000) as u32, cpu: record.cpu, demand })
}

/// The largest order of a folio that is followed. It is below that of a huge page.
const MAX_FOLIO_ORDER: Order = 8;

/// The flags of a request for readahead pages (`readahead_gfp_mask`).
const READ_AHEAD: Gfp = Gfp(Gfp::NORETRY.0 | Gfp::NOWARN.0);

/// Reports whether a request is for a page or folio of a file: it is to be written (`__GFP_WRITE`), for readahead, or of a file
/// system that must not be re-entered. A mapping's page has none of these flags, a block device's page for metadata must not fail
/// (`grow_buffers`).
#[must_use]
pub fn is_of_file(order: Order, gfp: Gfp) -> bool {
    let movable = gfp.migratetype() == Some(Migratetype::Movable);
    let flags = gfp.has(Gfp::WRITE) || gfp.has(READ_AHEAD) || !gfp.has(Gfp::FS);
    order <= MAX_FOLIO_ORDER && movable && !gfp.has(Gfp::NOFAIL) && flags
}

/// Returns the type with which an unknown page in use was most likely requested.
#[must_use]
pub fn assumed_type(movable: bool, block: Migratetype) -> Migratetype {
    match block {
        _ if movable => Migratetype::Movable,
        Migratetype::Movable => Migratetype::Unmovable,
        block => block,
    }
}
