//! The serial port, and `println!` to it from either CPU.

use core::fmt::{self, Write};

use lock_api::Mutex;

use crate::port;
use crate::spin_lock::SpinLock;

const COM1: u16 = 0x3f8;

struct Serial;

static SERIAL: Mutex<SpinLock, Serial> = Mutex::new(Serial);

impl Write for Serial {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            while port::read(COM1 + 5) & 0x20 == 0 {
                core::hint::spin_loop();
            }
            port::write(COM1, byte);
        }
        Ok(())
    }
}

/// Sets the port up: 115200 baud, 8 bits, no interrupts.
pub fn start() {
    for (register, value) in [(1, 0), (3, 0x80), (0, 1), (1, 0), (3, 3), (2, 0xc7)] {
        port::write(COM1 + register, value);
    }
}

/// Prints a whole line.
pub fn print_line(text: fmt::Arguments<'_>) {
    let mut serial = SERIAL.lock();
    // The port takes everything; an error can only come from what is printed.
    let _ = writeln!(serial, "{text}");
}

/// Prints a line.
#[macro_export]
macro_rules! println {
    ($($text:tt)*) => { $crate::serial::print_line(format_args!($($text)*)) };
}
