//! Tuning of every zone to the present memory.

use crate::access::local::Access;
use crate::base::ids::ZoneIndex;
use crate::base::layout::{MAX_NR_ZONES, ZoneKind};
use crate::base::mobility::MIGRATE_PCPTYPES;
use crate::base::sync::Relaxed;
use crate::percpu::machine::Machine;
use crate::policy::source::PolicySource;
use crate::policy::{Policy, WmarkGap};
use crate::zone::retune::Share;
use crate::zone::stat::ZoneStat;
use crate::zone::tuning;

/// Returns the sums over all zones from which each zone is tuned.
fn share<'m, P: PolicySource>(machine: &Machine<'m, P>, access: &impl Access<'m, P>) -> Share {
    let (policy, geometry) = (&machine.policy, machine.geometry);
    let managed = |at| access.stat(machine, at).managed();
    let zones = || machine.zones().map(|(at, zone)| (zone.kind, managed(at)));
    let total: u64 = zones().map(|(_, managed)| managed).sum();
    // At boot the watermarks are still zero, so every managed page counts.
    let low = || zones().filter(|&(kind, _)| kind <= ZoneKind::Normal).map(|(_, n)| n);
    let buffer: u64 = low().sum();
    let populated = low().filter(|&managed| managed > 0).count() as u64;
    let raised = tuning::khugepaged_min_free_kbytes(populated, geometry, buffer);
    let lowmem_kbytes = geometry.kbytes(buffer);
    let usual = Policy { wmark_gap: WmarkGap::Scale, min_free_kbytes: 0, ..**policy };
    Share {
        lowmem_pages: tuning::lowmem_pages(policy, zones()),
        min_free_kbytes: tuning::min_free_kbytes(policy, lowmem_kbytes, Some(raised)),
        usual_min_free_kbytes: tuning::min_free_kbytes(&usual, lowmem_kbytes, Some(raised)),
        mobility_off: total < geometry.pageblock_pages() * (MIGRATE_PCPTYPES as u64 + 1),
    }
}

/// Tunes every zone. The caches must adopt their new limits afterwards.
pub(crate) fn retune_zones<'m, P: PolicySource>(
    machine: &Machine<'m, P>,
    mut access: impl Access<'m, P>,
) {
    let share = share(machine, &access);
    machine.mobility_off.store(share.mobility_off, Relaxed);
    for (at, zone) in machine.zones() {
        let mut managed = [0; MAX_NR_ZONES];
        for (other, of_node) in machine.zones() {
            if of_node.node == zone.node {
                managed[of_node.kind as usize] = access.stat(machine, other).managed();
            }
        }
        let reserve = tuning::lowmem_reserve(tuning::LOWMEM_RESERVE_RATIO, managed);
        let reserve = reserve[zone.kind as usize];
        access.with(machine, at, |zone| zone.retune(&share, reserve));
        tune_caches(machine, &mut access, at);
    }
}

/// Computes the limits of a zone's caches.
pub(crate) fn tune_caches<'m, P: PolicySource>(
    machine: &Machine<'m, P>,
    access: &mut impl Access<'m, P>,
    at: ZoneIndex,
) {
    let cpus = machine.cpus_near(machine.snapshots[at.index()].node);
    access.with(machine, at, |zone| zone.tune_caches(cpus));
}
