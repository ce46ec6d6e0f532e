//! Huge pages: what a fault asks for, by the settings and the version; and khugepaged, which makes
//! huge pages of small ones afterwards.
//!
//! Source: `alloc_hugepage_direct_gfpmask` (mm/huge_memory.c), `alloc_pages_vma` (mm/mempolicy.c),
//! `collapse_huge_page` (mm/khugepaged.c).

use pageblock::event::Observer;
use pageblock::frame::{Order, Pfn};
use pageblock::request::{Gfp, Request};

use crate::config::{Config, ThpDefrag, ThpEnabled, ThpPlacement};
use crate::page::{Owner, PageFlags};
use crate::space::{Slot, SpaceId, SpaceKind};
use crate::vm::Vm;

/// Pages that khugepaged looks at before it sleeps (`pages_to_scan`).
pub const KHUGEPAGED_PAGES_TO_SCAN: u32 = 4096;
/// How long it sleeps, in nanoseconds (`scan_sleep_millisecs`).
pub const KHUGEPAGED_SLEEP_NS: u64 = 10_000_000_000;
/// How long it sleeps after it got no huge page, in nanoseconds (`alloc_sleep_millisecs`).
pub const KHUGEPAGED_ALLOC_SLEEP_NS: u64 = 60_000_000_000;

/// The flags of a fault for a huge page; `None` where the settings forbid one. `madvised`: the
/// program asked by `MADV_HUGEPAGE`.
#[must_use]
pub fn fault_gfp(config: &Config, madvised: bool) -> Option<Gfp> {
    let enabled = match config.thp_enabled {
        ThpEnabled::Always => true,
        ThpEnabled::Madvise => madvised,
        ThpEnabled::Never => false,
    };
    if !enabled {
        return None;
    }
    let light = Gfp::GFP_TRANSHUGE_LIGHT;
    Some(match (config.thp_defrag, madvised) {
        (ThpDefrag::Always, true) => Gfp::GFP_TRANSHUGE,
        (ThpDefrag::Always, false) => Gfp::GFP_TRANSHUGE | Gfp::NORETRY,
        (ThpDefrag::Defer, _) | (ThpDefrag::DeferMadvise, false) => light | Gfp::KSWAPD_RECLAIM,
        (ThpDefrag::DeferMadvise | ThpDefrag::Madvise, true) => light | Gfp::DIRECT_RECLAIM,
        (ThpDefrag::Madvise, false) | (ThpDefrag::Never, _) => light,
    })
}

/// The requests of a fault for a block of `order` on a node, in the order in which they are made
/// until one is served.
pub fn fault_requests(
    config: &Config,
    madvised: bool,
    node: u8,
    order: Order,
) -> impl Iterator<Item = Request> + use<> {
    let request = |gfp| Request::new(order, gfp).on_node(node);
    let here = Gfp::THISNODE;
    let gfp = fault_gfp(config, madvised);
    let reclaims = gfp.is_some_and(|gfp| gfp.has(Gfp::DIRECT_RECLAIM));
    let requests = match (gfp, config.thp_placement) {
        (None, _) => [None, None],
        (Some(gfp), ThpPlacement::Local) => [Some(request(gfp | here)), None],
        (Some(gfp), ThpPlacement::LocalUnlessReclaim) if reclaims => [Some(request(gfp)), None],
        (Some(gfp), ThpPlacement::LocalUnlessReclaim) => [Some(request(gfp | here)), None],
        (Some(gfp), ThpPlacement::TwoSteps) => {
            let first = request(gfp | here | Gfp::NORETRY);
            [Some(first), reclaims.then(|| request(gfp))]
        }
    };
    requests.into_iter().flatten()
}

impl<O: Observer> Vm<'_, O> {
    /// Whether khugepaged would make a huge page of the pages at an index, a multiple of the huge
    /// page's size: all small, one at least, none busy.
    #[must_use]
    pub fn can_collapse(&self, space: SpaceId, index: u32, order: Order) -> bool {
        let entry = self.spaces.get(space);
        if entry.kind != SpaceKind::Anon || index + (1 << order) > entry.len() {
            return false;
        }
        let mut present = false;
        (index..index + (1 << order)).all(|at| match self.spaces.slot(space, at) {
            Slot::Page(pfn) => {
                let page = &self.pages[pfn];
                present = true;
                page.kind() == Owner::Anon
                    && page.order() == 0
                    && page.has(PageFlags::LRU)
                    && !page.has(PageFlags::WRITEBACK)
            }
            Slot::Empty => true,
            Slot::Shadow(_) | Slot::Swap(_) => false,
        }) && present
    }

    /// Puts a huge page that was just allocated in the place of small ones, which are freed.
    pub fn collapse(&mut self, cpu: usize, space: SpaceId, index: u32, huge: Pfn, order: Order) {
        for at in index..index + (1 << order) {
            if let Slot::Page(pfn) = self.spaces.slot(space, at) {
                self.drop_page(cpu, pfn, Slot::Empty);
                self.work.migrated += 1;
            }
        }
        self.add_page(space, index, huge, order);
        self.stat.thp_collapse_alloc += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(defrag: ThpDefrag, placement: ThpPlacement) -> Config {
        Config { thp_defrag: defrag, thp_placement: placement, ..Config::of_version(4, 20) }
    }

    #[test]
    fn what_a_fault_may_do_is_the_settings_matter() {
        let gfp = |defrag, madvised| {
            let config = config(defrag, ThpPlacement::Local);
            let gfp = fault_gfp(&config, madvised).unwrap();
            let has = |bit| gfp.has(bit);
            (has(Gfp::DIRECT_RECLAIM), has(Gfp::KSWAPD_RECLAIM), has(Gfp::NORETRY))
        };
        assert_eq!(gfp(ThpDefrag::Always, false), (true, false, true));
        assert_eq!(gfp(ThpDefrag::Always, true), (true, false, false));
        assert_eq!(gfp(ThpDefrag::Defer, true), (false, true, false));
        assert_eq!(gfp(ThpDefrag::DeferMadvise, false), (false, true, false));
        assert_eq!(gfp(ThpDefrag::DeferMadvise, true), (true, false, false));
        assert_eq!(gfp(ThpDefrag::Madvise, true), (true, false, false));
        assert_eq!(gfp(ThpDefrag::Madvise, false), (false, false, false));
        assert_eq!(gfp(ThpDefrag::Never, true), (false, false, false));
        let never = Config { thp_enabled: ThpEnabled::Never, ..Config::of_version(5, 4) };
        assert_eq!(fault_gfp(&never, true), None);
        let madvise = Config { thp_enabled: ThpEnabled::Madvise, ..Config::of_version(5, 4) };
        assert!(fault_gfp(&madvise, false).is_none() && fault_gfp(&madvise, true).is_some());
    }

    #[test]
    fn where_a_fault_looks_is_the_versions_matter() {
        let local = |placement, madvised| {
            let config = config(ThpDefrag::Madvise, placement);
            fault_requests(&config, madvised, 1, 9)
                .map(|r| r.gfp.has(Gfp::THISNODE))
                .collect::<Vec<_>>()
        };
        assert_eq!(local(ThpPlacement::Local, true), [true]);
        assert_eq!(local(ThpPlacement::LocalUnlessReclaim, true), [false]);
        assert_eq!(local(ThpPlacement::LocalUnlessReclaim, false), [true]);
        assert_eq!(local(ThpPlacement::TwoSteps, true), [true, false]);
        assert_eq!(local(ThpPlacement::TwoSteps, false), [true]);
    }
}
