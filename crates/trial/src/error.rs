//! Why remedies cannot be tried.

use pageblock::frame::Pfn;
use pageblock::setup::SetupError;
use pageblock::zone::FrameError;

/// Why there is no trial.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The state cannot be read.
    #[error(transparent)]
    Doctor(#[from] pageblock_doctor::Error),
    /// The recording cannot be replayed.
    #[error(transparent)]
    Replay(#[from] pageblock_replay::Error),
    /// The preset of a kernel is no kernel.
    #[error(transparent)]
    Kernel(#[from] pageblock_kernel::KernelError),
    /// The kernel is not known, whose rules compaction follows.
    #[error("no version of the kernel: expected proc/version beside the other files")]
    NoVersion,
    /// Pages are not of 4 KiB.
    #[error("pages of {0} KiB: remedies can be tried on machines with pages of 4 KiB only")]
    PageSize(u64),
    /// The order is larger than the kernel's largest.
    #[error("--order {order}: this kernel's largest order is {largest}")]
    Order {
        /// The order.
        order: u8,
        /// The largest one.
        largest: u8,
    },
    /// What frames are used for contradicts the zones.
    #[error("frame {pfn}: {source}; the copies are of different machines or moments")]
    Contradiction {
        /// The frame.
        pfn: Pfn,
        /// Why.
        source: FrameError,
    },
    /// No allocator can be made for the machine.
    #[error("the machine cannot be modelled: {0}")]
    Setup(#[from] SetupError),
}
