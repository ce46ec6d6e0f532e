//! Emptying pageblocks in the background, where a policy of one's own names them
//! ([`Decide::evacuate`](pageblock::decide::Decide::evacuate)): as `__alloc_contig_migrate_range`
//! does for a contiguous range, but to places outside a larger range, and without reclaim.

use pageblock::FrameState;
use pageblock::decide::Evacuation;
use pageblock::event::Observer;
use pageblock::frame::{Order, Pfn, pages};
use pageblock::ids::{CpuId, ZoneIndex};
use pageblock::request::{Gfp, Request};

use super::content::Pages;
use super::{CLUSTER, Content, Mode};
use crate::vm::{Vm, with_hook};

/// Pageblocks that are being emptied.
#[derive(Clone, Debug)]
pub(crate) struct Evacuating {
    zone: usize,
    evacuation: Evacuation,
    /// The next frame to look at.
    at: Pfn,
}

impl<O: Observer> Vm<'_, O> {
    /// Asks for the first of some zones that is to be emptied somewhere.
    pub(crate) fn evacuation(&mut self, zones: &[usize]) -> Option<Evacuating> {
        zones.iter().find_map(|&zone| {
            let evacuation = with_hook!(self, allocator, hook => {
                let (zone, _) = allocator.zone_and_cache(ZoneIndex::new(zone), CpuId(0))?;
                zone.evacuation(hook)
            })?;
            Some(Evacuating { zone, evacuation, at: evacuation.from.start })
        })
    }

    /// Moves up to 32 pages on a CPU. Returns whether there is more to do.
    pub(crate) fn step_evacuation(&mut self, of: &mut Evacuating, cpu: usize) -> bool {
        if of.at == of.evacuation.from.end {
            return false;
        }
        let whole = self.allocator.geometry().pageblock_order;
        // What is freed in the pageblock serves nothing until it is done.
        if of.at.is_aligned(whole) && !self.isolate_evacuated(of, true) {
            of.at = Pfn(of.at.0 + pages(whole));
            return true;
        }
        let end = Pfn(of.at.0 + 1).align_up(whole);
        let (mut scanned, mut left, mut room) = (0, CLUSTER, true);
        while room && left > 0 && of.at < end {
            scanned += 1;
            let (order, used) = match self.allocator.zones()[of.zone].state(of.at) {
                Some(FrameState::Free { order, .. }) => (order, false),
                Some(FrameState::Allocated { order, .. }) => (order, true),
                _ => (0, false),
            };
            if used && self.evacuated_content().is_movable(of.at, Mode::SyncLight) {
                room = self.move_apart(of.at, order, &of.evacuation, cpu);
                left = left.saturating_sub(1 << order);
            }
            of.at = Pfn(of.at.0 + pages(order)).min(end);
        }
        self.stat.compact_migrate_scanned += scanned;
        self.stat.compact_daemon_migrate_scanned += scanned;
        self.work.compact_scanned += scanned;
        if !room || of.at == end {
            let isolated = self.isolate_evacuated(of, false);
            debug_assert!(isolated, "the pageblock was not isolated");
        }
        room
    }

    /// Isolates the pageblock that is looked at, or the last one no longer. Returns whether that could be done.
    fn isolate_evacuated(&mut self, of: &Evacuating, isolates: bool) -> bool {
        with_hook!(self, allocator, hook => {
            let zone = allocator.zone_and_cache(ZoneIndex::new(of.zone), CpuId(0));
            zone.is_some_and(|(zone, _)| if isolates {
                zone.isolate_block(of.at, hook).is_ok()
            } else {
                zone.unisolate_block(Pfn(of.at.0 - 1), None, hook).is_ok()
            })
        })
    }

    /// Moves a block out. Returns whether there is room for more: what cannot be moved, or is large and finds no room, stays.
    fn move_apart(&mut self, from: Pfn, order: Order, of: &Evacuation, cpu: usize) -> bool {
        // Of `alloc_migration_target`, without reclaim: to make room is not worth a page's content.
        let gfp = Gfp(Gfp::GFP_HIGHUSER_MOVABLE.0 & !Gfp::RECLAIM.0 | Gfp::NOWARN.0);
        let request = Request::new(order, gfp);
        let cpu = CpuId(cpu);
        let Ok(to) = with_hook!(self, allocator, hook => allocator.alloc(cpu, &request, hook))
        else {
            return order > 0;
        };
        let apart = to < of.apart.start || to >= of.apart.end;
        let moved = apart && self.evacuated_content().migrate(from, to, Mode::SyncLight);
        if apart {
            let count = if moved {
                &mut self.stat.pgmigrate_success
            } else {
                &mut self.stat.pgmigrate_fail
            };
            *count += pages(order);
            self.work.migrated += if moved { pages(order) } else { 0 };
        }
        let freed = if moved { from } else { to };
        let freed = with_hook!(self, allocator, hook => allocator.free(cpu, freed, order, hook));
        debug_assert!(freed.is_ok(), "{freed:?}");
        apart
    }

    fn evacuated_content(&mut self) -> Pages<'_> {
        Pages {
            pages: &mut self.pages,
            pagecache: &mut self.pagecache,
            swap: &mut self.swap,
            inject: &mut self.inject,
            fs: true,
        }
    }
}
