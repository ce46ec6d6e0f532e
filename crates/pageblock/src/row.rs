//! What a CPU owns: a cache for each zone, and where it looks first.

use crate::cpu_cache::CpuCache;
use crate::layout::MAX_NR_ZONES;
use crate::levels::Front;

/// What a CPU owns.
#[derive(Default)]
pub(crate) struct Row<'m> {
    /// One a zone.
    pub(crate) zones: &'m mut [CpuZone<'m>],
    /// The first zone of its node's list, by the highest zone of a request.
    pub(crate) first: [u16; MAX_NR_ZONES],
    /// The zone of the block that it freed last.
    pub(crate) recent: u16,
    /// Its node.
    pub(crate) node: u8,
}

/// What a CPU has of one zone. No other CPU writes to the same cache lines.
#[repr(align(128))]
pub(crate) struct CpuZone<'m> {
    pub(crate) front: &'m Front<'m>,
    pub(crate) cache: CpuCache,
    /// The number of the type of the block that the CPU freed last in this zone.
    pub(crate) recent_type: u8,
}
