//! The work of compaction's scanners, and how versions count it.

use pageblock_kernel::rules::compaction::CompactCounts;

/// The work of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Scanned {
    /// Pages, and blocks as a whole, that the migration scanner looked at.
    pub migrate: u64,
    /// Pages, and blocks as a whole, that the free scanner looked at.
    pub free: u64,
    /// The other pages of the blocks that the migration scanner skipped as a whole.
    pub migrate_passed: u64,
    /// The other pages of the blocks that the free scanner skipped as a whole.
    pub free_passed: u64,
    /// The other pages of the free blocks that were taken.
    pub free_taken: u64,
    /// Pages isolated by both scanners.
    pub isolated: u64,
    /// Pages migrated.
    pub moved: u64,
    /// Pages that could not be migrated.
    pub failed: u64,
}

/// Returns how vmstat counts the work of the migration scanner and the free scanner.
#[must_use]
pub const fn counted(scanned: &Scanned, rule: CompactCounts) -> (u64, u64) {
    let taken = scanned.free + scanned.free_taken;
    match rule {
        CompactCounts::Looks => (scanned.migrate, scanned.free),
        CompactCounts::Taken => (scanned.migrate, taken),
        CompactCounts::Pages => {
            (scanned.migrate + scanned.migrate_passed, taken + scanned.free_passed)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pageblock_kernel::{Kernel, preset};

    #[test]
    fn blocks_count_with_all_their_pages_from_6_0_and_6_4() {
        let scanned = Scanned {
            migrate: 10,
            free: 20,
            migrate_passed: 511,
            free_passed: 63,
            free_taken: 7,
            ..Scanned::default()
        };
        let counts = |name| {
            let rule = Kernel::from(preset::find(name).unwrap()).compaction.compact_counts;
            counted(&scanned, rule)
        };
        assert_eq!(counts("linux-5.19"), (10, 20));
        assert_eq!(counts("linux-6.1"), (10, 27));
        assert_eq!(["linux-6.4", "linux-7.2"].map(counts), [(521, 90); 2]);
    }
}
