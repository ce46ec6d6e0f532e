//! What seed 5 lists of a phone: free blocks by type and order, pageblocks by type, counters.

use pageblock::frame::Order;
use pageblock::mobility::Migratetype::{
    self, Cma, Isolate, Movable, Reclaimable, Reserve, Unmovable,
};
use serde::Serialize;

use crate::names;
use crate::run::Run;
use crate::seeds::by_policy;
use crate::stats;

/// The types of seed 5's kernel, in its order.
pub const TYPES: [Migratetype; 6] = [Unmovable, Reclaimable, Movable, Reserve, Cma, Isolate];
/// The orders that the seed lists.
pub const ORDERS: std::ops::RangeInclusive<Order> = 0..=4;
/// The counters that the seed lists, in its order. Of the phone's only zone the kernel adds `_dma` to the
/// first four names.
const COUNTERS: [&str; 19] = [
    "pgsteal_kswapd",
    "pgsteal_direct",
    "pgscan_kswapd",
    "pgscan_direct",
    "kswapd_low_wmark_hit_quickly",
    "kswapd_high_wmark_hit_quickly",
    "allocstall",
    "allocstall_order_0",
    "allocstall_order_1",
    "allocstall_order_2",
    "allocstall_order_3",
    "pgmigrate_success",
    "pgmigrate_fail",
    "compact_migrate_scanned",
    "compact_free_scanned",
    "compact_isolated",
    "compact_stall",
    "compact_fail",
    "compact_success",
];

/// A phone at the end of its use, under a policy: means over the seeds.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Phone {
    /// The policy.
    pub policy: String,
    /// `MemFree` in kB.
    pub mem_free_kb: f64,
    /// `Cached` in kB.
    pub cached_kb: f64,
    /// Free blocks of each of [`TYPES`], by order.
    pub free_blocks: Vec<Vec<f64>>,
    /// Pageblocks of each of [`TYPES`].
    pub blocks: Vec<f64>,
    /// The counters that the seed lists, by name, in its order.
    pub counters: Vec<(String, f64)>,
}

/// The phone under each policy; empty where no run is of one.
#[must_use]
pub fn phones(runs: &[Run]) -> Vec<Phone> {
    by_policy(runs).iter().filter_map(|runs| phone(runs)).collect()
}

fn phone(runs: &[&Run]) -> Option<Phone> {
    let mean = |read: &dyn Fn(&Run) -> Option<u64>| {
        let values: Option<Vec<f64>> = runs.iter().map(|run| read(run).map(|n| n as f64)).collect();
        values.map(|values| stats::amean(&values))
    };
    let counter = |name: &str| mean(&|run| run.counters.get(name));
    // A counter by order ends with the largest that stalled.
    let counted = |name: &&str| ((*name).to_owned(), counter(name).unwrap_or(0.0));
    let free = |mt| {
        ORDERS.map(|order| counter(&names::free_blocks(mt, order))).collect::<Option<Vec<_>>>()
    };
    let blocks = |mt| mean(&|run| run.blocks_by_type.as_ref().map(|blocks| blocks[mt]));
    Some(Phone {
        policy: runs.first()?.policy.clone(),
        mem_free_kb: counter("mem_free_kb")?,
        cached_kb: counter("cached_kb")?,
        free_blocks: TYPES.into_iter().map(free).collect::<Option<_>>()?,
        blocks: TYPES.into_iter().map(blocks).collect::<Option<_>>()?,
        counters: COUNTERS.iter().map(counted).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocks::TypeCounts;

    #[test]
    fn a_phone_is_the_mean_of_its_runs() {
        let run = |seed, free| {
            let mut run = Run { policy: "linux-3.10".into(), seed, ..Run::default() };
            for mt in TYPES {
                for order in ORDERS {
                    run.counters.set(names::free_blocks(mt, order), free + u64::from(order));
                }
            }
            run.counters.set("mem_free_kb", 10 * free);
            run.counters.set("cached_kb", 7);
            run.counters.set("allocstall_order_2", free);
            let mut blocks = TypeCounts::default();
            blocks[Movable] = free;
            run.blocks_by_type = Some(blocks);
            run
        };
        let phones = phones(&[run(1, 2), run(2, 4)]);
        assert_eq!(phones.len(), 1);
        assert_eq!((phones[0].mem_free_kb, phones[0].cached_kb), (30.0, 7.0));
        assert_eq!(phones[0].free_blocks[1], [3.0, 4.0, 5.0, 6.0, 7.0]);
        assert_eq!(phones[0].blocks, [0.0, 0.0, 3.0, 0.0, 0.0, 0.0]);
        assert!(phones[0].counters.contains(&("allocstall_order_2".into(), 3.0)));
        assert!(super::phones(&[Run::default()]).is_empty());
    }
}
