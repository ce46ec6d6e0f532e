//! Free memory that no event names: as many blocks as copies of buddyinfo and pagetypeinfo count.

use pageblock::frame::{Order, Pfn};
use pageblock::mobility::Migratetype;
use pageblock_recording::Snapshot;

use super::{Evidence, UNKNOWN, free_blocks};

/// The order of the largest block.
const LARGEST: usize = 10;

/// The blocks of a zone that must be free: by order, on the lists of one type or of any.
struct Wanted<'a> {
    zone: usize,
    mt: Option<Migratetype>,
    counts: &'a [u64],
}

impl Evidence {
    /// Makes frames free that no event names, from the highest down, until each order has as many free blocks as
    /// pagetypeinfo counts for each type, and buddyinfo for all. Returns their number. No block is put beside a
    /// free one, as the two would be one of the next order.
    pub(super) fn fill_free(&mut self, snapshot: &mut Snapshot, free: &mut [bool]) -> u64 {
        let (types, all) = (snapshot.pagetypeinfo.take(), snapshot.buddyinfo.take());
        let zones: Vec<_> = snapshot.zones.iter().map(|z| (z.node, z.name.clone())).collect();
        let mut filled = 0;
        for (zone, name) in zones.iter().enumerate() {
            for ((of, mt), counts) in types.iter().flat_map(|types| &types.free) {
                if of == name {
                    filled += self.fill(snapshot, free, &Wanted { zone, mt: Some(*mt), counts });
                }
            }
        }
        for (zone, name) in zones.iter().enumerate() {
            if let Some(counts) = all.as_ref().and_then(|all| all.free.get(name)) {
                filled += self.fill(snapshot, free, &Wanted { zone, mt: None, counts });
            }
        }
        filled
    }

    fn fill(&mut self, snapshot: &mut Snapshot, free: &mut [bool], wanted: &Wanted<'_>) -> u64 {
        let largest = wanted.counts.len().saturating_sub(1).min(LARGEST);
        let span = snapshot.zones[wanted.zone].span();
        let mut have = [0u64; LARGEST + 1];
        for block in &snapshot.free {
            let is_wanted = wanted.mt.is_none_or(|mt| mt == self.type_of(block.pfn));
            if usize::from(block.zone) == wanted.zone && is_wanted {
                have[usize::from(block.order).min(LARGEST)] += 1;
            }
        }
        let (mut filled, mut end) = (0, span.end.0);
        for order in (0..=largest).rev() {
            // With its buddy, which stays in use; blocks of the largest order have no buddy.
            let room = 1u64 << if order == largest { order } else { order + 1 };
            for _ in have[order]..wanted.counts[order] {
                let Some(start) = self.untouched(free, span.start.0, end, room, wanted.mt) else {
                    break;
                };
                free[start as usize..(start + (1 << order)) as usize].fill(true);
                if let Some(mt) = wanted.mt {
                    self.set_types(Pfn(start), order as Order, mt);
                }
                filled += 1 << order;
                end = start;
            }
        }
        if filled > 0 {
            snapshot.free = free_blocks(snapshot, free);
        }
        filled
    }

    fn set_types(&mut self, pfn: Pfn, order: Order, mt: Migratetype) {
        let blocks = self.block(pfn)..self.block(Pfn(pfn.0 + (1 << order) - 1)) + 1;
        if let Some(types) = self.types.get_mut(blocks) {
            types.fill(Some(mt));
        }
    }

    /// Returns the start of the highest aligned run of frames that no event names, in pageblocks that can have a
    /// type.
    fn untouched(
        &self,
        free: &[bool],
        low: u64,
        high: u64,
        room: u64,
        mt: Option<Migratetype>,
    ) -> Option<u64> {
        let mut start = high / room * room;
        while start >= low + room {
            start -= room;
            let frames = start as usize..(start + room) as usize;
            let blocks = self.block(Pfn(start))..self.block(Pfn(start + room - 1)) + 1;
            let can_be = |told: &Option<Migratetype>| told.is_none() || *told == mt;
            let fits = mt.is_none()
                || self.types.get(blocks).is_some_and(|types| types.iter().all(can_be));
            let was = self.before_snapshot.get(frames.clone())?;
            if fits && was.iter().all(|&was| was == UNKNOWN) && !free.get(frames)?.contains(&true) {
                return Some(start);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use pageblock::mobility::Migratetype::{Movable, Unmovable};
    use pageblock_recording::{BuddyInfo, PageTypeInfo};

    use super::super::tests::{evidence, snapshot};

    #[test]
    fn free_blocks_are_put_into_pageblocks_of_their_type() {
        let (mut snapshot, mut evidence) = (snapshot(&[]), evidence(0));
        evidence.pageblock_order = 2;
        evidence.types = vec![None, None, None, Some(Movable)];
        let name = (0, String::new());
        let of = |mt, count| ((name.clone(), mt), vec![count, 0]);
        let types = [of(Unmovable, 2), of(Movable, 1)].into();
        let info = PageTypeInfo { free: types, ..PageTypeInfo::default() };
        snapshot.pagetypeinfo = Some(info);
        // One more than when pagetypeinfo was read.
        snapshot.buddyinfo = Some(BuddyInfo { free: [(name.clone(), vec![4, 0])].into() });
        assert_eq!(evidence.fill_free(&mut snapshot, &mut [false; 16]), 4);
        let free: Vec<_> = snapshot.free.iter().map(|block| (block.pfn.0, block.order)).collect();
        assert_eq!(free, [(8, 0), (10, 0), (12, 0), (14, 0)]);
        assert_eq!(evidence.types, [None, None, Some(Unmovable), Some(Movable)]);
    }
}
