//! The patterns that the doctor knows. Each looks at the facts and returns a finding, or nothing.

mod compaction;
mod daemons;
mod failures;
mod huge;
mod settings;

use pageblock::policy::DefragBlocks;

pub(super) use self::compaction::attribute;

use super::finding::{Command, Finding};
use super::health::{self, ZoneHealth};
use super::rates::Rates;
use super::sample::Sample;
use crate::advice::Advice;
use crate::interfaces::default_of;

/// The facts that patterns examine.
pub(super) struct Facts<'a> {
    /// The latest sample.
    pub(super) sample: &'a Sample,
    /// The events between two samples.
    pub(super) rates: Option<&'a Rates>,
    /// The zones.
    pub(super) zones: &'a [ZoneHealth],
}

/// Every pattern, in the order of docs/doctor.md.
const PATTERNS: [fn(&Facts<'_>) -> Option<Finding>; 16] = [
    failures::burst,
    failures::fragmentation,
    huge::hugetlb,
    daemons::kswapd,
    daemons::kcompactd,
    compaction::direct_compaction,
    huge::coverage,
    failures::very_large,
    settings::large_cache,
    failures::xfs,
    failures::cma_no_room,
    failures::cma_busy,
    settings::defrag_mode,
    settings::monitor,
    settings::shortage,
    failures::killed,
];

/// Returns the findings, the worst first.
pub(super) fn findings(facts: &Facts<'_>) -> Vec<Finding> {
    let mut found: Vec<Finding> = PATTERNS.iter().filter_map(|pattern| pattern(facts)).collect();
    found.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    found
}

impl Facts<'_> {
    /// Returns the share of free memory in blocks too small for an order, in thousandths.
    pub(super) fn unusable(&self, order: u8) -> Option<u64> {
        health::unusable(self.zones, order.into())
    }

    /// Returns the order of a pageblock.
    pub(super) fn pageblock_order(&self) -> u8 {
        self.sample.types.as_ref().and_then(|types| types.pageblock_order).unwrap_or(9)
    }

    /// Returns the zones that matter: those with an eighth of memory or more.
    pub(super) fn large_zones(&self) -> impl Iterator<Item = &ZoneHealth> {
        let all: u64 = self.zones.iter().filter_map(ZoneHealth::managed).sum();
        self.zones.iter().filter(move |zone| zone.managed().is_some_and(|own| own * 8 >= all))
    }

    /// Returns the largest order that has a free block; `None` without lists.
    pub(super) fn largest_free(&self) -> Option<usize> {
        let orders = self
            .zones
            .iter()
            .filter_map(|zone| zone.free_blocks.iter().rposition(|&blocks| blocks > 0));
        orders.max()
    }

    /// Returns whether some large zone has free memory above its high watermark, so that requests fail for another reason than a
    /// lack of memory.
    pub(super) fn has_free_memory(&self) -> bool {
        self.large_zones().any(ZoneHealth::is_above_high)
    }

    /// Returns the command that sets a sysctl of `vm`; `None` if this kernel does not have it or it has this value.
    pub(super) fn sysctl(&self, name: &str, value: u64, risk: &'static str) -> Option<Command> {
        let now = self.sample.sysctl(name);
        if !self.sample.has_sysctl(name) || now == Some(value) {
            return None;
        }
        let by_default = || Some(format!("sysctl vm.{name}={} (the default)", default_of(name)?));
        let undo = now.map(|now| format!("sysctl vm.{name}={now}")).or_else(by_default);
        Some(Command { run: format!("sysctl vm.{name}={value}"), undo, risk })
    }

    /// Returns whether unmovable requests reclaim and compact for whole pageblocks under `defrag_mode`.
    pub(super) fn has_defrag_blocks(&self) -> bool {
        self.sample.follows(|kernel| kernel.allocator.defrag_blocks == DefragBlocks::On)
    }

    /// Returns pages in MiB.
    pub(super) const fn mib(&self, pages: u64) -> u64 {
        pages * self.sample.page_kb / 1024
    }

    /// Returns the size of a block of an order.
    pub(super) fn size(&self, order: u32) -> String {
        match self.sample.page_kb << order.min(20) {
            kb if kb >= 1024 => format!("{} MiB", kb / 1024),
            kb => format!("{kb} KiB"),
        }
    }
}

pub(super) fn nothing(what: &str, why: &'static str) -> Advice {
    Advice { what: what.to_owned(), why }
}

/// The command that compacts all memory once.
pub(super) fn compact_once() -> Command {
    Command {
        run: "echo 1 > /proc/sys/vm/compact_memory".to_owned(),
        undo: None,
        risk: "seconds of CPU time and stalls on large machines; `pageblock forecast` says before what it can give",
    }
}

/// Returns thousandths as percent.
pub(super) fn percent(thousandths: u64) -> String {
    format!("{}.{} %", thousandths / 10, thousandths % 10)
}
