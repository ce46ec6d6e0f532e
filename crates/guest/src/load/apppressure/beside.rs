//! What goes on beside the apps: the system's own memory and threads, network buffers, lookups of files.

use std::os::unix::net::UnixDatagram;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::Scope;
use std::time::Duration;

use super::super::{Random, rest};
use super::{FOLDER, read, read_media};
use crate::inside::memory::{Mapping, PAGE};
use pageblock_simulate::workload::apppressure::Amounts;

/// Network buffers in flight.
const IN_FLIGHT: u64 = 16;
/// Bytes of shared files that the system reads in a turn.
const SYSTEM_READS: u64 = 8 * PAGE as u64;

/// Starts everything; it goes on until it is over.
pub(super) fn start<'s, 'e: 's>(
    scope: &'s Scope<'s, 'e>,
    sizes: &'e Amounts,
    seed: u64,
    over: &'e AtomicBool,
) {
    scope.spawn(move || system(sizes, Random::new(seed, 10), over));
    scope.spawn(move || threads(sizes, Random::new(seed, 11), over));
    scope.spawn(move || network(sizes, Random::new(seed, 12), over));
    scope.spawn(move || lookups(sizes, Random::new(seed, 13), over));
}

/// The system's long-lived memory; each turn touches a part of it.
fn system(sizes: &Amounts, mut random: Random, over: &AtomicBool) {
    let Ok(mut memory) = Mapping::new(sizes.system_pages as usize) else { return };
    (0..memory.pages()).for_each(|page| memory.touch(page));
    let shared = sizes.shared_pages.div_ceil(256);
    while !over.load(Relaxed) {
        rest(Duration::from_micros(10_000 + random.below(20_000)));
        for _ in 0..sizes.system_touches {
            let page = random.below(sizes.system_pages) * random.below(sizes.system_pages)
                / sizes.system_pages;
            memory.touch(page as usize);
        }
        // A file that cannot be read for want of memory is read the next time.
        let _ = read(&format!("{FOLDER}/shared/{}", random.below(shared)), SYSTEM_READS);
    }
}

/// Threads that live for some seconds.
fn threads(sizes: &Amounts, mut random: Random, over: &AtomicBool) {
    while !over.load(Relaxed) {
        rest(Duration::from_millis(100 * sizes.divisor));
        let life = Duration::from_secs(1 + random.below(20));
        let _ = std::thread::Builder::new().spawn(move || rest(life));
    }
}

/// Datagrams of up to 28 KiB, some of them in flight.
fn network(sizes: &Amounts, mut random: Random, over: &AtomicBool) {
    let Ok((from, to)) = UnixDatagram::pair() else { return };
    let packet = vec![0; 28 << 10];
    let mut received = packet.clone();
    let mut flying = 0;
    while !over.load(Relaxed) {
        rest(Duration::from_millis(5 * sizes.divisor));
        let len = (PAGE << random.below(3)) - 1024;
        flying += u64::from(from.send(&packet[..len]).is_ok());
        if flying > IN_FLIGHT {
            flying -= u64::from(to.recv(&mut received).is_ok());
        }
    }
}

/// Lookups of the user's files.
fn lookups(sizes: &Amounts, mut random: Random, over: &AtomicBool) {
    while !over.load(Relaxed) {
        rest(Duration::from_millis(25 * sizes.divisor));
        let _ = read_media(sizes, &mut random, PAGE as u64);
    }
}
