//! Contiguous ranges while other CPUs work.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};

use pageblock::contig::{ContigError, Migrate};
use pageblock::cpu::Cpu;
use pageblock::frame::{FrameRange, Order, Pfn};
use pageblock::ids::CpuId;
use pageblock::request::{Gfp, Request};

use crate::machine::ParkingLot;
use crate::sharing::{CPUS, share};

pub(crate) const FRAMES: u64 = 1 << 14;

/// The blocks that are in use, and a mark for each of their frames.
pub(crate) struct Content {
    blocks: Mutex<BTreeMap<u64, Order>>,
    used: Vec<AtomicU8>,
}

impl Content {
    pub(crate) fn new() -> Self {
        let used = (0..FRAMES).map(|_| AtomicU8::new(0)).collect();
        Self { blocks: Mutex::default(), used }
    }

    pub(crate) fn mark(&self, frames: FrameRange, from: u8, to: u8) {
        for frame in frames.start.0..frames.end.0 {
            assert_eq!(self.used[frame as usize].swap(to, Relaxed), from, "frame {frame}");
        }
    }

    pub(crate) fn add(&self, pfn: Pfn, order: Order) {
        self.mark(block(pfn, order), 0, 1);
        assert_eq!(self.blocks.lock().unwrap().insert(pfn.0, order), None);
    }

    /// Takes a block at or after a frame, to be freed: it is not moved any more.
    pub(crate) fn remove(&self, from: u64) -> Option<(Pfn, Order)> {
        let mut blocks = self.blocks.lock().unwrap();
        let (&pfn, &order) = blocks.range(from..).next()?;
        blocks.remove(&pfn);
        drop(blocks);
        self.mark(block(Pfn(pfn), order), 1, 0);
        Some((Pfn(pfn), order))
    }
}

fn block(pfn: Pfn, order: Order) -> FrameRange {
    FrameRange { start: pfn, end: pfn.plus(1 << order) }
}

impl Migrate for &Content {
    fn is_movable(&mut self, _: Pfn, _: Order) -> bool {
        true
    }

    fn migrate(&mut self, from: Pfn, to: Pfn, order: Order) -> bool {
        let mut blocks = self.blocks.lock().unwrap();
        if blocks.remove(&from.0).is_none() {
            return false;
        }
        assert_eq!(blocks.insert(to.0, order), None);
        self.mark(block(to, order), 0, 1);
        self.mark(block(from, order), 1, 0);
        true
    }

    fn wait_for(&mut self, _: CpuId) -> bool {
        std::thread::yield_now();
        true
    }
}

/// Takes and frees blocks until the end.
pub(crate) fn work(mut cpu: Cpu<'_, '_, ParkingLot, ()>, content: &Content, end: &AtomicBool) {
    let mut random = cpu.number().index() as u64 + 1;
    while !end.load(Relaxed) {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let order = [0, 0, 0, 1, 3, 5, 9][(random >> 33) as usize % 7];
        if random >> 62 < 2 {
            let request = Request::new(order, Gfp::GFP_HIGHUSER_MOVABLE);
            if let Ok(pfn) = cpu.alloc(&request, &mut ()) {
                content.add(pfn, order);
            }
        } else if let Some((pfn, order)) = content.remove((random >> 20) % FRAMES) {
            cpu.free(pfn, order, &mut ()).unwrap();
        }
        cpu.attend(&mut ());
    }
    cpu.check().unwrap();
}

#[test]
fn ranges_are_had_while_others_allocate_and_free() {
    for preset in [
        "linux-4.4",
        "linux-6.6",
        "linux-6.12",
        "linux-6.12,placement=packed",
        "linux-7.3,placement=packed",
    ] {
        share(preset, FRAMES, |shared| {
            let content = Content::new();
            let end = AtomicBool::new(false);
            let mut had = 0;
            std::thread::scope(|scope| {
                for n in 1..CPUS - 1 {
                    let cpu = shared.cpu(CpuId(n)).unwrap();
                    let (content, end) = (&content, &end);
                    scope.spawn(move || work(cpu, content, end));
                }
                let mut cpu = shared.cpu(CpuId(0)).unwrap();
                for n in 0..60u64 {
                    let start = FRAMES / 4 + n * 97 % (FRAMES / 2);
                    let range = FrameRange::new(start, start + 50 + n * 13);
                    match cpu.alloc_contig_range(range, &mut &content, &mut ()) {
                        Ok(()) => {
                            content.mark(range, 0, 2);
                            had += 1;
                            shared.check_zones().unwrap();
                            content.mark(range, 2, 0);
                            cpu.free_contig(range, &mut ()).unwrap();
                        }
                        // A block was being freed, or memory is out: the next range may be had.
                        Err(ContigError::NotMoved(_) | ContigError::NoTarget(_)) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
                end.store(true, Relaxed);
            });
            assert!(had > 10, "{preset}: {had} of 60");
            let mut cpu = shared.cpu(CpuId(1)).unwrap();
            while let Some((pfn, order)) = content.remove(0) {
                cpu.free(pfn, order, &mut ()).unwrap();
            }
        });
    }
}

#[test]
fn cpu_that_does_not_answer_is_named() {
    share("linux-6.12", FRAMES, |shared| {
        let idle = shared.cpu(CpuId(2)).unwrap();
        let mut cpu = shared.cpu(CpuId(0)).unwrap();
        let range = FrameRange::new(FRAMES / 2, FRAMES / 2 + 100);
        let got = cpu.alloc_contig_range(range, &mut (), &mut ());
        assert_eq!(got, Err(ContigError::Busy(CpuId(2))));
        drop(idle);
        cpu.alloc_contig_range(range, &mut (), &mut ()).unwrap();
        let request = Request::new(0, Gfp::GFP_KERNEL);
        let found = cpu.alloc_contig(700, 512, &request, &mut (), &mut ()).unwrap();
        assert_eq!((found.len(), found.start.0 % 512), (700, 0));
        for range in [range, found] {
            cpu.free_contig(range, &mut ()).unwrap();
            assert!(cpu.free_contig(range, &mut ()).is_err());
        }
    });
}
