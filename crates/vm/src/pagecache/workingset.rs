//! Refaults: whether a page that comes back would have stayed, had the inactive list been longer.
//!
//! An evicted page leaves a trace of the clock that counts evictions and activations; how far the
//! clock went on until the page came back is compared with what the active list holds.
//! Source: mm/workingset.c (from 3.15).

use pageblock_kernel::rules::reclaim::Workingset;

use crate::base::shrink::{Pressure, ShrinkControl, scan_target};
use crate::page::space::{Slot, SpaceId};
use crate::page::table::{Owner, PageFlags};
use crate::pagecache::lru::LruList;
use crate::vm::Vm;

/// Bits of the clock that a trace keeps, beside the list's number and a flag.
const AGE_BITS: u32 = 24;
const AGE_MASK: u64 = (1 << AGE_BITS) - 1;
const VEC_BITS: u32 = 5;

/// What a trace says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Shadow {
    vec: usize,
    workingset: bool,
    age: u64,
}

impl Shadow {
    /// `bucket` is the logarithm of the clock's step: large machines keep coarser ages
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

    /// How far the clock went since, with the bits that a trace keeps.
    fn distance(self, now: u64, bucket: u32) -> u64 {
        (now.wrapping_sub(self.age) >> bucket & AGE_MASK) << bucket
    }
}

impl<O: pageblock::event::Observer> Vm<'_, O> {
    fn age_bucket(&self) -> u32 {
        let bits = usize::BITS - self.pages.len().leading_zeros();
        bits.saturating_sub(AGE_BITS)
    }

    /// The trace that a page leaves when it is evicted (`workingset_eviction`).
    pub(crate) fn leave_shadow(&mut self, pfn: u32) -> Slot {
        if self.kernel.reclaim.workingset == Workingset::Off {
            return Slot::Empty;
        }
        let page = self.pages[pfn];
        let vec = self.lru.of_zone(usize::from(page.zone));
        let bucket = self.age_bucket();
        let lruvec = self.lru.vec(vec);
        let shadow = Shadow { vec, workingset: page.has(PageFlags::WORKINGSET), age: lruvec.age };
        lruvec.age += 1 << page.order();
        Slot::Shadow(shadow.pack(bucket))
    }

    /// A page comes back that left a trace: activates it where it was evicted too early
    /// (`workingset_refault`). The page is not on a list yet.
    pub(crate) fn refault(&mut self, pfn: u32, trace: u32) {
        let anon = self.pages[pfn].kind() == Owner::Anon;
        if anon {
            self.stat.workingset_refault_anon += 1;
        } else {
            self.stat.workingset_refault += 1;
        }
        let bucket = self.age_bucket();
        let shadow = Shadow::unpack(trace, bucket);
        let counts_anon = self.kernel.reclaim.refault_counts_anon;
        let swap = self.swap.free_places() > 0;
        let lruvec = self.lru.vec(shadow.vec);
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
        lruvec.age += 1;
        lruvec.activations += 1;
        self.stat.workingset_activate += 1;
        self.pages[pfn].set(PageFlags::ACTIVE);
        if shadow.workingset {
            self.pages[pfn].set(PageFlags::WORKINGSET);
            self.stat.workingset_restore += 1;
        }
    }

    /// Reclaims index nodes of files that hold traces only, where they are more than one for eight
    /// pages of memory (`count_shadow_nodes`, `shadow_lru_isolate`).
    pub(crate) fn shrink_shadows(&mut self, pressure: Pressure, by: ShrinkControl) {
        let present: u64 = self.allocator.zones().iter().map(pageblock::zone::Zone::present).sum();
        let excess = self.spaces.shadow_nodes().saturating_sub(present / 8);
        let end = self.spaces.shadow_nodes().saturating_sub(scan_target(excess, 0, pressure, 0));
        while self.spaces.shadow_nodes() > end
            && let Some(id) = self.spaces.oldest_shadows()
        {
            let before = self.spaces.shadow_nodes();
            self.drop_shadows(by.cpu, id);
            let dropped = before - self.spaces.shadow_nodes();
            self.stat.workingset_nodereclaim += dropped;
            self.work.shrunk += dropped;
        }
    }

    fn drop_shadows(&mut self, cpu: usize, id: SpaceId) {
        for index in 0..self.spaces.get(id).len() {
            if matches!(self.spaces.slot(id, index), Slot::Shadow(_)) {
                self.spaces.set(id, index, Slot::Empty);
            }
        }
        self.free_index_nodes(cpu, id);
    }

    /// Frees the index nodes of a space that has neither pages nor traces.
    pub(crate) fn free_index_nodes(&mut self, cpu: usize, id: SpaceId) {
        let space = self.spaces.get(id);
        if space.present > 0 || space.shadows > 0 {
            return;
        }
        for node in self.spaces.take_nodes(id) {
            self.put_object(cpu, node);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces_keep_the_distance_over_a_wrap() {
        for bucket in [0, 2] {
            let age = (1 << 40) - 100;
            let shadow = Shadow { vec: 3, workingset: true, age };
            let read = Shadow::unpack(shadow.pack(bucket), bucket);
            assert_eq!((read.vec, read.workingset), (3, true));
            assert_eq!(read.distance(age + 1000, bucket), 1000);
        }
    }
}
