//! The pages on CPU lists at the start: those that events take, and as many others as the kernel counted.

use std::collections::BTreeMap;

use pageblock::frame::{Order, Pfn};
use pageblock::mobility::Migratetype::{self, Movable, Reclaimable, Unmovable};
use pageblock_recording::{PageUse, PcpPage, Snapshot};

use super::{Evidence, Listed, free_frames};

/// Lists of higher orders than this (`PAGE_ALLOC_COSTLY_ORDER`) hold huge pages.
pub(super) const COSTLY_ORDER: Order = 3;

impl Evidence {
    /// Puts as many pages on the CPU lists as the snapshot counts. Pages that no event touches fill the middle.
    /// Returns the number of pages that events told.
    pub(super) fn fill_cpu_lists(&self, snapshot: &mut Snapshot) -> usize {
        let free = free_frames(snapshot, self.touched.len());
        let mut fillers = self.fillers(snapshot);
        let (mut pages, mut known) = (Vec::new(), 0);
        let cpus = snapshot.pcpinfo.iter().map(|info| info.cpu + 1).max().unwrap_or(0);
        for cpu in 0..cpus {
            let page = |listed: &Listed| {
                let zone = snapshot.zone_of(listed.pfn)? as u16;
                let Listed { pfn, order, mt } = *listed;
                let page = PcpPage { cpu, zone, index: 0, order, mt: Some(mt), pfn };
                (!free[pfn.0 as usize]).then_some(page)
            };
            let listed = |of: &BTreeMap<u16, Vec<Listed>>| -> Vec<PcpPage> {
                of.get(&cpu).into_iter().flatten().filter_map(page).collect()
            };
            let (heads, mut tails) = (listed(&self.heads), listed(&self.tails));
            tails.reverse();
            known += heads.len() + tails.len();
            let room = |zone| {
                let mut types = [Movable, Unmovable, Reclaimable].into_iter();
                types.find(|&mt| !self.ran_out.contains(&(cpu, zone, mt)))
            };
            let known_pages = heads.iter().chain(&tails);
            let (middle, missing) = middle(snapshot, cpu, known_pages, room, &mut fillers);
            let blocks: Vec<PcpPage> = missing
                .into_iter()
                .flat_map(|(zone, pages)| self.huge_pages(cpu, zone, pages, &mut fillers))
                .collect();
            pages.extend(heads.into_iter().chain(middle).chain(blocks).chain(tails));
        }
        snapshot.pcp = pages;
        known
    }

    /// Returns huge pages for a number of missing pages, if no refill found their list empty.
    fn huge_pages(&self, cpu: u16, zone: u16, missing: u64, fillers: &mut Fillers) -> Vec<PcpPage> {
        let mut blocks = Vec::new();
        let mut missing = missing;
        let mut orders: Vec<Order> = (COSTLY_ORDER + 1..=self.pageblock_order).collect();
        orders.retain(|&order| self.counters.lists(order));
        for order in orders.into_iter().rev() {
            if self.blocks_ran_out.contains(&(cpu, zone, order)) || missing >> order == 0 {
                continue;
            }
            for mt in [Movable, Unmovable, Reclaimable] {
                let Some(pool) = fillers.get_mut(&(zone, mt)) else { continue };
                let pages = 1usize << order;
                let (all, mut kept) = (std::mem::take(pool), Vec::new());
                let mut at = all.len();
                while at > 0 {
                    // The frames of a pool are sorted.
                    let first = at.checked_sub(pages).map(|first| all[first]);
                    let block = first.filter(|first| {
                        first.is_aligned(order) && all[at - 1].0 - first.0 == pages as u64 - 1
                    });
                    if let Some(pfn) = block.filter(|_| missing >> order > 0) {
                        at -= pages;
                        missing -= pages as u64;
                        blocks.push(PcpPage { cpu, zone, index: 0, order, mt: Some(mt), pfn });
                    } else {
                        at -= 1;
                        kept.push(all[at]);
                    }
                }
                kept.reverse();
                *pool = kept;
            }
        }
        blocks
    }

    /// Returns the pages that may be on CPU lists and that no event touches.
    fn fillers(&self, snapshot: &Snapshot) -> Fillers {
        let mut fillers = Fillers::new();
        for used in snapshot.used.iter().filter(|used| used.state == PageUse::KernelOrPcp) {
            for pfn in (used.pfn.0..used.pfn.0 + used.count).map(Pfn) {
                if !self.touched[pfn.0 as usize]
                    && let Some(zone) = snapshot.zone_of(pfn)
                {
                    fillers.entry((zone as u16, self.type_of(pfn))).or_default().push(pfn);
                }
            }
        }
        fillers
    }
}

/// Pages that may be on CPU lists, by zone and type.
type Fillers = BTreeMap<(u16, Migratetype), Vec<Pfn>>;

/// Returns pages that make a CPU's lists as long as the snapshot counts them, and the number still missing, by
/// zone. `room` tells which type's list of a zone may have held pages that no event touches.
fn middle<'p>(
    snapshot: &Snapshot,
    cpu: u16,
    known: impl Iterator<Item = &'p PcpPage>,
    room: impl Fn(u16) -> Option<Migratetype>,
    fillers: &mut Fillers,
) -> (Vec<PcpPage>, Vec<(u16, u64)>) {
    let mut listed: BTreeMap<u16, u64> = BTreeMap::new();
    for page in known {
        *listed.entry(page.zone).or_default() += 1 << page.order;
    }
    let (mut middle, mut rest) = (Vec::new(), Vec::new());
    for info in snapshot.pcpinfo.iter().filter(|info| info.cpu == cpu) {
        let missing = info.count.saturating_sub(listed.get(&info.zone).copied().unwrap_or(0));
        let Some(mt) = room(info.zone) else {
            rest.push((info.zone, missing));
            continue;
        };
        let pool = fillers.entry((info.zone, mt)).or_default();
        let found = (missing as usize).min(pool.len());
        let left = pool.len() - found;
        rest.push((info.zone, missing - found as u64));
        let page = |pfn| PcpPage { cpu, zone: info.zone, index: 0, order: 0, mt: Some(mt), pfn };
        middle.extend(pool.drain(left..).map(page));
    }
    (middle, rest)
}
