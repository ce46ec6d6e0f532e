//! A kernel that does nothing but manage its page frames with Pageblock, and check that on two CPUs.
//!
//! It boots in QEMU by the PVH protocol (`boot.s`), reads the memory map (`firmware.rs`), wakes the second
//! CPU (`smp.rs`), makes the allocator in the memory that it manages (`memory.rs`) and checks itself
//! (`self_check.rs`). What it says goes to the serial port; QEMU's exit status is 33 where all is well and
//! 35 where it is not.
#![no_std]
#![no_main]

mod block;
mod cpu_flags;
mod exchange;
mod firmware;
mod memory;
mod port;
mod ranges;
mod self_check;
mod serial;
mod smp;
mod spin_lock;

use core::panic::PanicInfo;

use firmware::StartInfo;

core::arch::global_asm!(include_str!("boot.s"), options(att_syntax));

/// The first CPU comes here from `boot.s`.
#[unsafe(no_mangle)]
extern "C" fn first_main(info: &StartInfo) -> ! {
    serial::start();
    let usable = firmware::usable(info);
    for range in usable.as_slice() {
        println!("memory: frames {} to {}", range.start, range.end);
    }
    smp::start_second(&usable);
    let (allocator, free) = memory::allocator(&usable);
    self_check::run(allocator, &free);
    println!("all is well");
    port::exit(0x10)
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    println!("{info}");
    port::exit(0x11)
}
