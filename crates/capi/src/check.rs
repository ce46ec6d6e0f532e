//! Verification of the state.

use core::ffi::c_char;
use core::fmt::Write;

use pageblock::check::Violation;

use crate::cpu::on;
use crate::dump::Text;
use crate::memory::{self, Allocator, Cpu};
use crate::status::{Status, answer};

fn report_violation(found: Result<(), Violation>, text: &mut Text<'_>) -> Result<(), Status> {
    found.map_err(|violation| {
        let _ = write!(text, "{violation}");
        Status::Violation
    })
}

/// Verifies everything: that each frame is accounted for once, lists against blocks, counters against lists.
/// Returns `PB_STATUS_VIOLATION` on a contradiction; `text` (may be NULL if `size` is 0) then describes it,
/// terminated by a zero. Takes time linear in the frames. `PB_STATUS_BUSY` while a CPU is taken.
///
/// # Safety
/// `text` has room for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pb_check(
    allocator: Option<&Allocator>,
    text: *mut c_char,
    size: usize,
) -> Status {
    answer(|| {
        let mut text = Text::new(memory::many_mut(text, size)?);
        allocator
            .ok_or(Status::Null)?
            .with_whole(|whole| report_violation(whole.check(), &mut text))
    })
}

/// Verifies the zones, one after the other, while CPUs work; otherwise like `pb_check`.
///
/// # Safety
/// `text` has room for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pb_check_zones(
    allocator: Option<&Allocator>,
    text: *mut c_char,
    size: usize,
) -> Status {
    answer(|| {
        let mut text = Text::new(memory::many_mut(text, size)?);
        let check = |shared: &memory::Shared, _| report_violation(shared.check_zones(), &mut text);
        allocator.ok_or(Status::Null)?.with_shared(check)
    })
}

/// Verifies a CPU's own caches while others work; otherwise like `pb_check`.
///
/// # Safety
/// `text` has room for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pb_cpu_check(
    cpu: Option<&mut Cpu>,
    text: *mut c_char,
    size: usize,
) -> Status {
    on(cpu, |handle| {
        let mut text = Text::new(memory::many_mut(text, size)?);
        report_violation(handle.check(), &mut text)
    })
}
