//! A machine of five CPUs that share 1 GiB: four threads allocate and free, while another adds memory, empties an area
//! kept for large buffers, takes contiguous pages, and takes the memory away again.
//! `cargo run -p pageblock --example machine`

use std::collections::HashMap;
use std::mem::MaybeUninit;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use pageblock::contig::{ContigError, Migrate};
use pageblock::locks::Std;
use pageblock::prelude::*;
use pageblock::proc::BuddyInfo;

type Error = Box<dyn std::error::Error>;

const CPUS: usize = 5;
/// What devices with 24 address bits reach: nothing else is served from it as long as there is other memory.
const LOW: FrameRange = FrameRange::new(0, 0x1000);
const NORMAL: FrameRange = FrameRange::new(0x1000, 0x3_0000);
/// Part of it: only movable blocks may use it, so that it can be emptied.
const CMA: FrameRange = FrameRange::new(0x8000, 0xa000);
/// It is added while the CPUs work. Only movable blocks may use it, so that it can be taken away again.
const ADDED: FrameRange = FrameRange::new(0x3_0000, 0x4_0000);

fn main() -> Result<(), Error> {
    let zones = [
        ZoneSpec::full(NodeId(0), ZoneKind::Dma, LOW),
        ZoneSpec::full(NodeId(0), ZoneKind::Normal, NORMAL),
        ZoneSpec::full(NodeId(0), ZoneKind::Movable, ADDED),
    ];
    let setup = Setup::new(Policy::default(), &zones, &[NodeId(0); CPUS]);
    let mut memory = vec![MaybeUninit::uninit(); setup.metadata_size()?];
    let mut allocator = Allocator::new(&mut memory, &setup)?;
    // All frames are reserved at first. What is added later stays so.
    allocator.reserve_cma(CMA)?;
    let (before, after) = ((NORMAL.start, CMA.start), (CMA.end, NORMAL.end));
    let parts = [before, after].map(|(start, end)| FrameRange { start, end });
    for part in [LOW, parts[0], CMA, parts[1]] {
        allocator.release(part)?;
    }
    allocator.retune();

    let mut locks = vec![MaybeUninit::uninit(); allocator.sharing_size::<Std>()];
    let shared: Shared<'_, Std> = allocator.share(&mut locks)?;
    let (users, done) = (Users::default(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for n in 1..CPUS {
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
    let free: u64 = allocator.zones().iter().map(pageblock::zone::Zone::free_pages).sum();
    assert_eq!(free, LOW.len() + NORMAL.len(), "a block is missing");
    print!("every block was given back:\n{}", BuddyInfo(&allocator));
    Ok(())
}

/// What one thread does to the memory while the others use it.
fn change(shared: &Shared<'_, Std>, users: &Users) -> Result<(), Error> {
    let mut cpu = shared.cpu(CpuId(0))?;
    while users.blocks.lock().unwrap().len() < 20_000 {
        std::thread::yield_now();
    }
    shared.online(ADDED)?;
    println!("added {} MiB", ADDED.len() >> 8);
    let below = cpu.alloc_below(LOW.end, &Request::unmovable(2), &mut ())?;
    cpu.free(below, 2, &mut ())?;

    let move_to = &mut &*users;
    retry(|| cpu.alloc_contig_range(CMA, move_to, &mut ()))?;
    println!("emptied {} MiB that are kept for large buffers", CMA.len() >> 8);
    cpu.free_contig(CMA, &mut ())?;
    let request = Request::movable(0);
    let range = retry(|| cpu.alloc_contig(5000, 512, &request, move_to, &mut ()))?;
    println!("5000 contiguous pages at a multiple of 512: {}", range.start.0 % 512 == 0);
    cpu.free_contig(range, &mut ())?;
    retry(|| cpu.offline(ADDED, move_to, &mut ()))?;
    println!("took them away again; blocks were moved: {}", users.moved.load(Relaxed) > 0);
    Ok(())
}

/// A block that its user frees, or has not entered into the table yet, is in the way for a moment only.
fn retry<T>(mut act: impl FnMut() -> Result<T, ContigError>) -> Result<T, ContigError> {
    use ContigError::{Contended, NotFound, NotMoved, Unmovable};
    for _ in 0..1000 {
        match act() {
            Err(Unmovable(_) | NotMoved(_) | Contended(_) | NotFound) => std::thread::yield_now(),
            done => return done,
        }
    }
    act()
}

/// A block in use: its owner, its order, and whether it can be moved.
#[derive(Clone, Copy)]
struct User {
    thread: usize,
    order: Order,
    movable: bool,
}

/// Which blocks are in use. Its lock is never held during a call of the allocator.
#[derive(Default)]
struct Users {
    blocks: Mutex<HashMap<Pfn, User>>,
    moved: AtomicU64,
}

impl Migrate for &Users {
    /// The allocator asks for each block in the way, and goes by the answer alone. It may hold a zone's lock.
    fn is_movable(&mut self, pfn: Pfn, _: Order) -> bool {
        self.blocks.lock().unwrap().get(&pfn).is_some_and(|user| user.movable)
    }

    /// A kernel copies the content here, and changes the page tables. The allocator frees `from`, or `to` after
    /// `false`.
    fn migrate(&mut self, from: Pfn, to: Pfn, _: Order) -> bool {
        let mut blocks = self.blocks.lock().unwrap();
        // A block that its user is about to free is not moved.
        let Some(user) = blocks.remove(&from) else { return false };
        blocks.insert(to, user);
        self.moved.fetch_add(1, Relaxed);
        true
    }

    /// Another CPU still has pages of the range on its lists; it gives them back at its next call.
    fn wait_for(&mut self, _: CpuId) -> bool {
        std::thread::yield_now();
        true
    }
}

/// Allocates and frees blocks of orders 0 to 3, one in eight unmovable, until all is done, then gives everything back.
fn work(mut cpu: Cpu<'_, '_, Std>, users: &Users, done: &AtomicBool) {
    let thread = cpu.number().index();
    let mut random = thread as u64;
    while !done.load(Relaxed) {
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        let (order, movable) = ((random >> 33) as Order % 4, (random >> 40) % 8 > 0);
        let request = if movable { Request::movable(order) } else { Request::unmovable(order) };
        let most = if users.blocks.lock().unwrap().len() < 40_000 { 3 } else { 2 };
        if (random >> 60) % 4 < most {
            if let Ok(pfn) = cpu.alloc(&request, &mut ()) {
                users.blocks.lock().unwrap().insert(pfn, User { thread, order, movable });
            }
        } else {
            give_back(&mut cpu, users, 1);
        }
    }
    give_back(&mut cpu, users, usize::MAX);
}

/// Takes blocks of this thread out of the table before it frees them, so that nobody moves them any more.
fn give_back(cpu: &mut Cpu<'_, '_, Std>, users: &Users, most: usize) {
    let thread = cpu.number().index();
    let mut blocks = users.blocks.lock().unwrap();
    let mine = blocks.iter().filter(|(_, user)| user.thread == thread).take(most);
    let mine: Vec<_> = mine.map(|(&pfn, user)| (pfn, user.order)).collect();
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
