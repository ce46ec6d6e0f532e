//! The memory map: nodes, the zones that their memory falls into, holes and early reservations.
//!
//! A map borrows what firmware and boot code know (usable ranges, ranges reserved before the
//! allocator starts) and derives the zones from it, without memory of its own.
//!
//! ```
//! use pageblock::frame::FrameRange;
//! use pageblock::ids::NodeId;
//! use pageblock::layout::{MemoryMap, NodeSpec, ZoneKind, ZoneLimits};
//!
//! // A PC with 6 GiB: the hole below 4 GiB is the devices'; the kernel's image was loaded at 16 MiB.
//! let node = NodeSpec {
//!     id: NodeId(0),
//!     memory: &[FrameRange::new(1, 0xc_0000), FrameRange::new(0x10_0000, 0x1c_0000)],
//!     reserved: &[FrameRange::new(0x1000, 0x2000)],
//!     cpus: 4,
//!     movable_start: None,
//! };
//! let map = MemoryMap { nodes: &[node], distances: &[], limits: ZoneLimits::X86_64 };
//! map.validate(10).unwrap();
//! let zones: Vec<_> = map.zones().map(|zone| (zone.kind, zone.present, zone.managed)).collect();
//! assert_eq!(
//!     zones,
//!     [
//!         (ZoneKind::Dma, 0xfff, 0xfff),
//!         (ZoneKind::Dma32, 0xb_f000, 0xb_e000),
//!         (ZoneKind::Normal, 0xc_0000, 0xc_0000),
//!     ],
//! );
//! ```

use core::fmt;

use crate::base::frame::{FrameRange, ORDER_LIMIT, Order, Pfn, pages};
use crate::base::ids::NodeId;

/// The largest number of nodes (`MAX_NUMNODES`).
pub const MAX_NUMNODES: usize = 64;

/// The number of [`ZoneKind`] variants.
pub const MAX_NR_ZONES: usize = 5;

/// The distance of a node to itself (`LOCAL_DISTANCE`).
pub const LOCAL_DISTANCE: u8 = 10;

/// The distance of two nodes unless the map says otherwise (`REMOTE_DISTANCE`).
pub const REMOTE_DISTANCE: u8 = 20;

/// Which requests a zone's memory can serve (`enum zone_type`). A request for a zone is served by
/// lower zones too. `ZONE_DEVICE` is missing: nothing is allocated from it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum ZoneKind {
    /// For devices with 24 address lines (x86: below 16 MiB).
    Dma = 0,
    /// For devices with 32 address lines (below 4 GiB).
    Dma32 = 1,
    /// What the kernel can address at all times.
    Normal = 2,
    /// What a 32-bit kernel must map before use.
    HighMem = 3,
    /// For movable content only.
    Movable = 4,
}

impl ZoneKind {
    /// Every kind, lowest first.
    pub const ALL: [Self; MAX_NR_ZONES] =
        [Self::Dma, Self::Dma32, Self::Normal, Self::HighMem, Self::Movable];

    /// Returns the kind with this value of `self as usize`.
    #[must_use]
    pub const fn from_index(index: usize) -> Option<Self> {
        if index < MAX_NR_ZONES { Some(Self::ALL[index]) } else { None }
    }

    /// Returns the kernel's name, as `/proc/zoneinfo` prints it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dma => "DMA",
            Self::Dma32 => "DMA32",
            Self::Normal => "Normal",
            Self::HighMem => "HighMem",
            Self::Movable => "Movable",
        }
    }

    /// Returns the kind with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

impl fmt::Display for ZoneKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One populated zone (`struct zone`: its place and size).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct ZoneSpec {
    /// The id of the node.
    pub node: NodeId,
    /// The kind.
    pub kind: ZoneKind,
    /// From the first frame to the last, holes included (`zone_start_pfn`, `spanned_pages`).
    pub span: FrameRange,
    /// Frames of the span that exist, in pages (`present_pages`); at most the span's.
    pub present: u64,
    /// Those of them that the allocator will hand out, in pages (`managed_pages`): watermarks are computed from it
    /// before memory is released. 0 if it is not known yet: what is released beyond it is added.
    pub managed: u64,
}

impl ZoneSpec {
    /// Returns a zone in which every frame of the span exists and will be handed out.
    #[must_use]
    pub const fn full(node: NodeId, kind: ZoneKind, span: FrameRange) -> Self {
        Self { node, kind, span, present: span.len(), managed: span.len() }
    }
}

/// One node, as the firmware describes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodeSpec<'a> {
    /// The node's id, below [`MAX_NUMNODES`].
    pub id: NodeId,
    /// Usable memory, in any order.
    pub memory: &'a [FrameRange],
    /// Ranges taken before the allocator starts; what lies outside of `memory` has no effect.
    pub reserved: &'a [FrameRange],
    /// The number of CPUs; 0 for a node of memory only.
    pub cpus: u16,
    /// The start of the movable zone (`zone_movable_pfn[nid]`); `None` where the node has none.
    pub movable_start: Option<Pfn>,
}

/// Where one zone kind ends and the next begins; `None` where the kind is not configured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ZoneLimits {
    /// The frame after the last of `DMA`.
    pub dma_end: Option<Pfn>,
    /// The frame after the last of `DMA32`.
    pub dma32_end: Option<Pfn>,
    /// The frame after the last of `Normal`, which is the first of `HighMem`.
    pub normal_end: Option<Pfn>,
}

impl ZoneLimits {
    /// No limit: all memory is `Normal`.
    pub const NONE: Self = Self { dma_end: None, dma32_end: None, normal_end: None };
    /// x86-64 with pages of 4 KiB: `DMA` below 16 MiB, `DMA32` below 4 GiB.
    pub const X86_64: Self =
        Self { dma_end: Some(Pfn(1 << 12)), dma32_end: Some(Pfn(1 << 20)), normal_end: None };

    /// Returns the frames that a kind may have, before the movable zone takes its part.
    fn range(self, kind: ZoneKind) -> Option<FrameRange> {
        let after_dma = self.dma_end.map_or(0, |p| p.0);
        let after_dma32 = self.dma32_end.map_or(after_dma, |p| p.0);
        let normal_end = self.normal_end.map_or(u64::MAX, |p| p.0);
        match kind {
            ZoneKind::Dma => self.dma_end.map(|end| FrameRange::new(0, end.0)),
            ZoneKind::Dma32 => self.dma32_end.map(|end| FrameRange::new(after_dma, end.0)),
            ZoneKind::Normal => Some(FrameRange::new(after_dma32, normal_end)),
            ZoneKind::HighMem => self.normal_end.map(|end| FrameRange::new(end.0, u64::MAX)),
            ZoneKind::Movable => None,
        }
    }
}

/// The memory of a machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryMap<'a> {
    /// The nodes, by ascending id.
    pub nodes: &'a [NodeSpec<'a>],
    /// Row by row, the distance of each node of `nodes` to each; empty for the defaults
    /// ([`LOCAL_DISTANCE`] and [`REMOTE_DISTANCE`]).
    pub distances: &'a [u8],
    /// Zone boundaries.
    pub limits: ZoneLimits,
}

/// Why a [`MemoryMap`] is invalid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LayoutError {
    /// No node, or none with memory.
    NoMemory,
    /// More nodes than [`MAX_NUMNODES`], or an id that is not below it.
    TooManyNodes(usize),
    /// Node ids must rise; this one does not.
    NodeOrder(NodeId),
    /// The largest order is beyond [`ORDER_LIMIT`].
    Order(Order),
    /// A range of a node has no frame.
    EmptyRange(NodeId, FrameRange),
    /// A range ends beyond 2^52 frames, more than any machine can address.
    RangeTooHigh(NodeId, FrameRange),
    /// Two memory ranges, or two reserved ranges of a node, share frames.
    Overlap(FrameRange, FrameRange),
    /// The spans of two zones share frames.
    ZoneOverlap((NodeId, ZoneKind), (NodeId, ZoneKind)),
    /// A zone boundary is not aligned to blocks of the largest order.
    Unaligned(Pfn),
    /// Zone limits must not fall from one kind to the next.
    LimitOrder,
    /// The distance table does not have one entry for each pair of nodes.
    DistanceCount(usize),
    /// The distance from a node to another (their positions in [`MemoryMap::nodes`]) is below
    /// [`LOCAL_DISTANCE`], or differs from it on the diagonal, or is not above it elsewhere.
    Distance(usize, usize, u8),
}

impl fmt::Display for LayoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let range = |r: FrameRange| (r.start, r.end);
        match *self {
            Self::NoMemory => f.write_str("the machine has no memory"),
            Self::TooManyNodes(n) => write!(f, "node {n}: at most {MAX_NUMNODES} nodes"),
            Self::NodeOrder(id) => {
                write!(f, "node {id} comes after a node of the same or a higher id")
            }
            Self::Order(order) => write!(f, "largest order {order}: at most {ORDER_LIMIT}"),
            Self::EmptyRange(node, r) => {
                write!(f, "node {node}: range {}..{} is empty", range(r).0, range(r).1)
            }
            Self::RangeTooHigh(node, r) => {
                write!(f, "node {node}: range {}..{} is beyond 2^52", range(r).0, range(r).1)
            }
            Self::Overlap(a, b) => {
                write!(f, "ranges {}..{} and {}..{} overlap", a.start, a.end, b.start, b.end)
            }
            Self::ZoneOverlap(a, b) => {
                write!(f, "zones {} of node {} and {} of node {} overlap", a.1, a.0, b.1, b.0)
            }
            Self::Unaligned(pfn) => {
                write!(f, "zone boundary {pfn} is not aligned to the largest block")
            }
            Self::LimitOrder => f.write_str("zone limits do not rise"),
            Self::DistanceCount(n) => {
                write!(f, "distances: there are {n}; allowed: none, or one for each pair of nodes")
            }
            Self::Distance(from, to, d) => {
                write!(
                    f,
                    "distances: {d} from node {from} to node {to}; allowed: {LOCAL_DISTANCE} within a node, more between nodes"
                )
            }
        }
    }
}

impl core::error::Error for LayoutError {}

impl<'a> MemoryMap<'a> {
    /// Every populated zone: by node, lowest kind first.
    pub fn zones(&self) -> impl Iterator<Item = ZoneSpec> + 'a {
        let limits = self.limits;
        self.nodes.iter().flat_map(move |node| {
            ZoneKind::ALL.into_iter().filter_map(move |kind| zone_spec(&limits, node, kind))
        })
    }

    /// Returns the zone of this kind of the node at this position; `None` where it has no memory.
    #[must_use]
    pub fn zone(&self, position: usize, kind: ZoneKind) -> Option<ZoneSpec> {
        zone_spec(&self.limits, self.nodes.get(position)?, kind)
    }

    /// Returns the distance between two nodes, by position (`node_distance`).
    #[must_use]
    pub fn distance(&self, from: usize, to: usize) -> u8 {
        let known = self.distances.get(from * self.nodes.len() + to);
        known.copied().unwrap_or(if from == to { LOCAL_DISTANCE } else { REMOTE_DISTANCE })
    }

    /// Checks that the map can be used with blocks of up to `max_order`.
    ///
    /// # Errors
    /// The first [`LayoutError`] that is found.
    pub fn validate(&self, max_order: Order) -> Result<(), LayoutError> {
        if max_order > ORDER_LIMIT {
            return Err(LayoutError::Order(max_order));
        }
        self.check_nodes()?;
        self.check_ranges()?;
        self.check_limits(max_order)?;
        check_distances(self.distances, self.nodes.len())?;
        self.check_zones()
    }

    fn check_nodes(&self) -> Result<(), LayoutError> {
        if self.nodes.len() > MAX_NUMNODES {
            return Err(LayoutError::TooManyNodes(self.nodes.len()));
        }
        if let Some(node) = self.nodes.iter().find(|n| n.id.index() >= MAX_NUMNODES) {
            return Err(LayoutError::TooManyNodes(node.id.index()));
        }
        match self.nodes.windows(2).find(|pair| pair[0].id >= pair[1].id) {
            Some(pair) => Err(LayoutError::NodeOrder(pair[1].id)),
            None if self.nodes.iter().all(|n| n.memory.is_empty()) => Err(LayoutError::NoMemory),
            None => Ok(()),
        }
    }

    fn check_ranges(&self) -> Result<(), LayoutError> {
        for node in self.nodes {
            for &range in node.memory.iter().chain(node.reserved) {
                if range.is_empty() {
                    return Err(LayoutError::EmptyRange(node.id, range));
                }
                if range.end.0 > 1 << 52 {
                    return Err(LayoutError::RangeTooHigh(node.id, range));
                }
            }
            no_overlap(|| node.reserved.iter().copied())?;
        }
        no_overlap(|| self.nodes.iter().flat_map(|n| n.memory.iter().copied()))
    }

    fn check_limits(&self, max_order: Order) -> Result<(), LayoutError> {
        let ZoneLimits { dma_end, dma32_end, normal_end } = self.limits;
        let limits = [dma_end, dma32_end, normal_end].into_iter().flatten();
        let mut last = Pfn(0);
        for limit in limits.clone() {
            if limit < last {
                return Err(LayoutError::LimitOrder);
            }
            last = limit;
        }
        let movable = self.nodes.iter().filter_map(|n| n.movable_start);
        match limits.chain(movable).find(|pfn| !pfn.is_aligned(max_order)) {
            Some(pfn) => Err(LayoutError::Unaligned(pfn)),
            None => Ok(()),
        }
    }

    // Linux: permits spans of different nodes to overlap and asks each page for its zone. Here
    // every frame of a span belongs to that zone, or is a hole of it.
    fn check_zones(&self) -> Result<(), LayoutError> {
        for (i, a) in self.zones().enumerate() {
            if let Some(b) = self.zones().skip(i + 1).find(|b| share(a.span, b.span)) {
                return Err(LayoutError::ZoneOverlap((a.node, a.kind), (b.node, b.kind)));
            }
        }
        Ok(())
    }
}

/// Checks the distances between a number of nodes, row by row; none stand for the defaults.
pub(crate) fn check_distances(distances: &[u8], nodes: usize) -> Result<(), LayoutError> {
    if distances.is_empty() {
        return Ok(());
    }
    if distances.len() != nodes * nodes {
        return Err(LayoutError::DistanceCount(distances.len()));
    }
    for (i, &distance) in distances.iter().enumerate() {
        let (from, to) = (i / nodes, i % nodes);
        if distance < LOCAL_DISTANCE || (from == to) != (distance == LOCAL_DISTANCE) {
            return Err(LayoutError::Distance(from, to, distance));
        }
    }
    Ok(())
}

/// Returns the frames of a node from the first to the last, holes included.
fn node_span(node: &NodeSpec<'_>) -> Option<FrameRange> {
    let start = node.memory.iter().map(|r| r.start).min()?;
    let end = node.memory.iter().map(|r| r.end).max()?;
    Some(FrameRange { start, end })
}

/// Returns the zone's part of a node, as `calculate_node_totalpages` finds it: the span reaches to the zone
/// limits wherever the node does, over holes too.
fn zone_spec(limits: &ZoneLimits, node: &NodeSpec<'_>, kind: ZoneKind) -> Option<ZoneSpec> {
    let node_span = node_span(node)?;
    let movable_start = node.movable_start.map_or(u64::MAX, |p| p.0);
    let range = match kind {
        ZoneKind::Movable => FrameRange::new(movable_start, u64::MAX),
        _ => intersection(limits.range(kind)?, FrameRange::new(0, movable_start)),
    };
    let span = intersection(range, node_span);
    let present: u64 = node.memory.iter().map(|&m| intersection(m, span).len()).sum();
    if present == 0 {
        return None;
    }
    let reserved: u64 = node
        .memory
        .iter()
        .flat_map(|&m| node.reserved.iter().map(move |&r| intersection(intersection(m, r), span)))
        .map(FrameRange::len)
        .sum();
    Some(ZoneSpec { node: node.id, kind, span, present, managed: present.saturating_sub(reserved) })
}

/// Returns the frames that are in both ranges; an empty range where there are none.
const fn intersection(a: FrameRange, b: FrameRange) -> FrameRange {
    let start = if a.start.0 > b.start.0 { a.start } else { b.start };
    let end = if a.end.0 < b.end.0 { a.end } else { b.end };
    FrameRange { start, end }
}

const fn share(a: FrameRange, b: FrameRange) -> bool {
    !intersection(a, b).is_empty()
}

fn no_overlap<I: Iterator<Item = FrameRange>>(ranges: impl Fn() -> I) -> Result<(), LayoutError> {
    for (i, a) in ranges().enumerate() {
        if let Some(b) = ranges().skip(i + 1).find(|&b| share(a, b)) {
            return Err(LayoutError::Overlap(a, b));
        }
    }
    Ok(())
}

/// What a kernel's configuration says about orders.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OrderConfig {
    /// The largest order of a free block, inclusive (`MAX_PAGE_ORDER`).
    pub max_order: Order,
    /// The order of a huge page; `None` without huge pages (`HUGETLB_PAGE_ORDER`).
    pub huge_order: Option<Order>,
    /// The largest pageblock (`CONFIG_PAGE_BLOCK_MAX_ORDER`, 6.17 and later); `None` before.
    pub block_max_order: Option<Order>,
}

impl OrderConfig {
    /// Returns the size of a pageblock: that of a huge page, but not over what the others allow.
    ///
    /// Linux: took the huge page's order unchecked before 5.19; the configurations where that would
    /// exceed the largest order are not described here.
    #[must_use]
    pub fn pageblock_order(self) -> Order {
        let order = self.huge_order.unwrap_or(self.max_order).min(self.max_order);
        self.block_max_order.map_or(order, |max| order.min(max))
    }
}

/// Returns whether memory suffices for grouping by mobility: at least a pageblock for each of the
/// kernel's types (`page_group_by_mobility_disabled` of `build_all_zonelists`). Where it does not,
/// every request counts as unmovable.
///
/// `types` is the kernel's `MIGRATE_TYPES`: 4, and 1 more for each of `CONFIG_CMA` and
/// `CONFIG_MEMORY_ISOLATION`.
#[must_use]
pub const fn grouping_by_mobility(total_pages: u64, pageblock_order: Order, types: u64) -> bool {
    total_pages >= pages(pageblock_order) * types
}

#[cfg(test)]
mod tests;
