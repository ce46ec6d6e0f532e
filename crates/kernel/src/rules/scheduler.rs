//! Who gets a CPU.

pageblock::switches! {
    /// who gets a CPU (kernel/sched/fair.c)
    scheduler: Schedule
    choice {
        /// When a task that was woken gets a CPU that others want.
        // Tasks have no virtual runtime here: one that waited for a slice or longer has used less than others.
        scheduler: Scheduler {
            /// Up to 6.5: at once, for it is behind the running one (`check_preempt_wakeup`).
            Cfs = "cfs",
            /// From 6.6 (147f3efaa241): when the running one's slice ends, in the middle of those that wait: it is placed at
            /// their average, and who is behind that has the earlier deadline (`place_entity`, RUN_TO_PARITY).
            Eevdf = "eevdf",
        } = Scheduler::Cfs,
    }
    number {}
}
