//! Memory that comes and goes while CPUs have their handles and work.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use pageblock::FrameState;
use pageblock::alloc::Allocator;
use pageblock::contig::{ContigError, Migrate};
use pageblock::cpu::Cpu;
use pageblock::cpu_cache::CacheLimits;
use pageblock::frame::{FrameRange, Order, Pfn};
use pageblock::ids::{CpuId, NodeId, ZoneIndex};
use pageblock::layout::ZoneKind;
use pageblock::request::{Gfp, Request};
use pageblock::setup::Setup;
use pageblock::sharing::Shared;
use pageblock::zone::Zone;

use crate::emptying::{Content, FRAMES, work};
use crate::machine::{ParkingLot, policy, table_memory, zone_spec};
use crate::sharing::{CPUS, share};

const MOVABLE: Request = Request::new(0, Gfp::GFP_HIGHUSER_MOVABLE);
/// The Normal zone's upper half.
const UPPER: FrameRange = FrameRange::new(FRAMES / 2, FRAMES);

/// Everything can be moved, and is counted.
#[derive(Default)]
struct Mover {
    moved: Vec<(Pfn, Pfn)>,
}

impl Migrate for Mover {
    fn is_movable(&mut self, _: Pfn, _: Order) -> bool {
        true
    }

    fn migrate(&mut self, from: Pfn, to: Pfn, _: Order) -> bool {
        self.moved.push((from, to));
        true
    }
}

/// What a change of memory changes of a zone.
fn numbers(zone: &Zone<'_>) -> impl PartialEq + std::fmt::Debug + use<> {
    let states: Vec<_> =
        (zone.span().start.0..zone.span().end.0).map(|n| zone.state(Pfn(n))).collect();
    let free = (zone.free_pages(), zone.managed(), zone.present());
    (free, zone.watermarks(), *zone.lowmem_reserve(), states)
}

/// The same machine as [`share`]'s, with one owner.
fn owned<'m>(preset: &str, memory: &'m mut Vec<MaybeUninit<u8>>) -> Allocator<'m> {
    let zones = [
        zone_spec(0, ZoneKind::Dma32, 0, FRAMES / 4),
        zone_spec(0, ZoneKind::Normal, FRAMES / 4, FRAMES),
    ];
    let setup = Setup::new(policy(preset), &zones, &[NodeId(0); CPUS]);
    *memory = table_memory(&setup);
    let mut allocator = Allocator::new(memory, &setup).unwrap();
    allocator.release(FrameRange::new(0, FRAMES)).unwrap();
    allocator.retune();
    allocator
}

#[test]
fn shared_memory_changes_as_an_owners() {
    for preset in [
        "linux-4.2",
        "linux-5.10",
        "linux-6.6",
        "linux-6.12,placement=packed",
        "linux-7.3,placement=packed",
    ] {
        let mut memory = Vec::new();
        let mut owned = owned(preset, &mut memory);
        share(preset, FRAMES, |shared| {
            let mut cpu = shared.cpu(CpuId(0)).unwrap();
            let mut blocks = Vec::new();
            for _ in 0..2000 {
                blocks.push(cpu.alloc(&MOVABLE, &mut ()).unwrap());
                assert_eq!(owned.alloc(CpuId(0), &MOVABLE, &mut ()), Ok(blocks[blocks.len() - 1]));
            }
            let same = |owned: &Allocator<'_>, step: &str| {
                for at in ZoneIndex::up_to(2) {
                    let theirs = shared.with_zone(at, |zone| numbers(zone)).unwrap();
                    assert!(
                        numbers(&owned.zones()[at.index()]) == theirs,
                        "{preset}: {step}, zone {at}"
                    );
                }
            };
            same(&owned, "at first");
            let start = blocks[0].align_down(10);
            let range = FrameRange { start, end: start.plus(1024) };
            let (mut mine, mut theirs) = (Mover::default(), Mover::default());
            owned.offline(CpuId(0), range, &mut mine, &mut ()).unwrap();
            cpu.offline(range, &mut theirs, &mut ()).unwrap();
            assert_eq!(mine.moved, theirs.moved);
            assert!(!mine.moved.is_empty());
            same(&owned, "offline");
            owned.mark_holes(range).unwrap();
            shared.mark_holes(range).unwrap();
            same(&owned, "holes");
            owned.fill_holes(range).unwrap();
            shared.fill_holes(range).unwrap();
            same(&owned, "filled");
            owned.online(range).unwrap();
            shared.online(range).unwrap();
            same(&owned, "online");
            cpu.attend(&mut ());
            for at in 0..2 {
                let limits = owned.cache(ZoneIndex(at), CpuId(0)).unwrap().limits();
                assert_eq!(cpu.cache(ZoneIndex(at)).unwrap().limits(), limits, "{preset}");
            }
            let place = |pfn: Pfn| {
                let moved = theirs.moved.iter().find(|(from, _)| *from == pfn);
                moved.map_or(pfn, |(_, to)| *to)
            };
            blocks.iter().for_each(|&pfn| cpu.free(place(pfn), 0, &mut ()).unwrap());
        });
    }
}

fn limits(cpu: &Cpu<'_, '_, ParkingLot, ()>) -> CacheLimits {
    cpu.cache(ZoneIndex(1)).unwrap().limits()
}

/// A CPU at work has new limits from its next call, one that nobody has when it is taken, or when the
/// sharing ends.
#[test]
fn cpus_take_new_limits_when_they_can() {
    share("linux-6.12", FRAMES, |shared| {
        let (mut cpu, mut other) = (shared.cpu(CpuId(0)).unwrap(), shared.cpu(CpuId(1)).unwrap());
        let before = limits(&cpu);
        cpu.offline(UPPER, &mut Waits(&mut other), &mut ()).unwrap();
        assert_eq!((limits(&cpu), limits(&other)), (before, before));
        let pfn = other.alloc(&MOVABLE, &mut ()).unwrap();
        let small = limits(&other);
        assert!(small.high_max < before.high_max, "{small:?}");
        other.free(pfn, 0, &mut ()).unwrap();
        let mut third = shared.cpu(CpuId(2)).unwrap();
        third.attend(&mut ());
        assert_eq!(limits(&third), small);
        shared.online(UPPER).unwrap();
        for cpu in [&mut cpu, &mut other, &mut third] {
            cpu.attend(&mut ());
            assert_eq!(limits(cpu), before);
        }
        // What a caller does to a zone, and then tunes.
        let managed = shared.with_zone(ZoneIndex(1), |zone| zone.managed()).unwrap() as i64;
        shared.with_zone(ZoneIndex(1), |zone| zone.adjust_managed(managed / 3 - managed)).unwrap();
        shared.retune();
        cpu.attend(&mut ());
        assert_eq!(limits(&cpu), small);
        shared.with_zone(ZoneIndex(1), |zone| zone.adjust_managed(managed - managed / 3)).unwrap();
        shared.retune();
    });
}

/// Lets another CPU do what it is asked for.
struct Waits<'a, 's, 'm>(&'a mut Cpu<'s, 'm, ParkingLot, ()>);

impl Migrate for Waits<'_, '_, '_> {
    fn is_movable(&mut self, _: Pfn, _: Order) -> bool {
        false
    }

    fn migrate(&mut self, _: Pfn, _: Pfn, _: Order) -> bool {
        false
    }

    fn wait_for(&mut self, cpu: CpuId) -> bool {
        assert_eq!(cpu, self.0.number());
        self.0.attend(&mut ());
        true
    }
}

#[test]
fn caches_have_the_last_limits_when_sharing_ends() {
    let (mut memory, mut locks) = (Vec::new(), vec![MaybeUninit::uninit(); 1 << 16]);
    let allocator = owned("linux-6.12", &mut memory);
    let before = allocator.cache(ZoneIndex(1), CpuId(3)).unwrap().limits();
    let shared: Shared<'_, ParkingLot> = allocator.share(&mut locks).unwrap();
    shared.cpu(CpuId(0)).unwrap().offline(UPPER, &mut (), &mut ()).unwrap();
    let mut allocator = shared.into_owned().unwrap();
    let after = |allocator: &Allocator<'_>| {
        [0, 1, 2, 3].map(|cpu| allocator.cache(ZoneIndex(1), CpuId(cpu)).unwrap().limits().high_max)
    };
    assert!(after(&allocator).into_iter().all(|high| high < before.high_max));
    let small = after(&allocator);
    allocator.retune();
    assert_eq!(after(&allocator), small);
    allocator.online(UPPER).unwrap();
    assert_eq!(after(&allocator), [before.high_max; CPUS]);
}

#[test]
fn mistakes_change_nothing() {
    share("linux-6.12", FRAMES, |shared| {
        let idle = shared.cpu(CpuId(2)).unwrap();
        let mut cpu = shared.cpu(CpuId(0)).unwrap();
        let before = shared.with_zone(ZoneIndex(1), |zone| numbers(zone)).unwrap();
        let range = FrameRange::new;
        let wrong = |got, at| {
            assert!(
                matches!(got, Err(ContigError::WrongState(pfn, _)) if pfn == Pfn(at)),
                "{got:?}"
            );
        };
        wrong(shared.online(UPPER), UPPER.start.0);
        wrong(shared.mark_holes(UPPER), UPPER.start.0);
        wrong(shared.fill_holes(UPPER), UPPER.start.0);
        assert_eq!(shared.online(range(7, 7)), Err(ContigError::Empty));
        assert_eq!(
            shared.online(range(FRAMES, FRAMES + 1)),
            Err(ContigError::Foreign(Pfn(FRAMES)))
        );
        let over = range(FRAMES / 4 - 512, FRAMES / 4 + 512);
        let end = Err(ContigError::SpansZones(Pfn(FRAMES / 4)));
        assert_eq!((shared.online(over), cpu.offline(over, &mut (), &mut ())), (end, end));
        let part = range(FRAMES / 2, FRAMES / 2 + 100);
        let misaligned = Err(ContigError::Misaligned(part));
        assert_eq!(cpu.offline(part, &mut (), &mut ()), misaligned);
        assert_eq!(cpu.offline(UPPER, &mut (), &mut ()), Err(ContigError::Busy(CpuId(2))));
        assert!(shared.with_zone(ZoneIndex(1), |zone| numbers(zone)) == Some(before));
        drop(idle);
        cpu.offline(UPPER, &mut (), &mut ()).unwrap();
        assert_eq!(
            cpu.offline(UPPER, &mut (), &mut ()),
            Err(ContigError::Reserved(UPPER.start)),
            "it is gone already"
        );
        shared.online(UPPER).unwrap();
    });
}

/// Takes pageblocks away and gives them back, until `rounds` have been tried. Gives how often it could.
fn plug(
    shared: &Shared<'_, ParkingLot>,
    cpu: usize,
    first: u64,
    blocks: u64,
    content: &Content,
    rounds: u64,
) -> u32 {
    let mut cpu = shared.cpu(CpuId(cpu)).unwrap();
    let mut had = 0;
    for n in 0..rounds {
        let start = first + n * 7 % blocks * 512;
        let range = FrameRange::new(start, (start + 512 * (1 + n % 3)).min(first + blocks * 512));
        match cpu.offline(range, &mut &*content, &mut ()) {
            Ok(()) => {}
            // A block was being freed, or memory is out: the next range may be had.
            Err(ContigError::NotMoved(_) | ContigError::NoTarget(_)) => continue,
            Err(ContigError::Contended(_)) => continue,
            Err(error) => panic!("{error}"),
        }
        had += 1;
        content.mark(range, 0, 3);
        let at = usize::from(first >= FRAMES / 4);
        let state = |zone: &Zone<'_>, pfn| zone.state(Pfn(pfn)) == Some(FrameState::Reserved);
        let gone = shared.with_zone(ZoneIndex::new(at), |z| {
            (range.start.0..range.end.0).all(|pfn| state(z, pfn))
        });
        assert_eq!(gone, Some(true));
        if n % 2 == 0 {
            shared.mark_holes(range).unwrap();
            shared.check_zones().unwrap();
            shared.fill_holes(range).unwrap();
        }
        shared.check_zones().unwrap();
        content.mark(range, 3, 0);
        shared.online(range).unwrap();
        cpu.attend(&mut ());
    }
    cpu.check().unwrap();
    had
}

/// Two CPUs allocate and free while two others take memory away and bring it back, some of it of the
/// same zone. `share` proves at the end that every frame is free, once.
#[test]
fn memory_comes_and_goes_while_others_allocate_and_free() {
    for preset in [
        "linux-4.2",
        "linux-6.6",
        "linux-6.12",
        "linux-6.12,placement=packed",
        "linux-7.3,placement=packed",
    ] {
        share(preset, FRAMES, |shared| {
            let content = Content::new();
            let end = AtomicBool::new(false);
            let [low, high] = std::thread::scope(|scope| {
                for n in 1..CPUS - 1 {
                    let cpu = shared.cpu(CpuId(n)).unwrap();
                    let (content, end) = (&content, &end);
                    scope.spawn(move || work(cpu, content, end));
                }
                let plugger = |cpu, first, blocks| {
                    let content = &content;
                    scope.spawn(move || plug(shared, cpu, first, blocks, content, 60))
                };
                let both = [plugger(0, FRAMES / 4, 10), plugger(3, FRAMES / 2 + 2048, 12)];
                let had = both.map(|plugger| plugger.join().unwrap());
                end.store(true, Relaxed);
                had
            });
            assert!(low > 5 && high > 5, "{preset}: {low} and {high} of 60");
            let mut cpu = shared.cpu(CpuId(1)).unwrap();
            while let Some((pfn, order)) = content.remove(0) {
                cpu.free(pfn, order, &mut ()).unwrap();
            }
            drop(cpu);
            for (at, pages) in [(0, FRAMES / 4), (1, FRAMES / 4 * 3)] {
                let sizes =
                    shared.with_zone(ZoneIndex(at), |zone| (zone.managed(), zone.present()));
                assert_eq!(sizes, Some((pages, pages)));
            }
        });
    }
}
