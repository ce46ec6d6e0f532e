//! A machine on virtual time: CPUs, tasks that run and wait, disks; and the cost of operations.
//!
//! A task is an ordinary `async` function that reads like the program it models. Time passes only where a task
//! says so: it charges CPU time, sleeps, or waits. One thread runs a whole machine, in order of virtual time;
//! simultaneous events run in the order in which they were queued.

mod atomic_boost;
pub mod cost;
mod counters;
pub mod daemons;
pub mod disk;
pub mod executor;
pub mod files;
pub mod fragment;
pub(crate) mod gigabytes;
pub(crate) mod history;
pub mod huge;
pub mod livelock;
pub mod machine_file;
pub mod machine_proc;
pub mod observed;
mod pages;
pub mod process;
pub mod progress;
pub mod psi;
pub mod read_ahead;
mod scale;
pub mod sched;
pub mod swap_in;
pub mod task;
pub mod world;

#[cfg(test)]
mod tests;

/// Nanoseconds of virtual time since the machine was created.
pub type Nanos = u64;
/// A second.
pub const SECOND: Nanos = 1_000_000_000;
/// A millisecond.
pub const MILLISECOND: Nanos = 1_000_000;
/// A microsecond.
pub const MICROSECOND: Nanos = 1_000;
