//! Work that takes CPU time, counted for the caller that charges it.

/// Operations that take CPU time. This crate has no clock: a cost model converts the counts to time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Work {
    /// Pages that reclaim scanned.
    pub scanned: u64,
    /// Pages that reclaim freed.
    pub reclaimed: u64,
    /// Pages moved between LRU lists.
    pub rotated: u64,
    /// Objects that shrinkers scanned.
    pub shrunk: u64,
    /// Pages that compaction's scanners looked at.
    pub compact_scanned: u64,
    /// Pages that compaction isolated.
    pub isolated: u64,
    /// Page table entries that khugepaged scanned.
    pub ptes: u64,
    /// Pages copied.
    pub migrated: u64,
    /// Walks of a zonelist.
    pub attempts: u64,
    /// Drains of per-CPU lists.
    pub drains: u64,
    /// Pages compressed for swap in memory.
    pub compressed: u64,
    /// Pages decompressed.
    pub decompressed: u64,
}
