//! The amount of each list to scan (`get_scan_count`), and when the inactive list is too short.

use pageblock::event::Observer;
use pageblock_kernel::rules::reclaim::{FileBalance, Reclaim, ScanBalance, Workingset};

use super::scan_control::ScanControl;
use crate::pagecache::lru::{LruList, Lruvec};
use crate::vm::Vm;

/// Pages of a GiB.
const GIB: u64 = 1 << 18;

/// The kinds of pages that are scanned, and their proportion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Balance {
    /// Files only.
    File,
    /// Anonymous pages only.
    Anon,
    /// Both in full.
    Equal,
    /// Each by its part of the sum.
    Fractions { anon: u64, file: u64 },
}

/// Returns whether an inactive list is too short for its active list (`inactive_list_is_low`): the larger the lists, the
/// smaller the share that must be inactive.
pub(super) fn inactive_is_low(
    vec: &Lruvec,
    inactive: LruList,
    rules: &Reclaim,
    refaulting: bool,
) -> bool {
    let active =
        vec.size(if inactive.is_file() { LruList::ActiveFile } else { LruList::ActiveAnon });
    let inactive_pages = vec.size(inactive);
    if rules.file_balance == FileBalance::Half && inactive.is_file() {
        return inactive_pages < active;
    }
    let gib = (inactive_pages + active) / GIB;
    let ratio = match (refaulting, gib) {
        (true, _) => 0,
        (false, 0) => 1,
        (false, gib) => (10 * gib).isqrt(),
    };
    inactive_pages * ratio < active
}

/// Returns the proportion by the results of recent scans: up to 5.7 by the pages that were put back, from 5.8 by the
/// cost of reclaim.
fn fractions(vec: &Lruvec, rule: ScanBalance, swappiness: u64) -> Balance {
    let (anon_prio, file_prio) = (swappiness, 200 - swappiness.min(200));
    let (anon, file) = match rule {
        ScanBalance::Rotated => {
            let (scanned, rotated) = vec.recent();
            let part = |prio: u64, kind: usize| prio * (scanned[kind] + 1) / (rotated[kind] + 1);
            (part(anon_prio, 0), part(file_prio, 1))
        }
        ScanBalance::Io | ScanBalance::Cost | ScanBalance::Counters => {
            let [anon, file] = vec.cost();
            let (anon_cost, file_cost) = (2 * anon + file, anon + 2 * file);
            let sum = anon_cost + file_cost;
            (anon_prio * (sum + 1) / (anon_cost + 1), file_prio * (sum + 1) / (file_cost + 1))
        }
    };
    Balance::Fractions { anon, file }
}

impl<O: Observer> Vm<'_, O> {
    /// Returns whether refaulted pages of a list's kind were activated since the last scan: then active pages are deactivated too.
    pub(super) fn is_refaulting(&self, vec: &Lruvec, list: LruList) -> bool {
        self.kernel.reclaim.workingset == Workingset::Deactivates && vec.is_refaulting(list)
    }

    /// Returns the proportion for a lruvec.
    fn balance(&self, node: usize, at: usize, sc: &ScanControl) -> Balance {
        let vec = &self.lru().vecs()[at];
        let rules = &self.kernel.reclaim;
        let swappiness = u64::from(self.kernel.sysctl.swappiness);
        // Scanned anonymous pages would be put back.
        if !sc.may_swap || !self.has_free_swap() {
            return Balance::File;
        }
        // Without swappiness anonymous pages are scanned only if there are hardly any of files.
        if sc.priority == 0 && swappiness > 0 {
            return Balance::Equal;
        }
        // Scanning the last pages of files again and again would thrash programs.
        if self.file_is_tiny(node, at, sc) {
            return Balance::Anon;
        }
        let list = LruList::InactiveFile;
        let low = inactive_is_low(vec, list, rules, self.is_refaulting(vec, list));
        let some = vec.size(LruList::InactiveFile) >> sc.priority > 0;
        // Inactive files that nobody used again are cheaper than any swap.
        if !low && (some || !rules.file_needs_share) {
            return Balance::File;
        }
        fractions(vec, rules.scan_balance, swappiness)
    }

    /// Returns whether there are so few pages of files that, with the free pages, they do not reach the high watermarks,
    /// which a boost raises.
    fn file_is_tiny(&self, node: usize, at: usize, sc: &ScanControl) -> bool {
        let vec = &self.lru().vecs()[at];
        let mut zones = self.zones_of(node).filter(|&z| self.lru().of_zone(z) == at).peekable();
        if zones.peek().is_none() {
            return false;
        }
        let (mut free, mut high) = (0, 0);
        for zone in zones {
            let zone = &self.allocator.zones()[zone];
            free += zone.free_pages();
            high += zone.boost() + zone.watermarks().high;
        }
        if vec.file() + free > high {
            return false;
        }
        let rules = &self.kernel.reclaim;
        let list = LruList::InactiveAnon;
        let low = inactive_is_low(vec, list, rules, self.is_refaulting(vec, list));
        !rules.tiny_file_needs_anon || (!low && vec.size(list) >> sc.priority > 0)
    }

    /// Returns the pages of a list that the amount is a share of (`lruvec_lru_size`).
    fn scannable(&self, at: usize, list: LruList, sc: &ScanControl) -> u64 {
        if !self.kernel.reclaim.scans_eligible {
            return self.lru().vecs()[at].size(list);
        }
        let zones = self.allocator.zones().iter().enumerate();
        let eligible =
            zones.filter(|&(z, zone)| self.lru().of_zone(z) == at && zone.kind() <= sc.highest);
        eligible.map(|(z, _)| self.lru().zone_pages(z, list)).sum()
    }

    /// Returns the pages of each list to scan at this priority.
    pub(super) fn scan_amounts(&mut self, node: usize, at: usize, sc: &ScanControl) -> [u64; 4] {
        if self.kernel.reclaim.scan_balance == ScanBalance::Counters {
            self.pagecache.lruvec(at).decay_cost();
        }
        let balance = self.balance(node, at, sc);
        self.pagecache.lruvec(at).decay_recent();
        LruList::EVICTABLE.map(|list| {
            let share = self.scannable(at, list, sc) >> sc.priority;
            match (balance, list.is_file()) {
                (Balance::Equal, _) | (Balance::File, true) | (Balance::Anon, false) => share,
                (Balance::File, false) | (Balance::Anon, true) => 0,
                (Balance::Fractions { anon, file }, is_file) => {
                    let part = if is_file { file } else { anon };
                    share * part / (anon + file + 1)
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pageblock_kernel::{Kernel, preset};

    fn rules(name: &str) -> Reclaim {
        Kernel::from(preset::find(name).unwrap()).reclaim
    }

    #[test]
    fn large_lists_need_a_smaller_inactive_share() {
        let low = |inactive, active| {
            let vec = Lruvec::with_sizes([0, 0, inactive, active]);
            inactive_is_low(&vec, LruList::InactiveFile, &rules("linux-4.8"), false)
        };
        assert!(low(99, 100) && !low(100, 100));
        // 10 GiB: one in ten.
        assert!(!low(GIB, 9 * GIB) && low(GIB / 2, 9 * GIB + GIB / 2));
        // The oldest rule has no ratio.
        let vec = Lruvec::with_sizes([0, 0, GIB, 9 * GIB]);
        assert!(inactive_is_low(&vec, LruList::InactiveFile, &rules("linux-3.10"), false));
        assert!(inactive_is_low(&vec, LruList::InactiveFile, &rules("linux-4.8"), true));
    }

    #[test]
    fn the_more_expensive_kind_is_scanned_less() {
        let mut vec = Lruvec::with_sizes([800; 4]);
        vec.note_scan(LruList::InactiveAnon, 100, 100);
        vec.note_scan(LruList::InactiveFile, 100, 10);
        let old = fractions(&vec, ScanBalance::Rotated, 60);
        assert_eq!(old, Balance::Fractions { anon: 60, file: 140 * 101 / 11 });
        vec.note_cost(ScanBalance::Cost, LruList::InactiveAnon, 0, 300);
        vec.note_cost(ScanBalance::Cost, LruList::InactiveFile, 0, 100);
        let Balance::Fractions { anon, file } = fractions(&vec, ScanBalance::Cost, 100) else {
            panic!("by cost");
        };
        assert!(file > anon);
    }

    #[test]
    fn the_cost_of_reclaim_has_the_weights_and_the_decay_of_its_version() {
        let cost = |rule| {
            let mut vec = Lruvec::with_sizes([1000; 4]);
            vec.note_cost(rule, LruList::InactiveAnon, 10, 90);
            vec.note_cost(rule, LruList::InactiveFile, 0, 2000);
            let noted = vec.cost();
            vec.decay_cost();
            (noted, vec.cost())
        };
        assert_eq!(cost(ScanBalance::Rotated).0, [0, 0]);
        assert_eq!(cost(ScanBalance::Io).0, [10, 0]);
        // 2,410 is more than a quarter of 4,000: halved once as it is noted, or at the scan until it is less.
        assert_eq!(cost(ScanBalance::Cost).0, [205, 1000]);
        assert_eq!(cost(ScanBalance::Counters), ([410, 2000], [102, 500]));
    }
}
