//! What compaction's scanners did, and how versions count it.

/// What was done in a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Scanned {
    /// Looks at pages, and at blocks as a whole, for content to move.
    pub migrate: u64,
    /// Looks for room.
    pub free: u64,
    /// The other pages of the blocks that were passed over as a whole in search of content,
    pub migrate_passed: u64,
    /// of room,
    pub free_passed: u64,
    /// and of the free blocks that were taken.
    pub free_taken: u64,
    /// Pages isolated, of both.
    pub isolated: u64,
    /// Pages moved.
    pub moved: u64,
    /// Pages that could not be moved.
    pub failed: u64,
}

/// How vmstat counts the scanners' work (`compact_migrate_scanned`, `compact_free_scanned`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CompactCounts {
    /// Up to 5.19: looks.
    Looks,
    /// 6.0 to 6.3: free blocks that are taken, with all their pages.
    Taken,
    /// From 6.4: those that are passed over as a whole, too (56d48d8dbefb).
    Pages,
}

impl CompactCounts {
    /// Those of a mainline version.
    #[must_use]
    pub const fn of_version(major: u32, minor: u32) -> Self {
        match (major, minor) {
            (6, 4..) | (7.., _) => Self::Pages,
            (6, _) => Self::Taken,
            _ => Self::Looks,
        }
    }

    /// The numbers for the migration scanner and the free scanner.
    #[must_use]
    pub const fn of(self, scanned: &Scanned) -> (u64, u64) {
        let taken = scanned.free + scanned.free_taken;
        match self {
            Self::Looks => (scanned.migrate, scanned.free),
            Self::Taken => (scanned.migrate, taken),
            Self::Pages => (scanned.migrate + scanned.migrate_passed, taken + scanned.free_passed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let counted = |major, minor| CompactCounts::of_version(major, minor).of(&scanned);
        assert_eq!(counted(5, 19), (10, 20));
        assert_eq!(counted(6, 1), (10, 27));
        assert_eq!([counted(6, 4), counted(7, 2)], [(521, 90); 2]);
    }
}
