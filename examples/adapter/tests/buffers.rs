//! A database's buffers on one mapping.

use std::fs;
use std::sync::{Mutex, PoisonError};

use adapter::buffers::{Buffer, Error, FRAME_SHIFT, HUGE, Pool, Seat, Tables};

const MIB: usize = 1 << 20;
const BLOCK: usize = 1 << FRAME_SHIFT;

/// Held by each test: what is resident is the process's.
static ALONE: Mutex<()> = Mutex::new(());

/// The resident memory of this process, in bytes.
fn resident() -> usize {
    let text = fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

fn random(state: &mut u64) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state >> 20) as usize
}

/// A buffer full of its number.
fn stamped<'p>(seat: &mut Seat<'p, '_>, stamp: u8) -> (Buffer<'p>, u8) {
    let mut buffer = seat.take(0).unwrap();
    buffer.fill(stamp);
    (buffer, stamp)
}

fn checked((buffer, stamp): (Buffer<'_>, u8)) -> Buffer<'_> {
    assert!(buffer.iter().all(|&byte| byte == stamp), "a buffer lost its content");
    buffer
}

#[test]
fn resident_memory_follows_what_is_in_use() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    const BUFFERS: usize = 512;
    let (mut tables, mut locks) = (Tables::new(), Tables::new());
    let pool = Pool::new(BUFFERS * BLOCK, 1, &mut tables, &mut locks).unwrap();
    let mut seat = pool.seat(0).unwrap();
    let before = resident();
    let mut live: Vec<_> = (0..BUFFERS).map(|n| stamped(&mut seat, n as u8)).collect();
    let full = resident() - before;
    assert!(full > BUFFERS * BLOCK / 100 * 99, "{full} bytes are resident");
    let mut state = 1;
    while live.len() > BUFFERS / 4 {
        let at = random(&mut state) % live.len();
        seat.give_back(checked(live.swap_remove(at))).unwrap();
    }
    // A buffer is given back in each huge page by chance; what is taken then fills those that are in use.
    for round in 0..BUFFERS * 5 {
        let at = random(&mut state) % live.len();
        seat.give_back(checked(live.swap_remove(at))).unwrap();
        live.push(stamped(&mut seat, round as u8));
    }
    seat.drain();
    let (used, quarter) = (live.len() * BLOCK, resident() - before);
    assert!(quarter < used * 3 / 2, "{used} bytes are in use, {quarter} resident");
    for buffer in live {
        seat.give_back(checked(buffer)).unwrap();
    }
    seat.drain();
    let empty = resident().saturating_sub(before);
    assert!(empty < 2 * MIB, "{empty} bytes are resident");
    assert!(pool.given_back().0 >= (BUFFERS >> HUGE) as u64);
    assert_eq!(pool.given_back().1, 0, "the system took all");
}

#[test]
fn threads_give_back_what_others_took() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut tables, mut locks) = (Tables::new(), Tables::new());
    let pool = Pool::new(64 * MIB, 4, &mut tables, &mut locks).unwrap();
    let (sender, receiver) = std::sync::mpsc::sync_channel::<(Buffer<'_>, u8)>(16);
    let receiver = Mutex::new(receiver);
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (pool, sender) = (&pool, sender.clone());
            scope.spawn(move || {
                let mut seat = pool.seat(thread).unwrap();
                for n in 0..400 {
                    sender.send(stamped(&mut seat, n as u8)).unwrap();
                }
            });
        }
        drop(sender);
        for thread in 2..4 {
            let (pool, receiver) = (&pool, &receiver);
            scope.spawn(move || {
                let mut seat = pool.seat(thread).unwrap();
                while let Ok(buffer) = { receiver.lock().unwrap().recv() } {
                    seat.give_back(checked(buffer)).unwrap();
                }
            });
        }
    });
    // Nothing is missing: all memory can be taken, in buffers of 2 MiB.
    for thread in 0..4 {
        pool.seat(thread).unwrap().drain();
    }
    let mut seat = pool.seat(0).unwrap();
    let all: Vec<_> = std::iter::from_fn(|| seat.take(HUGE).ok()).collect();
    assert_eq!(all.len(), 32);
    assert!(all.iter().all(|buffer| buffer.as_ptr().addr() % (2 * MIB) == 0));
    for buffer in all {
        seat.give_back(buffer).unwrap();
    }
}

#[test]
fn mistakes_are_refused() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut others, mut more) = (Tables::new(), Tables::new());
    let other = Pool::new(8 * MIB, 1, &mut others, &mut more).unwrap();
    let (mut tables, mut locks) = (Tables::new(), Tables::new());
    assert!(matches!(Pool::new(0, 1, &mut tables, &mut locks), Err(Error::Setup(_))));
    let pool = Pool::new(8 * MIB, 2, &mut tables, &mut locks).unwrap();
    let mut seat = pool.seat(0).unwrap();
    assert!(seat.take(HUGE + 1).is_err());
    let foreign = other.seat(0).unwrap().take(0).unwrap();
    assert!(seat.give_back(foreign).is_err());
}
