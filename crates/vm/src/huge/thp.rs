//! Transparent huge pages: the requests of a fault, by settings and version.
//!
//! Source: `alloc_hugepage_direct_gfpmask` (mm/huge_memory.c), `alloc_pages_vma` (mm/mempolicy.c).

use pageblock::frame::Order;
use pageblock::ids::NodeId;
use pageblock::request::{Gfp, Request};

use pageblock_kernel::rules::huge::{Huge, ThpDefrag, ThpEnabled, ThpPlacement};

/// The order of a huge page: the size that an entry of the second level of page tables maps, on x86-64 and on arm64
/// with 4 KiB pages. Pageblocks have this order too, unless a kernel was built without huge pages.
pub const HPAGE_PMD_ORDER: Order = 9;

/// What a program asked for its mapping with `madvise`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Advice {
    /// Nothing.
    None,
    /// Huge pages (`MADV_HUGEPAGE`).
    HugePages,
}

/// Returns the flags of a fault for a huge page; `None` if the settings forbid one.
#[must_use]
pub fn fault_gfp(huge: &Huge, advice: Advice) -> Option<Gfp> {
    let enabled = match huge.thp_enabled {
        ThpEnabled::Always => true,
        ThpEnabled::Madvise => advice == Advice::HugePages,
        ThpEnabled::Never => false,
    };
    enabled.then(|| gfp_for(huge, advice))
}

/// Returns the flags of a fault for a block that the settings allow (`vma_thp_gfp_mask`).
pub(super) fn gfp_for(huge: &Huge, advice: Advice) -> Gfp {
    let light = Gfp::GFP_TRANSHUGE_LIGHT;
    match (huge.thp_defrag, advice) {
        (ThpDefrag::Always, Advice::HugePages) => Gfp::GFP_TRANSHUGE,
        (ThpDefrag::Always, Advice::None) => Gfp::GFP_TRANSHUGE | Gfp::NORETRY,
        (ThpDefrag::Defer, _) | (ThpDefrag::DeferMadvise, Advice::None) => {
            light | Gfp::KSWAPD_RECLAIM
        }
        (ThpDefrag::DeferMadvise | ThpDefrag::Madvise, Advice::HugePages) => {
            light | Gfp::DIRECT_RECLAIM
        }
        (ThpDefrag::Madvise, Advice::None) | (ThpDefrag::Never, _) => light,
    }
}

/// Returns the requests of a fault for a block of `order` on a node, in the order in which they are made until one is
/// served.
pub fn fault_requests(
    huge: &Huge,
    advice: Advice,
    node: u8,
    order: Order,
) -> impl Iterator<Item = Request> + use<> {
    let request = |gfp| Request::new(order, gfp).on_node(NodeId(node));
    let here = Gfp::THISNODE;
    let gfp = fault_gfp(huge, advice);
    let reclaims = gfp.is_some_and(|gfp| gfp.has(Gfp::DIRECT_RECLAIM));
    let requests = match (gfp, huge.thp_placement) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use pageblock_kernel::{Kernel, preset};

    fn of(name: &str) -> Huge {
        Kernel::from(preset::find(name).unwrap()).huge
    }

    fn config(defrag: ThpDefrag, placement: ThpPlacement) -> Huge {
        Huge { thp_defrag: defrag, thp_placement: placement, ..of("linux-4.20") }
    }

    #[test]
    fn settings_decide_what_a_fault_may_do() {
        let gfp = |defrag, advice| {
            let config = config(defrag, ThpPlacement::Local);
            let gfp = fault_gfp(&config, advice).unwrap();
            let has = |bit| gfp.has(bit);
            (has(Gfp::DIRECT_RECLAIM), has(Gfp::KSWAPD_RECLAIM), has(Gfp::NORETRY))
        };
        assert_eq!(gfp(ThpDefrag::Always, Advice::None), (true, false, true));
        assert_eq!(gfp(ThpDefrag::Always, Advice::HugePages), (true, false, false));
        assert_eq!(gfp(ThpDefrag::Defer, Advice::HugePages), (false, true, false));
        assert_eq!(gfp(ThpDefrag::DeferMadvise, Advice::None), (false, true, false));
        assert_eq!(gfp(ThpDefrag::DeferMadvise, Advice::HugePages), (true, false, false));
        assert_eq!(gfp(ThpDefrag::Madvise, Advice::HugePages), (true, false, false));
        assert_eq!(gfp(ThpDefrag::Madvise, Advice::None), (false, false, false));
        assert_eq!(gfp(ThpDefrag::Never, Advice::HugePages), (false, false, false));
        let never = Huge { thp_enabled: ThpEnabled::Never, ..of("linux-5.4") };
        assert_eq!(fault_gfp(&never, Advice::HugePages), None);
        let madvise = Huge { thp_enabled: ThpEnabled::Madvise, ..of("linux-5.4") };
        assert!(
            fault_gfp(&madvise, Advice::None).is_none()
                && fault_gfp(&madvise, Advice::HugePages).is_some()
        );
    }

    #[test]
    fn the_version_decides_which_nodes_a_fault_tries() {
        let local = |placement, advice| {
            let config = config(ThpDefrag::Madvise, placement);
            fault_requests(&config, advice, 1, 9)
                .map(|r| r.gfp.has(Gfp::THISNODE))
                .collect::<Vec<_>>()
        };
        assert_eq!(local(ThpPlacement::Local, Advice::HugePages), [true]);
        assert_eq!(local(ThpPlacement::LocalUnlessReclaim, Advice::HugePages), [false]);
        assert_eq!(local(ThpPlacement::LocalUnlessReclaim, Advice::None), [true]);
        assert_eq!(local(ThpPlacement::TwoSteps, Advice::HugePages), [true, false]);
        assert_eq!(local(ThpPlacement::TwoSteps, Advice::None), [true]);
    }
}
