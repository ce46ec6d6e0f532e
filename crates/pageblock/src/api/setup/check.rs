//! What a setup must fulfil.

use core::fmt;

use crate::api::setup::Setup;
use crate::base::frame::{FrameRange, ORDER_LIMIT, Pfn};
use crate::base::geometry::{Geometry, PAGE_SHIFTS};
use crate::base::ids::{CpuId, NodeId, ZoneIndex};
use crate::base::layout::{LayoutError, MAX_NR_ZONES, MAX_NUMNODES, ZoneSpec, check_distances};
use crate::policy::{Chosen, Placement, PolicyError, SWITCHES, Switch, Value, Values};
use crate::table::bits;
use crate::zone::Zone;

/// The largest number of CPUs.
pub const MAX_CPUS: usize = u16::MAX as usize;

/// The largest number of zones: each kind on each node.
const MAX_ZONES: usize = MAX_NR_ZONES * MAX_NUMNODES;

/// The frame after the last that a machine can address.
const END: Pfn = Pfn(1 << 52);

/// Why an allocator cannot be made. The text names the field of [`Setup`], its value, and what is allowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SetupError {
    /// This number of zones is not possible.
    ZoneCount(usize),
    /// This number of CPUs is not possible.
    CpuCount(usize),
    /// A number of the policy is not one that its switch can have.
    Policy(&'static Switch, u32),
    /// The policy is not the [fixed](crate::policy::Fixed) one of the allocator.
    NotFixed,
    /// The policy [does not allow](crate::policy::Policy::allows_packed) packed placement.
    Packed,
    /// Pageblocks, or the largest blocks, have too few frames for packed placement.
    SmallBlocks(Geometry),
    /// An order or the page size is not possible.
    Geometry(Geometry),
    /// The node of a zone is beyond the largest.
    ZoneNode(ZoneIndex, NodeId),
    /// The span of a zone holds no frame, or ends beyond 2^52.
    Span(ZoneIndex, FrameRange),
    /// The span of a zone holds more frames than can be numbered; their number, with the rest of the first and
    /// the last block.
    TooLarge(ZoneIndex, u64),
    /// More pages of a zone are present than its span has frames.
    Present(ZoneIndex, ZoneSpec),
    /// More pages of a zone are managed than are present.
    Managed(ZoneIndex, ZoneSpec),
    /// A zone is not after the zone before it, by node and then by kind.
    ZoneOrder(ZoneIndex),
    /// The spans of two zones share frames.
    ZoneOverlap(ZoneIndex, ZoneIndex),
    /// A CPU is on a node without a zone.
    CpuNode(CpuId, NodeId),
    /// The distances are not those of the nodes.
    Distances(LayoutError),
    /// The memory does not hold the tables; the bytes that are needed.
    Memory(usize),
    /// The tables are larger than what this machine can address.
    AddressSpace,
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::ZoneCount(n) => write!(f, "zones: there are {n}; allowed: 1 to {MAX_ZONES}"),
            Self::CpuCount(n) => {
                write!(f, "cpu_nodes: there are {n} CPUs; allowed: 1 to {MAX_CPUS}")
            }
            Self::Policy(switch, n) => {
                write!(f, "policy: {} is {n}; allowed: {}", switch.name(), switch.values())
            }
            Self::NotFixed => {
                f.write_str("policy: allowed: the one that the allocator is compiled for")
            }
            Self::Packed => write!(f, "policy: {}", PolicyError::Packed),
            Self::SmallBlocks(Geometry { pageblock_order, max_order, .. }) => write!(
                f,
                "geometry: pageblock_order is {pageblock_order} and max_order {max_order}; \
                 placement=packed allows {} and more",
                bits::LEAST_ORDER
            ),
            Self::Geometry(geometry) => wrong_geometry(f, geometry),
            Self::ZoneNode(at, node) => {
                write!(f, "zones[{at}].node: {node}; allowed: 0 to {}", MAX_NUMNODES - 1)
            }
            Self::Span(at, FrameRange { start, end }) => write!(
                f,
                "zones[{at}].span: frames {start} to {end}; allowed: an end after the start, at most 2^52"
            ),
            Self::TooLarge(at, frames) => write!(
                f,
                "zones[{at}].span: {frames} frames in whole blocks; allowed: at most 2^32 - 2"
            ),
            Self::Present(at, zone) => write!(
                f,
                "zones[{at}].present: {} pages; allowed: at most the {} of its span",
                zone.present,
                zone.span.len()
            ),
            Self::Managed(at, zone) => write!(
                f,
                "zones[{at}].managed: {} pages; allowed: at most the {} that are present",
                zone.managed, zone.present
            ),
            Self::ZoneOrder(at) => write!(
                f,
                "zones[{at}]: not after the zone before it; allowed: by node, then by kind, one of each"
            ),
            Self::ZoneOverlap(a, b) => {
                write!(f, "zones[{b}].span: shares frames with zones[{a}]; allowed: spans apart")
            }
            Self::CpuNode(cpu, node) => {
                write!(f, "cpu_nodes[{cpu}]: node {node} has no zone; allowed: the nodes of zones")
            }
            Self::Distances(error) => error.fmt(f),
            Self::Memory(bytes) => {
                write!(f, "the memory is too small: the tables need {bytes} bytes")
            }
            Self::AddressSpace => f.write_str("the tables are larger than the address space"),
        }
    }
}

fn wrong_geometry(f: &mut fmt::Formatter<'_>, geometry: Geometry) -> fmt::Result {
    let Geometry { pageblock_order, max_order, page_shift } = geometry;
    let orders = 1..=ORDER_LIMIT;
    let (name, value, allowed) = if !orders.contains(&pageblock_order) {
        ("pageblock_order", pageblock_order, orders)
    } else if !orders.contains(&max_order) {
        ("max_order", max_order, orders)
    } else {
        ("page_shift", page_shift, PAGE_SHIFTS)
    };
    let (min, max) = allowed.into_inner();
    write!(f, "geometry.{name}: {value}; allowed: {min} to {max}")
}

impl core::error::Error for SetupError {}

impl From<LayoutError> for SetupError {
    fn from(error: LayoutError) -> Self {
        Self::Distances(error)
    }
}

impl Setup<'_> {
    /// Checks every field.
    pub(super) fn validate(&self) -> Result<(), SetupError> {
        if !self.geometry.is_possible() {
            return Err(SetupError::Geometry(self.geometry));
        }
        if !(1..=MAX_ZONES).contains(&self.zones.len()) {
            return Err(SetupError::ZoneCount(self.zones.len()));
        }
        if !(1..=MAX_CPUS).contains(&self.cpu_nodes.len()) {
            return Err(SetupError::CpuCount(self.cpu_nodes.len()));
        }
        self.validate_policy()?;
        for (at, zone) in self.zones.iter().enumerate() {
            self.validate_zone(ZoneIndex::new(at), zone)?;
        }
        let nodes = self.nodes();
        let is_missing = |node: NodeId| node.index() >= MAX_NUMNODES || nodes & node.bit() == 0;
        if let Some(cpu) = self.cpu_nodes.iter().position(|&node| is_missing(node)) {
            return Err(SetupError::CpuNode(CpuId(cpu), self.cpu_nodes[cpu]));
        }
        Ok(check_distances(self.distances, nodes.count_ones() as usize)?)
    }

    /// The fields of a policy are public, so its numbers can be what its notation refuses.
    fn validate_policy(&self) -> Result<(), SetupError> {
        let wrong =
            SWITCHES.iter().find_map(|switch| match (switch.values(), switch.get(&self.policy)) {
                (Values::Number { min, max }, Value::Number(n)) if !(min..=max).contains(&n) => {
                    Some(SetupError::Policy(switch, n))
                }
                _ => None,
            });
        if let Some(wrong) = wrong {
            return Err(wrong);
        }
        self.policy.check().map_err(|_| SetupError::Packed)?;
        let Geometry { pageblock_order, max_order, .. } = self.geometry;
        if self.policy.placement == Placement::Packed
            && pageblock_order.min(max_order) < bits::LEAST_ORDER
        {
            return Err(SetupError::SmallBlocks(self.geometry));
        }
        Ok(())
    }

    fn validate_zone(&self, at: ZoneIndex, zone: &ZoneSpec) -> Result<(), SetupError> {
        let &ZoneSpec { node, kind, span, present, managed } = zone;
        if node.index() >= MAX_NUMNODES {
            return Err(SetupError::ZoneNode(at, node));
        }
        if span.is_empty() || span.end > END {
            return Err(SetupError::Span(at, span));
        }
        if Zone::<Chosen>::table_frames(span, self.geometry).is_none() {
            let frames = Zone::<Chosen>::table_range(span, self.geometry).len();
            return Err(SetupError::TooLarge(at, frames));
        }
        if present > span.len() {
            return Err(SetupError::Present(at, *zone));
        }
        if managed > present {
            return Err(SetupError::Managed(at, *zone));
        }
        let before = &self.zones[..at.index()];
        if before.last().is_some_and(|last| (last.node, last.kind) >= (node, kind)) {
            return Err(SetupError::ZoneOrder(at));
        }
        // Linux: the spans of nodes may overlap. Here a frame in two spans would be in two zones.
        let shares = |other: &ZoneSpec| other.span.start < span.end && span.start < other.span.end;
        match before.iter().position(shares) {
            Some(other) => Err(SetupError::ZoneOverlap(ZoneIndex::new(other), at)),
            None => Ok(()),
        }
    }
}
