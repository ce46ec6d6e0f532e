//! The callers of the allocator: the stacks of a recording, by the function that asked for memory.

use std::collections::BTreeMap;

use pageblock::frame::{Order, pages};
use pageblock::mobility::Migratetype;
use pageblock_measure::value::call_sites::{CallSite, CallSites};
use pageblock_recording::{CALLED_BY, Record, STACK, What};

/// The number of functions that name a call site: the one that asked for memory, and its callers.
const NAMED: usize = 3;
/// The number of events without a stack to which the next stack of a CPU may belong.
pub(crate) const PENDING: usize = 4;

/// Prefixes of the names of functions that pass a request on: the page allocator's, and those of allocators on top
/// of it.
const PASSING: [&str; 35] = [
    "trace_event_raw_event_",
    "__traceiter_",
    "event_triggers_",
    "trace_event_buffer_",
    "__trace_stack",
    "rmqueue",
    "__rmqueue",
    "steal_suitable_fallback",
    "try_to_claim_block",
    "try_to_steal_block",
    "get_page_from_freelist",
    "__alloc_pages",
    "__alloc_frozen_pages",
    "alloc_frozen_pages",
    "alloc_pages",
    "__alloc_folio",
    "__folio_alloc",
    "folio_alloc",
    "filemap_alloc_folio",
    "vma_alloc_",
    "alloc_page_interleave",
    "__get_free_pages",
    "get_free_pages",
    "get_zeroed_page",
    "__get_zeroed_page",
    "new_slab",
    "allocate_slab",
    "refill_objects",
    "__slab_alloc",
    "___slab_alloc",
    "kmem_cache_alloc",
    "__kmem_cache_alloc",
    "__kmalloc",
    "__do_kmalloc",
    "kmalloc",
];

/// Finds the call sites in a stream of events.
#[derive(Default)]
pub struct CallSiteFinder {
    /// By CPU, the events whose stack may follow. An interrupt may come in between, and its stack comes first.
    pending: BTreeMap<u16, Vec<Asked>>,
    sites: BTreeMap<(bool, String, &'static str), [u64; 3]>,
}

#[derive(Clone, Copy)]
struct Asked {
    fallback: bool,
    order: Order,
    mt: Migratetype,
    claimed: bool,
}

impl CallSiteFinder {
    /// Follows the next event.
    pub fn push(&mut self, record: &Record) {
        let asked = |fallback, order, mt, claimed| Asked { fallback, order, mt, claimed };
        let asked = match &record.what {
            What::Extfrag(x) => asked(true, x.alloc_order, x.alloc_migratetype, x.change_ownership),
            What::Alloc { pfn: Some(_), order, mt, .. } => asked(false, *order, *mt, false),
            What::Other(other) if &*other.name == STACK => {
                if let Some(asked) = self.pending.get_mut(&record.cpu).and_then(Vec::pop) {
                    self.count(asked, &other.args);
                }
                return;
            }
            _ => return,
        };
        let pending = self.pending.entry(record.cpu).or_default();
        // Most events have no stack; a stack follows its event at once.
        if pending.len() >= PENDING {
            pending.remove(0);
        }
        pending.push(asked);
    }

    fn count(&mut self, asked: Asked, stack: &str) {
        let site = site(stack).join(CALLED_BY);
        let sums = self.sites.entry((asked.fallback, site, asked.mt.name())).or_default();
        sums[0] += 1;
        sums[1] += pages(asked.order);
        sums[2] += u64::from(asked.claimed);
    }

    /// Returns the call sites, after the last event.
    #[must_use]
    pub fn finish(self) -> CallSites {
        let mut sites = CallSites::default();
        for ((fallback, functions, migratetype), [events, pages, claimed]) in self.sites {
            let functions = functions.split(CALLED_BY).map(str::to_owned).collect();
            let site = CallSite { functions, migratetype, events, pages, claimed };
            if fallback { &mut sites.fallbacks } else { &mut sites.requests }.push(site);
        }
        // Call sites with equal counts stay in the order of their names.
        sites.fallbacks.sort_by_key(|site| std::cmp::Reverse(site.events));
        sites.requests.sort_by_key(|site| std::cmp::Reverse(site.pages));
        sites
    }
}

/// Returns the functions of a stack, from the one that asked for memory on.
pub(crate) fn site(stack: &str) -> Vec<&str> {
    let plain = |name: &&str| !PASSING.iter().any(|start| name.starts_with(start));
    let all: Vec<&str> = stack.split(CALLED_BY).collect();
    let from = all.iter().position(plain).unwrap_or(0);
    all[from..].iter().copied().take(NAMED).collect()
}

#[cfg(test)]
mod tests {
    use pageblock::frame::Pfn;
    use pageblock::request::Gfp;
    use pageblock_recording::Other;

    use super::*;

    fn request(cpu: u16, order: Order) -> Record {
        let (mt, gfp) = (Migratetype::Unmovable, Gfp::NONE);
        let what = What::Alloc { pfn: Some(Pfn(512)), order, mt, gfp };
        Record { t_us: 0, cpu, pid: 1, what }
    }

    fn stack(cpu: u16, args: &str) -> Record {
        let other = Other { name: STACK.into(), args: args.into() };
        Record { t_us: 0, cpu, pid: 1, what: What::Other(Box::new(other)) }
    }

    /// A stack belongs to the last event of its CPU. It starts with the first function that is not the allocator's.
    #[test]
    fn stacks_are_counted_by_who_asked() {
        let mut finder = CallSiteFinder::default();
        let slab = "__alloc_frozen_pages_noprof <- allocate_slab <- kmem_cache_alloc_noprof <- getname <- open <- x <- y";
        for record in [request(0, 3), request(1, 0), stack(0, slab), request(0, 1), stack(0, slab)]
        {
            finder.push(&record);
        }
        finder.push(&stack(2, "lost"));
        let CallSites { fallbacks, requests } = finder.finish();
        assert!(fallbacks.is_empty());
        assert_eq!(requests.len(), 1);
        assert_eq!(requests[0].functions, ["getname", "open", "x"]);
        assert_eq!((requests[0].events, requests[0].pages), (2, 10));
    }
}
