//! Errors: mistakes of callers, and requests that are not served.

use crate::base::frame::{FrameRange, Order, Pfn};
use crate::base::ids::{CpuId, NodeId};
use crate::base::request::Gfp;

/// A mistake of the caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum FrameError {
    /// The frame is in no zone.
    Foreign(Pfn),
    /// A block of this order cannot start at this frame.
    Misaligned(Pfn, Order),
    /// No block in use starts at the frame: freed twice, or never allocated.
    NotAllocated(Pfn),
    /// The block in use has another order, which is the second value.
    WrongOrder(Pfn, Order),
    /// Some of the frames are not free.
    NotFree(Pfn),
    /// The frame is free, but on a CPU list, which has to be drained first.
    OnCpuList(Pfn),
    /// The frame was never handed to the allocator, or was taken from it.
    Reserved(Pfn),
    /// The order is larger than the largest.
    OrderTooLarge(Order),
    /// The pageblock of the frame is isolated already.
    Isolated(Pfn),
    /// The pageblock of the frame is not isolated.
    NotIsolated(Pfn),
    /// The frame was released already.
    NotReserved(Pfn),
    /// The block is on a CPU list, but on none of this CPU's.
    OtherCpu(Pfn),
    /// There is no such CPU.
    NoSuchCpu(CpuId),
}

impl core::fmt::Display for FrameError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Foreign(pfn) => write!(f, "frame {pfn} is in no zone"),
            Self::Misaligned(pfn, order) => {
                write!(f, "no block of order {order} can start at frame {pfn}")
            }
            Self::NotAllocated(pfn) => write!(f, "no allocated block starts at frame {pfn}"),
            Self::WrongOrder(pfn, order) => {
                write!(f, "the block at frame {pfn} has order {order}")
            }
            Self::NotFree(pfn) => write!(f, "frames of the block at {pfn} are not free"),
            Self::OnCpuList(pfn) => write!(f, "frame {pfn} is on a CPU list"),
            Self::Reserved(pfn) => write!(f, "frame {pfn} is reserved"),
            Self::OrderTooLarge(order) => write!(f, "order {order} is larger than the largest"),
            Self::Isolated(pfn) => write!(f, "the pageblock of frame {pfn} is isolated already"),
            Self::NotIsolated(pfn) => write!(f, "the pageblock of frame {pfn} is not isolated"),
            Self::NotReserved(pfn) => write!(f, "frame {pfn} was released already"),
            Self::OtherCpu(pfn) => write!(f, "frame {pfn} is on a list of another CPU"),
            Self::NoSuchCpu(cpu) => write!(f, "{}", NoSuchCpu(*cpu)),
        }
    }
}

impl core::error::Error for FrameError {}

/// A CPU that the allocator was not set up with. Every error of a call that names a CPU has it as a
/// variant, with the same text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoSuchCpu(pub CpuId);

impl core::fmt::Display for NoSuchCpu {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "there is no CPU {}", self.0)
    }
}

impl core::error::Error for NoSuchCpu {}

impl From<NoSuchCpu> for FrameError {
    fn from(NoSuchCpu(cpu): NoSuchCpu) -> Self {
        Self::NoSuchCpu(cpu)
    }
}

impl From<NoSuchCpu> for AllocError {
    fn from(NoSuchCpu(cpu): NoSuchCpu) -> Self {
        Self::NoSuchCpu(cpu)
    }
}

/// Why a request could not be tried, or was not served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum AllocError {
    /// The order is larger than the largest.
    OrderTooLarge(Order),
    /// Both mobility bits are set.
    ConflictingMobility(Gfp),
    /// There is no such CPU.
    NoSuchCpu(CpuId),
    /// There is no such node.
    NoSuchNode(NodeId),
    /// No zone can serve it now; see [`slowpath`](crate::slowpath) for what to try next.
    NoMemory,
}

impl core::fmt::Display for AllocError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::OrderTooLarge(order) => write!(f, "order {order} is larger than the largest"),
            Self::ConflictingMobility(gfp) => {
                write!(f, "{gfp} is both movable and reclaimable")
            }
            Self::NoSuchCpu(cpu) => write!(f, "{}", NoSuchCpu(*cpu)),
            Self::NoSuchNode(node) => write!(f, "there is no node {node}"),
            Self::NoMemory => f.write_str("no zone can serve the request now"),
        }
    }
}

impl core::error::Error for AllocError {}

/// A bulk free that stopped at a mistake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BulkError {
    /// The blocks before the mistake; they are free.
    pub freed: usize,
    /// The mistake. Its block and those after it are as they were.
    pub error: FrameError,
}

impl core::fmt::Display for BulkError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "after {} blocks: {}", self.freed, self.error)
    }
}

impl core::error::Error for BulkError {}

/// Why a block at a given place could not be allocated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ExactError {
    /// The request is invalid, or all memory that it may use in the range is in use or reserved for others.
    Request(AllocError),
    /// The frame cannot be allocated: it is in no zone, misaligned, in use, or on a CPU list, which
    /// [`Allocator::drain_all`](crate::alloc::Allocator::drain_all) empties.
    Frame(FrameError),
    /// The request may not use the zone or node that holds the frame.
    ZoneNotAllowed(Pfn),
    /// The range is empty.
    EmptyRange(FrameRange),
}

impl core::fmt::Display for ExactError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Request(error) => error.fmt(f),
            Self::Frame(error) => error.fmt(f),
            Self::ZoneNotAllowed(pfn) => {
                write!(f, "the request may not use the zone of frame {pfn}")
            }
            Self::EmptyRange(range) => {
                write!(f, "no frame is in the range {} to {}", range.start, range.end)
            }
        }
    }
}

impl core::error::Error for ExactError {}

impl From<AllocError> for ExactError {
    fn from(error: AllocError) -> Self {
        Self::Request(error)
    }
}

impl From<FrameError> for ExactError {
    fn from(error: FrameError) -> Self {
        Self::Frame(error)
    }
}
