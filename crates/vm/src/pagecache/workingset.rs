//! Refaults: whether a page that is read again would still be in memory, had the inactive list been longer.
//!
//! An evicted page leaves a shadow entry with the time of a clock that counts evictions and activations. The time
//! that passes until the page is read again, its refault distance, is compared with the size of the active list.
//! Source: mm/workingset.c (from 3.15).

use pageblock_kernel::rules::reclaim::Workingset;

use super::lru::LruList;
use super::mglru::Kind;
use super::space::{Slot, SpaceId};
use crate::base::shrink::{Pressure, ShrinkControl, scan_target};
use crate::page::{Owner, PageFlags};
use crate::vm::Vm;

/// Bits of the clock in a shadow entry, besides the index of the lruvec and a flag.
const AGE_BITS: u32 = 24;
const AGE_MASK: u64 = (1 << AGE_BITS) - 1;
const VEC_BITS: u32 = 5;

/// An unpacked shadow entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Shadow {
    vec: usize,
    workingset: bool,
    age: u64,
}

impl Shadow {
    /// Packs it into 30 bits. `bucket` is the logarithm of the clock's step: large machines keep coarser ages
    /// (`bucket_order`).
    fn pack(self, bucket: u32) -> u32 {
        let age = (self.age >> bucket & AGE_MASK) as u32;
        age << (VEC_BITS + 1) | (self.vec as u32) << 1 | u32::from(self.workingset)
    }

    fn unpack(value: u32, bucket: u32) -> Self {
        Self {
            workingset: value & 1 != 0,
            vec: (value >> 1 & ((1 << VEC_BITS) - 1)) as usize,
            age: u64::from(value >> (VEC_BITS + 1)) << bucket,
        }
    }

    /// Returns the refault distance, in the bits that a shadow entry keeps.
    fn distance(self, now: u64, bucket: u32) -> u64 {
        (now.wrapping_sub(self.age) >> bucket & AGE_MASK) << bucket
    }
}

impl<O: pageblock::event::Observer> Vm<'_, O> {
    fn age_bucket(&self) -> u32 {
        let bits = usize::BITS - self.pages.len().leading_zeros();
        bits.saturating_sub(AGE_BITS)
    }

    /// Returns the shadow entry of a page that is evicted (`workingset_eviction`).
    pub(crate) fn leave_shadow(&mut self, pfn: u32) -> Slot {
        let page = self.pages[pfn];
        let rules = &self.kernel.reclaim;
        let leaves = rules.anon_workingset || page.kind() != Owner::Anon;
        if rules.workingset == Workingset::Off || !leaves {
            return Slot::Empty;
        }
        let vec = self.pagecache.lru.of_zone(usize::from(page.zone));
        if self.pagecache.lru.has_generations() {
            let age = self.pagecache.generations(vec).evict(&page, Kind::of(&page));
            let shadow = Shadow { vec, workingset: page.has(PageFlags::WORKINGSET), age };
            return Slot::Shadow(shadow.pack(0));
        }
        let bucket = self.age_bucket();
        let lruvec = self.pagecache.lru.vec(vec);
        let shadow = Shadow { vec, workingset: page.has(PageFlags::WORKINGSET), age: lruvec.age };
        lruvec.age += 1 << page.order();
        Slot::Shadow(shadow.pack(bucket))
    }

    /// Activates a page or folio that is read again if it was evicted too early (`workingset_refault`). The page is not on a
    /// list yet.
    pub(crate) fn refault(&mut self, pfn: u32, shadow: u32) {
        let anon = self.pages[pfn].kind() == Owner::Anon;
        let pages = 1 << self.pages[pfn].order();
        if anon {
            self.stat.workingset_refault_anon += pages;
        } else {
            self.stat.workingset_refault += pages;
        }
        if self.pagecache.lru.has_generations() {
            self.refault_generation(pfn, shadow);
            return;
        }
        let bucket = self.age_bucket();
        let shadow = Shadow::unpack(shadow, bucket);
        let rules = &self.kernel.reclaim;
        let (counts_anon, cost) = (rules.refault_counts_anon, rules.scan_balance);
        let swap = self.has_free_swap();
        let lruvec = self.pagecache.lru.vec(shadow.vec);
        let distance = shadow.distance(lruvec.age, bucket);
        let mut workingset = lruvec.size(LruList::ActiveFile);
        if anon {
            workingset = lruvec.file() + lruvec.size(LruList::ActiveAnon);
        } else if counts_anon && swap {
            workingset += lruvec.anon();
        }
        if distance > workingset {
            return;
        }
        lruvec.age += pages;
        lruvec.activations[usize::from(!anon)] += pages;
        if shadow.workingset {
            let list = if anon { LruList::InactiveAnon } else { LruList::InactiveFile };
            lruvec.note_cost(cost, list, pages, 0);
        }
        self.stat.workingset_activate += pages;
        self.pages[pfn].set(PageFlags::ACTIVE);
        if shadow.workingset {
            self.pages[pfn].set(PageFlags::WORKINGSET);
            self.stat.workingset_restore += pages;
        }
    }

    /// The same for pages that were evicted from a generation (`lru_gen_refault`).
    #[inline(never)]
    fn refault_generation(&mut self, pfn: u32, shadow: u32) {
        let shadow = Shadow::unpack(shadow, 0);
        let page = &mut self.pages[pfn];
        if shadow.vec != self.pagecache.lru.of_zone(page.zone.into()) {
            return;
        }
        // The whole group that is read from swap is read in the fault of one page.
        let (fault, pages) = (page.kind() == Owner::Anon, 1 << page.order());
        let of = self.pagecache.generations(shadow.vec);
        let refault = of.refault(page, (shadow.age, shadow.workingset), AGE_MASK, fault);
        self.stat.workingset_activate += if refault.activated { pages } else { 0 };
        self.stat.workingset_restore += if refault.restored { pages } else { 0 };
    }

    /// Reclaims index nodes of files that hold only shadow entries, if there are more than one for eight pages of
    /// memory (`count_shadow_nodes`, `shadow_lru_isolate`).
    pub(crate) fn shrink_shadows(&mut self, pressure: Pressure, by: ShrinkControl) {
        let present: u64 = self.allocator.zones().iter().map(pageblock::zone::Zone::present).sum();
        let excess = self.pagecache.spaces.shadow_nodes().saturating_sub(present / 8);
        let end = self
            .pagecache
            .spaces
            .shadow_nodes()
            .saturating_sub(scan_target(excess, 0, pressure, 0));
        while self.pagecache.spaces.shadow_nodes() > end
            && let Some(id) = self.pagecache.spaces.oldest_shadows()
        {
            let before = self.pagecache.spaces.shadow_nodes();
            self.drop_shadows(by.cpu, id);
            let dropped = before - self.pagecache.spaces.shadow_nodes();
            self.stat.workingset_nodereclaim += dropped;
            self.work.shrunk += dropped;
        }
    }

    /// Drops the shadow entries of a space without pages, and its index nodes.
    pub(super) fn drop_shadows(&mut self, cpu: usize, id: SpaceId) {
        for index in 0..self.pagecache.spaces.get(id).len() {
            if matches!(self.pagecache.spaces.slot(id, index), Slot::Shadow(_)) {
                self.pagecache.spaces.set(id, index, Slot::Empty);
            }
        }
        self.free_index_nodes(cpu, id);
        self.relist_inode(id);
    }

    /// Frees the index nodes of a space if it has neither pages nor shadow entries.
    pub(crate) fn free_index_nodes(&mut self, cpu: usize, id: SpaceId) {
        let space = self.pagecache.spaces.get(id);
        if space.present > 0 || space.shadows > 0 {
            return;
        }
        for node in self.pagecache.spaces.take_nodes(id) {
            self.put_object(cpu, node);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shadow_entries_keep_the_distance_when_the_clock_wraps() {
        for bucket in [0, 2] {
            let age = (1 << 40) - 100;
            let shadow = Shadow { vec: 3, workingset: true, age };
            let read = Shadow::unpack(shadow.pack(bucket), bucket);
            assert_eq!((read.vec, read.workingset), (3, true));
            assert_eq!(read.distance(age + 1000, bucket), 1000);
        }
    }
}
