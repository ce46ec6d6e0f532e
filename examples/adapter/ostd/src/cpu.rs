//! CPUs, and what each has for itself.

use core::sync::atomic::Ordering;

use crate::host::{CPU, CPUS};
use crate::irq::DisabledLocalIrqGuard;

/// The number of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuId(usize);

impl From<CpuId> for u32 {
    fn from(cpu: CpuId) -> Self {
        cpu.0 as u32
    }
}

/// What keeps a task on its CPU.
pub trait PinCurrentCpu {
    /// Returns the CPU.
    fn current_cpu(&self) -> CpuId;
}

impl PinCurrentCpu for DisabledLocalIrqGuard {
    fn current_cpu(&self) -> CpuId {
        CpuId(CPU.get())
    }
}

/// Returns the number of CPUs.
pub fn num_cpus() -> usize {
    CPUS.load(Ordering::Relaxed)
}

/// Returns the CPUs.
pub fn all_cpus() -> impl Iterator<Item = CpuId> {
    (0..num_cpus()).map(CpuId)
}

/// What each CPU has for itself.
pub mod local {
    use super::CpuId;
    use crate::host::CPU;
    use crate::irq::DisabledLocalIrqGuard;

    /// The most CPUs.
    pub const MAX_CPUS: usize = 8;

    /// A value in cache lines of its own.
    #[repr(align(128))]
    pub struct Line<T>(pub T);

    /// A value for each CPU.
    pub struct StaticCpuLocal<T>([Line<T>; MAX_CPUS]);

    // SAFETY: a CPU's value is used by the thread that is the CPU, or is an atomic.
    unsafe impl<T> Sync for StaticCpuLocal<T> {}

    impl<T> StaticCpuLocal<T> {
        /// Returns a value for each CPU.
        pub const fn new(values: [Line<T>; MAX_CPUS]) -> Self {
            Self(values)
        }
        /// Returns this CPU's.
        pub fn get_with<'a>(&'a self, _guard: &'a DisabledLocalIrqGuard) -> &'a T {
            &self.0[CPU.get()].0
        }
        /// Returns another CPU's.
        pub fn get_on_cpu(&self, cpu: CpuId) -> &T {
            &self.0[cpu.0].0
        }
    }
}

/// Defines values that each CPU has for itself.
#[macro_export]
macro_rules! cpu_local {
    ($($(#[$attr:meta])* $vis:vis static $name:ident: $t:ty = $init:expr;)*) => {
        $($(#[$attr])* $vis static $name: $crate::cpu::local::StaticCpuLocal<$t> =
            $crate::cpu::local::StaticCpuLocal::new([const { $crate::cpu::local::Line($init) }; 8]);)*
    };
}
