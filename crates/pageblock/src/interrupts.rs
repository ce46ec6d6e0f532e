//! A hook for kernels: interrupts are off while a CPU works on its caches or holds a zone's lock.

/// How a kernel turns interrupts off. `()` does nothing, which is right wherever no interrupt (and no
/// signal handler) calls the allocator.
pub trait Interrupts {
    /// Whether they were on.
    type State;

    /// Turns interrupts off on this CPU, and says what they were (`local_irq_save`).
    fn disable() -> Self::State;

    /// Brings back what they were (`local_irq_restore`).
    fn restore(state: Self::State);
}

impl Interrupts for () {
    type State = ();

    #[inline(always)]
    fn disable() {}

    #[inline(always)]
    fn restore((): ()) {}
}

/// Interrupts are off as long as it lives.
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
