//! Who gets a CPU.

pageblock::switches! {
    /// who gets a CPU (kernel/sched/fair.c)
    scheduler: Schedule
    choice {
        /// Which task of a CPU's run queue runs, and for how long.
        scheduler: Scheduler {
            /// Up to 6.5: the one with the least vruntime; a sleeper is credited with half a period, and preempts
            /// (`place_entity`, `check_preempt_wakeup`).
            Cfs = "cfs",
            /// From 6.6 (147f3efaa241): the eligible one with the earliest deadline, until its slice ends (RUN_TO_PARITY); a
            /// sleeper keeps its lag.
            Eevdf = "eevdf",
            /// From 6.12 (152e11f6df29): a task that sleeps with negative lag stays queued until it is gone (DELAY_DEQUEUE).
            EevdfDelayed = "eevdf_delayed",
        } = Scheduler::Cfs,
    }
    number {}
}
