//! Random operations on a machine, by seed.

use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng;

use pageblock::frame::Pfn;
use pageblock::request::{Gfp, Request};
use pageblock_vm::page::Owner;
use pageblock_vm::space::{Slot, SpaceId};
use pageblock_vm::thp::{Advice, fault_requests};

use crate::machine::Machine;

struct Random(Pcg64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0.next_u64() % n
    }

    fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }
}

struct Swarm<'a, 'm> {
    machine: &'a mut Machine<'m>,
    seed: u64,
    random: Random,
    /// Files, and whether each is open.
    files: Vec<(u32, bool)>,
    mapping: SpaceId,
    buffers: Vec<Pfn>,
}

/// Runs up to 3000 random operations; the kinds of operations differ from seed to seed.
pub(crate) fn swarm(machine: &mut Machine<'_>, seed: u64) {
    let mut random = Random(Pcg64::new(seed.into(), 7));
    let kinds = random.below(1 << 10) | 3;
    let mapping = machine.vm.create_mapping(8192);
    let mut swarm =
        Swarm { machine, seed, random, files: Vec::new(), mapping, buffers: Vec::new() };
    for _ in 0..3000 {
        let cpu = swarm.random.index(swarm.machine.cpus);
        let kind = swarm.random.below(10);
        if kinds & 1 << kind == 0 {
            continue;
        }
        if !swarm.run(kind, cpu) {
            continue;
        }
        if swarm.machine.vm.nodes().iter().any(|n| n.kswapd.woken || n.kswapd.is_running()) {
            swarm.machine.run_daemons();
        }
        if swarm.random.below(100) == 0 {
            let checked = swarm.machine.vm.check();
            checked.unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
        }
    }
}

impl Swarm<'_, '_> {
    /// Runs an operation. Returns `false` if it failed.
    fn run(&mut self, kind: u64, cpu: usize) -> bool {
        match kind {
            0 => {
                let inode = self.machine.vm.create_file(1 + self.random.below(100) as u32);
                if self.machine.journal(cpu, inode) && self.machine.open(cpu, inode) {
                    self.files.push((inode, true));
                }
            }
            1 | 2 if !self.files.is_empty() => self.read_or_write(cpu, kind == 1),
            3 if !self.files.is_empty() => return self.open_or_close(cpu),
            4 if !self.files.is_empty() => self.remove_file(cpu),
            5 => {
                for index in 0..32 {
                    let index = 4096 + (self.random.below(3000) + index) as u32 % 4096;
                    self.machine.fault(cpu, self.mapping, index);
                }
            }
            6 => {
                let order = self.random.below(4) as u8;
                let request = Request::new(order, Gfp::GFP_KERNEL | Gfp::NORETRY);
                if let Some(pfn) = self.machine.alloc(cpu, request) {
                    self.machine.vm.own(pfn, order, Owner::Driver, 0);
                    self.buffers.push(pfn);
                }
            }
            7 if !self.buffers.is_empty() => {
                let pfn = self.buffers.swap_remove(self.random.index(self.buffers.len()));
                self.machine.vm.disown(cpu, pfn);
            }
            8 => self.fault_huge(cpu),
            9 => self.machine.run_daemons(),
            _ => {
                self.machine.vm.commit_journal();
                self.machine.flush();
            }
        }
        true
    }

    fn read_or_write(&mut self, cpu: usize, write: bool) {
        let (inode, open) = self.files[self.random.index(self.files.len())];
        let space = self.machine.vm.inodes().get(inode).space;
        let len = self.machine.vm.spaces().get(space).len();
        for index in 0..len.min(24) {
            if open {
                self.machine.touch(cpu, inode, index, write);
            }
        }
    }

    fn open_or_close(&mut self, cpu: usize) -> bool {
        let at = self.random.index(self.files.len());
        let (inode, open) = self.files[at];
        if open {
            self.machine.vm.close(inode);
        } else if !self.machine.open(cpu, inode) {
            return false;
        }
        self.files[at].1 = !open;
        true
    }

    fn remove_file(&mut self, cpu: usize) {
        let at = self.random.index(self.files.len());
        let (inode, open) = self.files.swap_remove(at);
        let space = self.machine.vm.inodes().get(inode).space;
        while self.machine.vm.spaces().get(space).writeback > 0 {
            self.machine.finish_writes();
        }
        if open {
            self.machine.vm.close(inode);
        }
        assert!(self.machine.vm.remove_file(cpu, inode));
    }

    fn fault_huge(&mut self, cpu: usize) {
        let index = self.random.below(8) as u32 * 512;
        let is_empty = |at| self.machine.vm.spaces().slot(self.mapping, index + at) == Slot::Empty;
        let free = (0..512).all(is_empty);
        let advice = if self.seed.is_multiple_of(2) { Advice::HugePages } else { Advice::None };
        let huge = self.machine.vm.kernel().huge;
        let mut requests = fault_requests(&huge, advice, 0, 9);
        if free && let Some(pfn) = requests.find_map(|r| self.machine.alloc(cpu, r)) {
            self.machine.vm.add_page(self.mapping, index, pfn, 9);
        }
    }
}
