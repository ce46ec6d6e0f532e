//! How the owner of all zones, and CPUs that share them, reach each zone.

use lock_api::RawMutex;

use crate::access::reach::Reach;
use crate::api::alloc::Allocator;
use crate::api::cpu::Cpu;
use crate::api::sharing::Shared;
use crate::base::interrupts::Interrupts;
use crate::percpu::machine::Machine;
use crate::zone::Zone;
use crate::zone::stat::ZoneStat;

impl<'m> Reach<'m> for Allocator<'m> {
    fn machine(&self) -> &Machine<'m> {
        &self.machine
    }

    fn with_zone<T>(&mut self, at: usize, act: impl FnOnce(&mut Zone<'m>) -> T) -> T {
        // What the zone serves at once is found out when it is needed next.
        self.machine.snapshots[at].invalidate();
        act(&mut self.zones[at])
    }

    fn managed(&self, at: usize) -> u64 {
        self.zones[at].managed()
    }

    fn cpu_nodes(&self) -> impl Iterator<Item = u8> {
        self.caches.iter().map(|caches| caches.node)
    }
}

impl<'m, R: RawMutex, I: Interrupts> Reach<'m> for &Shared<'m, R, I> {
    fn machine(&self) -> &Machine<'m> {
        &self.machine
    }

    fn with_zone<T>(&mut self, at: usize, act: impl FnOnce(&mut Zone<'m>) -> T) -> T {
        self.locked(at, act)
    }

    fn managed(&self, at: usize) -> u64 {
        self.machine.snapshots[at].managed()
    }

    fn cpu_nodes(&self) -> impl Iterator<Item = u8> {
        self.seats.iter().map(|seat| seat.node)
    }
}

impl<'m, R: RawMutex, I: Interrupts> Reach<'m> for Cpu<'_, 'm, R, I> {
    fn machine(&self) -> &Machine<'m> {
        &self.shared().machine
    }

    fn with_zone<T>(&mut self, at: usize, act: impl FnOnce(&mut Zone<'m>) -> T) -> T {
        self.shared().locked(at, act)
    }

    fn managed(&self, at: usize) -> u64 {
        self.shared().managed(at)
    }

    fn cpu_nodes(&self) -> impl Iterator<Item = u8> {
        self.shared().seats.iter().map(|seat| seat.node)
    }
}
