//! What the background threads of a node know.

use crate::compact::kcompactd::Kcompactd;
use crate::reclaim::kswapd::Kswapd;

/// A node's background threads.
#[derive(Clone, Debug)]
pub struct NodeState {
    /// The node's number.
    pub id: u8,
    /// Its reclaim thread.
    pub kswapd: Kswapd,
    /// Its compaction thread (from 4.6).
    pub kcompactd: Kcompactd,
    /// Pages under writeback that reclaim met at the end of the list again and again
    /// (`PGDAT_WRITEBACK`).
    pub(crate) writeback_congested: bool,
    /// Reclaim met dirty pages only (`PGDAT_DIRTY`).
    pub(crate) dirty_congested: bool,
    /// Pages whose writes have ended so far (`NR_THROTTLED_WRITTEN`).
    pub written: u64,
}

impl NodeState {
    pub(crate) fn new(id: u8) -> Self {
        Self {
            id,
            kswapd: Kswapd::default(),
            kcompactd: Kcompactd::default(),
            writeback_congested: false,
            dirty_congested: false,
            written: 0,
        }
    }
}
