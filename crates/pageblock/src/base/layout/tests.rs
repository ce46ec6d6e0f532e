//! Machines and the zones that they have.

extern crate std;
use super::*;
use crate::base::ids::NodeId;
use std::vec::Vec;

const MAX_ORDER: Order = 10;

const fn node<'a>(id: u8, memory: &'a [FrameRange], reserved: &'a [FrameRange]) -> NodeSpec<'a> {
    NodeSpec { id: NodeId(id), memory, reserved, cpus: 1, movable_start: None }
}

fn pc<'a>(nodes: &'a [NodeSpec<'a>]) -> MemoryMap<'a> {
    MemoryMap { nodes, distances: &[], limits: ZoneLimits::X86_64 }
}

fn spec(node: NodeId, kind: ZoneKind, span: (u64, u64), present: u64, managed: u64) -> ZoneSpec {
    ZoneSpec { node, kind, span: FrameRange::new(span.0, span.1), present, managed }
}

fn zones(map: &MemoryMap<'_>) -> Vec<ZoneSpec> {
    assert_eq!(map.validate(MAX_ORDER), Ok(()));
    map.zones().collect()
}

#[test]
fn zones_of_a_small_guest() {
    // A PC with the BIOS hole below 1 MiB and 24 MiB of memory.
    let memory = [FrameRange::new(1, 159), FrameRange::new(256, 6144)];
    let reserved = [FrameRange::new(0, 16), FrameRange::new(4000, 4200)];
    let nodes = [node(0, &memory, &reserved)];
    assert_eq!(
        zones(&pc(&nodes)),
        [
            spec(NodeId(0), ZoneKind::Dma, (1, 4096), 3998, 3998 - 15 - 96),
            spec(NodeId(0), ZoneKind::Dma32, (4096, 6144), 2048, 2048 - 104),
        ]
    );
}

#[test]
fn span_reaches_over_the_hole_to_the_limit() {
    let memory =
        [FrameRange::new(1, 159), FrameRange::new(256, 786_432), FrameRange::new(1 << 20, 2 << 20)];
    let nodes = [node(0, &memory, &[])];
    let found = zones(&pc(&nodes));
    assert_eq!(found[1], spec(NodeId(0), ZoneKind::Dma32, (4096, 1 << 20), 782_336, 782_336));
    assert_eq!(found[1].span.len(), 1_044_480);
    assert_eq!(found[2], spec(NodeId(0), ZoneKind::Normal, (1 << 20, 2 << 20), 1 << 20, 1 << 20));
}

#[test]
fn movable_zone_takes_the_upper_part() {
    let memory = [FrameRange::new(0, 3 << 20)];
    let nodes = [NodeSpec { movable_start: Some(Pfn(2 << 20)), ..node(3, &memory, &[]) }];
    let found = zones(&pc(&nodes));
    assert_eq!(found[2], spec(NodeId(3), ZoneKind::Normal, (1 << 20, 2 << 20), 1 << 20, 1 << 20));
    assert_eq!(found[3], spec(NodeId(3), ZoneKind::Movable, (2 << 20, 3 << 20), 1 << 20, 1 << 20));
}

#[test]
fn high_memory_begins_where_normal_ends() {
    let limits =
        ZoneLimits { dma_end: Some(Pfn(4096)), dma32_end: None, normal_end: Some(Pfn(229_376)) };
    let memory = [FrameRange::new(0, 262_144)];
    let nodes = [node(0, &memory, &[])];
    let map = MemoryMap { nodes: &nodes, distances: &[], limits };
    let kinds: Vec<_> = zones(&map).iter().map(|z| (z.kind, z.present)).collect();
    assert_eq!(
        kinds,
        [(ZoneKind::Dma, 4096), (ZoneKind::Normal, 225_280), (ZoneKind::HighMem, 32_768)]
    );
}

#[test]
fn nodes_share_out_the_zones() {
    let (low, high) = ([FrameRange::new(0, 2 << 20)], [FrameRange::new(2 << 20, 3 << 20)]);
    let nodes = [node(0, &low, &[]), node(1, &high, &[]), node(2, &[], &[])];
    let map = MemoryMap { distances: &[10, 21, 40, 21, 10, 40, 40, 40, 10], ..pc(&nodes) };
    let kinds: Vec<_> = zones(&map).iter().map(|z| (z.node, z.kind)).collect();
    assert_eq!(
        kinds,
        [(0, ZoneKind::Dma), (0, ZoneKind::Dma32), (0, ZoneKind::Normal), (1, ZoneKind::Normal)]
            .map(|(node, kind)| (NodeId(node), kind))
    );
    assert_eq!((map.distance(0, 1), map.distance(2, 2)), (21, 10));
    assert_eq!((pc(&nodes).distance(0, 1), pc(&nodes).distance(1, 1)), (20, 10));
    assert_eq!(map.zone(2, ZoneKind::Normal), None);
    assert_eq!(map.zone(7, ZoneKind::Normal), None);
}

#[track_caller]
fn rejects(map: &MemoryMap<'_>, error: LayoutError) {
    assert_eq!(map.validate(MAX_ORDER), Err(error));
    assert!(!std::format!("{error}").is_empty());
}

#[test]
fn impossible_ranges_are_rejected() {
    let (good, next) = (FrameRange::new(0, 4096), FrameRange::new(4095, 8192));
    let empty = FrameRange::new(5, 5);
    let high = FrameRange::new(0, u64::MAX);
    rejects(&pc(&[]), LayoutError::NoMemory);
    rejects(&pc(&[node(0, &[], &[])]), LayoutError::NoMemory);
    rejects(&pc(&[node(0, &[good, empty], &[])]), LayoutError::EmptyRange(NodeId(0), empty));
    rejects(&pc(&[node(0, &[high], &[])]), LayoutError::RangeTooHigh(NodeId(0), high));
    rejects(&pc(&[node(0, &[good, next], &[])]), LayoutError::Overlap(good, next));
    rejects(&pc(&[node(0, &[good], &[good, good])]), LayoutError::Overlap(good, good));
    rejects(&pc(&[node(0, &[good], &[]), node(1, &[next], &[])]), LayoutError::Overlap(good, next));
}

#[test]
fn impossible_nodes_are_rejected() {
    let memory = [FrameRange::new(0, 4096)];
    let upper = [FrameRange::new(4096, 8192)];
    rejects(&pc(&[node(64, &memory, &[])]), LayoutError::TooManyNodes(64));
    let many: Vec<_> = (0..65).map(|id| node(id, &[], &[])).collect();
    rejects(&pc(&many), LayoutError::TooManyNodes(65));
    rejects(&pc(&[node(1, &memory, &[]), node(1, &upper, &[])]), LayoutError::NodeOrder(NodeId(1)));
    let nodes = [node(0, &memory, &[]), node(1, &upper, &[])];
    let with = |distances| MemoryMap { nodes: &nodes, distances, limits: ZoneLimits::NONE };
    rejects(&with(&[10, 20, 10]), LayoutError::DistanceCount(3));
    rejects(&with(&[10, 20, 9, 10]), LayoutError::Distance(1, 0, 9));
    rejects(&with(&[10, 10, 20, 10]), LayoutError::Distance(0, 1, 10));
    rejects(&with(&[11, 20, 20, 10]), LayoutError::Distance(0, 0, 11));
}

#[test]
fn impossible_zones_are_rejected() {
    let (outer, inner) =
        ([FrameRange::new(0, 1024), FrameRange::new(2048, 4096)], [FrameRange::new(1024, 2048)]);
    let nodes = [node(0, &outer, &[]), node(1, &inner, &[])];
    rejects(
        &pc(&nodes),
        LayoutError::ZoneOverlap((NodeId(0), ZoneKind::Dma), (NodeId(1), ZoneKind::Dma)),
    );
    let nodes = [NodeSpec { movable_start: Some(Pfn(1536)), ..node(0, &outer, &[]) }];
    rejects(&pc(&nodes), LayoutError::Unaligned(Pfn(1536)));
    let nodes = [node(0, &outer, &[])];
    let limits =
        ZoneLimits { dma_end: Some(Pfn(4096)), dma32_end: Some(Pfn(2048)), normal_end: None };
    rejects(&MemoryMap { limits, ..pc(&nodes) }, LayoutError::LimitOrder);
    assert_eq!(pc(&nodes).validate(16), Err(LayoutError::Order(16)));
}

#[test]
fn pageblock_is_a_huge_page_within_limits() {
    let check = |huge_order, block_max_order, expect| {
        let config = OrderConfig { max_order: 10, huge_order, block_max_order };
        assert_eq!(config.pageblock_order(), expect);
    };
    check(Some(9), None, 9);
    check(None, None, 10);
    check(Some(13), None, 10);
    check(Some(9), Some(5), 5);
    check(None, Some(12), 10);
}

#[test]
fn grouping_needs_a_pageblock_for_each_type() {
    assert!(grouping_by_mobility(6 * 512, 9, 6));
    assert!(!grouping_by_mobility(6 * 512 - 1, 9, 6));
}

#[test]
fn names_are_read_back() {
    for kind in ZoneKind::ALL {
        assert_eq!(ZoneKind::from_name(kind.name()), Some(kind));
        assert_eq!(ZoneKind::from_index(kind as usize), Some(kind));
    }
    assert_eq!(ZoneKind::from_name("Device"), None);
}
