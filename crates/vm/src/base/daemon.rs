//! What a background thread does after a step.

/// Pages that must be written until a kswapd that waits for pages continues (`SWAP_CLUSTER_MAX`,
/// `__acct_reclaim_writeback`).
pub const THROTTLE_PAGES: u64 = 32;
/// A tenth of a second, in nanoseconds: the nap before kswapd sleeps, and a wait for writes.
pub const TENTH_SECOND_NS: u64 = 100_000_000;

/// What a background thread does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Daemon {
    /// It worked: charge what [`Vm::take_work`](crate::Vm::take_work) returns, and step again.
    Ran,
    /// It waits for at most this many nanoseconds, or until a write ends.
    WaitWrites(u64),
    /// It waits for at most this many nanoseconds, or until the disk's queue is no longer congested
    /// (`congestion_wait`).
    WaitCongestion(u64),
    /// Like [`WaitCongestion`](Self::WaitCongestion), but it does not wait unless the queue is congested
    /// (`wait_iff_congested`).
    WaitIfCongested(u64),
    /// It waits for at most this many nanoseconds, or until more than [`THROTTLE_PAGES`] pages of its node
    /// were written ([`NodeState::written`](crate::node::NodeState::written); `reclaim_throttle`).
    WaitPages(u64),
    /// It naps for this many nanoseconds, or until it is woken.
    Nap(u64),
    /// It sleeps until it is woken.
    Sleep,
}
