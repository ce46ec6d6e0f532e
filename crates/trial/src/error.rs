//! The reasons why remedies cannot be tried.

use pageblock::frame::Pfn;
use pageblock::setup::SetupError;
use pageblock::zone::FrameError;

/// The reason why there is no trial.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The state cannot be read.
    #[error(transparent)]
    Doctor(#[from] pageblock_doctor::Error),
    /// The recording cannot be replayed.
    #[error(transparent)]
    Replay(#[from] pageblock_replay::Error),
    /// The name is a preset of the allocator, not a kernel.
    #[error(transparent)]
    Kernel(#[from] pageblock_kernel::KernelError),
    /// The kernel, whose rules compaction follows, is not known.
    #[error("no version of the kernel: expected proc/version beside the other files")]
    NoVersion,
    /// The page size is not 4 KiB.
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
    /// The use of frames contradicts the zones.
    #[error("frame {pfn}: {source}; the copies are of different machines or moments")]
    Contradiction {
        /// The frame.
        pfn: Pfn,
        /// The contradiction.
        source: FrameError,
    },
    /// The machine cannot be modelled.
    #[error("the machine cannot be modelled: {0}")]
    Setup(#[from] SetupError),
}
