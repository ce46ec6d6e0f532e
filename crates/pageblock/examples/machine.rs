//! A machine of four CPUs that share 1 GiB: threads allocate and free, while memory is added, an area kept for large
//! buffers is emptied, and memory is taken away again. `cargo run -p pageblock --example machine`

use std::collections::HashMap;
use std::mem::MaybeUninit;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use pageblock::contig::Migrate;
use pageblock::locks::Std;
use pageblock::prelude::*;
use pageblock::proc::BuddyInfo;

type Error = Box<dyn std::error::Error>;

const MEMORY: FrameRange = FrameRange::new(0, 1 << 18);
/// Only movable blocks may use it, so that it can be emptied.
const CMA: FrameRange = FrameRange::new(0x8000, 0xa000);
/// It is added while the CPUs work, and taken away again.
const ADDED: FrameRange = FrameRange::new(0x3_0000, 0x4_0000);

fn main() -> Result<(), Error> {
    let zones = [ZoneSpec::full(NodeId(0), ZoneKind::Normal, MEMORY)];
    let setup = Setup::new(Policy::default(), &zones, &[NodeId(0); 4]);
    let mut memory = vec![MaybeUninit::uninit(); setup.metadata_size()?];
    let mut allocator = Allocator::new(&mut memory, &setup)?;
    allocator.reserve_cma(CMA)?;
    for part in [FrameRange { end: CMA.start, ..MEMORY }, CMA] {
        allocator.release(part)?;
    }
    allocator.release(FrameRange { start: CMA.end, end: ADDED.start })?;
    allocator.retune();

    let mut locks = vec![MaybeUninit::uninit(); allocator.sharing_size::<Std>()];
    let shared: Shared<'_, Std> = allocator.share(&mut locks)?;
    let (users, done) = (Users::default(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for n in 1..4 {
            let (shared, users, done) = (&shared, &users, &done);
            scope.spawn(move || work(shared.cpu(CpuId(n)).expect("nobody has it"), users, done));
        }
        let changed = change(&shared, &users);
        done.store(true, Relaxed);
        changed
    })?;

    let mut allocator = shared.into_owned()?;
    allocator.drain_all(&mut ());
    allocator.check()?;
    print!("every block was given back:\n{}", BuddyInfo(&allocator));
    Ok(())
}

/// What one thread does to the memory while the others use it.
fn change(shared: &Shared<'_, Std>, users: &Users) -> Result<(), Error> {
    let mut cpu = shared.cpu(CpuId(0))?;
    shared.online(ADDED)?;
    println!("added {} MiB", ADDED.len() >> 8);
    cpu.alloc_contig_range(CMA, &mut &*users, &mut ())?;
    println!("emptied {} MiB that are kept for large buffers", CMA.len() >> 8);
    cpu.free_contig(CMA, &mut ())?;
    let range = cpu.alloc_contig(5000, 512, &Request::movable(0), &mut &*users, &mut ())?;
    println!("5000 contiguous pages at a multiple of 512: {}", range.start.0 % 512 == 0);
    cpu.free_contig(range, &mut ())?;
    cpu.offline(ADDED, &mut &*users, &mut ())?;
    println!("took them away again");
    Ok(())
}

/// Which blocks are in use; a user keeps its number and asks for the frame.
#[derive(Default)]
struct Users {
    blocks: Mutex<HashMap<Pfn, u64>>,
}

impl Migrate for &Users {
    /// Called under a zone's lock: it must not wait for a thread that waits for that.
    fn is_movable(&mut self, _: Pfn, _: Order) -> bool {
        true
    }

    /// A kernel copies the content here, and changes the page tables.
    fn migrate(&mut self, from: Pfn, to: Pfn, _: Order) -> bool {
        let mut blocks = self.blocks.lock().unwrap();
        // A block that its user is about to free is not moved.
        let Some(user) = blocks.remove(&from) else { return false };
        blocks.insert(to, user);
        true
    }

    fn wait_for(&mut self, _: CpuId) -> bool {
        std::thread::yield_now();
        true
    }
}

/// Allocates and frees movable blocks of orders 0 to 3 until all is done, then gives everything back.
fn work(mut cpu: Cpu<'_, '_, Std>, users: &Users, done: &AtomicBool) {
    let own = cpu.number().index() as u64;
    let mut random = own;
    while !done.load(Relaxed) {
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        let order = (random >> 33) as Order % 4;
        if random >> 63 == 0 {
            if let Ok(pfn) = cpu.alloc(&Request::movable(order), &mut ()) {
                users.blocks.lock().unwrap().insert(pfn, own << 8 | u64::from(order));
            }
        } else {
            give_back(&mut cpu, users, own, 1);
        }
    }
    give_back(&mut cpu, users, own, usize::MAX);
}

fn give_back(cpu: &mut Cpu<'_, '_, Std>, users: &Users, own: u64, most: usize) {
    let mut blocks = users.blocks.lock().unwrap();
    let mine = blocks.iter().filter(|(_, user)| *user >> 8 == own).take(most);
    let mine: Vec<_> = mine.map(|(&pfn, &user)| (pfn, user as Order)).collect();
    for (pfn, _) in &mine {
        blocks.remove(pfn);
    }
    drop(blocks);
    for (pfn, order) in mine {
        cpu.free(pfn, order, &mut ()).expect("a block of this thread's");
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn it_ends_with_every_block_free() {
        super::main().unwrap();
    }
}
