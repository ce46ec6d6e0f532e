//! Page faults that got no huge page in the recording, and the single pages that their tasks requested instead.
//!
//! Source: `do_huge_pmd_anonymous_page`, which falls back to `do_anonymous_page`; `alloc_pages_vma`
//! (`alloc_pages_mpol`), which first tries the local node with `__GFP_THISNODE`.

use std::collections::{BTreeMap, VecDeque};

use pageblock::frame::{Order, pages};
use pageblock::mobility::Migratetype;
use pageblock::request::Gfp;

/// The purpose of the requests of all tasks, as far as it is a huge page or its replacement.
pub(super) struct Faults {
    huge: Order,
    /// The number of the last fault that got no huge page.
    last: u32,
    tasks: BTreeMap<u32, Task>,
}

#[derive(Default)]
struct Task {
    /// The fault under way, and the flags of its last attempt.
    fault: Option<(u32, Gfp)>,
    /// Faults whose single pages are still to come, and their number.
    missing: VecDeque<(u32, u64)>,
}

impl Faults {
    /// Returns the state before the first event. `huge` is the order of a huge page.
    pub(super) fn new(huge: Order) -> Self {
        Self { huge, last: 0, tasks: BTreeMap::new() }
    }

    /// Follows a request that failed. Returns the number of the fault if the request was for a huge page. Both
    /// attempts of a fault have the same number.
    pub(super) fn failed(&mut self, pid: u32, order: Order, gfp: Gfp) -> Option<u32> {
        if order != self.huge || !is_movable(gfp) {
            return None;
        }
        let task = self.tasks.entry(pid).or_default();
        let fault = match task.fault {
            Some((fault, before)) if is_second(before, gfp) => fault,
            _ => {
                self.last += 1;
                task.missing.push_back((self.last, pages(order)));
                self.last
            }
        };
        debug_assert!(
            task.missing.iter().any(|&(of, _)| of == fault),
            "fault {fault} fails again after its single pages"
        );
        task.fault = Some((fault, gfp));
        Some(fault)
    }

    /// Follows a request that was served. Returns the fault for which it was made, if the huge page of that fault
    /// failed.
    pub(super) fn served(&mut self, pid: u32, order: Order, gfp: Gfp) -> Option<u32> {
        let task = self.tasks.get_mut(&pid)?;
        if order == self.huge && is_movable(gfp) {
            let (fault, _) = task.fault.take().filter(|&(_, before)| is_second(before, gfp))?;
            task.missing.retain(|&(other, _)| other != fault);
            return Some(fault);
        }
        if !is_movable(gfp) || !gfp.has(Gfp::ZERO) || gfp.has(Gfp::WRITE) {
            return None;
        }
        // The page of the fault itself comes first, the others as they are touched.
        let fault = task.fault.take().map(|(fault, _)| fault);
        let at = fault.and_then(|fault| task.missing.iter().position(|&(of, _)| of == fault));
        let (fault, missing) = task.missing.get_mut(at.unwrap_or(0))?;
        let fault = *fault;
        *missing = missing.saturating_sub(pages(order));
        task.missing.retain(|&(_, missing)| missing > 0);
        Some(fault)
    }
}

fn is_movable(gfp: Gfp) -> bool {
    gfp.migratetype() == Some(Migratetype::Movable)
}

fn is_second(before: Gfp, gfp: Gfp) -> bool {
    before.has(Gfp::THISNODE) && !gfp.has(Gfp::THISNODE)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SINGLE: &str = "GFP_HIGHUSER_MOVABLE|__GFP_ZERO|__GFP_COMP";

    fn gfp(text: &str) -> Gfp {
        Gfp::parse(text).unwrap()
    }

    #[test]
    fn both_attempts_and_the_pages_in_their_place_are_of_one_fault() {
        let mut faults = Faults::new(2);
        let (local, any) = (gfp("GFP_TRANSHUGE|__GFP_NORETRY|__GFP_THISNODE"), Gfp::GFP_TRANSHUGE);
        for fault in [1, 2] {
            assert_eq!(faults.failed(7, 2, local), Some(fault));
            assert_eq!(faults.failed(7, 2, any), Some(fault));
            assert_eq!(
                faults.served(7, 0, gfp("GFP_KERNEL_ACCOUNT|__GFP_ZERO")),
                None,
                "a page table"
            );
            assert_eq!(faults.served(7, 0, gfp(SINGLE)), Some(fault));
        }
        assert_eq!(faults.served(8, 0, gfp(SINGLE)), None, "another task");
        let later: Vec<_> = (0..7).map(|_| faults.served(7, 0, gfp(SINGLE))).collect();
        assert_eq!(later, [Some(1), Some(1), Some(1), Some(2), Some(2), Some(2), None]);
    }

    #[test]
    fn a_second_attempt_that_is_served_ends_the_fault() {
        let mut faults = Faults::new(9);
        let local = gfp("GFP_TRANSHUGE|__GFP_NORETRY|__GFP_THISNODE");
        assert_eq!(faults.failed(7, 9, local), Some(1));
        assert_eq!(faults.served(7, 9, Gfp::GFP_TRANSHUGE), Some(1));
        assert_eq!(faults.served(7, 0, gfp(SINGLE)), None);
        assert_eq!(faults.failed(7, 9, local), Some(2));
        assert_eq!(faults.served(7, 9, local), None, "the first attempt of another fault");
        assert_eq!(faults.failed(7, 3, gfp(SINGLE)), None, "no huge page");
    }
}
