//! Every zone, one at a time: by whoever owns all of them, or by their locks.

use lock_api::RawMutex;

use crate::alloc::Allocator;
use crate::contig::ContigError;
use crate::cpu::Cpu;
use crate::frame::FrameRange;
use crate::interrupts::Interrupts;
use crate::levels::Levels;
use crate::machine::Machine;
use crate::map::Index;
use crate::sharing::Shared;
use crate::zone::Zone;

/// Whoever can work on every zone.
pub(crate) trait Reach<'m> {
    fn machine(&self) -> &Machine<'m>;

    /// Works on a zone, its lock held.
    fn with_zone<T>(&mut self, at: usize, act: impl FnOnce(&mut Zone<'m>) -> T) -> T;

    /// A zone's [`managed`](Zone::managed) pages.
    fn managed(&self, at: usize) -> u64;

    /// The node of each CPU.
    fn cpu_nodes(&self) -> impl Iterator<Item = u8>;

    /// The zone of a range, and its ends there.
    fn in_one_zone(&mut self, range: FrameRange) -> Result<(usize, Index, Index), ContigError> {
        if range.is_empty() {
            return Err(ContigError::Empty);
        }
        let zones = self.machine().fronts.len();
        let holds = |at: &usize| self.with_zone(*at, |zone| zone.span.contains(range.start));
        let at = (0..zones).find(holds).ok_or(ContigError::Foreign(range.start))?;
        let end = self.with_zone(at, |zone| zone.span.end);
        if range.end > end {
            return Err(ContigError::SpansZones(end));
        }
        let map = &self.machine().fronts[at].map;
        let start = map.index(range.start).ok_or(ContigError::Foreign(range.start))?;
        Ok((at, start, start + range.len() as Index))
    }
}

impl<'m> Reach<'m> for Allocator<'m> {
    fn machine(&self) -> &Machine<'m> {
        &self.machine
    }

    fn with_zone<T>(&mut self, at: usize, act: impl FnOnce(&mut Zone<'m>) -> T) -> T {
        // What the zone serves at once is found out when it is needed next.
        self.machine.fronts[at].forget();
        act(&mut self.zones[at])
    }

    fn managed(&self, at: usize) -> u64 {
        self.zones[at].managed
    }

    fn cpu_nodes(&self) -> impl Iterator<Item = u8> {
        self.rows.iter().map(|row| row.node)
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
        self.machine.fronts[at].managed()
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
