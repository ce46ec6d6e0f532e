//! Verification of the state.

use core::ffi::c_char;
use core::fmt::Write;

use pageblock::check::Violation;

use crate::cpu::on;
use crate::dump::Text;
use crate::memory::{self, Allocator, Cpu};
use crate::status::Status;

fn told(found: Result<(), Violation>, text: &mut Text<'_>) -> Result<(), Status> {
    found.map_err(|violation| {
        let _ = write!(text, "{violation}");
        Status::Violation
    })
}

/// Verifies everything: each frame accounted for once, lists against blocks, counters against lists.
/// `PB_STATUS_VIOLATION` where that fails; `text` (may be NULL if `size` is 0) says where, with a zero
/// at its end. Takes time linear in the frames. `PB_STATUS_BUSY` while a CPU is taken.
///
/// # Safety
/// `text` has room for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pb_check(
    allocator: Option<&Allocator>,
    text: *mut c_char,
    size: usize,
) -> Status {
    let act = || {
        let mut text = Text::new(memory::many_mut(text, size)?);
        allocator.ok_or(Status::Null)?.with_whole(|whole| told(whole.check(), &mut text))
    };
    act().into()
}

/// Verifies the zones, one after the other, while CPUs work; otherwise as `pb_check`.
///
/// # Safety
/// `text` has room for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pb_check_zones(
    allocator: Option<&Allocator>,
    text: *mut c_char,
    size: usize,
) -> Status {
    let act = || {
        let mut text = Text::new(memory::many_mut(text, size)?);
        let check = |shared: &memory::Shared, _| told(shared.check_zones(), &mut text);
        allocator.ok_or(Status::Null)?.with_shared(check)
    };
    act().into()
}

/// Verifies a CPU's own caches while others work; otherwise as `pb_check`.
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
        told(handle.check(), &mut text)
    })
}
