//! Ranges, places, bulks and hotplug, against a shadow that knows who owns every frame.

use std::collections::BTreeMap;
use std::mem::MaybeUninit;

use pageblock::FrameState;
use pageblock::alloc::{AllocError, Allocator};
use pageblock::bulk::BulkError;
use pageblock::contig::{ContigError, Migrate};
use pageblock::cpu_cache::{CacheLimits, CacheState};
use pageblock::exact::ExactError;
use pageblock::frame::{FrameRange, Order, Pfn, pages};
use pageblock::ids::{CpuId, NodeId, ZoneIndex};
use pageblock::layout::{ZoneKind, ZoneSpec};
use pageblock::mobility::Migratetype;
use pageblock::policy::Policy;
use pageblock::preset::PRESETS;
use pageblock::request::{Gfp, Request};
use pageblock::setup::Setup;
use pageblock::zone::{FrameError, Geometry, Zone};

use crate::machine::{ParkingLot, policy, table_memory, zone_spec};

/// Blocks in use, and which of them can be moved.
#[derive(Default)]
struct Shadow {
    blocks: BTreeMap<u64, (Order, bool)>,
    /// Moves that are still to fail.
    failures: u32,
    moves: u32,
}

impl Shadow {
    fn add(&mut self, pfn: Pfn, order: Order, movable: bool) {
        let before = self.blocks.range(..pfn.0 + pages(order)).next_back();
        let clear = before.is_none_or(|(start, (order, _))| start + pages(*order) <= pfn.0);
        assert!(clear, "{pfn} of order {order} is in use");
        self.blocks.insert(pfn.0, (order, movable));
    }

    fn add_range(&mut self, range: FrameRange, max_order: Order) {
        range.blocks(max_order).for_each(|(pfn, order)| self.add(pfn, order, false));
    }
}

impl Migrate for Shadow {
    fn is_movable(&mut self, block: Pfn, order: Order) -> bool {
        let (is, movable) = self.blocks[&block.0];
        assert_eq!(is, order);
        movable
    }

    fn migrate(&mut self, from: Pfn, to: Pfn, order: Order) -> bool {
        if self.failures > 0 {
            self.failures -= 1;
            return false;
        }
        let (is, movable) = self.blocks.remove(&from.0).unwrap();
        assert!(movable && is == order);
        self.add(to, order, true);
        self.moves += 1;
        true
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % n
    }
}

/// Two zones of 6 and 10 pageblocks; the first is cut at both ends.
fn with_machine(policy: Policy, geometry: Geometry, test: impl FnOnce(&mut Allocator<'_>)) {
    let block = geometry.pageblock_pages();
    let middle = 6 * block - block / 4;
    let zones = [
        zone_spec(0, ZoneKind::Dma32, block / 2, middle),
        zone_spec(0, ZoneKind::Normal, middle, 16 * block),
    ];
    let setup = Setup { geometry, ..Setup::new(policy, &zones, &[NodeId(0), NodeId(0)]) };
    let mut memory = table_memory(&setup);
    let mut allocator = Allocator::new(&mut memory, &setup).unwrap();
    allocator.release(FrameRange { start: zones[0].span.start, end: zones[1].span.end }).unwrap();
    crate::machine::without_cpu_lists(&mut allocator);
    for at in 0..2 {
        for cpu in 0..2 {
            let (_, cache) = allocator.zone_and_cache(ZoneIndex(at), CpuId(cpu)).unwrap();
            let limits = CacheLimits { high_max: 16, ..cache.limits() };
            cache.impose_state(CacheState { limits, high: 16, ..cache.state() });
        }
    }
    test(&mut allocator);
}

const MOVABLE: Gfp = Gfp::GFP_HIGHUSER_MOVABLE;

/// The allocator's blocks in use are those of the shadow, and its state is sound.
fn compare(allocator: &Allocator<'_>, shadow: &Shadow) {
    allocator.check().unwrap_or_else(|violation| panic!("{violation}"));
    let mut found = BTreeMap::new();
    for zone in allocator.zones() {
        for pfn in zone.span().start.0..zone.span().end.0 {
            if let Some(FrameState::Allocated { order, .. }) = zone.state(Pfn(pfn)) {
                found.insert(pfn, order);
            }
        }
    }
    let expect: BTreeMap<u64, Order> = shadow.blocks.iter().map(|(p, (o, _))| (*p, *o)).collect();
    assert_eq!(found, expect);
}

/// One machine, driven by random calls.
struct Drive<'a, 'm> {
    allocator: &'a mut Allocator<'m>,
    shadow: Shadow,
    random: Random,
    /// Ranges that were got as a whole, and those that are offline.
    ranges: Vec<FrameRange>,
    offline: Vec<FrameRange>,
}

impl Drive<'_, '_> {
    fn range(&mut self, longest: u64) -> FrameRange {
        let zone = &self.allocator.zones()[self.random.below(2) as usize];
        let start = zone.span().start.0 + self.random.below(zone.span().len());
        let length = 1 + self.random.below(longest);
        FrameRange::new(start, (start + length).min(zone.span().end.0))
    }

    fn step(&mut self) {
        let max = self.allocator.geometry().max_order;
        let gfp = if self.random.below(3) == 0 { Gfp::GFP_KERNEL } else { MOVABLE };
        let order = self.random.below(3).saturating_sub(1) as Order * self.random.below(4) as Order;
        let order = order.min(max);
        let cpu = self.random.below(2) as usize;
        let request = Request::new(order, gfp);
        let movable = gfp.has(Gfp::MOVABLE);
        match self.random.below(12) {
            0..4 => {
                let mut blocks = vec![Pfn(0); 1 + self.random.below(20) as usize];
                let got = self.allocator.alloc_bulk(CpuId(cpu), &request, &mut blocks, &mut ());
                for &pfn in &blocks[..got.unwrap_or(0)] {
                    self.shadow.add(pfn, order, movable);
                }
            }
            4..7 => self.free_some(cpu),
            7 => {
                let pfn = Pfn(self.range(1).start.align_down(order).0);
                if self.allocator.alloc_at(CpuId(cpu), pfn, &request, &mut ()).is_ok() {
                    self.shadow.add(pfn, order, movable);
                }
            }
            8 => {
                let range = self.range(200);
                if let Ok(pfn) = self.allocator.alloc_within(CpuId(cpu), range, &request, &mut ()) {
                    assert!(range.start <= pfn && pfn.plus(pages(order)) <= range.end);
                    self.shadow.add(pfn, order, movable);
                }
            }
            9 => self.contig(cpu),
            10 if !self.ranges.is_empty() => {
                let which = self.random.below(self.ranges.len() as u64) as usize;
                let range = self.ranges.swap_remove(which);
                self.allocator.free_contig(CpuId(cpu), range, &mut ()).unwrap();
                self.shadow.blocks.retain(|&pfn, _| !range.contains(Pfn(pfn)));
            }
            11 => self.plug(cpu),
            _ => {}
        }
    }

    fn free_some(&mut self, cpu: usize) {
        for _ in 0..self.random.below(25) {
            let at = self.random.below(1 << 20);
            let found = self.shadow.blocks.range(at % 8192..).next();
            let in_range = |pfn: u64| self.ranges.iter().any(|r| r.contains(Pfn(pfn)));
            let Some((&pfn, &(order, _))) = found.filter(|(p, _)| !in_range(**p)) else { continue };
            self.allocator.free_bulk(CpuId(cpu), &[Pfn(pfn)], order, &mut ()).unwrap();
            self.shadow.blocks.remove(&pfn);
        }
    }

    fn contig(&mut self, cpu: usize) {
        let max = self.allocator.geometry().max_order;
        self.shadow.failures = u32::from(self.random.below(6) == 0);
        let range = self.range(300);
        let (allocator, shadow) = (&mut *self.allocator, &mut self.shadow);
        let got = if self.random.below(2) == 0 {
            let got = allocator.alloc_contig_range(CpuId(cpu), range, shadow, &mut ());
            got.map(|()| range)
        } else {
            let align = 1 << self.random.below(7);
            let request = Request::new(0, MOVABLE);
            let got =
                allocator.alloc_contig(CpuId(cpu), range.len(), align, &request, shadow, &mut ());
            got.inspect(|got| assert_eq!((got.len(), got.start.0 % align), (range.len(), 0)))
        };
        self.shadow.failures = 0;
        if let Ok(range) = got {
            self.shadow.add_range(range, max);
            self.ranges.push(range);
        }
    }

    fn plug(&mut self, cpu: usize) {
        if let Some(range) = self.offline.pop() {
            self.allocator.mark_holes(range).unwrap();
            assert!(self.allocator.online(range).is_err());
            self.allocator.fill_holes(range).unwrap();
            self.allocator.online(range).unwrap();
            return;
        }
        let block = self.allocator.geometry().pageblock_order;
        let start = self.range(1).start.align_down(block);
        let range = FrameRange { start, end: start.plus(pages(block)) };
        let managed =
            self.allocator.zones().iter().map(pageblock::zone::Zone::managed).sum::<u64>();
        let result = self.allocator.offline(CpuId(cpu), range, &mut self.shadow, &mut ());
        let now = self.allocator.zones().iter().map(pageblock::zone::Zone::managed).sum::<u64>();
        assert_eq!(managed - now, if result.is_ok() { range.len() } else { 0 });
        self.offline.extend(result.is_ok().then_some(range));
    }
}

#[test]
fn ranges_never_overlap_and_always_come_back() {
    let geometries = [(9, 10), (3, 4), (4, 3), (3, 6)];
    let (mut ranges, mut moves, mut offline) = (0, 0, 0);
    for (seed, preset) in (0u64..).zip(PRESETS.iter().flat_map(|p| [p, p])) {
        let mut policy = preset.policy;
        if seed % 2 == 1 && policy.allows_packed() {
            policy.placement = pageblock::policy::Placement::Packed;
        }
        policy.min_free_kbytes = 8;
        for (pageblock_order, max_order) in geometries {
            let geometry = Geometry { pageblock_order, max_order, ..Geometry::default() };
            with_machine(policy, geometry, |allocator| {
                let free = allocator.zones().iter().map(Zone::free_pages).sum::<u64>();
                let random = Random(seed);
                let (held, gone) = (Vec::new(), Vec::new());
                let shadow = Shadow::default();
                let mut drive = Drive { allocator, shadow, random, ranges: held, offline: gone };
                for _ in 0..120 {
                    drive.step();
                    compare(drive.allocator, &drive.shadow);
                    ranges += usize::from(!drive.ranges.is_empty());
                }
                moves += drive.shadow.moves;
                offline += drive.offline.len();
                drive.offline.drain(..).for_each(|r| drive.allocator.online(r).unwrap());
                for (pfn, (order, _)) in drive.shadow.blocks {
                    drive.allocator.free(CpuId(0), Pfn(pfn), order, &mut ()).unwrap();
                }
                drive.allocator.drain_all(&mut ());
                drive.allocator.check().unwrap();
                let now = drive.allocator.zones().iter().map(Zone::free_pages).sum::<u64>();
                assert_eq!(now, free, "{} {geometry:?}", preset.name);
                let blocks = drive.allocator.zones().iter().flat_map(Zone::pageblocks);
                assert!(blocks.into_iter().all(|(_, mt, _)| mt != Migratetype::Isolate));
            });
        }
    }
    assert!(ranges > 1000 && moves > 1000 && offline > 20, "{ranges} {moves} {offline}");
}

#[test]
fn holes_that_the_setup_left_out_are_counted_once() {
    // 4096 frames; 1024 of them are holes.
    let zones =
        [ZoneSpec { present: 3072, managed: 3072, ..zone_spec(0, ZoneKind::Normal, 0, 4096) }];
    let setup = Setup::new(policy("linux-6.12"), &zones, &[NodeId(0)]);
    let mut memory = vec![MaybeUninit::uninit(); setup.metadata_size().unwrap()];
    let mut allocator = Allocator::new(&mut memory, &setup).unwrap();
    let present = |allocator: &Allocator<'_>| allocator.zones()[0].present();
    allocator.release(FrameRange::new(0, 2048)).unwrap();
    allocator.offline(CpuId(0), FrameRange::new(512, 1024), &mut (), &mut ()).unwrap();
    // Offline frames are memory, not holes.
    allocator.mark_holes(FrameRange::new(512, 1024)).unwrap();
    assert_eq!(present(&allocator), 2560);
    allocator.mark_holes(FrameRange::new(3072, 4096)).unwrap();
    assert_eq!(present(&allocator), 2560, "the setup left them out already");
    allocator.mark_holes(FrameRange::new(2560, 3072)).unwrap();
    assert_eq!(present(&allocator), 2048);
    allocator.fill_holes(FrameRange::new(3072, 4096)).unwrap();
    assert_eq!(present(&allocator), 3072, "memory that was not there before");
    allocator.online(FrameRange::new(3072, 4096)).unwrap();
    allocator.mark_holes(FrameRange::new(2048, 2560)).unwrap();
    assert_eq!(present(&allocator), 2560);
    allocator.check().unwrap();
}

/// Up to 6.12 a block of two pageblocks is isolated as a whole for one of them; the other half is free
/// memory as before when that one has been had.
#[test]
fn rest_of_an_isolated_block_stays_free_memory() {
    for preset in ["linux-6.6", "linux-6.10", "linux-6.12", "linux-6.18"] {
        with_machine(policy(preset), Geometry::default(), |allocator| {
            let request = Request::new(10, Gfp::GFP_KERNEL);
            let block = allocator.alloc(CpuId(0), &request, &mut ()).unwrap();
            let mut shadow = Shadow::default();
            shadow.add(block, 10, true);
            let free = |allocator: &Allocator<'_>| {
                allocator.zones().iter().map(Zone::free_pages).sum::<u64>()
            };
            let before = free(allocator);
            let half = FrameRange { start: block, end: block.plus(512) };
            allocator.alloc_contig_range(CpuId(0), half, &mut shadow, &mut ()).unwrap();
            allocator.check().unwrap();
            assert_eq!(free(allocator), before - 512, "{preset}");
            allocator.free_contig(CpuId(0), half, &mut ()).unwrap();
        });
    }
}

#[test]
fn every_mistake_has_its_error_and_changes_nothing() {
    with_machine(policy("linux-6.12"), Geometry::default(), |allocator| {
        let request = Request::new(2, Gfp::GFP_KERNEL);
        let used = allocator.alloc(CpuId(0), &request, &mut ()).unwrap();
        let mut shadow = Shadow::default();
        shadow.add(used, 2, false);
        let span = allocator.zones()[1].span();
        let range = |start: u64, end: u64| FrameRange::new(start, end);
        let of_used = FrameRange { start: used, end: used.plus(1) };

        let contig = [
            (range(9, 9), ContigError::Empty),
            (range(0, 4), ContigError::Foreign(Pfn(0))),
            (range(span.start.0 - 1, span.start.0 + 1), ContigError::SpansZones(span.start)),
            (of_used, ContigError::Unmovable(used)),
            (range(span.start.0, span.start.0 + 2), ContigError::CutPageblock(span.start)),
        ];
        for (range, expect) in contig {
            let got = allocator.alloc_contig_range(CpuId(0), range, &mut shadow, &mut ());
            assert_eq!(got, Err(expect));
        }
        let whole = range(4096, 4608);
        let got = allocator.alloc_contig_range(CpuId(7), whole, &mut shadow, &mut ());
        assert_eq!(got, Err(ContigError::NoSuchCpu(CpuId(7))));
        let mut of = |pages, align| {
            allocator.alloc_contig(CpuId(0), pages, align, &request, &mut shadow, &mut ())
        };
        assert_eq!(of(0, 1), Err(ContigError::Empty));
        assert_eq!(of(4, 3), Err(ContigError::Alignment(3)));
        assert_eq!(of(1 << 40, 1), Err(ContigError::NotFound));
        assert_eq!(
            allocator.free_contig(CpuId(0), of_used, &mut ()),
            Err(ContigError::NotContiguous(FrameError::WrongOrder(used, 2)))
        );

        let single = Request::new(0, Gfp::GFP_KERNEL);
        let mut at = |pfn, request| allocator.alloc_at(CpuId(0), pfn, &request, &mut ());
        assert_eq!(at(used, single), Err(FrameError::NotFree(used).into()));
        assert_eq!(at(Pfn(4097), request), Err(FrameError::Misaligned(Pfn(4097), 2).into()));
        assert_eq!(at(Pfn(0), single), Err(FrameError::Foreign(Pfn(0)).into()));
        let dma32 = Request::new(0, Gfp::DMA32);
        assert_eq!(at(Pfn(4096), dma32), Err(ExactError::ZoneNotAllowed(Pfn(4096))));
        let within = allocator.alloc_within(CpuId(0), range(5, 5), &single, &mut ());
        assert_eq!(within, Err(ExactError::EmptyRange(range(5, 5))));
        let below = allocator.alloc_below(CpuId(0), Pfn(100), &single, &mut ());
        assert_eq!(below, Err(AllocError::NoMemory.into()));

        let offline = allocator.offline(CpuId(0), range(4096, 4100), &mut shadow, &mut ());
        assert_eq!(offline, Err(ContigError::Misaligned(range(4096, 4100))));
        let online = allocator.online(whole).unwrap_err();
        assert!(matches!(online, ContigError::WrongState(Pfn(4096), _)), "{online:?}");
        let (zone, _) = allocator.zone_and_cache(ZoneIndex(1), CpuId(0)).unwrap();
        zone.isolate_block(Pfn(4096), &mut ()).unwrap();
        let got = allocator.alloc_contig_range(CpuId(0), whole, &mut shadow, &mut ());
        assert_eq!(got, Err(ContigError::Isolated(Pfn(4096))));
        let (zone, _) = allocator.zone_and_cache(ZoneIndex(1), CpuId(0)).unwrap();
        zone.unisolate_block(Pfn(4096), None, &mut ()).unwrap();

        let error = FrameError::NotAllocated(used.plus(1));
        let twice = allocator.free_bulk(CpuId(0), &[used, used.plus(1)], 2, &mut ());
        assert_eq!(twice, Err(BulkError { freed: 1, error }));
        shadow.blocks.clear();
        compare(allocator, &shadow);
    });
}

#[test]
fn limits_and_places_are_kept() {
    with_machine(policy("linux-6.12"), Geometry::default(), |allocator| {
        let request = Request::new(3, Gfp::GFP_KERNEL);
        let low = allocator.alloc_below(CpuId(0), Pfn(600), &request, &mut ()).unwrap();
        assert_eq!(low, Pfn(256));
        let next = allocator.alloc_below(CpuId(0), Pfn(600), &request, &mut ()).unwrap();
        assert_eq!(next, Pfn(264));
        allocator.alloc_at(CpuId(1), Pfn(5128), &request, &mut ()).unwrap();
        let zone = &allocator.zones()[1];
        assert_eq!(zone.state(Pfn(5128)), Some(FrameState::Allocated { order: 3, movable: false }));
        assert_eq!(zone.free_block_of(Pfn(5120)).map(|b| b.1), Some(3));
        allocator.check().unwrap();
    });
}

#[test]
fn a_request_says_what_it_cost() {
    with_machine(policy("linux-6.12"), Geometry::default(), |allocator| {
        let request = Request::new(0, Gfp::GFP_KERNEL);
        let (got, first) = allocator.alloc_with_stats(CpuId(0), &request, None, &mut ());
        assert!(got.is_ok());
        assert_eq!(
            (first.zone, first.fallbacks),
            (Some(ZoneIndex(1)), 1),
            "all pageblocks are movable"
        );
        assert!(first.pages_from_zones >= 1 && first.locks >= 1, "{first:?}");
        let pfn = got.unwrap();
        allocator.free(CpuId(0), pfn, 0, &mut ()).unwrap();
        let (_, second) = allocator.alloc_with_stats(CpuId(0), &request, None, &mut ());
        assert_eq!((second.pages_from_zones, second.locks, second.fallbacks), (0, 0, 0));
        let far = Request { nodemask: 0, ..request };
        let (failed, stats) = allocator.alloc_with_stats(CpuId(0), &far, None, &mut ());
        assert_eq!((failed, stats.zone), (Err(AllocError::NoMemory), None));
    });
}

#[test]
fn a_cpu_of_a_shared_allocator_can_do_it_too() {
    let zones = [zone_spec(0, ZoneKind::Normal, 0, 1 << 14)];
    let policy = policy("linux-6.12,placement=packed");
    let geometry = Geometry::default();
    let setup = Setup { geometry, ..Setup::new(policy, &zones, &[NodeId(0), NodeId(0)]) };
    let mut memory = table_memory(&setup);
    let mut allocator = Allocator::new(&mut memory, &setup).unwrap();
    allocator.release(zones[0].span).unwrap();
    let free = allocator.zones()[0].free_pages();
    let mut locks = vec![MaybeUninit::uninit(); allocator.sharing_size::<ParkingLot>()];
    let shared = allocator.share::<ParkingLot, ()>(&mut locks).unwrap();
    let (mut one, mut two) = (shared.cpu(CpuId(0)).unwrap(), shared.cpu(CpuId(1)).unwrap());
    let request = Request::new(1, MOVABLE);
    let mut blocks = [Pfn(0); 100];
    assert_eq!(one.alloc_bulk(&request, &mut blocks, &mut ()), Ok(100));
    one.alloc_at(Pfn(0x3000), &request, &mut ()).unwrap();
    let low = one.alloc_within(FrameRange::new(0x2000, 0x2100), &request, &mut ()).unwrap();
    assert_eq!(low, Pfn(0x2000));
    two.free_bulk(&blocks, 1, &mut ()).unwrap();
    two.free_bulk(&[low, Pfn(0x3000)], 1, &mut ()).unwrap();
    drop((one, two));
    let mut allocator = shared.into_owned().unwrap();
    allocator.drain_all(&mut ());
    allocator.check().unwrap();
    assert_eq!(allocator.zones()[0].free_pages(), free);
}
