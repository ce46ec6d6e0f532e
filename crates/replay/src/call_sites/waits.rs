//! Who waited: direct compaction and direct reclaim, as the tasks that did them.

use std::collections::BTreeMap;

use pageblock_measure::value::call_sites::{Wait, WaitFor};
use pageblock_recording::{CALLED_BY, Other};

use super::stacks::{functions, process, site};

/// A task that compacts or reclaims memory itself.
struct Open {
    order: u8,
    site: String,
    /// When reclaim, or the compaction of a zone, began.
    since: Option<u64>,
    us: u64,
    helped: bool,
}

type Key = (u32, WaitFor, u8, String);

/// Follows who waits.
#[derive(Default)]
pub(super) struct WaitFinder {
    open: BTreeMap<(u32, WaitFor), Open>,
    sums: BTreeMap<Key, [u64; 4]>,
}

/// A wait whose stack may follow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pid: u32,
    waited_for: WaitFor,
}

impl WaitFinder {
    /// Follows an event of compaction or reclaim. Returns the wait that it begins.
    pub(super) fn push(&mut self, pid: u32, t_us: u64, event: &Other) -> Option<Waiting> {
        use WaitFor::{Compaction, Reclaim};
        match &*event.name {
            "mm_compaction_try_to_compact_pages" => self.begin(pid, Compaction, event, None),
            "mm_vmscan_direct_reclaim_begin" => self.begin(pid, Reclaim, event, Some(t_us)),
            "mm_compaction_begin" => {
                // A zone is compacted: by this task if it waits, else by kcompactd or who writes compact_memory.
                if let Some(open) = self.open.get_mut(&(pid, Compaction)) {
                    open.since = Some(t_us);
                }
                None
            }
            "mm_compaction_end" => {
                if let Some(open) = self.open.get_mut(&(pid, Compaction)) {
                    open.us += open.since.take().map_or(0, |since| t_us.saturating_sub(since));
                    // "partial" before 4.8.
                    open.helped |= matches!(event.arg("status"), Some("success" | "partial"));
                }
                None
            }
            "mm_vmscan_direct_reclaim_end" => {
                if let Some(open) = self.open.get_mut(&(pid, Reclaim)) {
                    open.us += open.since.take().map_or(0, |since| t_us.saturating_sub(since));
                    open.helped |= event.number("nr_reclaimed").is_some_and(|pages| pages > 0);
                }
                self.end(pid, Reclaim);
                None
            }
            _ => None,
        }
    }

    fn begin(
        &mut self,
        pid: u32,
        waited_for: WaitFor,
        event: &Other,
        since: Option<u64>,
    ) -> Option<Waiting> {
        self.end(pid, waited_for);
        let order = event.number("order").and_then(|order| u8::try_from(order).ok())?;
        let open = Open { order, site: String::new(), since, us: 0, helped: false };
        self.open.insert((pid, waited_for), open);
        Some(Waiting { pid, waited_for })
    }

    /// Follows that a task got memory, or did not: it waits no more.
    pub(super) fn served(&mut self, pid: u32) {
        if !self.open.is_empty() {
            self.end(pid, WaitFor::Compaction);
        }
    }

    fn end(&mut self, pid: u32, waited_for: WaitFor) {
        let Some(open) = self.open.remove(&(pid, waited_for)) else { return };
        let sums = self.sums.entry((pid, waited_for, open.order, open.site)).or_default();
        sums[0] += 1;
        sums[1] += u64::from(!open.helped);
        sums[2] += open.us;
        sums[3] = sums[3].max(open.us);
    }

    /// Follows the stack of a wait.
    pub(super) fn stack(&mut self, waiting: Waiting, stack: &str) {
        if let Some(open) = self.open.get_mut(&(waiting.pid, waiting.waited_for)) {
            open.site = site(stack).join(CALLED_BY);
        }
    }

    /// Returns the waits, the longest first. Those that have not ended are left out.
    pub(super) fn finish(mut self, names: &BTreeMap<u32, String>) -> Vec<Wait> {
        let open: Vec<u32> = self.open.keys().map(|&(pid, _)| pid).collect();
        open.into_iter().for_each(|pid| self.served(pid));
        let mut by_name: BTreeMap<(String, WaitFor, u8, String), [u64; 4]> = BTreeMap::new();
        for ((pid, waited_for, order, site), sums) in self.sums {
            let own = by_name.entry((process(names, pid), waited_for, order, site)).or_default();
            for at in 0..3 {
                own[at] += sums[at];
            }
            own[3] = own[3].max(sums[3]);
        }
        let wait = |((process, waited_for, order, site), sums): ((_, _, _, String), [u64; 4])| {
            let functions = functions(&site);
            let [times, in_vain, total_us, longest_us] = sums;
            Wait { process, waited_for, order, functions, times, in_vain, total_us, longest_us }
        };
        let mut waits: Vec<Wait> = by_name.into_iter().map(wait).collect();
        waits.sort_by_key(|wait| std::cmp::Reverse(wait.total_us));
        waits
    }
}
