//! How fragmented each zone is.

use std::collections::BTreeMap;

use pageblock_measure::value::index::{fragmentation_index, unusable_free_index};
use serde::Serialize;

use super::sample::Sample;
use crate::proc::zoneinfo::Zone;

/// A zone's state. Counts are pages.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ZoneHealth {
    /// The node.
    pub node: u16,
    /// The zone.
    pub zone: String,
    /// The pages given to the allocator.
    pub managed: u64,
    /// Free pages.
    pub free: u64,
    /// The watermarks min, low and high; the boost is in them.
    pub watermarks: [u64; 3],
    /// The boost; 0 before 5.17, which does not print it.
    pub boost: u64,
    /// What must stay free for requests that can use lower zones only, by the index of the zone that a request may use.
    pub lowmem_reserve: Vec<u64>,
    /// Free pages on per-CPU lists.
    pub on_cpu_lists: u64,
    /// CMA pages, and those of them that are free.
    pub cma: u64,
    /// See `cma`.
    pub free_cma: u64,
    /// Free blocks by order.
    pub free_blocks: Vec<u64>,
    /// The share of free memory that is in blocks too small for an order, in thousandths, by order.
    pub unusable: Vec<u64>,
    /// The fragmentation index in thousandths for the orders that have no free block; null for the others.
    pub fragmentation: Vec<Option<i64>>,
    /// Pageblocks by type.
    pub blocks_by_type: BTreeMap<String, u64>,
}

/// Returns the state of every zone.
#[must_use]
pub(super) fn zones(sample: &Sample) -> Vec<ZoneHealth> {
    let health = |zone: &Zone| {
        let name = (zone.node, zone.name.clone());
        let blocks = sample.free_blocks.get(&name).cloned().unwrap_or_default();
        let orders = 0..blocks.len().min(32) as u8;
        let index =
            |order| Some(fragmentation_index(&blocks, order)).filter(|&index| index != -1000);
        let types = sample.types.iter().flat_map(|types| &types.blocks);
        let own = types.filter(|((of, _), _)| *of == name);
        ZoneHealth {
            node: zone.node,
            zone: zone.name.clone(),
            managed: zone.managed,
            free: zone.free,
            watermarks: zone.wmark,
            boost: zone.boost.unwrap_or(0),
            lowmem_reserve: zone.reserve.clone(),
            on_cpu_lists: zone.on_cpu_lists(),
            cma: zone.cma.unwrap_or(0),
            free_cma: zone.counter("nr_free_cma"),
            unusable: orders.clone().map(|order| unusable_free_index(&blocks, order)).collect(),
            fragmentation: orders.map(index).collect(),
            blocks_by_type: own.map(|((_, mt), &blocks)| (format!("{mt:?}"), blocks)).collect(),
            free_blocks: blocks,
        }
    };
    sample.zones.iter().map(health).collect()
}

/// Returns the share of all free memory that is in blocks too small for an order, in thousandths; `None` without lists.
#[must_use]
pub(super) fn unusable(zones: &[ZoneHealth], order: usize) -> Option<u64> {
    let (mut all, mut small) = (0_u128, 0_u128);
    for zone in zones {
        for (at, &blocks) in zone.free_blocks.iter().enumerate() {
            let pages = u128::from(blocks) << at;
            all += pages;
            small += if at < order { pages } else { 0 };
        }
    }
    (all > 0).then(|| (small * 1000 / all) as u64)
}
