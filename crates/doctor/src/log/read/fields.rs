//! The state of memory that the fields of `/proc/meminfo` tell.

use std::collections::BTreeMap;

use super::held::Held;
use super::mem_info::MemInfo;
use super::proc::PAGE_KB;
use super::state::MOST_KB;

/// The fields, in kB but for counts of huge pages, and what was pasted beside them.
pub(super) struct Fields<'f> {
    pub(super) all: &'f BTreeMap<String, u64>,
    /// The cache of ZFS.
    pub(super) arc_kb: Option<u64>,
    /// Slab caches of names that the kernel can free, and others.
    pub(super) freeable: Option<u64>,
    pub(super) slab: Option<u64>,
}

impl Fields<'_> {
    fn field(&self, name: &str) -> Option<u64> {
        self.all.get(name).copied()
    }

    /// Returns the state, if it tells how much of the machine's memory is free, or is the kernel's.
    pub(super) fn info(&self, has_zones: bool) -> Option<MemInfo> {
        let field = |name: &str| self.field(name);
        let free = field("MemFree").or(field("MemAvailable"));
        let total = field("MemTotal").filter(|_| free.is_some());
        let slab = field("SUnreclaim").or(self.slab);
        let freeable = field("SReclaimable").or(self.freeable);
        let whole = field("Slab").filter(|_| slab.or(freeable).is_none());
        if total.is_none() && !has_zones && freeable.or(slab).or(whole).is_none() {
            return None;
        }
        let shmem = field("Shmem");
        let cache = sum(field("Cached"), field("Buffers"));
        let available = field("MemAvailable").filter(|kb| total.is_none_or(|total| *kb <= total));
        let rest = total.zip(self.counted()).map(|(total, counted)| {
            total.saturating_sub(counted).saturating_sub(self.arc_kb.unwrap_or(0))
        });
        let has_slab = field("Slab").or(field("SUnreclaim")).is_some();
        Some(MemInfo {
            file_pages: cache.map(|kb| kb.saturating_sub(shmem.unwrap_or(0)) / PAGE_KB),
            free_swap_kb: field("SwapFree"),
            ram_pages: total.map(|kb| kb / PAGE_KB),
            available_kb: available,
            held: Held {
                // The lists that reclaim looks at have both.
                anonymous: sum(field("AnonPages"), shmem),
                shmem,
                unevictable: field("Unevictable"),
                mlocked: field("Mlocked"),
                slab_reclaimable: freeable,
                slab_unreclaimable: slab,
                slab: whole,
                kernel_stack: field("KernelStack"),
                pagetables: field("PageTables"),
                uncounted: rest.filter(|_| has_slab),
                unprinted: rest.filter(|_| !has_slab),
                arc: self.arc_kb,
                hugetlb: self.hugetlb().flatten(),
                ..Held::default()
            },
            ..MemInfo::default()
        })
    }

    /// Returns the memory of huge pages; `Some(None)` if there are some, and their size was not pasted.
    fn hugetlb(&self) -> Option<Option<u64>> {
        let pages = self.field("HugePages_Total");
        let kb = self.field("Hugetlb").or_else(|| {
            let pages = pages.zip(self.field("Hugepagesize"));
            pages.map(|(pages, kb)| pages.saturating_mul(kb).min(MOST_KB))
        });
        kb.map(Some).or_else(|| pages.filter(|pages| *pages > 0).map(|_| None))
    }

    /// Returns the memory of all fields, if it is known.
    fn counted(&self) -> Option<u64> {
        let field = |name: &str| self.field(name);
        let cache = sum(field("Cached"), field("Buffers"));
        // The lists of reclaim have the same pages, if a cut text has no better.
        let lists = field("Active").zip(field("Inactive"));
        let lists = lists.map(|(one, other)| one + other + field("Unevictable").unwrap_or(0));
        let users = field("AnonPages").zip(cache).map(|(kb, cache)| kb + cache).or(lists);
        [
            field("MemFree").zip(users).map(|(free, users)| free + users),
            field("Slab").or(sum(field("SReclaimable").or(Some(0)), field("SUnreclaim"))),
            field("PageTables").or(Some(0)),
            field("KernelStack").or(Some(0)),
            self.hugetlb().unwrap_or(Some(0)),
        ]
        .into_iter()
        .sum()
    }
}

fn sum(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    Some(one? + other.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(all: &[(&str, u64)]) -> Held {
        let all = all.iter().map(|(name, kb)| ((*name).to_owned(), *kb)).collect();
        let fields = Fields { all: &all, arc_kb: None, freeable: None, slab: None };
        fields.info(false).unwrap().held
    }

    /// Of what is cut, the lists of reclaim tell how much no counter has.
    #[test]
    fn lists_count_users_where_their_fields_are_cut() {
        let lists = [("MemTotal", 900), ("MemFree", 100), ("Active", 30), ("Inactive", 50)];
        assert_eq!(held(&[&lists[..], &[("Slab", 20)]].concat()).uncounted, Some(700));
        // A text that ends before `Slab` does not tell the kernel's memory from that of drivers.
        let cut = held(&lists);
        assert_eq!((cut.uncounted, cut.unprinted), (None, Some(720)));
    }

    #[test]
    fn huge_pages_of_an_unknown_size_may_be_the_rest() {
        let all = [("MemTotal", 9000), ("MemFree", 1), ("Active", 1), ("Inactive", 1), ("Slab", 1)];
        let with = |more: &[(&str, u64)]| held(&[&all[..], more].concat());
        assert_eq!(with(&[("HugePages_Total", 3)]).uncounted, None);
        let known = with(&[("HugePages_Total", 3), ("Hugepagesize", 2048)]);
        assert_eq!((known.hugetlb, known.uncounted), (Some(6144), Some(9000 - 6144 - 4)));
        assert_eq!(with(&[("Hugetlb", 6144)]).hugetlb, Some(6144));
    }
}
