//! Errors in the input of a replay.

use pageblock::frame::Pfn;
use pageblock::setup::SetupError;
use pageblock::zone::FrameError;

/// The reason why a recording cannot be replayed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The recording cannot be read.
    #[error(transparent)]
    Recording(#[from] pageblock_recording::Error),
    /// The snapshot has a zone that no kernel has.
    #[error("the snapshot has a zone '{0}'; known are DMA, DMA32, Normal, HighMem, Movable")]
    UnknownZone(String),
    /// A node's number is too large, or its zone is missing.
    #[error("the snapshot's node {0} is not in 0 to 63, or lacks a zone")]
    Node(u16),
    /// The snapshot has a frame that is in no zone.
    #[error("the snapshot has a frame {0} that is in none of its zones")]
    Frame(Pfn),
    /// A capture names a frame that is in no zone of the machine that the user gave.
    #[error(
        "the capture names frame {0}, which no zone of the given zoneinfo has; allowed: that of the recorded machine"
    )]
    OtherMachine(Pfn),
    /// A capture names a frame beyond any machine's.
    #[error("the capture names frame {0}; allowed: frames below 2^32, 16 TiB")]
    FarFrame(Pfn),
    /// The tables of the machine's frames do not fit.
    #[error(
        "the snapshot's zones end at frame {frames}: their tables need {gib} GiB of address space, \
         which this system refuses"
    )]
    AddressSpace {
        /// The frame after the last.
        frames: u64,
        /// The size that was asked for.
        gib: u64,
    },
    /// The snapshot lists a frame twice, or another contradiction.
    #[error("the snapshot contradicts itself: {0}")]
    Contradiction(#[from] FrameError),
    /// A file of demands contains an unknown kind of demand.
    #[error("the file of demands has one of kind {0}; known are 0 to 11")]
    Demand(u8),
    /// The file of demands cannot hold what was recorded.
    #[error("what was recorded cannot be written: {0}")]
    Recorded(#[from] serde_json::Error),
    /// The machine cannot be modelled.
    #[error("the machine cannot be modelled: {0}")]
    Setup(#[from] SetupError),
}
