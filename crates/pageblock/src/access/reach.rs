//! Every zone, one at a time: by whoever owns all of them, or by their locks.

use crate::base::frame::FrameRange;
use crate::percpu::machine::Machine;
use crate::table::map::Index;
use crate::zone::Zone;
use crate::zone::contig::ContigError;

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
        let zones = self.machine().snapshots.len();
        let holds = |at: &usize| self.with_zone(*at, |zone| zone.span().contains(range.start));
        let at = (0..zones).find(holds).ok_or(ContigError::Foreign(range.start))?;
        let end = self.with_zone(at, |zone| zone.span().end);
        if range.end > end {
            return Err(ContigError::SpansZones(end));
        }
        let map = &self.machine().snapshots[at].map;
        let start = map.index(range.start).ok_or(ContigError::Foreign(range.start))?;
        Ok((at, start, start + range.len() as Index))
    }
}
