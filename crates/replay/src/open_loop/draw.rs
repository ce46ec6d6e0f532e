//! Draws: replays that start with free lists in another order, which show what is due to chance.
//!
//! If the same demand meets a list with another head, a decision differs, and from Linux 6.10 on a claim looks only
//! at the first block of each list (`find_suitable_fallback`, `__rmqueue_claim`). So the counts of one replay are
//! one draw among many.

use pageblock::alloc::Allocator;
use pageblock::frame::Order;
use pageblock::ids::{CpuId, ZoneIndex};
use pageblock::mobility::Migratetype;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};

/// The demand itself soon turns over the lists of smaller blocks.
const LOWEST_ORDER: Order = 3;

/// The largest number of blocks by which a list is rotated.
const MOST: u32 = 15;

/// Rotates the free lists of every zone. Seed 0 leaves them unchanged.
pub(super) fn rotate_lists(allocator: &mut Allocator<'_>, seed: u64) {
    if seed == 0 {
        return;
    }
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    for at in 0..allocator.zones().len() {
        let Some((zone, _)) = allocator.zone_and_cache(ZoneIndex::new(at), CpuId(0)) else {
            continue;
        };
        for order in LOWEST_ORDER..=zone.geometry().max_order {
            for mt in Migratetype::ALL {
                let by = random.next_u32() % (MOST + 1);
                let blocks = zone.free_list(order, mt).take(MOST as usize + 1).collect::<Vec<_>>();
                if let Some(&head) = blocks.get(by as usize % blocks.len().max(1)) {
                    zone.rotate_free_list(head);
                }
            }
        }
    }
}
