//! The panic handler without an operating system.

unsafe extern "C" {
    safe fn abort() -> !;
}

#[panic_handler]
fn panicked(_: &core::panic::PanicInfo<'_>) -> ! {
    abort()
}
