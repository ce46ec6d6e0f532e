//! The fragmentation of each zone.

use std::collections::BTreeMap;

use pageblock_measure::value::index::{fragmentation_index, unusable_free_index};
use serde::Serialize;

use pageblock_recording::ZoneName;

use super::sample::Sample;
use crate::proc::zoneinfo::Zone;

/// A zone's state. Counts are pages.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ZoneHealth {
    /// The node.
    pub node: u16,
    /// The zone.
    pub zone: String,
    /// Free pages, from `zoneinfo` or otherwise from the lists.
    pub free: u64,
    /// The numbers that only `zoneinfo` has; without that file none of these fields is present.
    #[serde(flatten)]
    pub accounts: Option<ZoneAccounts>,
    /// Free blocks by order.
    pub free_blocks: Vec<u64>,
    /// The share of free memory that is in blocks too small for an order, in thousandths, by order.
    pub unusable: Vec<u64>,
    /// The fragmentation index in thousandths for the orders that have no free block; null for the others.
    pub fragmentation: Vec<Option<i64>>,
    /// Pageblocks by type.
    pub blocks_by_type: BTreeMap<String, u64>,
}

/// The numbers of a zone in `zoneinfo`, in pages.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ZoneAccounts {
    /// The pages given to the allocator.
    pub managed: u64,
    /// The watermarks min, low and high, including the boost.
    pub watermarks: [u64; 3],
    /// The boost; 0 before 5.17, as older kernels do not print it.
    pub boost: u64,
    /// Pages that must stay free for requests that can only use lower zones, by the index of the highest zone of a request.
    pub lowmem_reserve: Vec<u64>,
    /// Free pages on per-CPU lists.
    pub on_cpu_lists: u64,
    /// CMA pages, and free CMA pages.
    pub cma: u64,
    /// See `cma`.
    pub free_cma: u64,
}

/// Returns the state of every zone that is in any file of the sample.
#[must_use]
pub(super) fn zones(sample: &Sample) -> Vec<ZoneHealth> {
    let named = |zone: &Zone| (zone.node, zone.name.clone());
    let told: Vec<_> = sample.zones.iter().map(|zone| (named(zone), Some(zone))).collect();
    // A copied folder may have `buddyinfo` or `pagetypeinfo` alone.
    let listed = sample.free_blocks.keys().filter(|_| told.is_empty());
    let listed: Vec<_> = listed.map(|name| (name.clone(), None)).collect();
    told.into_iter().chain(listed).map(|(name, zone)| health(sample, name, zone)).collect()
}

fn health(sample: &Sample, name: ZoneName, zone: Option<&Zone>) -> ZoneHealth {
    let blocks = sample.free_blocks.get(&name).cloned().unwrap_or_default();
    let orders = 0..blocks.len().min(32) as u8;
    let index = |order| Some(fragmentation_index(&blocks, order)).filter(|&index| index != -1000);
    let types = sample.types.iter().flat_map(|types| &types.blocks);
    let own = types.filter(|((of, _), _)| *of == name);
    let on_lists = || {
        blocks
            .iter()
            .zip(0..)
            .map(|(&blocks, order)| blocks.saturating_mul(1 << order))
            .fold(0, u64::saturating_add)
    };
    ZoneHealth {
        free: zone.map_or_else(on_lists, |zone| zone.free),
        accounts: zone.map(|zone| ZoneAccounts {
            managed: zone.managed,
            watermarks: zone.wmark,
            boost: zone.boost.unwrap_or(0),
            lowmem_reserve: zone.reserve.clone(),
            on_cpu_lists: zone.on_cpu_lists(),
            cma: zone.cma.unwrap_or(0),
            free_cma: zone.counter("nr_free_cma"),
        }),
        unusable: orders.clone().map(|order| unusable_free_index(&blocks, order)).collect(),
        fragmentation: orders.map(index).collect(),
        blocks_by_type: own.map(|((_, mt), &blocks)| (format!("{mt:?}"), blocks)).collect(),
        free_blocks: blocks,
        node: name.0,
        zone: name.1,
    }
}

impl ZoneHealth {
    /// Returns the pages given to the allocator; `None` without `zoneinfo`.
    #[must_use]
    pub fn managed(&self) -> Option<u64> {
        Some(self.accounts.as_ref()?.managed)
    }

    /// Returns whether more is free than the high watermark requires; false without a watermark.
    #[must_use]
    pub(super) fn is_above_high(&self) -> bool {
        self.accounts.as_ref().is_some_and(|accounts| self.free > accounts.watermarks[2])
    }
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
