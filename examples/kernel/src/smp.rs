//! The second CPU: how it wakes, and how it is given work.

use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use pageblock::frame::FrameRange;

use crate::memory::{self, PAGE_SIZE};
use crate::ranges::Ranges;
use crate::{port, println};

/// The number of CPUs.
pub const CPUS: usize = 2;

/// The registers of this CPU's interrupt controller, at their address after a reset.
const LOCAL_APIC: usize = 0xfee0_0000;
const SPURIOUS: usize = 0xf0;
const COMMAND: usize = 0x300;
const COMMAND_TO: usize = 0x310;
const BUSY: u32 = 1 << 12;
const INIT: u32 = 0x4500;
const STARTUP: u32 = 0x4600;

type Work<'a> = &'a (dyn Fn(usize) + Sync);

/// What the second CPU is to do; null when it has nothing to do.
static WORK: AtomicPtr<Work<'static>> = AtomicPtr::new(null_mut());
static STARTED: AtomicBool = AtomicBool::new(false);

unsafe extern "C" {
    static trampoline: u8;
    static trampoline_end: u8;
}

fn read(register: usize) -> u32 {
    let register = core::ptr::with_exposed_provenance::<u32>(LOCAL_APIC + register);
    // SAFETY: a register of the controller, whose page is mapped and is no memory.
    unsafe { register.read_volatile() }
}

fn write(register: usize, value: u32) {
    let register = core::ptr::with_exposed_provenance_mut::<u32>(LOCAL_APIC + register);
    // SAFETY: as for `read`. What is written resets the second CPU, which runs no Rust code then, or
    // starts it at the trampoline.
    unsafe { register.write_volatile(value) }
}

/// Sends a message to the second CPU, whose controller has the number 1.
fn send(message: u32) {
    write(COMMAND_TO, 1 << 24);
    write(COMMAND, message);
    while read(COMMAND) & BUSY != 0 {
        core::hint::spin_loop();
    }
}

/// Wakes the second CPU as Intel's manual says: INIT, and STARTUP twice, with the number of a page below
/// 1 MiB. The page is free again afterwards.
pub fn start_second(usable: &Ranges) {
    let low = usable.without(FrameRange::new(0, 1)).as_slice()[0].start;
    assert!(low.0 * PAGE_SIZE < 0xa0000, "no memory where a CPU can start");
    let from = &raw const trampoline;
    let len = (&raw const trampoline_end).addr() - from.addr();
    // SAFETY: the trampoline is shorter than the page, which is usable, and nobody's yet.
    unsafe { memory::address(low).copy_from_nonoverlapping(from, len) };

    write(SPURIOUS, 0x1ff); // on
    send(INIT);
    (0..10_000).for_each(|_| port::pause());
    for _ in 0..2 {
        send(STARTUP | low.0 as u32);
        (0..200).for_each(|_| port::pause());
    }
    let started = |_| {
        port::pause();
        STARTED.load(Ordering::Acquire)
    };
    assert!((0..5_000_000).any(started), "the second CPU does not start");
    println!("the second CPU is awake");
}

/// Both CPUs do the work, each with its number; returns when both are done.
pub fn on_both(work: Work<'_>) {
    // The lifetime is forgotten, but `work` is used only until it is null again, below.
    WORK.store((&raw const work).cast_mut().cast(), Ordering::Release);
    work(0);
    while !WORK.load(Ordering::Acquire).is_null() {
        core::hint::spin_loop();
    }
}

/// The second CPU comes here from `boot.s`.
#[unsafe(no_mangle)]
extern "C" fn second_main() -> ! {
    STARTED.store(true, Ordering::Release);
    loop {
        let work = WORK.load(Ordering::Acquire);
        if work.is_null() {
            core::hint::spin_loop();
            continue;
        }
        // SAFETY: `on_both` keeps it alive until it is null. The first CPU cannot leave by a panic, which
        // ends the machine.
        unsafe { (*work)(1) };
        WORK.store(null_mut(), Ordering::Release);
    }
}
