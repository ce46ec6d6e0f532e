//! Two CPUs that give each other blocks to free.

use core::sync::atomic::{AtomicU64, Ordering};

use pageblock::alloc::AllocError;
use pageblock::cpu::Cpu;
use pageblock::frame::Order;
use pageblock::ids::CpuId;
use pageblock::request::{Gfp, Request};

use crate::block::Block;
use crate::cpu_flags::CpuFlags;
use crate::println;
use crate::self_check::Frames;
use crate::smp::CPUS;
use crate::spin_lock::SpinLocks;

/// So many blocks may wait for the other CPU: as much as 256 MiB have room for, so that requests fail too.
const SLOTS: usize = 8192;
const STEPS: u32 = 200_000;
/// After so many steps a CPU has the other's caches emptied, and the zones verified.
const STEPS_TO_CHECK: u32 = 50_000;
const LARGEST: Order = 10;

const KINDS: [Gfp; 4] = [
    Gfp::GFP_KERNEL,
    Gfp::GFP_HIGHUSER_MOVABLE,
    Gfp(Gfp::GFP_KERNEL.0 | Gfp::RECLAIMABLE.0),
    Gfp(Gfp::GFP_KERNEL.0 | Gfp::DMA32.0),
];

/// The blocks on their way, as words: from CPU n in row n, where only it puts and only the other takes.
static MAIL: [[AtomicU64; SLOTS]; CPUS] = [const { [const { AtomicU64::new(0) }; SLOTS] }; CPUS];

/// A run of both CPUs.
pub struct Exchange<'s> {
    shared: &'s Frames,
}

impl<'s> Exchange<'s> {
    /// A run on an allocator.
    pub fn new(shared: &'s Frames) -> Self {
        Self { shared }
    }

    /// What one CPU does.
    pub fn run(&self, number: usize) {
        let cpu = self.shared.cpu(CpuId(number)).expect("a handle that nobody has");
        let mut worker = Worker { cpu, random: number as u64 + 1, made: 0, foreign: 0, refused: 0 };
        for step in 1..=STEPS {
            worker.step();
            if step % STEPS_TO_CHECK == 0 {
                worker.check();
            }
        }
        let Worker { made, foreign, refused, .. } = worker;
        println!(
            "CPU {number}: {made} blocks allocated, {refused} refused, {foreign} of the other freed"
        );
        assert!(foreign > STEPS / 10, "too few blocks went from CPU to CPU");
    }

    /// Frees what is still on its way.
    pub fn finish(&self) {
        let mut cpu = self.shared.cpu(CpuId(0)).expect("a handle that nobody has");
        for slot in MAIL.as_flattened() {
            if let Some(block) = take(slot) {
                free(&mut cpu, block);
            }
        }
    }
}

struct Worker<'s> {
    cpu: Cpu<'s, 'static, SpinLocks, CpuFlags>,
    random: u64,
    made: u32,
    foreign: u32,
    refused: u32,
}

impl Worker<'_> {
    /// Frees a block of the other CPU, and allocates one for it; frees that itself where the slot is full.
    fn step(&mut self) {
        let number = self.cpu.number().index();
        let slot = self.random() as usize % SLOTS;
        if let Some(block) = take(&MAIL[1 - number][slot]) {
            free(&mut self.cpu, block);
            self.foreign += 1;
        }
        // Half of the blocks have order 0, a quarter order 1, and so on.
        let order = (self.random().trailing_ones() as Order).min(LARGEST);
        let Some(block) = self.alloc(order) else { return };
        let slot = &MAIL[number][slot];
        if slot.load(Ordering::Acquire) == 0 {
            slot.store(block.word(), Ordering::Release);
        } else {
            free(&mut self.cpu, block);
        }
    }

    fn alloc(&mut self, order: Order) -> Option<Block> {
        let gfp = KINDS[self.random() as usize % KINDS.len()];
        match self.cpu.alloc(&Request::new(order, gfp), &mut ()) {
            Ok(pfn) => {
                self.made += 1;
                Some(Block::stamp(pfn, order, self.cpu.number().index(), self.made))
            }
            Err(AllocError::NoMemory) => {
                self.refused += 1;
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Verifies what can be while the other CPU works.
    fn check(&mut self) {
        self.cpu.shared().drain_all();
        self.cpu.check().expect("sound caches");
        self.cpu.shared().check_zones().expect("sound zones");
    }

    /// Upper bits of Knuth's linear congruential generator (MMIX).
    fn random(&mut self) -> u64 {
        self.random =
            self.random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        self.random >> 32
    }
}

fn take(slot: &AtomicU64) -> Option<Block> {
    Block::from_word(slot.swap(0, Ordering::AcqRel))
}

fn free(cpu: &mut Cpu<'_, '_, SpinLocks, CpuFlags>, block: Block) {
    block.check();
    cpu.free(block.pfn(), block.order(), &mut ()).expect("a block in use");
}
