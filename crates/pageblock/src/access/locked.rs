//! Zones behind locks.

use lock_api::{Mutex, RawMutex};

use crate::access::local::Access;
use crate::base::ids::ZoneIndex;
use crate::percpu::machine::Machine;
use crate::zone::Zone;
use crate::zone::stat::ZoneStat;

/// Zones behind locks.
pub(crate) struct Locked<'a, 'm, R>(pub(crate) &'a [Mutex<R, Zone<'m>>]);

impl<'m, R: RawMutex> Access<'m> for Locked<'_, 'm, R> {
    fn with<T>(
        &mut self,
        machine: &Machine<'m>,
        at: ZoneIndex,
        act: impl FnOnce(&mut Zone<'m>) -> T,
    ) -> T {
        let mut zone = self.0[at.index()].lock();
        let done = act(&mut zone);
        machine.snapshots[at.index()].refresh(&mut zone, machine.first_zone_serves());
        done
    }

    fn with_pages<T>(
        &mut self,
        machine: &Machine<'m>,
        at: ZoneIndex,
        act: impl FnOnce(&mut Zone<'m>) -> T,
    ) -> T {
        let mut zone = self.0[at.index()].lock();
        let done = act(&mut zone);
        machine.snapshots[at.index()].refresh_after_moves(&mut zone, machine);
        done
    }

    #[inline(always)]
    fn stat<'a>(&'a self, machine: &'a Machine<'m>, at: ZoneIndex) -> &'a impl ZoneStat {
        &machine.snapshots[at.index()]
    }

    #[inline(always)]
    fn refresh_mask(&mut self, _: &Machine<'m>, _: ZoneIndex) {}
}
