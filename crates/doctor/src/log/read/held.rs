//! The holders of memory, by the counters of a report.

use serde::Serialize;

use super::state::{MOST_KB, MOST_PAGES, at_most};

/// The memory of each holder, in kB; `None` if it was not printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Held {
    /// Anonymous memory on the lists that reclaim looks at.
    pub anonymous: Option<u64>,
    /// Memory of tmpfs and of System V, which counts as page cache.
    pub shmem: Option<u64>,
    /// Memory that reclaim may not take.
    pub unevictable: Option<u64>,
    /// The part of it that is locked (`mlock`).
    pub mlocked: Option<u64>,
    /// Slab that the kernel can free.
    pub slab_reclaimable: Option<u64>,
    /// Slab that it cannot free.
    pub slab_unreclaimable: Option<u64>,
    /// All slab, where nothing tells how much of it can be freed.
    pub slab: Option<u64>,
    /// Stacks of tasks in the kernel.
    pub kernel_stack: Option<u64>,
    /// Page tables, with those of virtual machines.
    pub pagetables: Option<u64>,
    /// Huge pages that were set aside (hugetlb).
    pub hugetlb: Option<u64>,
    /// The cache of ZFS, which is not page cache.
    pub arc: Option<u64>,
    /// Memory that a balloon returned to the hypervisor.
    pub balloon: Option<u64>,
    /// Pages that compressed swap is stored in.
    pub zspages: Option<u64>,
    /// Memory that none of the pasted counters of `/proc/meminfo` includes.
    pub uncounted: Option<u64>,
    /// The same where the field of slab was not pasted.
    pub unprinted: Option<u64>,
    /// Counted memory of no holder above: bounce buffers, isolated pages, per-CPU lists.
    pub other: Option<u64>,
}

impl Held {
    /// Adds a number of the whole machine in pages, whose size is not known yet.
    pub(super) fn count(&mut self, key: &str, number: u64) {
        let field = match key {
            "active_anon" | "Active_anon" | "inactive_anon" => &mut self.anonymous,
            "shmem" => &mut self.shmem,
            "unevictable" => &mut self.unevictable,
            "slab_reclaimable" => &mut self.slab_reclaimable,
            "slab_unreclaimable" => &mut self.slab_unreclaimable,
            "pagetables" | "sec_pagetables" => &mut self.pagetables,
            "isolated_anon"
            | "isolated_file"
            | "bounce"
            | "free_pcp"
            | "kernel_misc_reclaimable" => &mut self.other,
            _ => return,
        };
        *field = Some((field.unwrap_or(0) + number).min(MOST_PAGES));
    }

    /// Adds a number in kB that the kernel prints only by zone or by node.
    pub(super) fn add(&mut self, key: &str, kb: u64) {
        let field = match key {
            "mlocked" => &mut self.mlocked,
            "kernel_stack" => &mut self.kernel_stack,
            "Balloon" => &mut self.balloon,
            "zspages" => &mut self.zspages,
            _ => return,
        };
        *field = Some((field.unwrap_or(0) + kb).min(MOST_KB));
    }

    /// Reads the line of a node's huge pages: `hugepages_total=4 ... hugepages_size=2048kB`.
    pub(super) fn huge_pages(&mut self, text: &str) {
        let after = |key: &str| text.split(key).nth(1)?.split_whitespace().next();
        let size =
            after("hugepages_size=").and_then(|size| at_most(size.trim_end_matches("kB"), MOST_KB));
        let total = after("hugepages_total=").and_then(|total| at_most(total, MOST_PAGES));
        if let (Some(total), Some(kb)) = (total, size) {
            let sum = total.saturating_mul(kb).saturating_add(self.hugetlb.unwrap_or(0));
            self.hugetlb = Some(sum.min(MOST_KB));
        }
    }

    /// Drops numbers larger than the machine's memory (in kB): their lines were printed twice.
    pub(super) fn within(mut self, most: u64) -> Self {
        for field in [
            &mut self.anonymous,
            &mut self.shmem,
            &mut self.unevictable,
            &mut self.mlocked,
            &mut self.slab_reclaimable,
            &mut self.slab_unreclaimable,
            &mut self.kernel_stack,
            &mut self.pagetables,
            &mut self.hugetlb,
            &mut self.balloon,
            &mut self.zspages,
            &mut self.other,
        ] {
            *field = field.filter(|&kb| kb <= most);
        }
        self
    }

    /// Converts counts of pages to kB.
    pub(super) fn in_kb(self, page_kb: u64) -> Self {
        let kb = |pages: Option<u64>| pages.map(|pages| pages * page_kb);
        Self {
            anonymous: kb(self.anonymous),
            shmem: kb(self.shmem),
            unevictable: kb(self.unevictable),
            slab_reclaimable: kb(self.slab_reclaimable),
            slab_unreclaimable: kb(self.slab_unreclaimable),
            pagetables: kb(self.pagetables),
            other: kb(self.other),
            ..self
        }
    }
}
