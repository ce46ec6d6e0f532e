//! Kernel versions as rows of a table.
//!
//! A row states what changed since the row that it builds on; a switch's documentation in
//! [`crate::policy`] names the release. Rows stand for mainline releases: a change that is only
//! known to lie between two releases is attributed to the one that its switch names.

use crate::policy::*;

/// A named policy.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// Its name, `linux-6.12`.
    pub name: &'static str,
    /// What distinguishes it, in a line.
    pub summary: &'static str,
    /// The row that it builds on; `None` for the oldest.
    pub base: Option<&'static Self>,
    /// Its switches.
    pub policy: Policy,
}

impl Preset {
    /// Returns the version of a mainline row; `None` for variants and distributions.
    #[must_use]
    pub fn version(&self) -> Option<(u32, u32)> {
        self.version_after("linux-")
    }

    fn version_after(&self, prefix: &str) -> Option<(u32, u32)> {
        let (major, minor) = self.name.strip_prefix(prefix)?.split_once('.')?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    }
}

/// Returns the preset of this name.
#[must_use]
pub const fn find(name: &str) -> Option<&'static Preset> {
    let mut at = 0;
    while at < PRESETS.len() {
        if is_same(PRESETS[at].name.as_bytes(), name.as_bytes()) {
            return Some(&PRESETS[at]);
        }
        at += 1;
    }
    None
}

/// `a == b`, which the compiler cannot evaluate.
const fn is_same(mut a: &[u8], mut b: &[u8]) -> bool {
    while let ([first, rest @ ..], [of_b, rest_of_b @ ..]) = (a, b) {
        if *first != *of_b {
            return false;
        }
        (a, b) = (rest, rest_of_b);
    }
    a.is_empty() && b.is_empty()
}

/// Returns the row of a real kernel by the first two numbers of its version and a text that names it, such as that of
/// `/proc/version`: its distribution's own where there is one, else the nearest of mainline.
#[must_use]
pub fn of_machine((major, minor): (u16, u16), text: &str) -> &'static Preset {
    let version = (u32::from(major), u32::from(minor));
    let is_own = |p: &&Preset| p.version_after("debian-") == Some(version);
    let own = PRESETS.iter().find(is_own).filter(|_| text.contains("ebian"));
    own.unwrap_or_else(|| nearest(version.0, version.1))
}

/// Returns the row of a mainline version: the newest that is not newer, or the oldest if all are.
#[must_use]
pub fn nearest(major: u32, minor: u32) -> &'static Preset {
    let not_newer = |p: &&Preset| p.version().is_some_and(|v| v <= (major, minor));
    PRESETS.iter().filter(not_newer).max_by_key(|p| p.version()).unwrap_or(&PRESETS[0])
}

macro_rules! presets {
    (
        #[doc = $first_summary:literal]
        $first:ident = $first_name:literal;
        $(
            #[doc = $summary:literal]
            $row:ident = $name:literal, $base:ident { $($switch:ident: $value:expr,)* };
        )*
    ) => {
        const $first: &Preset = &Preset {
            name: $first_name,
            summary: $first_summary.trim_ascii(),
            base: None,
            policy: <Policy as Switches>::V3_10,
        };
        $(const $row: &Preset = &Preset {
            name: $name,
            summary: $summary.trim_ascii(),
            base: Some($base),
            policy: Policy { $($switch: $value,)* ..$base.policy },
        };)*

        /// Every preset: mainline, oldest first, then distributions.
        pub static PRESETS: &[Preset] = &[*$first, $(*$row,)*];
    };
}

presets! {
    /// migrate reserve, no watermark scale; the base of Android kernels of 2015
    V3_10 = "linux-3.10";
    /// 3.10 with ChengYi He's fallback of 2015 (from its cover letter)
    V3_10_CHENG = "linux-3.10-cheng", V3_10 {
        fallback_pick: FallbackPick::Hybrid,
    };
    /// kswapd's reclaim is bounded (the baseline of the fair zone allocator's series)
    V3_11 = "linux-3.11", V3_10 {};
    /// fair zone allocator; kswapd balances to the high watermark
    V3_12 = "linux-3.12", V3_11 {
        fair: Fair::AllZones,
        claim_rule: ClaimRule::RestTaken,
    };
    /// fairness only among the zones of a node
    V3_13 = "linux-3.13", V3_12 {
        fair: Fair::LocalNode,
    };
    /// a fair pass before the slow path; asynchronous compaction for huge pages
    V3_16 = "linux-3.16", V3_13 {
        fair: Fair::FairPass,
        claim_rule: ClaimRule::RestStays,
        thp_contended: ThpContended::ByTask,
        thp_waits: ThpWaits::Off,
    };
    /// the remainder follows moved pages; isolated blocks limit merging
    V3_19 = "linux-3.19", V3_16 {
        claim_rule: ClaimRule::RestFollows,
        merge_rule: MergeRule::FreedIsolated,
    };
    /// unmovable requests claim blocks too; CMA before the fallback
    V4_2 = "linux-4.2", V3_19 {
        claim_rule: ClaimRule::RestTakenByBlock,
        claim_pred: ClaimPred::Kernel,
        cma: CmaUse::BeforeFallback,
    };
    /// highatomic reserve instead of the migrate reserve; watermarks look for a block
    V4_4 = "linux-4.4", V4_2 {
        reserve: Reserve::Highatomic,
        wmark_check: WmarkCheck::ListExists,
        fair: Fair::SpentFlag,
        merge_rule: MergeRule::EitherIsolated,
        retry_wakes: RetryWakes::On,
        oom_reach: OomReach::WithoutProgress,
        oom_without_fs: OomWithoutFs::Progresses,
        nofail_reserve: NofailReserve::On,
    };
    /// lists per node, compaction priorities, kcompactd, watermark scale
    V4_8 = "linux-4.8", V4_4 {
        wmark_gap: WmarkGap::Scale,
        wmark_fast: WmarkFast::Cma,
        fair: Fair::Off,
        slowpath: Slowpath::Priorities,
        oom_spares_mayfail: OomSparesMayfail::On,
    };
    /// the fragmentation index decides for costly orders only
    V4_9 = "linux-4.9", V4_8 {};
    /// compatible pages count for a claim; compaction first for kernel requests
    V4_12 = "linux-4.12", V4_9 {
        claim_rule: ClaimRule::CompatibleCounts,
        nofail_kills: NofailKills::Off,
        compact_first: CompactFirst::KernelBlocks,
        skipped_gives_up: SkippedGivesUp::On,
        force_unreserve: ForceUnreserve::On,
        oom_reserve: OomReserve::Half,
    };
    /// movable requests that cannot claim take the smallest block
    V4_15 = "linux-4.15", V4_12 {
        fallback_pick: FallbackPick::LargestThenSmallestM,
    };
    /// larger batches of CPU lists
    V4_19 = "linux-4.19", V4_15 {
        pcp_batch: PcpBatch::M1,
    };
    /// before fragmentation avoidance (the baseline of its series)
    V4_20 = "linux-4.20", V4_19 {};
    /// watermark boost; fragmentation avoidance present but never set
    V5_0 = "linux-5.0", V4_20 {
        boost: Boost::EveryZone,
    };
    /// fragmentation avoidance works; compaction captures pages, searches lists and samples
    V5_1 = "linux-5.1", V5_0 {
        nofragment: Nofragment::On,
        capture: Capture::NotMovable,
        compact_try: CompactTry::Always,
    };
    /// as 5.1
    V5_2 = "linux-5.2", V5_1 {};
    /// as 5.1
    V5_4 = "linux-5.4", V5_2 {};
    /// CMA used when it is half of free memory; reclaim by cost
    V5_8 = "linux-5.8", V5_4 {
        boost: Boost::LargeZones,
        cma: CmaUse::HalfRule,
        min_free_kbytes_max: 262_144,
    };
    /// converted and untouched pages to the tail; proactive compaction
    V5_10 = "linux-5.10", V5_8 {
        wmark_fast: WmarkFast::Unusable,
        boost: Boost::WakeIfBoosted,
        move_to: MoveTo::Tail,
        untouched_to: UntouchedTo::Tail,
    };
    /// as 5.10; the baseline of high-order CPU lists
    V5_13 = "linux-5.13", V5_10 {
        compact_try: CompactTry::UnlessSkipped,
    };
    /// CPU lists for orders 1 to 3 and huge pages
    V5_14 = "linux-5.14", V5_13 {
        pcp_orders: PcpOrders::CostlyAndThp,
        pcp_high: PcpHigh::LowWmark,
        pcp_free: PcpFree::FreeFactor,
    };
    /// as 5.14
    V5_15 = "linux-5.15", V5_14 {};
    /// as 5.14
    V5_17 = "linux-5.17", V5_15 {};
    /// CMA and highatomic blocks do not merge with others; lists drained whole
    V5_19 = "linux-5.19", V5_17 {
        pcp_free: PcpFree::FreeHigh,
        pcp_bulk: PcpBulk::WholeLists,
        trace_refill: TraceRefill::List,
        merge_rule: MergeRule::Mergeable,
    };
    /// one CPU list for huge pages
    V6_1 = "linux-6.1", V5_19 {
        pcp_empty: PcpEmpty::Zone,
        pcp_thp_lists: PcpThpLists::One,
    };
    /// flags for reserves reworked
    V6_3 = "linux-6.3", V6_1 {
        wmark_check: WmarkCheck::FlagsCombine,
    };
    /// as 6.3
    V6_4 = "linux-6.4", V6_3 {};
    /// movable zones have a small minimum watermark; compaction uses its searches for content
    V6_6 = "linux-6.6", V6_4 {
        movable_wmark: MovableWmark::Small,
    };
    /// CPU lists tune themselves; small zones reserve no highatomic block
    V6_7 = "linux-6.7", V6_6 {
        reserve: Reserve::HighatomicRounded,
        below_high: BelowHigh::On,
        pcp_high: PcpHigh::Autotune,
        pcp_free: PcpFree::FreeCount,
    };
    /// compaction targets: no block with a free page of the wanted order
    V6_8 = "linux-6.8", V6_7 {};
    /// the last before freelist hygiene (the baseline of its series)
    V6_9 = "linux-6.9", V6_8 { without_io: WithoutIo::NoCompaction, };
    /// freelist hygiene: a list has the type of its blocks
    V6_10 = "linux-6.10", V6_9 {
        claim_rule: ClaimRule::TypesAgree,
        retype: Retype::Together,
        isolation: Isolation::Split,
        pcp_thp_lists: PcpThpLists::Two,
        pcp_type: PcpType::Reread,
        merge_rule: MergeRule::Retype,
        capture: Capture::IfMovable,
    };
    /// free highatomic pages counted; large blocks freed in pieces
    V6_12 = "linux-6.12", V6_10 {
        wmark_check: WmarkCheck::FreeHighatomic,
        split_large: SplitLarge::On,
    };
    /// as 6.12
    V6_13 = "linux-6.13", V6_12 {};
    /// the last before claim and steal are separate
    V6_14 = "linux-6.14", V6_13 {};
    /// claim from the largest, steal the smallest; vm.defrag_mode exists
    V6_15 = "linux-6.15", V6_14 {
        fallback_pick: FallbackPick::ClaimThenSteal,
        capture: Capture::IfMovableReported,
        highatomic_high: HighatomicHigh::WithHigh,
    };
    /// CPU lists are emptied for high orders later
    V6_17 = "linux-6.17", V6_15 {
        pcp_free: PcpFree::FreeCountPastMin,
    };
    /// nodes whose kswapd runs are passed over
    V6_18 = "linux-6.18", V6_17 {
        skip_active_node: SkipActiveNode::On,
    };
    /// merging retypes the whole buddy; CPU lists are emptied a batch at a time
    V6_19 = "linux-6.19", V6_18 {
        pcp_free: PcpFree::FreeCountWholeBlocks,
        merge_rule: MergeRule::RetypeAll,
        thisnode_gives_up: ThisnodeGivesUp::On,
    };
    /// as 6.19
    V7_0 = "linux-7.0", V6_19 {};
    /// one loop in the slow path; highatomic before CPU lists are refilled
    V7_2 = "linux-7.2", V7_0 {
        reserve: Reserve::HighatomicFirst,
        slowpath: Slowpath::OneLoop,
        compact_try: CompactTry::WhenCompacted,
    };
    /// highatomic blocks only below the low watermark
    V7_3 = "linux-7.3", V7_2 {
        reserve: Reserve::HighatomicBelowLow,
        defrag_blocks: DefragBlocks::On,
        defrag_retries: DefragRetries::Block,
    };
    /// 6.1.192: reserve flags of 6.3, two CPU lists for huge pages
    DEBIAN_6_1 = "debian-6.1", V6_1 {
        pcp_free: PcpFree::FreeHighScaled,
        wmark_check: WmarkCheck::FlagsCombine,
        pcp_thp_lists: PcpThpLists::Two,
        without_io: WithoutIo::NoCompaction,
        thisnode_gives_up: ThisnodeGivesUp::On,
    };
    /// 6.12.107: claim and steal of 6.15, retyping of 6.19
    DEBIAN_6_12 = "debian-6.12", V6_12 {
        fallback_pick: FallbackPick::ClaimThenSteal,
        merge_rule: MergeRule::RetypeAll,
        thisnode_gives_up: ThisnodeGivesUp::On,
    };
    /// 7.2.13: defrag_mode reclaims and compacts for whole pageblocks
    DEBIAN_7_2 = "debian-7.2", V7_2 { defrag_blocks: DefragBlocks::On, };
}

impl Policy {
    /// The text of [`Policy::default`].
    pub const DEFAULT: &'static str =
        "linux-6.12,reserve=off,wmark_gap=none,boost=off,placement=packed";

    /// [`Policy::default`] as a constant.
    pub const EMBEDDED: Self = Self {
        reserve: Reserve::Off,
        wmark_gap: WmarkGap::None,
        boost: Boost::Off,
        placement: Placement::Packed,
        ..V6_12.policy
    };
}

/// For embedders who imitate no kernel: the mechanisms of a Linux with long support, on tables without links in frames
/// ([`Placement::Packed`]), and without what waits for reclaim: requests get every page but the `min_free_kbytes` of the
/// caller, which are kept for [`Gfp::HIGH`](crate::request::Gfp::HIGH) and the like. It is no preset; those keep Linux's
/// tables and watermarks.
impl Default for Policy {
    fn default() -> Self {
        Self::EMBEDDED
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::policy::SWITCHES;
    use std::string::String;
    use std::vec::Vec;

    #[track_caller]
    fn check_diff(a: &str, b: &str, expect: &[&str]) {
        let (a, b) = (find(a).unwrap(), find(b).unwrap());
        let changed: Vec<_> = a.policy.diff(&b.policy).map(|(switch, ..)| switch.name()).collect();
        assert_eq!(changed, expect);
    }

    #[test]
    fn the_seeds_write_their_switches_so() {
        let policy = |text| Policy::parse(text).unwrap();
        let lists = policy("linux-5.13,pcp_orders=0-3+thp").pcp_orders;
        assert_eq!(lists, PcpOrders::CostlyAndThp);
        let hybrid = policy("linux-3.10,fallback_pick=hybrid(2)");
        assert_eq!((hybrid.fallback_pick, hybrid.hybrid_threshold), (FallbackPick::Hybrid, 2));
        assert!(Policy::parse("linux-3.10,fallback_pick=hybrid(99)").is_err());
        assert!(Policy::parse("linux-3.10,fallback_pick=largest(3)").is_err());
    }

    #[test]
    fn neighbours_differ_in_what_changed() {
        check_diff("linux-3.10", "linux-3.10-cheng", &["fallback_pick"]);
        check_diff("linux-4.12", "linux-4.15", &["fallback_pick"]);
        check_diff("linux-4.20", "linux-5.0", &["boost"]);
        check_diff("linux-5.0", "linux-5.1", &["nofragment", "capture", "compact_try"]);
        check_diff("linux-5.10", "linux-5.13", &["compact_try"]);
        let hygiene = &[
            "claim_rule",
            "pcp_thp_lists",
            "pcp_type",
            "retype",
            "isolation",
            "merge_rule",
            "capture",
        ];
        check_diff("linux-6.9", "linux-6.10", hygiene);
        let defrag = &["fallback_pick", "capture", "highatomic_high"];
        check_diff("linux-6.14", "linux-6.15", defrag);
        check_diff("debian-7.2", "linux-7.2", &["defrag_blocks"]);
    }

    #[test]
    fn lists_have_the_type_of_their_blocks_from_6_10() {
        for preset in PRESETS {
            let strict = preset.version().is_some_and(|v| v >= (6, 10))
                || matches!(preset.name, "debian-6.12" | "debian-7.2");
            assert_eq!(preset.policy.list_type_strict(), strict, "{}", preset.name);
        }
    }

    #[test]
    fn switches_change_in_one_direction_along_mainline() {
        // The fair zone allocator came and went; 7.2 tries after compaction as kernels up to 5.0 do.
        let mainline = || PRESETS.iter().filter(|p| p.version().is_some());
        for switch in SWITCHES {
            let mut values: Vec<_> = mainline().map(|p| switch.get(&p.policy)).collect();
            values.dedup();
            let len = values.len();
            values.sort_by_key(|v| std::format!("{v}"));
            values.dedup();
            let returns = usize::from(["fair", "compact_try"].contains(&switch.name()));
            assert_eq!(len - values.len(), returns, "{}", switch.name());
        }
    }

    #[test]
    fn names_are_unique_and_in_order() {
        for (i, preset) in PRESETS.iter().enumerate() {
            assert!(PRESETS[..i].iter().all(|p| p.name != preset.name), "{}", preset.name);
            assert!(!preset.summary.is_empty());
        }
        let versions: Vec<_> = PRESETS.iter().filter_map(Preset::version).collect();
        assert!(versions.is_sorted());
        assert_eq!(versions.len(), 43);
    }

    #[test]
    fn text_is_read_back() {
        for preset in PRESETS {
            assert_eq!(Policy::parse(preset.name), Ok(preset.policy));
            // Spelled out in full over another row, it is the same policy.
            let mut text = String::from("linux-3.10");
            for switch in SWITCHES {
                text += &std::format!(",{}={}", switch.name(), switch.get(&preset.policy));
            }
            assert_eq!(Policy::parse(&text), Ok(preset.policy), "{text}");
        }
    }

    #[test]
    fn nearest_is_numeric() {
        let check = |major, minor, expect| assert_eq!(nearest(major, minor).name, expect);
        check(6, 12, "linux-6.12");
        check(6, 11, "linux-6.10");
        check(6, 2, "linux-6.1");
        check(3, 11, "linux-3.11");
        check(2, 6, "linux-3.10");
        check(5, 3, "linux-5.2");
        check(4, 18, "linux-4.15");
        check(7, 0, "linux-7.0");
        check(9, 0, "linux-7.3");
        let of_machine = |version, text| of_machine(version, text).name;
        assert_eq!(of_machine((6, 12), "Linux version 6.12.94 (debian-kernel@x)"), "debian-6.12");
        assert_eq!(of_machine((6, 12), "6.12.94"), "linux-6.12");
        assert_eq!(of_machine((6, 16), "Debian 6.16.1"), "linux-6.15");
    }

    #[test]
    fn default_is_what_its_text_says_and_no_preset() {
        assert_eq!(Policy::parse(Policy::DEFAULT), Ok(Policy::default()));
        assert_eq!(Policy::parse("default"), Ok(Policy::default()));
        assert!(PRESETS.iter().all(|preset| preset.policy.placement == Placement::Linux));
    }
}
