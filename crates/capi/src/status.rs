//! Errors and their texts.

use core::ffi::{CStr, c_char};

use pageblock::alloc::AllocError;
use pageblock::contig::ContigError;
use pageblock::exact::ExactError;
use pageblock::setup::SetupError;
use pageblock::sharing::CpuError;
use pageblock::zone::FrameError;

/// The result of a function. If it is not `PB_STATUS_OK`, nothing has changed, unless the function's
/// description says otherwise. Numbers are never reused.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// Success.
    Ok = 0,
    /// No zone can serve the request now. Not an error of the caller: free memory, drain CPUs, or request less.
    NoMemory = 1,
    /// Exclusive access is needed, but a CPU is taken or another thread has exclusive access. Not an error of
    /// the caller.
    Busy = 2,
    /// A pointer that must not be NULL is NULL.
    Null = 3,
    /// A number is not one of the parameter's constants.
    Unknown = 4,
    /// The caller's buffer or memory is too small.
    Space = 5,
    /// The text is not a policy; `pb_policy_check` says why.
    Policy = 6,
    /// There are no zones, no CPUs, or too many.
    Count = 7,
    /// The zones are not in order of node and kind, two overlap, or a node is beyond 63.
    ZoneOrder = 8,
    /// A CPU is on a node without a zone.
    CpuNode = 9,
    /// The pageblock order, the largest order or the page size is out of range.
    Geometry = 10,
    /// A zone is larger than the supported maximum.
    TooLarge = 11,
    /// No such CPU.
    NoSuchCpu = 12,
    /// The CPU is already taken.
    CpuTaken = 13,
    /// The CPU was given back, and may not be used any more.
    CpuGiven = 14,
    /// No such zone.
    NoSuchZone = 15,
    /// No such node.
    NoSuchNode = 16,
    /// The order is larger than the maximum.
    OrderTooLarge = 17,
    /// The request is both movable and reclaimable.
    ConflictingMobility = 18,
    /// The frame is in no zone, or is a hole.
    Foreign = 19,
    /// No block of this order can start at the frame.
    Misaligned = 20,
    /// No block in use starts at the frame: freed twice, or never allocated.
    NotAllocated = 21,
    /// The block in use has another order.
    WrongOrder = 22,
    /// Frames of the block are in use.
    NotFree = 23,
    /// The frame is free, but in a CPU's cache, which must be drained first.
    OnCpuList = 24,
    /// The frame was never released to the allocator, or was taken from it.
    Reserved = 25,
    /// The pageblock is isolated by another operation.
    Isolated = 26,
    /// The request may not use the zone of the frame.
    ZoneNotAllowed = 27,
    /// The range is empty, or no page is requested.
    Empty = 28,
    /// The alignment is not a power of two.
    Alignment = 29,
    /// The range is not within one zone.
    SpansZones = 30,
    /// A pageblock of the range is cut by the end of its zone.
    CutPageblock = 31,
    /// A block in use in the range cannot be moved.
    Unmovable = 32,
    /// There is no free memory to move a block to.
    NoTarget = 33,
    /// The caller's function did not move a block that it called movable.
    NotMoved = 34,
    /// The range does not consist of whole pageblocks.
    NotPageblocks = 35,
    /// The function does not apply to the state of some frames of the range.
    WrongState = 36,
    /// No range of this size and alignment is available.
    NotFound = 37,
    /// The state is inconsistent: a defect, or something overwrote the allocator's memory.
    Violation = 38,
    /// An error without a number of its own.
    Other = 39,
    /// The distances are not 10 within a node and more between nodes, or not one for each pair of nodes.
    Distances = 40,
}

const TEXTS: &[(Status, &CStr)] = &[
    (Status::Ok, c"success"),
    (Status::NoMemory, c"no zone can serve the request now"),
    (Status::Busy, c"a CPU is taken or keeps its frames, or another thread works on the whole"),
    (Status::Null, c"a pointer must not be NULL"),
    (Status::Unknown, c"a number is not one of the parameter's constants"),
    (Status::Space, c"the buffer is too small"),
    (Status::Policy, c"the text is not a policy"),
    (Status::Count, c"there are no zones, no CPUs, or too many"),
    (Status::ZoneOrder, c"the zones are not in order, or overlap"),
    (Status::CpuNode, c"a CPU is on a node without a zone"),
    (Status::Geometry, c"an order or the page size is out of range"),
    (Status::TooLarge, c"a zone is too large"),
    (Status::NoSuchCpu, c"no such CPU"),
    (Status::CpuTaken, c"the CPU is already taken"),
    (Status::CpuGiven, c"the CPU was given back"),
    (Status::NoSuchZone, c"no such zone"),
    (Status::NoSuchNode, c"no such node"),
    (Status::OrderTooLarge, c"the order is too large"),
    (Status::ConflictingMobility, c"the request is both movable and reclaimable"),
    (Status::Foreign, c"the frame is in no zone"),
    (Status::Misaligned, c"no block of this order can start at the frame"),
    (Status::NotAllocated, c"no block in use starts at the frame"),
    (Status::WrongOrder, c"the block in use has another order"),
    (Status::NotFree, c"frames of the block are in use"),
    (Status::OnCpuList, c"the frame is in a CPU's cache"),
    (Status::Reserved, c"the frame was never released to the allocator"),
    (Status::Isolated, c"the pageblock is isolated"),
    (Status::ZoneNotAllowed, c"the request may not use the zone of the frame"),
    (Status::Empty, c"the range is empty"),
    (Status::Alignment, c"the alignment is not a power of two"),
    (Status::SpansZones, c"the range is not within one zone"),
    (Status::CutPageblock, c"a pageblock is cut by the end of its zone"),
    (Status::Unmovable, c"a block in the range cannot be moved"),
    (Status::NoTarget, c"there is no free memory to move a block to"),
    (Status::NotMoved, c"a block was not moved"),
    (Status::NotPageblocks, c"the range does not consist of whole pageblocks"),
    (Status::WrongState, c"frames of the range are in the wrong state"),
    (Status::NotFound, c"no such range is available"),
    (Status::Violation, c"the allocator's state is inconsistent"),
    (Status::Other, c"an error without a number of its own"),
    (Status::Distances, c"the distances are not those of the nodes"),
];

/// Returns the status of an action.
#[inline(always)]
pub(crate) fn answer(act: impl FnOnce() -> Result<(), Status>) -> Status {
    act().into()
}

impl From<Result<(), Self>> for Status {
    fn from(result: Result<(), Self>) -> Self {
        result.err().unwrap_or(Self::Ok)
    }
}

impl From<SetupError> for Status {
    fn from(error: SetupError) -> Self {
        match error {
            SetupError::ZoneCount(_) | SetupError::CpuCount(_) => Self::Count,
            SetupError::Policy(..) | SetupError::Packed => Self::Policy,
            SetupError::Geometry(_) | SetupError::SmallBlocks(_) => Self::Geometry,
            SetupError::Span(_, span) if span.is_empty() => Self::Empty,
            SetupError::Span(..) | SetupError::TooLarge(..) | SetupError::AddressSpace => {
                Self::TooLarge
            }
            SetupError::ZoneNode(..) | SetupError::ZoneOrder(_) | SetupError::ZoneOverlap(..) => {
                Self::ZoneOrder
            }
            SetupError::CpuNode(..) => Self::CpuNode,
            SetupError::Distances(_) => Self::Distances,
            SetupError::Memory(_) => Self::Space,
            _ => Self::Other,
        }
    }
}

impl From<CpuError> for Status {
    fn from(error: CpuError) -> Self {
        match error {
            CpuError::NoSuchCpu(_) => Self::NoSuchCpu,
            CpuError::Taken(_) => Self::CpuTaken,
            _ => Self::Other,
        }
    }
}

impl From<AllocError> for Status {
    fn from(error: AllocError) -> Self {
        match error {
            AllocError::OrderTooLarge(_) => Self::OrderTooLarge,
            AllocError::ConflictingMobility(_) => Self::ConflictingMobility,
            AllocError::NoSuchCpu(_) => Self::NoSuchCpu,
            AllocError::NoSuchNode(_) => Self::NoSuchNode,
            AllocError::NoMemory => Self::NoMemory,
            _ => Self::Other,
        }
    }
}

impl From<FrameError> for Status {
    fn from(error: FrameError) -> Self {
        match error {
            FrameError::Foreign(_) => Self::Foreign,
            FrameError::Misaligned(..) => Self::Misaligned,
            FrameError::NotAllocated(_) => Self::NotAllocated,
            FrameError::WrongOrder(..) => Self::WrongOrder,
            FrameError::NotFree(_) => Self::NotFree,
            FrameError::OnCpuList(_) => Self::OnCpuList,
            FrameError::Reserved(_) => Self::Reserved,
            FrameError::OrderTooLarge(_) => Self::OrderTooLarge,
            FrameError::Isolated(_) => Self::Isolated,
            FrameError::NotReserved(_) => Self::WrongState,
            _ => Self::Other,
        }
    }
}

impl From<ExactError> for Status {
    fn from(error: ExactError) -> Self {
        match error {
            ExactError::Request(error) => error.into(),
            ExactError::Frame(error) => error.into(),
            ExactError::ZoneNotAllowed(_) => Self::ZoneNotAllowed,
            ExactError::EmptyRange(_) => Self::Empty,
            _ => Self::Other,
        }
    }
}

impl From<ContigError> for Status {
    fn from(error: ContigError) -> Self {
        match error {
            ContigError::Empty => Self::Empty,
            ContigError::Alignment(_) => Self::Alignment,
            ContigError::NoSuchCpu(_) => Self::NoSuchCpu,
            ContigError::Foreign(_) => Self::Foreign,
            ContigError::SpansZones(_) => Self::SpansZones,
            ContigError::Reserved(_) => Self::Reserved,
            ContigError::Isolated(_) => Self::Isolated,
            ContigError::CutPageblock(_) => Self::CutPageblock,
            ContigError::Unmovable(_) => Self::Unmovable,
            ContigError::NoTarget(_) => Self::NoTarget,
            ContigError::NotMoved(_) => Self::NotMoved,
            ContigError::NotContiguous(error) => error.into(),
            ContigError::Misaligned(_) => Self::NotPageblocks,
            ContigError::WrongState(..) => Self::WrongState,
            ContigError::NotFound => Self::NotFound,
            ContigError::Request(error) => error.into(),
            ContigError::Extents(_) => Self::Space,
            ContigError::Busy(_) | ContigError::Contended(_) => Self::Busy,
            _ => Self::Other,
        }
    }
}

impl Status {
    /// Returns its text.
    pub(crate) fn text(self) -> &'static CStr {
        TEXTS.get(self as usize).map_or(c"no such status", |(_, text)| text)
    }
}

/// Returns the text of a status, which is static, also for an unknown number. Never NULL.
#[unsafe(no_mangle)]
pub extern "C" fn pb_strerror(status: i32) -> *const c_char {
    let known = TEXTS.iter().find(|(known, _)| *known as i32 == status);
    known.map_or(c"no such status", |(_, text)| text).as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_its_text() {
        for (at, (status, text)) in TEXTS.iter().enumerate() {
            assert_eq!(*status as usize, at);
            assert_eq!(pb_strerror(*status as i32), text.as_ptr());
        }
        assert_eq!(TEXTS.last().map(|(status, _)| *status), Some(Status::Distances));
        assert!(TEXTS.iter().any(|(status, _)| *status == Status::Other));
        for none in [-1, TEXTS.len() as i32, i32::MAX] {
            assert_eq!(pb_strerror(none), c"no such status".as_ptr());
        }
    }
}
