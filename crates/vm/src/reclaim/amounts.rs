//! How much of each list is scanned (`get_scan_count`), and when the inactive list is too short.

use pageblock::event::Observer;
use pageblock_kernel::rules::reclaim::{FileBalance, Reclaim, ScanBalance, Workingset};

use super::ScanControl;
use crate::pagecache::lru::{LruList, Lruvec};
use crate::vm::Vm;

/// Pages of a GiB.
const GIB: u64 = 1 << 18;

/// Which lists are scanned, and in which proportion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Balance {
    /// Files only.
    File,
    /// Anonymous pages only.
    Anon,
    /// Both in full.
    Equal,
    /// In parts of the sum.
    Fractions { anon: u64, file: u64 },
}

/// Tells whether inactive pages are too few for the active ones (`inactive_list_is_low`): the larger
/// the lists, the smaller the share that has to be inactive.
pub(crate) fn inactive_is_low(
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
    let ratio = match (refaulting && inactive.is_file(), gib) {
        (true, _) => 0,
        (false, 0) => 1,
        (false, gib) => (10 * gib).isqrt(),
    };
    inactive_pages * ratio < active
}

/// The proportion by what scanning brought of late: up to 5.7 by the pages that were put back, from
/// 5.8 by what reclaiming cost.
pub(crate) fn fractions(vec: &Lruvec, rule: ScanBalance, swappiness: u64) -> Balance {
    let (anon_prio, file_prio) = (swappiness, 200 - swappiness.min(200));
    let (anon, file) = match rule {
        ScanBalance::Rotated => {
            let part = |prio: u64, at: usize| {
                prio * (vec.recent_scanned[at] + 1) / (vec.recent_rotated[at] + 1)
            };
            (part(anon_prio, 0), part(file_prio, 1))
        }
        ScanBalance::Cost => {
            let total = vec.cost[0] + vec.cost[1];
            let (anon_cost, file_cost) = (total + vec.cost[0], total + vec.cost[1]);
            let sum = anon_cost + file_cost;
            (anon_prio * (sum + 1) / (anon_cost + 1), file_prio * (sum + 1) / (file_cost + 1))
        }
    };
    Balance::Fractions { anon, file }
}

impl<O: Observer> Vm<'_, O> {
    /// Tells whether refaulted pages were activated since reclaim last looked: then the active list
    /// gives way.
    pub(super) fn is_refaulting(&self, vec: &Lruvec) -> bool {
        self.kernel.reclaim.workingset == Workingset::Deactivates
            && vec.activations != vec.activations_seen
    }

    fn balance(&self, node: usize, at: usize, sc: &ScanControl) -> Balance {
        let vec = &self.lru.vecs()[at];
        let rules = &self.kernel.reclaim;
        let swappiness = u64::from(self.kernel.sysctl.swappiness);
        if !sc.may_swap || self.swap.free_places() == 0 || swappiness == 0 {
            return Balance::File;
        }
        if sc.priority == 0 {
            return Balance::Equal;
        }
        if self.file_is_tiny(node, at) {
            return Balance::Anon;
        }
        let low = inactive_is_low(vec, LruList::InactiveFile, rules, self.is_refaulting(vec));
        let some = vec.size(LruList::InactiveFile) >> sc.priority > 0;
        if !low && (some || !rules.file_needs_share) {
            return Balance::File;
        }
        fractions(vec, rules.scan_balance, swappiness)
    }

    /// So few pages of files that free ones and they do not reach the high watermarks.
    fn file_is_tiny(&self, node: usize, at: usize) -> bool {
        let vec = &self.lru.vecs()[at];
        let mut zones = self.zones_of(node).filter(|&z| self.lru.of_zone(z) == at).peekable();
        if zones.peek().is_none() {
            return false;
        }
        let (mut free, mut high) = (0, 0);
        for zone in zones {
            let zone = &self.allocator.zones()[zone];
            free += zone.free_pages();
            high += zone.watermarks().high;
        }
        if vec.file() + free > high {
            return false;
        }
        let rules = &self.kernel.reclaim;
        let anon_low = inactive_is_low(vec, LruList::InactiveAnon, rules, false);
        !rules.tiny_file_needs_anon || (!anon_low && vec.size(LruList::InactiveAnon) > 0)
    }

    /// The pages of a list that say how much of it is scanned (`lruvec_lru_size`).
    fn scannable(&self, at: usize, list: LruList, sc: &ScanControl) -> u64 {
        if !self.kernel.reclaim.scans_eligible {
            return self.lru.vecs()[at].size(list);
        }
        let zones = self.allocator.zones().iter().enumerate();
        let eligible =
            zones.filter(|&(z, zone)| self.lru.of_zone(z) == at && zone.kind() <= sc.highest);
        eligible.map(|(z, _)| self.lru.zone_pages(z, list)).sum()
    }

    /// The pages of each list to scan at this priority.
    pub(super) fn scan_amounts(&mut self, node: usize, at: usize, sc: &ScanControl) -> [u64; 4] {
        let balance = self.balance(node, at, sc);
        let vec = self.lru.vec(at);
        for kind in 0..2 {
            if vec.recent_scanned[kind] > (vec.pages[2 * kind] + vec.pages[2 * kind + 1]) / 4 {
                vec.recent_scanned[kind] /= 2;
                vec.recent_rotated[kind] /= 2;
            }
        }
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
    use pageblock_kernel::preset;

    fn rules(name: &str) -> Reclaim {
        preset::find(name).unwrap().kernel().reclaim
    }

    fn vec(pages: [u64; 4]) -> Lruvec {
        let mut vec = Lruvec::default();
        vec.pages[..4].copy_from_slice(&pages);
        vec
    }

    #[test]
    fn large_lists_need_a_smaller_inactive_share() {
        let low = |inactive, active| {
            let vec = vec([0, 0, inactive, active]);
            inactive_is_low(&vec, LruList::InactiveFile, &rules("linux-4.8"), false)
        };
        assert!(low(99, 100) && !low(100, 100));
        // 10 GiB: one in ten.
        assert!(!low(GIB, 9 * GIB) && low(GIB / 2, 9 * GIB + GIB / 2));
        // The oldest rule knows no ratio.
        let vec = vec([0, 0, GIB, 9 * GIB]);
        assert!(inactive_is_low(&vec, LruList::InactiveFile, &rules("linux-3.10"), false));
        assert!(inactive_is_low(&vec, LruList::InactiveFile, &rules("linux-4.8"), true));
    }

    #[test]
    fn what_is_expensive_is_scanned_less() {
        let mut vec = vec([100; 4]);
        vec.recent_scanned = [100, 100];
        vec.recent_rotated = [100, 10];
        let old = fractions(&vec, ScanBalance::Rotated, 60);
        assert_eq!(old, Balance::Fractions { anon: 60, file: 140 * 101 / 11 });
        vec.cost = [300, 100];
        let Balance::Fractions { anon, file } = fractions(&vec, ScanBalance::Cost, 100) else {
            panic!("by cost");
        };
        assert!(file > anon);
    }
}
