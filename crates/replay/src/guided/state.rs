//! The state of a guided replay beside the allocator's, by what it is for.

use std::collections::{BTreeMap, BTreeSet};

use pageblock::alloc::Allocator;
use pageblock::frame::{Order, Pfn};
use pageblock::ids::{CpuId, ListIndex, ZoneIndex};
use pageblock::layout::ZoneKind;

use super::drain::Drains;
use super::in_flight::{Delayed, LastSeen};
use super::limits::Limits;
use super::search::Run;
use super::unseen::Inferred;
use crate::look_ahead::{LookAhead, Taken};

/// The event that is being followed.
#[derive(Default)]
pub(super) struct CurrentEvent {
    /// Its number.
    pub(super) now: u64,
    /// The bulk allocator takes this event's block. It may refill a list twice in a row.
    pub(super) for_bulk: bool,
    /// What was inferred from this event.
    pub(super) inferred: Vec<Inferred>,
}

/// What tasks are in the middle of: their events come earlier or later than the change of a list.
#[derive(Default)]
pub(super) struct Tasks {
    /// Blocks that were reported free before their task put them on a list.
    pub(super) delayed: Vec<Delayed>,
    /// Blocks that went to the zone with the last event of their task. The task may have been interrupted before it
    /// put them there.
    pub(super) just_freed: Vec<Delayed>,
    /// Blocks that compaction captures as soon as their last part is freed.
    pub(super) captured: Vec<Delayed>,
    /// The last event of each task.
    pub(super) last_seen: BTreeMap<u32, LastSeen>,
    /// Blocks that a task may have taken already, and will report when it runs again.
    pub(super) may_have_taken: Vec<Taken>,
    /// Tasks that are known to be in the slow path.
    pub(super) in_slow_path: BTreeSet<u32>,
}

/// What is known of the per-CPU lists beside the allocator's caches.
pub(super) struct ListState {
    /// By frame: the CPU whose list holds it, plus one.
    pub(super) holder: Vec<u16>,
    /// The drains that the kernel or the model made.
    pub(super) drains: Drains,
    /// The guesses of when limits decay.
    pub(super) limits: Limits,
    /// The limit that was learned last: its CPU and zone, and whether it is low.
    pub(super) limit_seen: Option<(usize, usize, bool)>,
    /// The limits in a start snapshot from `/proc`.
    pub(super) limits_read: Option<LimitsRead>,
}

impl ListState {
    /// Returns the state of the lists that an allocator has.
    pub(super) fn of(allocator: &Allocator<'_>, look_ahead: &LookAhead) -> Self {
        let end = allocator.zones().iter().map(|z| z.span().end.0).max().unwrap_or(0);
        let mut holder = vec![0; end as usize];
        for (at, zone) in allocator.zones().iter().enumerate() {
            for cpu in 0..allocator.cpus() {
                let Some(cache) = allocator.cache(ZoneIndex::new(at), CpuId(cpu)) else { continue };
                for list in 0..cache.nr_lists() {
                    for pfn in cache.blocks(zone, ListIndex::new(list)) {
                        debug_assert_eq!(holder[pfn.0 as usize], 0, "{pfn} is on two CPU lists");
                        holder[pfn.0 as usize] = cpu as u16 + 1;
                    }
                }
            }
        }
        Self {
            holder,
            drains: Drains::default(),
            limits: Limits::new(allocator, look_ahead.ticks().are_known()),
            limit_seen: None,
            limits_read: None,
        }
    }
}

/// Limits of per-CPU lists that a snapshot from `/proc` was read with.
pub(super) struct LimitsRead {
    /// The first event after they were read.
    pub(super) event: u64,
    /// The CPU, the zone and its limit, in pages.
    pub(super) limits: Vec<(usize, usize, u32)>,
}

/// The runs of compaction, in recordings without a probe on its isolation.
#[derive(Default)]
pub(super) struct Compaction {
    /// The order that each task compacts for.
    pub(super) wanted_order: BTreeMap<u32, Order>,
    /// The run under way of each task.
    pub(super) runs: BTreeMap<u32, Run>,
    /// Pages that compaction took without an event, and the run that took them.
    pub(super) isolated: BTreeMap<Pfn, u64>,
}

/// What the start snapshot leaves open.
#[derive(Default)]
pub(super) struct StartState {
    /// Free blocks whose place on their list is not known.
    pub(super) unplaced: BTreeMap<Pfn, Order>,
    /// Pageblocks whose type was guessed.
    pub(super) guessed: BTreeSet<Pfn>,
}

/// The runs of kswapd.
#[derive(Default)]
pub(super) struct Kswapd {
    /// The boosts with which each node's kswapd began its run: the node, the zone and its boost in pages.
    pub(super) boosts: Vec<(u8, ZoneKind, u64)>,
    /// The nodes, one bit each, whose kswapd was woken and does not sleep yet.
    pub(super) woken: u64,
}

/// How often something was inferred; each count becomes a note of the result.
#[derive(Default)]
pub(super) struct Counts {
    /// Blocks found to have been taken before their report, from missing drains.
    pub(super) taken_by_count: u64,
    /// Refills for which the zone had nothing.
    pub(super) failed_attempts: u64,
    /// Blocks that bypassed a CPU list because its trylock failed.
    pub(super) bypassed: u64,
    /// Blocks that reached the zone later than they were reported free.
    pub(super) freed_delayed: u64,
    /// Pages that left the free lists without an event.
    pub(super) unseen: u64,
    /// Fast searches that came to the recorded result.
    pub(super) searches_followed: u64,
    /// Fast searches that did not.
    pub(super) searches_lost: u64,
    /// Pageblocks whose guessed type was wrong.
    pub(super) guesses_corrected: u64,
    /// Ends of a kswapd run, inferred from missing drains.
    pub(super) kswapd_ends: u64,
    /// Times that a zone was found above its high watermark, from missing drains.
    pub(super) left_below: u64,
    /// 1 once a missing drain showed that the CPUs have `PCPF_FREE_HIGH_BATCH`.
    pub(super) free_high_batch: u64,
}
