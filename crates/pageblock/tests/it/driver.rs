//! Drives a shared allocator by arbitrary bytes, mistakes included, beside a shadow model. The fuzz
//! target runs it too (`crates/pageblock/fuzz`).

use std::collections::BTreeMap;
use std::mem::MaybeUninit;

use pageblock::alloc::{AllocError, Allocator};
use pageblock::contig::{ContigError, Migrate};
use pageblock::cpu::Cpu;
use pageblock::frame::{FrameRange, Order, Pfn};
use pageblock::ids::{CpuId, NodeId};
use pageblock::layout::{ZoneKind, ZoneSpec};
use pageblock::policy::{Placement, Policy};
use pageblock::preset::PRESETS;
use pageblock::request::{Gfp, Request};
use pageblock::setup::Setup;
use pageblock::sharing::{DrainRequest, Shared};
use pageblock::zone::{FrameError, Geometry};

use crate::hostile::Hostile;

pageblock::locks! {
    /// The locks of zones.
    struct ParkingLot = parking_lot::Mutex<T>, parking_lot::MutexGuard<'a, T>;
}

const CPUS: usize = 3;
/// Frames of each of the two zones; the last 100 of the first are never handed over.
const ZONE: u64 = 2048;
const RESERVED: u64 = 100;
/// Frames of a pageblock.
const BLOCK: u64 = 1 << 6;

/// Bytes to decide by; zeros when they are used up.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn next(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    fn wide(&mut self) -> u64 {
        u64::from(self.next()) << 8 | u64::from(self.next())
    }
}

/// The blocks in use, the memory that is offline, and what was asked of CPUs.
#[derive(Default)]
struct Shadow {
    used: BTreeMap<u64, Order>,
    gone: Vec<FrameRange>,
    asked: Vec<DrainRequest>,
    hostile: Hostile,
}

impl Shadow {
    /// Takes a block for used that must not touch another.
    fn take(&mut self, pfn: Pfn, order: Order) {
        let end = pfn.0 + (1 << order);
        if let Some((&before, &size)) = self.used.range(..end).next_back() {
            assert!(before + (1 << size) <= pfn.0, "{pfn} is in use as part of {before}");
        }
        let reserved = ZONE - RESERVED..ZONE;
        assert!(pfn.is_aligned(order) && end <= 2 * ZONE);
        assert!(end <= reserved.start || pfn.0 >= reserved.end, "{pfn} is reserved");
        let gone = |range: &FrameRange| range.start.0 < end && pfn < range.end;
        assert!(!self.gone.iter().any(gone), "{pfn} is offline");
        self.used.insert(pfn.0, order);
    }

    /// What a free must answer.
    fn free(&mut self, pfn: Pfn, order: Order) -> Result<(), FrameError> {
        match self.used.get(&pfn.0) {
            Some(&size) if size == order => {
                self.used.remove(&pfn.0);
                Ok(())
            }
            Some(&size) => Err(FrameError::WrongOrder(pfn, size)),
            None if pfn.0 >= 2 * ZONE => Err(FrameError::Foreign(pfn)),
            None => Err(FrameError::NotAllocated(pfn)),
        }
    }

    /// A frame to free: mostly one in use.
    fn pick(&self, bytes: &mut Bytes<'_>) -> (Pfn, Order) {
        let (wild, which) = (bytes.next(), bytes.wide());
        if wild >= 240 || self.used.is_empty() {
            return (Pfn(which % (2 * ZONE + 64)), wild % 13);
        }
        let (&pfn, &order) = self.used.iter().nth(which as usize % self.used.len()).unwrap();
        (Pfn(pfn), if wild >= 230 { wild % 17 } else { order })
    }
}

/// Runs the calls that `data` says, half of all data beside a policy that answers at random; returns their number.
pub(crate) fn drive(data: &[u8]) -> u64 {
    let mut bytes = Bytes(data);
    let (preset, packed) = (usize::from(bytes.next()), bytes.next() % 2 == 1);
    let open = PRESETS.iter().filter(|preset| !packed || preset.policy.allows_packed());
    let mut policy = open.clone().nth(preset % open.count()).unwrap().policy;
    if packed {
        policy.placement = Placement::Packed;
    }
    let hostile = bytes.next();
    let random = if hostile % 2 == 1 { u64::from(hostile) << 32 | 0x2545_f491 } else { 0 };
    let mut calls = 0;
    with_shared(policy, |shared| {
        let hostile = Hostile { random, ..Hostile::default() };
        let mut shadow = Shadow { hostile, ..Shadow::default() };
        let mut cpus: Vec<_> = (0..CPUS).map(|cpu| shared.cpu(CpuId(cpu)).ok()).collect();
        while !bytes.0.is_empty() {
            step(shared, &mut cpus, &mut shadow, &mut bytes);
            calls += 1;
        }
        shared.check_zones().unwrap();
        shadow.gone.drain(..).for_each(|range| shared.online(range).unwrap());
        let cpu = cpus.iter_mut().flatten().next();
        let mut last = None;
        let cpu = cpu.unwrap_or_else(|| last.insert(shared.cpu(CpuId(0)).unwrap()));
        for (pfn, order) in std::mem::take(&mut shadow.used) {
            cpu.free(Pfn(pfn), order, &mut shadow.hostile).unwrap();
            calls += 1;
        }
    });
    calls
}

fn with_shared(policy: Policy, test: impl FnOnce(&Shared<'_, ParkingLot>)) {
    let zone = |kind, start| {
        let span = FrameRange::new(start, start + ZONE);
        ZoneSpec::full(NodeId(0), kind, span)
    };
    let zones = [zone(ZoneKind::Dma32, 0), zone(ZoneKind::Normal, ZONE)];
    let setup = Setup {
        geometry: Geometry { pageblock_order: 6, max_order: 7, ..Geometry::default() },
        ..Setup::new(policy, &zones, &[NodeId(0); CPUS])
    };
    let mut memory = vec![MaybeUninit::uninit(); setup.metadata_size().unwrap()];
    let mut allocator = Allocator::new(&mut memory, &setup).unwrap();
    allocator.release(FrameRange::new(0, ZONE - RESERVED)).unwrap();
    allocator.release(FrameRange::new(ZONE, 2 * ZONE)).unwrap();
    allocator.retune();
    let mut locks = vec![MaybeUninit::uninit(); allocator.sharing_size::<ParkingLot>()];
    let shared = allocator.share(&mut locks).unwrap();
    test(&shared);
    let mut allocator = shared.into_owned().unwrap();
    allocator.drain_all(&mut ());
    allocator.check().unwrap();
    let free: u64 = allocator.zones().iter().map(pageblock::zone::Zone::free_pages).sum();
    assert_eq!(free, 2 * ZONE - RESERVED, "every frame is free");
}

fn step<'s, 'm>(
    shared: &'s Shared<'m, ParkingLot>,
    cpus: &mut [Option<Cpu<'s, 'm, ParkingLot, ()>>],
    shadow: &mut Shadow,
    bytes: &mut Bytes<'_>,
) {
    let (call, at) = (bytes.next(), usize::from(bytes.next()) % CPUS);
    let Some(cpu) = &mut cpus[at] else {
        cpus[at] = Some(shared.cpu(CpuId(at)).unwrap());
        return;
    };
    match call % 16 {
        0..=6 => {
            let (order, gfp) = (bytes.next() % 9, bytes.next());
            let gfps = [
                Gfp::GFP_KERNEL,
                Gfp::GFP_HIGHUSER_MOVABLE,
                Gfp::GFP_ATOMIC,
                Gfp::DMA32,
                Gfp::GFP_KERNEL | Gfp::RECLAIMABLE,
                Gfp::MOVABLE | Gfp::RECLAIMABLE,
            ];
            let gfp = gfps[usize::from(gfp) % gfps.len()];
            match cpu.alloc(&Request::new(order, gfp), &mut shadow.hostile) {
                Ok(pfn) => shadow.take(pfn, order),
                Err(AllocError::OrderTooLarge(8)) => assert_eq!(order, 8),
                Err(AllocError::ConflictingMobility(_)) => assert_eq!(gfp.migratetype(), None),
                Err(error) => assert_eq!(error, AllocError::NoMemory),
            }
        }
        7..=11 => {
            let (pfn, order) = shadow.pick(bytes);
            assert_eq!(cpu.free(pfn, order, &mut shadow.hostile), shadow.free(pfn, order));
        }
        12 => cpu.vmstat_tick(&mut shadow.hostile),
        13 => shadow.asked.extend(shared.request_drain(CpuId(at))),
        14 => {
            cpus[at] = None;
            shadow.asked.retain(|&request| !shared.is_drained(request));
        }
        _ if call < 128 => {
            cpu.check().unwrap();
            shared.drain_all();
        }
        _ => plug(shared, cpus, at, shadow, bytes),
    }
}

/// Moves blocks of the shadow, and lets CPUs do what they are asked for.
struct Mover<'a, 's, 'm> {
    cpus: &'a mut [Option<Cpu<'s, 'm, ParkingLot, ()>>],
    shadow: &'a mut Shadow,
    movable: bool,
}

impl Migrate for Mover<'_, '_, '_> {
    fn is_movable(&mut self, block: Pfn, order: Order) -> bool {
        assert_eq!(self.shadow.used.get(&block.0), Some(&order));
        self.movable
    }

    fn migrate(&mut self, from: Pfn, to: Pfn, order: Order) -> bool {
        assert_eq!(self.shadow.used.remove(&from.0), Some(order));
        self.shadow.take(to, order);
        true
    }

    fn wait_for(&mut self, cpu: CpuId) -> bool {
        self.cpus[cpu.index()].as_mut().unwrap().attend(&mut self.shadow.hostile);
        true
    }
}

/// Takes a pageblock away, or brings the last one back.
fn plug<'s, 'm>(
    shared: &'s Shared<'m, ParkingLot>,
    cpus: &mut [Option<Cpu<'s, 'm, ParkingLot, ()>>],
    at: usize,
    shadow: &mut Shadow,
    bytes: &mut Bytes<'_>,
) {
    let (what, block) = (bytes.next(), bytes.wide() % (2 * ZONE / BLOCK));
    if what < 128
        && let Some(range) = shadow.gone.pop()
    {
        if what % 2 == 0 {
            shared.mark_holes(range).unwrap();
            assert!(shared.online(range).is_err());
            shared.fill_holes(range).unwrap();
        }
        return shared.online(range).unwrap();
    }
    let range = FrameRange::new(block * BLOCK, (block + 1) * BLOCK);
    let Some(mut cpu) = cpus[at].take() else { return };
    let movable = what % 4 != 0;
    let done = cpu.offline(range, &mut Mover { cpus, shadow, movable }, &mut ());
    cpus[at] = Some(cpu);
    match done {
        Ok(()) => shadow.gone.push(range),
        Err(ContigError::Reserved(pfn)) => {
            let gone = shadow.gone.iter().any(|range| range.contains(pfn));
            assert!(gone || (ZONE - RESERVED..ZONE).contains(&pfn.0));
        }
        Err(ContigError::Unmovable(_)) => assert!(!movable),
        Err(error) => assert!(matches!(error, ContigError::NoTarget(_)), "{error}"),
    }
}

#[cfg(test)]
#[test]
fn arbitrary_calls_agree_with_the_shadow() {
    let mut random = 0x2545_f491_4f6c_dd1du64;
    for _ in 0..300 {
        let data: Vec<u8> = (0..1500)
            .map(|_| {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                (random >> 32) as u8
            })
            .collect();
        drive(&data);
    }
}
