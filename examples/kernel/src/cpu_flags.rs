//! How the allocator turns this CPU's interrupts off.

use core::arch::asm;

use pageblock::interrupts::Interrupts;

/// The interrupt flag of the CPU.
pub struct CpuFlags;

const INTERRUPTS_ON: u64 = 1 << 9;

impl Interrupts for CpuFlags {
    type State = bool;

    fn disable() -> bool {
        let flags: u64;
        // SAFETY: the stack is as before after the pop, and fewer interrupts break nothing. Without
        // `nomem`, so that no access to memory moves out of where they are off.
        unsafe { asm!("pushfq", "pop {}", "cli", out(reg) flags) }
        flags & INTERRUPTS_ON != 0
    }

    fn restore(were_on: bool) {
        if were_on {
            // SAFETY: interrupts were on before `disable`, so the kernel can handle them.
            unsafe { asm!("sti", options(nostack)) }
        }
    }
}
