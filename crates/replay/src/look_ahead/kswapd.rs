//! Finds when kswapd stops reclaiming. It clears the zones' marks when it leaves `balance_pgdat`, and reports only
//! later, if at all, that it sleeps. Its last activity before that tells when.

use std::collections::BTreeMap;

use pageblock_recording::{Record, What};

/// A run of kswapd.
struct Run {
    node: u8,
    /// The last event of its reclaim.
    last: u64,
}

#[derive(Default)]
pub(super) struct KswapdFinder {
    /// The runs under way, by task.
    runs: BTreeMap<u32, Run>,
    /// The last event of each run, and its node.
    ends: BTreeMap<u64, u8>,
}

impl KswapdFinder {
    pub(super) fn event(&mut self, event: u64, record: &Record) {
        let What::Other(other) = &record.what else {
            if let Some(run) = self.runs.get_mut(&record.pid) {
                run.last = event;
            }
            return;
        };
        match &*other.name {
            "mm_vmscan_kswapd_wake" => {
                self.end(record.pid);
                if let Some(node) = other.number("nid").and_then(|nid| u8::try_from(nid).ok()) {
                    self.runs.insert(record.pid, Run { node, last: event });
                }
            }
            "mm_vmscan_kswapd_sleep" => self.end(record.pid),
            // From 7.0.
            "mm_vmscan_balance_pgdat_end" => {
                if let Some(run) = self.runs.get_mut(&record.pid) {
                    run.last = event;
                }
                self.end(record.pid);
            }
            // Raised only while kswapd waits.
            "mm_vmscan_wakeup_kswapd" => {
                let node = other.number("nid");
                let of_node = |run: &Run| Some(i64::from(run.node)) == node;
                let waits = self.runs.iter().find(|(_, run)| of_node(run)).map(|(&pid, _)| pid);
                waits.into_iter().for_each(|pid| self.end(pid));
            }
            // kswapd raises it too, on its way to sleep.
            "mm_compaction_wakeup_kcompactd" => {}
            _ => {
                if let Some(run) = self.runs.get_mut(&record.pid) {
                    run.last = event;
                }
            }
        }
    }

    fn end(&mut self, pid: u32) {
        if let Some(run) = self.runs.remove(&pid) {
            self.ends.insert(run.last, run.node);
        }
    }

    /// Returns the last event of each run that ended, and its node.
    pub(super) fn finish(self) -> BTreeMap<u64, u8> {
        self.ends
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pageblock::frame::Pfn;
    use pageblock_recording::Other;

    fn record(pid: u32, what: What) -> Record {
        Record { t_us: 0, cpu: 0, pid, what }
    }

    fn other(name: &str) -> What {
        What::Other(Box::new(Other { name: name.into(), args: "nid=1 order=0".into() }))
    }

    #[test]
    fn a_run_ends_with_the_last_thing_done_in_it() {
        let mut finder = KswapdFinder::default();
        let free = What::Free { pfn: Pfn(1), order: 0 };
        let events = [
            (9, other("mm_vmscan_kswapd_wake")),
            (9, free.clone()),
            (5, free.clone()),
            (9, other("mm_compaction_wakeup_kcompactd")),
            (9, other("mm_vmscan_kswapd_sleep")),
            (9, free),
            (9, other("mm_vmscan_kswapd_wake")),
        ];
        for (event, (pid, what)) in (0..).zip(events) {
            finder.event(event, &record(pid, what));
        }
        assert_eq!(finder.finish(), BTreeMap::from([(1, 1)]));
    }
}
