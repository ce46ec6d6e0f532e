//! Who gets a CPU.

pageblock::switches! {
    /// who gets a CPU (kernel/sched/fair.c)
    scheduler: Schedule
    choice {
        /// Which of the tasks that share a CPU runs, and how long.
        scheduler: Scheduler {
            /// Up to 6.5: the one that has run least; who slept is half a period ahead, and takes the CPU at once
            /// (`check_preempt_wakeup`).
            Cfs = "cfs",
            /// From 6.6 (147f3efaa241): of those behind the mean the one with the earliest deadline, to the end of its slice;
            /// who slept is as far behind as it was.
            Eevdf = "eevdf",
            /// From 6.12 (152e11f6df29): who sleeps when ahead stays until the others have caught up.
            EevdfDelayed = "eevdf_delayed",
        } = Scheduler::Cfs,
    }
    number {}
}
