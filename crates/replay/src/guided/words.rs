//! The texts of mismatches: events under the kernel's names, and what was found, if anything.

use std::fmt::Display;

use pageblock::FrameState;
use pageblock::event::Extfrag;
use pageblock::fallback::{Fallback, Outcome};
use pageblock::frame::{Order, Pfn};
use pageblock::mobility::Migratetype;
use pageblock_recording::What;

/// Formats a value, or "none".
pub(super) fn or_none<T: Display>(value: Option<T>) -> String {
    value.map_or_else(|| "none".to_owned(), |value| value.to_string())
}

/// Names a free block with its order and the type of its list.
pub(super) fn free_block(block: Option<(Pfn, Order, Migratetype)>) -> String {
    or_none(block.map(|(pfn, order, mt)| format!("{pfn}, order {order}, {mt}")))
}

/// Names the next block of a list with its order.
pub(super) fn next_block(block: Option<(Pfn, Order)>) -> String {
    or_none(block.map(|(pfn, order)| format!("{pfn}, order {order}")))
}

/// Names a block of another type, and what becomes of its pageblock.
pub(super) fn fallback(found: Option<Fallback>) -> String {
    let outcome = |outcome| match outcome {
        Outcome::ClaimWhole => "the whole block changes its type",
        Outcome::Claim => "its pageblock is claimed",
        Outcome::Refile => "the free pages of its pageblock move",
        Outcome::Single => "only it is taken",
    };
    or_none(found.map(|Fallback { pfn, order, from, outcome: of }| {
        format!("{pfn}, order {order}, of {from}: {}", outcome(of))
    }))
}

/// Formats the arguments of `mm_page_alloc_extfrag`.
pub(super) fn extfrag(x: &Extfrag) -> String {
    format!(
        "pfn={} alloc_order={} fallback_order={} alloc_migratetype={} fallback_migratetype={} change_ownership={}",
        x.pfn,
        x.alloc_order,
        x.fallback_order,
        x.alloc_migratetype,
        x.fallback_migratetype,
        u8::from(x.change_ownership)
    )
}

/// Describes the state of a frame in the model.
pub(super) fn state(state: Option<FrameState>) -> String {
    or_none(state.map(|state| match state {
        FrameState::Hole => "a hole".to_owned(),
        FrameState::Reserved => "reserved".to_owned(),
        FrameState::Tail => "inside another block".to_owned(),
        FrameState::Free { order, list } => format!("free, order {order}, {list}"),
        FrameState::CpuList { order, cached } => {
            format!("on a CPU list, order {order}, {cached}")
        }
        FrameState::Allocated { order, .. } => format!("allocated, order {order}"),
    }))
}

/// Formats an event as ftrace prints it, with names of migratetypes.
pub(super) fn event(what: &What) -> String {
    match what {
        What::Alloc { pfn, order, mt, gfp } => {
            let pfn = or_none(*pfn);
            format!("mm_page_alloc pfn={pfn} order={order} migratetype={mt} gfp_flags={gfp}")
        }
        What::Free { pfn, order } => format!("mm_page_free pfn={pfn} order={order}"),
        What::FreeBatched { pfn } => format!("mm_page_free_batched pfn={pfn}"),
        What::ZoneLocked { pfn, order, mt, refill } => {
            let refill = u8::from(*refill);
            format!(
                "mm_page_alloc_zone_locked pfn={pfn} order={order} migratetype={mt} percpu_refill={refill}"
            )
        }
        What::Drain { pfn, order, mt } => {
            format!("mm_page_pcpu_drain pfn={pfn} order={order} migratetype={mt}")
        }
        What::Extfrag(x) => format!("mm_page_alloc_extfrag {}", extfrag(x)),
        What::Isolate { pfn, order, ret } => {
            format!("__isolate_free_page pfn={pfn} order={order} ret={ret}")
        }
        What::Bulk { pages } => format!("{pages} pages by the bulk allocator"),
        What::Marker(text) => format!("mark {text}"),
        What::Other(other) => format!("{} {}", other.name, other.args),
    }
}
