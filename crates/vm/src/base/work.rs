//! What was done since it was last asked, for whoever charges time for it.

/// Operations that take a CPU's time. This crate has no clock: a cost model turns counts to time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Work {
    /// Pages that reclaim looked at.
    pub scanned: u64,
    /// Pages that reclaim freed.
    pub reclaimed: u64,
    /// Pages moved between LRU lists.
    pub rotated: u64,
    /// Objects that shrinkers looked at.
    pub shrunk: u64,
    /// Pages that compaction's scanners looked at.
    pub compact_scanned: u64,
    /// Pages that compaction isolated.
    pub isolated: u64,
    /// Entries of page tables that khugepaged looked at.
    pub ptes: u64,
    /// Pages copied.
    pub migrated: u64,
    /// Walks of a zonelist.
    pub attempts: u64,
    /// Drains of CPU lists.
    pub drains: u64,
    /// Pages compressed for swap in memory.
    pub compressed: u64,
    /// Pages decompressed.
    pub decompressed: u64,
}
