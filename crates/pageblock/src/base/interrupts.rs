//! A hook for kernels: interrupts are disabled while a CPU works on its caches or holds a zone's lock.
//!
//! ```
//! use std::cell::Cell;
//! use pageblock::interrupts::Interrupts;
//!
//! thread_local! { static ON: Cell<bool> = const { Cell::new(true) }; }
//!
//! /// A kernel saves the flags register and executes `cli` here.
//! struct Flag;
//!
//! impl Interrupts for Flag {
//!     type State = bool;
//!
//!     fn disable() -> bool {
//!         ON.replace(false)
//!     }
//!
//!     fn restore(state: bool) {
//!         ON.set(state);
//!     }
//! }
//!
//! # use pageblock::{alloc::Allocator, frame::FrameRange, ids::*, layout::{ZoneKind, ZoneSpec}};
//! # use pageblock::{policy::Policy, request::{Gfp, Request}, setup::Setup, zone::Geometry};
//! # let span = FrameRange::new(0, 1 << 15);
//! # let zones = [ZoneSpec::full(NodeId(0), ZoneKind::Normal, span)];
//! # let policy = Policy::parse("linux-6.12").unwrap();
//! # let setup = Setup::new(policy, &zones, &[NodeId(0)]);
//! # let mut memory = vec![std::mem::MaybeUninit::uninit(); setup.metadata_size().unwrap()];
//! # let mut allocator = Allocator::new(&mut memory, &setup).unwrap();
//! # allocator.release(span).unwrap();
//! # pageblock::locks! { struct ParkingLot = parking_lot::Mutex<T>, parking_lot::MutexGuard<'a, T>; }
//! # let mut locks = vec![std::mem::MaybeUninit::uninit(); allocator.sharing_size::<ParkingLot>()];
//! let shared = allocator.share::<ParkingLot, Flag>(&mut locks).unwrap();
//! shared.with_zone(ZoneIndex(0), |_| assert!(!ON.get())).unwrap();
//! assert!(ON.get());
//! ```

/// How a kernel disables interrupts. `()` does nothing, which is right wherever no interrupt (and no
/// signal handler) calls the allocator.
pub trait Interrupts {
    /// Whether interrupts were enabled.
    type State;

    /// Disables interrupts on this CPU, and returns their state before (`local_irq_save`).
    fn disable() -> Self::State;

    /// Restores the state (`local_irq_restore`).
    fn restore(state: Self::State);
}

impl Interrupts for () {
    type State = ();

    #[inline(always)]
    fn disable() {}

    #[inline(always)]
    fn restore((): ()) {}
}

/// Interrupts are disabled as long as it lives.
pub(crate) struct Off<I: Interrupts>(Option<I::State>);

impl<I: Interrupts> Off<I> {
    #[inline(always)]
    pub(crate) fn now() -> Self {
        Self(Some(I::disable()))
    }
}

impl<I: Interrupts> Drop for Off<I> {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(state) = self.0.take() {
            I::restore(state);
        }
    }
}
