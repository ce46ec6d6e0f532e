//! The ports of the machine.

use core::arch::asm;

/// Writes a byte.
pub fn write(port: u16, value: u8) {
    // SAFETY: none of the ports that this kernel names can make the machine touch its memory.
    unsafe { asm!("out dx, al", in("dx") port, in("al") value, options(nomem, nostack)) }
}

/// Reads a byte.
pub fn read(port: u16) -> u8 {
    let value;
    // SAFETY: as for `write`.
    unsafe { asm!("in al, dx", out("al") value, in("dx") port, options(nomem, nostack)) }
    value
}

/// Waits for about a microsecond, which a write to this port takes on a real machine.
pub fn pause() {
    write(0x80, 0);
}

/// Ends the machine: QEMU's status is `2 * code + 1` (its device isa-debug-exit).
pub fn exit(code: u8) -> ! {
    write(0xf4, code);
    loop {
        core::hint::spin_loop();
    }
}
