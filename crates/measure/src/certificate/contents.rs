//! What a recording holds: its machine, its span, and its events by kind.

use std::collections::BTreeMap;

use pageblock::frame::Order;
use serde::Serialize;

use super::support::Grade;
use crate::value::extfrag::ExtfragMatrix;

/// What a recording holds, without reading its events.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Contents {
    /// Its name.
    pub recording: String,
    /// The kernel as it names itself.
    pub kernel: String,
    /// Whether nothing says the kernel.
    pub kernel_assumed: bool,
    /// The bytes of the file with the events.
    pub bytes: u64,
    /// The number of events.
    pub events: u64,
    /// From the first event to the last.
    pub seconds: f64,
    /// Events that the recorder lost.
    pub lost: u64,
    /// Events that happened but cannot be used, as the allocator's model does not have their values.
    pub not_understood: u64,
    /// Whether the state at the start is recorded; else a replay infers it.
    pub start_state: bool,
    /// Whether the lists' order and the blocks' types are in it, as a paused guest's memory gives them.
    pub start_exact: bool,
    /// Whether the state at the end is recorded.
    pub end_state: bool,
    /// The order of a pageblock.
    pub pageblock_order: Order,
    /// The zones with memory, as the state at the start has them.
    pub zones: Vec<ZoneContents>,
    /// The number of named commands.
    pub commands: usize,
    /// The number of settings of the machine.
    pub settings: usize,
    /// The grade that was kept with the recording.
    pub grade: Option<Grade>,
}

/// A zone of the recorded machine.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ZoneContents {
    /// The node.
    pub node: u16,
    /// The name.
    pub zone: String,
    /// The pages that the allocator manages.
    pub managed: u64,
    /// Those of them that were free at the start.
    pub free: u64,
}

/// The events of a recording by kind.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Statistics {
    /// The recording's name.
    pub recording: String,
    /// From the first event to the last.
    pub seconds: f64,
    /// All events.
    pub events: u64,
    /// By the event's name.
    pub by_event: BTreeMap<String, u64>,
    /// Requests by type and order.
    pub requests: BTreeMap<String, BTreeMap<Order, u64>>,
    /// Requests that got nothing, by type and order.
    pub failed: BTreeMap<String, BTreeMap<Order, u64>>,
    /// Fallbacks to lists of another type.
    pub fallbacks: ExtfragMatrix,
    /// The order of a pageblock, below which a fallback fragments.
    pub pageblock_order: Order,
    /// By command, those with the most requested pages first.
    pub commands: Vec<CommandStatistics>,
    /// By CPU.
    pub cpus: BTreeMap<u16, u64>,
    /// Events that were lost, by CPU; `-` where the file does not say the CPU.
    pub lost: BTreeMap<String, u64>,
}

/// What a command asked for. All its processes count together.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct CommandStatistics {
    /// The name; `pid N` where it is unknown.
    pub command: String,
    /// Requests.
    pub requests: u64,
    /// Requested pages.
    pub pages: u64,
    /// Requested pages that cannot be moved: neither movable nor CMA.
    pub unmovable_pages: u64,
    /// Fallbacks below the order of a pageblock.
    pub fragmenting: u64,
}
