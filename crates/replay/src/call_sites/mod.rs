//! The callers of the allocator: the stacks of a recording, by the function that asked for memory.

mod held;
mod stacks;
mod waits;

use std::collections::BTreeMap;

use pageblock::frame::{Order, pages};
use pageblock::mobility::Migratetype;
use pageblock_measure::value::call_sites::{CallSite, CallSites};
use pageblock_recording::{CALLED_BY, Record, Recording, STACK, What};

pub(crate) use self::stacks::{Stacks, may_have_stack, site};

use self::held::{HolderFinder, Request};
use self::stacks::functions;
use self::waits::{WaitFinder, Waiting};

/// Finds the call sites in a stream of events, who still holds pages at its end, and who waited.
#[derive(Default)]
pub struct CallSiteFinder {
    pending: Stacks<Pending>,
    sites: BTreeMap<(bool, String, &'static str), [u64; 3]>,
    holders: HolderFinder,
    waits: WaitFinder,
}

/// The name of the recorder in tables: its buffers are pages too.
const RECORDER: &str = "(the recorder)";

/// Returns the threads of the recorder, where a recording names them.
fn recorder(of: &Recording) -> Vec<u32> {
    let json = of.settings.get("pageblock/recorder.json").map_or("", String::as_str);
    let json: serde_json::Value = serde_json::from_str(json).unwrap_or_default();
    let threads = json["recorder_threads"].as_array().into_iter().flatten();
    threads.filter_map(|pid| u32::try_from(pid.as_u64()?).ok()).collect()
}

/// An event whose stack may follow.
#[derive(Clone, Copy)]
struct Pending {
    asked: Option<Asked>,
    request: Option<Request>,
    waiting: Option<Waiting>,
}

#[derive(Clone, Copy)]
struct Asked {
    fallback: bool,
    order: Order,
    mt: Migratetype,
    claimed: bool,
}

impl CallSiteFinder {
    /// Returns the call sites of a whole recording; `None` if `stop` said so.
    ///
    /// # Errors
    /// If the events cannot be read.
    pub fn find(
        of: &Recording,
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<CallSites>, pageblock_recording::Error> {
        let mut finder = Self::default();
        let mut events = of.events()?;
        for record in &mut events {
            finder.push(&record?);
            if stop() {
                return Ok(None);
            }
        }
        Ok(Some(finder.finish(of, events.lost())))
    }

    /// Follows the next event.
    pub fn push(&mut self, record: &Record) {
        let Record { t_us, cpu, pid, what } = record;
        let asked = |fallback, order, mt, claimed| Some(Asked { fallback, order, mt, claimed });
        let mut pending = Pending { asked: None, request: None, waiting: None };
        match what {
            What::Extfrag(x) => {
                pending.asked = asked(true, x.alloc_order, x.alloc_migratetype, x.change_ownership);
            }
            What::Alloc { pfn, order, mt, .. } => {
                self.waits.served(*pid);
                let Some(pfn) = *pfn else { return };
                pending.asked = asked(false, *order, *mt, false);
                pending.request = self.holders.request(*pid, pfn, *order, *mt);
            }
            What::Free { pfn, order } => self.holders.freed(*pfn, *order),
            What::Isolate { pfn, order, ret } if *ret > 0 => self.holders.freed(*pfn, *order),
            What::Other(other) if &*other.name == STACK => {
                if let Some(pending) = self.pending.take(*cpu) {
                    self.stack(pending, &other.args);
                }
            }
            What::Other(other) => pending.waiting = self.waits.push(*pid, *t_us, other),
            _ => {}
        }
        if may_have_stack(what) {
            self.pending.wait(*cpu, pending);
        }
    }

    fn stack(&mut self, pending: Pending, stack: &str) {
        if let Some(asked) = pending.asked {
            let site = site(stack).join(CALLED_BY);
            let sums = self.sites.entry((asked.fallback, site, asked.mt.name())).or_default();
            sums[0] += 1;
            sums[1] += pages(asked.order);
            sums[2] += u64::from(asked.claimed);
        }
        if let Some(request) = pending.request {
            self.holders.stack(request, stack);
        }
        if let Some(waiting) = pending.waiting {
            self.waits.stack(waiting, stack);
        }
    }

    /// Returns the call sites, after the last event of a recording that lost so many.
    #[must_use]
    pub fn finish(self, of: &Recording, lost: u64) -> CallSites {
        let mut names = of.comms.clone();
        for pid in recorder(of) {
            names.insert(pid, RECORDER.to_owned());
        }
        let mut sites = self.named(&names, of.pageblock_order);
        sites.held.lost = lost;
        sites
    }

    fn named(self, names: &BTreeMap<u32, String>, pageblock: Order) -> CallSites {
        let mut sites = CallSites::default();
        for ((fallback, site, migratetype), [events, pages, claimed]) in self.sites {
            let functions = functions(&site);
            let site = CallSite { functions, migratetype, events, pages, claimed };
            if fallback { &mut sites.fallbacks } else { &mut sites.requests }.push(site);
        }
        // Call sites with equal counts stay in the order of their names.
        sites.fallbacks.sort_by_key(|site| std::cmp::Reverse(site.events));
        sites.requests.sort_by_key(|site| std::cmp::Reverse(site.pages));
        sites.held = self.holders.finish(names, pageblock);
        sites.waits = self.waits.finish(names);
        sites
    }
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
        let CallSites { fallbacks, requests, .. } = finder.named(&BTreeMap::new(), 9);
        assert!(fallbacks.is_empty());
        assert_eq!(requests.len(), 1);
        assert_eq!(requests[0].functions, ["getname", "open", "x"]);
        assert_eq!((requests[0].events, requests[0].pages), (2, 10));
    }

    fn event(pid: u32, t_us: u64, what: What) -> Record {
        Record { t_us, cpu: 0, pid, what }
    }

    fn text(pid: u32, t_us: u64, name: &str, args: &str) -> Record {
        let other = Other { name: name.into(), args: args.into() };
        event(pid, t_us, What::Other(Box::new(other)))
    }

    fn alloc(pid: u32, pfn: u64, order: Order, mt: Migratetype) -> Record {
        event(pid, 0, What::Alloc { pfn: Some(Pfn(pfn)), order, mt, gfp: Gfp::NONE })
    }

    /// Ten pages are asked for and four are left, in two of the three pageblocks; one block is shared.
    #[test]
    fn what_is_freed_is_held_no_more() {
        use Migratetype::{Movable, Unmovable};
        let pipe = "__alloc_frozen_pages_noprof <- pipe_write <- vfs_write <- ksys_write";
        let dentry =
            "allocate_slab <- kmem_cache_alloc_lru_noprof <- __d_alloc <- d_alloc <- lookup";
        let free = |pfn, order| event(9, 0, What::Free { pfn: Pfn(pfn), order });
        let mut finder = CallSiteFinder::default();
        for record in [
            alloc(1, 0, 2, Unmovable),
            stack(0, pipe),
            alloc(1, 512, 1, Unmovable),
            stack(0, pipe),
            alloc(2, 514, 0, Unmovable),
            stack(0, dentry),
            alloc(2, 1024, 1, Unmovable),
            // A movable page is nobody's.
            alloc(3, 700, 0, Movable),
            // A block is freed in parts, and another by whoever owned it last.
            free(0, 1),
            free(2, 1),
            free(1024, 0),
            alloc(3, 1025, 0, Movable),
            alloc(1, 4, 0, Unmovable),
            stack(0, pipe),
        ] {
            finder.push(&record);
        }
        let names = BTreeMap::from([(1, "fio".to_owned()), (2, "find".to_owned())]);
        let held = finder.named(&names, 9).held;
        assert_eq!((held.asked, held.held, held.blocks), (10, 4, 2));
        let first = &held.holders[0];
        assert_eq!((first.process.as_str(), first.slab), ("fio", None));
        assert_eq!(first.functions[0], "pipe_write");
        assert_eq!((first.asked, first.held, first.blocks, first.alone), (7, 3, 2, 1));
        let second = &held.holders[1];
        assert_eq!((second.process.as_str(), second.slab), ("find", Some("dentry")));
        assert_eq!((second.held, second.blocks, second.alone), (1, 1, 0));
        let map: Vec<_> = held.map.iter().map(|own| (own.block, own.holder, own.pages)).collect();
        assert_eq!(map, [(0, 0, 1), (1, 0, 3)]);
    }

    /// Only a task that asked waits: kcompactd does not. A zone that was compacted with success is not in vain.
    #[test]
    fn waits_are_counted_by_task_and_order() {
        let try_compact = "mm_compaction_try_to_compact_pages";
        let fault = "try_to_compact_pages <- __alloc_pages_direct_compact <- do_huge_pmd_anonymous_page <- handle_mm_fault";
        let mut finder = CallSiteFinder::default();
        for record in [
            text(5, 0, "mm_compaction_begin", "sync=async"),
            text(5, 90, "mm_compaction_end", "status=success"),
            text(7, 100, try_compact, "order=9 gfp_mask=0x0 prio=1"),
            stack(0, fault),
            text(7, 110, "mm_compaction_begin", "sync=async"),
            text(7, 150, "mm_compaction_end", "sync=async status=complete"),
            text(7, 160, "mm_compaction_begin", "sync=async"),
            text(7, 165, "mm_compaction_end", "sync=async status=success"),
            alloc(7, 512, 9, Migratetype::Movable),
            text(7, 200, try_compact, "order=9 gfp_mask=0x0 prio=1"),
            stack(0, fault),
            text(7, 210, "mm_compaction_begin", ""),
            text(7, 220, "mm_compaction_end", "status=deferred"),
            text(8, 300, "mm_vmscan_direct_reclaim_begin", "order=0 gfp_flags=GFP_KERNEL"),
            text(8, 1300, "mm_vmscan_direct_reclaim_end", "nr_reclaimed=0"),
        ] {
            finder.push(&record);
        }
        let waits = finder.named(&BTreeMap::from([(7, "java".to_owned())]), 9).waits;
        assert_eq!(waits.len(), 2);
        assert_eq!(
            (waits[0].process.as_str(), waits[0].total_us, waits[0].in_vain),
            ("pid 8", 1000, 1)
        );
        let own = &waits[1];
        assert_eq!((own.process.as_str(), own.order, own.times, own.in_vain), ("java", 9, 2, 1));
        assert_eq!((own.total_us, own.longest_us), (55, 45));
        assert_eq!(own.functions[0], "do_huge_pmd_anonymous_page");
    }
}
