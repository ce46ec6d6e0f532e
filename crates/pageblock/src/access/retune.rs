//! Every zone tuned for the memory that there is, one after the other.

use crate::access::reach::Reach;
use crate::base::layout::{MAX_NR_ZONES, ZoneKind};
use crate::base::mobility::MIGRATE_PCPTYPES;
use crate::base::sync::Relaxed;
use crate::zone::retune::Share;
use crate::zone::tuning;

/// Sums up the zones.
fn share<'m>(reach: &impl Reach<'m>) -> Share {
    let machine = reach.machine();
    let (policy, order) = (&machine.policy, machine.geometry.pageblock_order);
    let zones = || machine.snapshots.iter().enumerate().map(|(at, f)| (f.kind, reach.managed(at)));
    let total: u64 = zones().map(|(_, managed)| managed).sum();
    // At boot the watermarks are still zero, so every managed page counts.
    let low = || zones().filter(|&(kind, _)| kind <= ZoneKind::Normal).map(|(_, n)| n);
    let buffer: u64 = low().sum();
    let populated = low().filter(|&managed| managed > 0).count() as u64;
    let raised = tuning::khugepaged_min_free_kbytes(populated, order, buffer);
    let lowmem_kbytes = tuning::KBYTES_PER_PAGE * buffer;
    Share {
        lowmem_pages: tuning::lowmem_pages(policy, zones()),
        min_free_kbytes: tuning::min_free_kbytes(policy, lowmem_kbytes, Some(raised)),
        mobility_off: total < machine.geometry.pageblock_pages() * (MIGRATE_PCPTYPES as u64 + 1),
    }
}

/// Tunes every zone; the caches are still to be told.
pub(crate) fn retune_zones<'m>(reach: &mut impl Reach<'m>) {
    let share = share(reach);
    reach.machine().mobility_off.store(share.mobility_off, Relaxed);
    for at in 0..reach.machine().snapshots.len() {
        let (node, kind) = (reach.machine().snapshots[at].node, reach.machine().snapshots[at].kind);
        let mut managed = [0; MAX_NR_ZONES];
        for (other, snapshot) in reach.machine().snapshots.iter().enumerate() {
            if snapshot.node == node {
                managed[snapshot.kind as usize] = reach.managed(other);
            }
        }
        let reserve = tuning::lowmem_reserve(tuning::LOWMEM_RESERVE_RATIO, managed);
        reach.with_zone(at, |zone| zone.retune(&share, reserve[kind as usize]));
        tune_caches(reach, at);
    }
}

/// Computes the limits of a zone's caches.
pub(crate) fn tune_caches<'m>(reach: &mut impl Reach<'m>, at: usize) {
    let node = reach.machine().snapshots[at].node;
    let cpus = match reach.cpu_nodes().filter(|&other| other == node).count() {
        0 => reach.cpu_nodes().count(),
        local => local,
    };
    reach.with_zone(at, |zone| zone.tune_caches(cpus as u64));
}
