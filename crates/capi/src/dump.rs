//! The state in the format of `/proc`, in a buffer of the caller's.

use core::ffi::c_char;
use core::fmt::{self, Display, Write};
use core::mem::MaybeUninit;

use pageblock::proc::{BuddyInfo, KernelFormat, PageTypeInfo, VmStat, ZoneInfo};

use crate::memory::{self, Allocator, Shared};
use crate::status::{Status, answer};

/// `/proc/buddyinfo`: the free blocks of each order.
pub const PB_DUMP_BUDDYINFO: u32 = 0;
/// `/proc/pagetypeinfo`: the free blocks of each order and type.
pub const PB_DUMP_PAGETYPEINFO: u32 = 1;
/// `/proc/zoneinfo`, as far as an allocator knows it.
pub const PB_DUMP_ZONEINFO: u32 = 2;
/// `/proc/vmstat`, as far as an allocator knows it.
pub const PB_DUMP_VMSTAT: u32 = 3;

/// A text terminated by a zero, truncated at the end of the buffer; its full length is counted.
pub(crate) struct Text<'b> {
    buffer: &'b mut [MaybeUninit<c_char>],
    length: usize,
}

impl<'b> Text<'b> {
    pub(crate) fn new(buffer: &'b mut [MaybeUninit<c_char>]) -> Self {
        let mut text = Self { buffer, length: 0 };
        text.end();
        text
    }

    fn end(&mut self) {
        let last = self.buffer.len().saturating_sub(1);
        if let Some(end) = self.buffer.get_mut(self.length.min(last)) {
            end.write(0);
        }
    }

    /// Returns its length, and an error if it was truncated.
    pub(crate) fn finish(self) -> (usize, Result<(), Status>) {
        let fits = self.length < self.buffer.len();
        (self.length, if fits { Ok(()) } else { Err(Status::Space) })
    }
}

impl Write for Text<'_> {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        let room = self.buffer.len().saturating_sub(1);
        for (slot, byte) in self.buffer[..room].iter_mut().skip(self.length).zip(part.bytes()) {
            slot.write(byte as c_char);
        }
        self.length += part.len();
        self.end();
        Ok(())
    }
}

fn write(allocator: &Shared, what: u32, kernel: KernelFormat, text: &mut Text<'_>) -> fmt::Result {
    let shown: &dyn Display = match what {
        PB_DUMP_BUDDYINFO => &BuddyInfo(allocator),
        PB_DUMP_PAGETYPEINFO => &PageTypeInfo { allocator, kernel },
        PB_DUMP_ZONEINFO => &ZoneInfo { allocator, kernel },
        _ => &VmStat { allocator, kernel },
    };
    write!(text, "{shown}")
}

/// Writes the state in the format of a file of `/proc`, as kernel `major.minor` prints it, terminated by a
/// zero. `length` (may be NULL) is the length of the full text, without the zero. If it does not fit in `size`
/// bytes it is truncated, with `PB_STATUS_SPACE`. `text` may be NULL if `size` is 0. The lists and counts of a CPU
/// that is taken are left out; zones are exact, each at its own instant.
///
/// # Safety
/// `text` has room for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pb_dump(
    allocator: Option<&Allocator>,
    what: u32,
    major: u32,
    minor: u32,
    text: *mut c_char,
    size: usize,
    length: Option<&mut MaybeUninit<usize>>,
) -> Status {
    answer(|| {
        let allocator = allocator.ok_or(Status::Null)?;
        if what > PB_DUMP_VMSTAT {
            return Err(Status::Unknown);
        }
        let mut text = Text::new(memory::many_mut(text, size)?);
        allocator.with_shared(|shared, _| {
            write(shared, what, KernelFormat::new(major, minor), &mut text)
                .map_err(|_| Status::Other)
        })?;
        let (written, fits) = text.finish();
        length.map(|length| length.write(written));
        fits
    })
}
