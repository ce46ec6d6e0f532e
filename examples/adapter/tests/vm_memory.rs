//! Guests of rust-vmm's `vm-memory` on one mapping.

use std::fs;

use adapter::vm_memory::{Error, GIGABYTE, Host};
use vm_memory::{Bytes, GuestAddress, GuestMemoryBackend};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// The resident memory of this process, in pages.
fn resident() -> u64 {
    let text = fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse().unwrap()
}

#[test]
fn guests_have_memory_of_their_own_and_find_zeros() {
    let mut tables = Vec::new();
    let mut host = Host::new(4 * GIB, &mut tables).unwrap();
    assert_eq!(host.free_gigabytes(), 4);
    let (a, b) = (host.guest(GIB).unwrap(), host.guest(300 * MIB).unwrap());
    assert_eq!((a.blocks_of(GIGABYTE), host.free_gigabytes()), (1, 2));
    assert_eq!((a.memory.num_regions(), b.memory.num_regions()), (1, 1));
    for (guest, byte, size) in [(&a, 1u8, GIB), (&b, 2, 300 * MIB)] {
        for at in (0..size).step_by(64 << 20) {
            guest.memory.write_obj(byte, GuestAddress(at)).unwrap();
        }
        assert!(guest.memory.write_obj(byte, GuestAddress(size)).is_err());
    }
    for at in (0..GIB).step_by(64 << 20) {
        assert_eq!(a.memory.read_obj::<u8>(GuestAddress(at)).unwrap(), 1);
    }
    host.give_back(a).unwrap();
    host.give_back(b).unwrap();
    assert_eq!(host.free_gigabytes(), 4);
    let again = host.guest(4 * GIB).unwrap();
    for at in (0..4 * GIB).step_by(64 << 20) {
        assert_eq!(again.memory.read_obj::<u8>(GuestAddress(at)).unwrap(), 0, "{at:#x}");
    }
    assert!(matches!(host.guest(2 * MIB), Err(Error::Memory(_))));
    host.give_back(again).unwrap();
}

#[test]
fn a_balloon_splits_a_gigabyte_and_gives_its_page_to_the_system() {
    let mut tables = Vec::new();
    let mut host = Host::new(2 * GIB, &mut tables).unwrap();
    let mut guest = host.guest(2 * GIB).unwrap();
    let full = vec![7u8; 32 << 20];
    guest.memory.write_slice(&full, GuestAddress(GIB)).unwrap();
    let before = resident();
    for page in 0..16 {
        host.deflate(&mut guest, GuestAddress(GIB + page * 2 * MIB)).unwrap();
    }
    let (after, given) = (resident(), (32 << 20) / 4096);
    assert!(before - after > given / 10 * 9, "{before} and {after} pages are resident");
    let wrong = [GuestAddress(GIB), GuestAddress(GIB + 64 * MIB + 4096), GuestAddress(2 * GIB)];
    for at in wrong {
        assert!(matches!(host.deflate(&mut guest, at), Err(Error::Address(_))), "{at:?}");
    }
    // What one guest gave back is another's.
    let small = host.guest(32 * MIB).unwrap();
    assert!(matches!(host.guest(2 * MIB), Err(Error::Memory(_))));
    host.give_back(small).unwrap();
    host.give_back(guest).unwrap();
    assert_eq!(host.free_gigabytes(), 2);
}

#[test]
fn sizes_that_cannot_be_are_refused() {
    let mut tables = Vec::new();
    let mut host = Host::new(GIB, &mut tables).unwrap();
    for size in [0, 1, 4096, 3 * MIB] {
        assert!(matches!(host.guest(size), Err(Error::Size(_))), "{size}");
    }
    assert!(matches!(Host::new(0, &mut Vec::new()), Err(Error::Size(0))));
}
