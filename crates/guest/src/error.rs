//! Why there is no run on a real kernel.

use std::io;
use std::path::{Path, PathBuf};

use pageblock_kernel::KernelError;

/// Why a kernel did not run a workload.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file cannot be read, written or made.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The argument is not a kernel.
    #[error("--kernel {}: {why}", path.display())]
    NoKernel {
        /// What was given.
        path: PathBuf,
        /// The reason, and what is allowed.
        why: String,
    },
    /// The argument is no source of a kernel, or a patch that cannot be used.
    #[error("{}: {why}", path.display())]
    Source {
        /// What was given.
        path: PathBuf,
        /// The reason, and what is allowed.
        why: String,
    },
    /// A kernel cannot be configured or built.
    #[error("the kernel cannot be {done}: {why}; {} has all errors", errors.display())]
    Build {
        /// What should have been done.
        done: String,
        /// The first reason that make printed.
        why: String,
        /// All that it printed as errors.
        errors: PathBuf,
    },
    /// The kernel lacks a driver.
    #[error(
        "{kernel} has no driver {missing}, neither built in nor as a module; a distribution's package for cloud or generic machines has it"
    )]
    NoDriver {
        /// The kernel's release.
        kernel: String,
        /// The module.
        missing: String,
    },
    /// The workload is not known here.
    #[error("{0}")]
    Workload(String),
    /// A setting is not possible.
    #[error("--sysctl {setting}: {why}")]
    Setting {
        /// What was given.
        setting: String,
        /// What is allowed.
        why: String,
    },
    /// A program that is needed is missing, or too old.
    #[error("{0}")]
    Program(String),
    /// The disk or the memory is too small.
    #[error("{0}")]
    NoRoom(String),
    /// The preset of a kernel is no kernel.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// The simulation's settings do not fit the machine.
    #[error(transparent)]
    Simulate(#[from] pageblock_simulate::Error),
    /// The result cannot be saved, or a saved one not read.
    #[error(transparent)]
    Measure(#[from] pageblock_measure::Error),
    /// The guest did not get to the end.
    #[error("{label}: {why}; its console is {}{tail}", console.display())]
    Guest {
        /// Which run.
        label: String,
        /// What happened.
        why: String,
        /// The console's file.
        console: PathBuf,
        /// The console's last lines, in one line.
        tail: String,
    },
    /// The guest reported what cannot be read.
    #[error("{label}: the guest's {what} cannot be read: {why}")]
    Report {
        /// Which run.
        label: String,
        /// Which part.
        what: &'static str,
        /// Why.
        why: String,
    },
    /// The memory of this machine cannot be brought to a state.
    #[error("{0}")]
    Fragment(String),
    /// A file of `/proc` is not understood.
    #[error(transparent)]
    Proc(#[from] pageblock_recording::Error),
    /// The caller stopped it.
    #[error("stopped")]
    Stopped,
}

impl Error {
    /// Says why a source or a patch cannot be used.
    pub(crate) fn source(path: &Path, why: String) -> Self {
        Self::Source { path: path.to_owned(), why }
    }

    /// Returns a closure that adds a path to an error of the system.
    pub(crate) fn at(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { path, source }
    }
}
