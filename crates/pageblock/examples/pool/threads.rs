//! Threads in a ring: each takes buffers for the next, and gives back those of the one before.

use std::mem::MaybeUninit;
use std::sync::mpsc::{Receiver, Sender, channel};

use pageblock::alloc::AllocError;
use pageblock::frame::Order;
use pageblock::proc::BuddyInfo;

use crate::memory::Memory;
use crate::pool::{Buffer, PAGE_SIZE, ParkingLot, Pool, Seat, allocator};

const THREADS: usize = 4;
const FRAMES: u64 = 16 * 1024;
const BUFFERS: u32 = 20_000;
const LARGEST: Order = 6;

/// Runs the threads, and verifies that every frame is free afterwards.
pub(crate) fn run() -> Result<(), Box<dyn std::error::Error>> {
    let memory = Memory::new(FRAMES as usize * PAGE_SIZE)?;
    let mut tables = Vec::new();
    let allocator = allocator(FRAMES, THREADS, &mut tables)?;
    let mut locks = vec![MaybeUninit::uninit(); allocator.sharing_size::<ParkingLot>()];
    let pool = Pool::new(memory, allocator, &mut locks)?;
    turn(&pool);

    let mut allocator = pool.into_allocator()?;
    allocator.drain_all(&mut ());
    allocator.check()?;
    assert_eq!(allocator.zones()[0].free_pages(), FRAMES, "a buffer is missing");
    println!("every frame is free:\n{}", BuddyInfo(&allocator));
    Ok(())
}

fn turn(pool: &Pool<'_>) {
    let (senders, mut receivers): (Vec<_>, Vec<_>) = (0..THREADS).map(|_| channel()).unzip();
    receivers.rotate_right(1);
    std::thread::scope(|scope| {
        for (n, (next, before)) in senders.into_iter().zip(receivers).enumerate() {
            scope.spawn(move || {
                let mut seat = pool.seat(n).expect("a seat that nobody has");
                let passed = produce(&mut seat, &next, &before, n as u8);
                drop(next);
                before.iter().for_each(|buffer| consume(pool, &mut seat, buffer));
                println!(
                    "thread {n} passed {passed} buffers on, and found no memory for {}",
                    BUFFERS - passed
                );
            });
        }
    });
}

/// Fills buffers for the next thread, and gives back what has come in.
fn produce<'p>(
    seat: &mut Seat<'p, '_>,
    next: &Sender<Buffer<'p>>,
    before: &Receiver<Buffer<'p>>,
    thread: u8,
) -> u32 {
    let mut passed = 0;
    for n in 0..BUFFERS {
        match seat.take((n.trailing_zeros() as Order).min(LARGEST)) {
            Ok(mut buffer) => {
                buffer.fill(thread ^ n as u8);
                passed += 1;
                // The next thread listens until this one is done.
                next.send(buffer).expect("a listener");
            }
            // The others have all of it for now.
            Err(AllocError::NoMemory) => std::thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
        before.try_iter().for_each(|buffer| consume(seat.pool(), seat, buffer));
    }
    passed
}

/// Checks a buffer against what is in the file there, as another process would read it.
fn consume<'p>(pool: &Pool<'_>, seat: &mut Seat<'p, '_>, buffer: Buffer<'p>) {
    let mut last = [0];
    let at = pool.offset(&buffer) + buffer.len() as u64 - 1;
    pool.memory().read(at, &mut last).expect("a byte of the file");
    assert!(buffer.iter().all(|&byte| byte == last[0]), "two buffers share a page");
    seat.give_back(buffer).expect("a buffer of this pool");
}
