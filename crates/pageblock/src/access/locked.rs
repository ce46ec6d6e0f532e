//! Zones behind locks.

use crate::access::local::Access;
use crate::base::ids::ZoneIndex;
use crate::base::locks::Locks;
use crate::percpu::machine::Machine;
use crate::policy::source::{Chosen, PolicySource};
use crate::zone::Zone;
use crate::zone::stat::ZoneStat;

/// Zones behind locks.
pub(crate) struct Locked<'a, 'm, L: Locks, P: PolicySource = Chosen>(
    pub(crate) &'a [L::Mutex<Zone<'m, P>>],
);

impl<'m, L: Locks, P: PolicySource> Access<'m, P> for Locked<'_, 'm, L, P> {
    fn with<T>(
        &mut self,
        machine: &Machine<'m, P>,
        at: ZoneIndex,
        act: impl FnOnce(&mut Zone<'m, P>) -> T,
    ) -> T {
        let mut zone = L::lock(&self.0[at.index()]);
        let done = act(&mut zone);
        machine.snapshots[at.index()].refresh(&mut zone, machine.first_zone_serves());
        done
    }

    fn with_pages<T>(
        &mut self,
        machine: &Machine<'m, P>,
        at: ZoneIndex,
        act: impl FnOnce(&mut Zone<'m, P>) -> T,
    ) -> T {
        let mut zone = L::lock(&self.0[at.index()]);
        let done = act(&mut zone);
        machine.snapshots[at.index()].refresh_after_moves(&mut zone, machine);
        done
    }

    #[inline(always)]
    fn stat<'a>(&'a self, machine: &'a Machine<'m, P>, at: ZoneIndex) -> &'a impl ZoneStat {
        &machine.snapshots[at.index()]
    }

    #[inline(always)]
    fn refresh_mask(&mut self, _: &Machine<'m, P>, _: ZoneIndex) {}
}
