//! Real kernels in QEMU under the workloads that are also simulated, measured as a simulation is.
//!
//! On the host, [`build`] makes kernels of their source, [`kernel`] finds one and its drivers, [`initramfs`] packs them with the guest's program, [`qemu`] starts
//! it, and [`outcome`] makes a saved run of what it reports. In the guest, [`inside`] is the first process, and [`load`] the
//! workload. [`job`] and [`message`] are what the two sides tell each other. [`fragment`] brings the memory of a running machine, a guest
//! or another one, to a stated degree of fragmentation.
#![deny(unsafe_code)]

pub mod boot;
pub mod build;
mod disks;
pub mod error;
pub mod fragment;
pub mod hardware;
pub mod initramfs;
pub mod inside;
pub mod job;
pub mod kernel;
pub mod load;
pub mod message;
pub mod modules;
pub mod outcome;
pub mod predict;
pub mod program;
pub mod qemu;
pub mod series;
pub mod settings;
pub mod workload;

pub use error::Error;
