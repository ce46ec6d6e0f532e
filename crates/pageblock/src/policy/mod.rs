//! The switches: one per mechanism, each an enum or a number. A kernel version is a row of values
//! ([`crate::preset`]); a what-if is one changed switch.
//!
//! A policy's text is `NAME,switch=value,...`, where `NAME` is a preset: `linux-4.20,nofragment=on`.
//!
//! ```
//! use pageblock::policy::{Placement, Policy};
//!
//! let mut policy = Policy::parse("linux-6.12,watermark_scale_factor=100")?;
//! policy.placement = Placement::Packed;
//! let changed: Vec<_> = policy.diff(&Policy::parse("linux-6.12")?).map(|(switch, ..)| switch.name).collect();
//! assert_eq!(changed, ["placement", "watermark_scale_factor"]);
//! let error = Policy::parse("linux-6.12,placement=sideways").unwrap_err();
//! assert!(error.to_string().contains("sideways"));
//! # Ok::<(), pageblock::policy::PolicyError<'static>>(())
//! ```

mod choices;
pub mod preset;
mod switch;

pub use choices::*;
pub use switch::{PolicyError, Switch, Value, Values};

macro_rules! switches {
    (
        choice { $($(#[doc = $cdoc:literal])* $cfield:ident: $ctype:ident,)* }
        number { $($(#[doc = $ndoc:literal])* $nfield:ident: $min:literal..=$max:literal,)* }
    ) => {
        /// Every decision of the allocator that kernel versions make differently.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
        #[non_exhaustive]
        pub struct Policy {
            $($(#[doc = $cdoc])* pub $cfield: $ctype,)*
            $($(#[doc = $ndoc])* pub $nfield: u32,)*
        }

        /// Every switch, in the order of [`Policy`]'s fields.
        pub static SWITCHES: &[Switch] = &[
            $(Switch {
                name: stringify!($cfield),
                summary: concat!($($cdoc),*),
                values: Values::Names($ctype::NAMES),
                docs: $ctype::DOCS,
                get: |p| Value::Name(p.$cfield.text()),
                set: |p, text| $ctype::from_text(text).map(|v| p.$cfield = v).is_some(),
            },)*
            $(Switch {
                name: stringify!($nfield),
                summary: concat!($($ndoc),*),
                values: Values::Number { min: $min, max: $max },
                docs: &[],
                get: |p| Value::Number(p.$nfield),
                set: |p, text| text
                    .parse()
                    .ok()
                    .filter(|n| ($min..=$max).contains(n))
                    .map(|n| p.$nfield = n)
                    .is_some(),
            },)*
        ];
    };
}

switches! {
    choice {
        /// What is kept back for requests that must not fail.
        reserve: Reserve,
        /// Distance between the watermarks.
        wmark_gap: WmarkGap,
        /// How a watermark check treats orders and reserves.
        wmark_check: WmarkCheck,
        /// The quick check for order 0.
        wmark_fast: WmarkFast,
        /// Whether movable zones share in min_free_kbytes.
        movable_wmark: MovableWmark,
        /// Watermark boost after a fragmenting fallback.
        boost: Boost,
        /// Spreading over zones before fragmenting one.
        nofragment: Nofragment,
        /// The fair zone allocator.
        fair: Fair,
        /// Passing over nodes whose kswapd runs.
        skip_active_node: SkipActiveNode,
        /// Growth of CPU lists stops under the high watermark.
        below_high: BelowHigh,
        /// When movable requests use CMA blocks.
        cma: CmaUse,
        /// Which block of another type a fallback takes.
        fallback_pick: FallbackPick,
        /// What a fallback does with the pageblock and the remainder.
        claim_rule: ClaimRule,
        /// Which fallbacks try to claim the pageblock.
        claim_pred: ClaimPred,
        /// Orders that have CPU lists.
        pcp_orders: PcpOrders,
        /// What follows a CPU list that could not be refilled.
        pcp_empty: PcpEmpty,
        /// What mm_page_alloc_zone_locked prints.
        trace_refill: TraceRefill,
        /// CPU lists for the pageblock order.
        pcp_thp_lists: PcpThpLists,
        /// How large CPU lists grow.
        pcp_high: PcpHigh,
        /// How much CPU lists give back at a time.
        pcp_free: PcpFree,
        /// The type that a drained page is freed to.
        pcp_type: PcpType,
        /// Order in which CPU lists are drained.
        pcp_bulk: PcpBulk,
        /// Batch size of CPU lists.
        pcp_batch: PcpBatch,
        /// Free pages of a pageblock that changes type outside a fallback.
        retype: Retype,
        /// How a pageblock is isolated.
        isolation: Isolation,
        /// Which blocks merge.
        merge_rule: MergeRule,
        /// End of the new list for a block that changes type.
        move_to: MoveTo,
        /// End of the list for pages that were never used.
        untouched_to: UntouchedTo,
        /// Compaction keeps what it freed.
        capture: Capture,
        /// Blocks over the pageblock order are freed in pieces.
        split_large: SplitLarge,
        /// Which free block serves a request.
        placement: Placement,
        /// Order of attempts in the slow path.
        slowpath: Slowpath,
        /// When a huge page is given up after compaction (order of attempts up to 4.7).
        thp_contended: ThpContended,
        /// Whether a page fault compacts synchronously for a huge page (order of attempts up to 4.7).
        thp_waits: ThpWaits,
        /// Whether another round wakes kswapd again (order of attempts up to 4.7).
        retry_wakes: RetryWakes,
        /// Which requests reach the OOM killer (order of attempts up to 4.7).
        oom_reach: OomReach,
        /// What the OOM killer does for requests that may not enter file systems.
        oom_without_fs: OomWithoutFs,
        /// All reserves for requests that may not fail, after the OOM killer.
        nofail_reserve: NofailReserve,
        /// Requests that may not fail invoke the OOM killer whatever they are.
        nofail_kills: NofailKills,
        /// __GFP_RETRY_MAYFAIL keeps from the OOM killer.
        oom_spares_mayfail: OomSparesMayfail,
        /// Which requests compact before they reclaim (order of attempts from 4.8).
        compact_first: CompactFirst,
        /// Light retries give up after compaction was skipped (order of attempts from 4.8).
        skipped_gives_up: SkippedGivesUp,
        /// The last highatomic block is given back before reclaim is given up (order of attempts from 4.8).
        force_unreserve: ForceUnreserve,
        /// The reserves of an OOM victim.
        oom_reserve: OomReserve,
        /// Which requests may use the highatomic reserve in the slow path.
        highatomic_high: HighatomicHigh,
        /// Whole pageblocks as the aim of reclaim under vm.defrag_mode.
        defrag_blocks: DefragBlocks,
    }
    number {
        /// Largest order for which `hybrid` takes the smallest block.
        hybrid_threshold: 0..=14,
        /// vm.min_free_kbytes; 0 computes it from the size of memory.
        min_free_kbytes: 0..=1073741824,
        /// Largest computed min_free_kbytes.
        min_free_kbytes_max: 128..=262144,
        /// vm.extra_free_kbytes of Android's kernels: how much higher kswapd starts and stops.
        extra_free_kbytes: 0..=1073741824,
        /// vm.watermark_scale_factor, in 1/10000 of the zone.
        watermark_scale_factor: 1..=3000,
        /// vm.watermark_boost_factor, in 1/10000 of the high watermark; 0 is off.
        watermark_boost_factor: 0..=1000000,
        /// vm.percpu_pagelist_high_fraction (percpu_pagelist_fraction up to 5.13); 0 is off.
        percpu_pagelist_high_fraction: 0..=1000000,
        /// CONFIG_PCP_BATCH_SCALE_MAX: how often a batch may double.
        pcp_batch_scale_max: 0..=6,
        /// vm.zone_reclaim_mode: 1 zone, 2 write, 4 unmap.
        zone_reclaim_mode: 0..=7,
    }
}

/// The switch that `fallback_pick=hybrid(N)` sets too.
const THRESHOLD: &str = "hybrid_threshold";

/// Returns the two parts of `hybrid(3)`.
fn hybrid<'t>(switch: &str, value: &'t str) -> Option<(&'t str, &'t str)> {
    let (name, threshold) = value.strip_suffix(')')?.split_once('(')?;
    (switch == "fallback_pick" && name == "hybrid").then_some((name, threshold))
}

/// Tells whether a part sets this switch, or the threshold that goes with `hybrid(N)`.
fn sets(part: &str, switch: &str, value: &str) -> bool {
    let Some((other, its)) = part.split_once('=') else { return false };
    let (other, its) = (other.trim(), its.trim());
    other == switch
        || (other == THRESHOLD && hybrid(switch, value).is_some())
        || (switch == THRESHOLD && hybrid(other, its).is_some())
}

fn set_named<'t>(
    policy: &mut Policy,
    name: &'static str,
    value: &'t str,
) -> Result<(), PolicyError<'t>> {
    Switch::find(name).ok_or(PolicyError::UnknownSwitch(name))?.set(policy, value)
}

impl Policy {
    /// Tells whether the list of a free page always has the type of its pageblock. It takes claims and retyping that
    /// move no page without its block, isolation that splits, merges that retype, and drains that ask for the type
    /// again.
    #[must_use]
    pub const fn list_type_strict(&self) -> bool {
        matches!(self.claim_rule, ClaimRule::TypesAgree)
            && matches!(self.retype, Retype::Together)
            && matches!(self.isolation, Isolation::Split)
            && matches!(self.merge_rule, MergeRule::Retype | MergeRule::RetypeAll)
            && matches!(self.pcp_type, PcpType::Reread)
    }

    /// Tells whether a block on a CPU list is on that of its remembered type. Up to 4.3 a request can get a block
    /// with the type of the list that it came from.
    pub(crate) const fn remembers_list(&self) -> bool {
        matches!(self.claim_rule, ClaimRule::CompatibleCounts | ClaimRule::TypesAgree)
            || (matches!(self.claim_rule, ClaimRule::RestTakenByBlock)
                && !matches!(self.reserve, Reserve::MigrateReserve))
    }

    /// Tells whether the limits of CPU lists count what was freed in a row.
    #[must_use]
    pub const fn counts_frees(&self) -> bool {
        matches!(
            self.pcp_free,
            PcpFree::FreeCount | PcpFree::FreeCountPastMin | PcpFree::FreeCountWholeBlocks
        )
    }

    /// Reads `NAME,switch=value,...`. `fallback_pick=hybrid(3)` sets `hybrid_threshold` too.
    ///
    /// # Errors
    /// See [`PolicyError`]; its text lists what exists.
    pub fn parse(text: &str) -> Result<Self, PolicyError<'_>> {
        let mut parts = text.split(',').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let preset = crate::policy::preset::find(name).ok_or(PolicyError::UnknownPreset(name))?;
        let mut policy = preset.policy;
        for (at, part) in parts.clone().enumerate() {
            let (switch, value) = part.split_once('=').ok_or(PolicyError::NotAnAssignment(part))?;
            let (switch, mut value) = (switch.trim(), value.trim());
            let found = Switch::find(switch).ok_or(PolicyError::UnknownSwitch(switch))?;
            if let Some(first) = parts.clone().take(at).find(|part| sets(part, switch, value)) {
                return Err(PolicyError::Twice { first, again: part });
            }
            if let Some((name, threshold)) = hybrid(switch, value) {
                set_named(&mut policy, THRESHOLD, threshold)?;
                value = name;
            }
            found.set(&mut policy, value)?;
        }
        Ok(policy)
    }

    /// Returns the switches in which two policies differ, with both values.
    pub fn diff<'p>(
        &'p self,
        other: &'p Self,
    ) -> impl Iterator<Item = (&'static Switch, Value, Value)> + 'p {
        SWITCHES.iter().map(move |s| (s, s.get(self), s.get(other))).filter(|(_, a, b)| a != b)
    }
}
