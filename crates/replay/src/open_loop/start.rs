//! The start of a replay: the recorded state, under a policy that may tune itself differently.

use pageblock::alloc::Allocator;
use pageblock::ids::{CpuId, ZoneIndex};
use pageblock::policy::Policy;
use pageblock::tuning;
use pageblock_recording::Snapshot;

use crate::error::Error;
use crate::machine::{Machine, TableMemory};
use crate::open_loop::draw::rotate_lists;

/// Builds an allocator in the state of a snapshot. Watermarks and CPU-list limits are the recorded ones if the
/// policy computes them as the recorded kernel did; otherwise they follow from the policy. With seed 0 the free
/// lists start in the recorded order, with other seeds they are rotated.
///
/// # Errors
/// If the snapshot contradicts itself.
pub fn start<'m>(
    machine: &Machine,
    recorded: &Policy,
    policy: &Policy,
    (snapshot, seed): (&Snapshot, u64),
    memory: &'m mut TableMemory,
) -> Result<Allocator<'m>, Error> {
    let mut allocator = machine.allocator(*policy, snapshot, memory)?;
    if watermark_switches(recorded) != watermark_switches(policy) {
        set_watermarks(&mut allocator, policy);
    }
    if cache_switches(recorded) != cache_switches(policy) {
        for at in 0..allocator.zones().len() {
            allocator.retune_caches(ZoneIndex::new(at));
        }
    }
    rotate_lists(&mut allocator, seed);
    Ok(allocator)
}

fn watermark_switches(policy: &Policy) -> impl PartialEq + use<> {
    let Policy { wmark_gap, movable_wmark, min_free_kbytes, watermark_scale_factor, .. } = *policy;
    (wmark_gap, movable_wmark, min_free_kbytes, watermark_scale_factor)
}

fn cache_switches(policy: &Policy) -> impl PartialEq + use<> {
    let Policy { pcp_orders, pcp_high, pcp_batch, percpu_pagelist_high_fraction, .. } = *policy;
    (pcp_orders, pcp_high, pcp_batch, percpu_pagelist_high_fraction, watermark_switches_low(policy))
}

/// Sizes CPU lists. Those of 5.13 and later depend on the low watermark.
fn watermark_switches_low(policy: &Policy) -> (u32, u32) {
    (policy.min_free_kbytes, policy.watermark_scale_factor)
}

/// Sets min_free_kbytes: the recorded value, derived from the minimum watermarks, unless the policy sets it.
fn set_watermarks(allocator: &mut Allocator<'_>, policy: &Policy) {
    let zones = || allocator.zones().iter();
    let recorded: u64 = zones().map(|z| z.watermarks().min).sum::<u64>() * tuning::KBYTES_PER_PAGE;
    let kbytes = match policy.min_free_kbytes {
        0 => recorded,
        set => u64::from(set),
    };
    let geometry = allocator.geometry();
    let lowmem = tuning::lowmem_pages(policy, zones().map(|z| (z.kind(), z.managed())));
    for at in 0..allocator.zones().len() {
        if let Some((zone, _)) = allocator.zone_and_cache(ZoneIndex::new(at), CpuId(0)) {
            let (kind, managed) = (zone.kind(), zone.managed());
            let marks = tuning::watermarks(policy, kind, managed, lowmem, kbytes, geometry);
            zone.impose_watermarks(marks);
        }
    }
}
