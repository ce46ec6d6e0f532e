//! The amounts of launches, for programs that do the same on a real kernel.

use serde::{Deserialize, Serialize};

use super::Form;
use super::sizes::{self, Sizes};
use crate::error::Error;
use crate::sim::Nanos;
use crate::sim::machine_file::MachineSpec;

/// Both ends are included.
type Range = (u64, u64);

/// The amounts of [`Form::Launch`] on a machine; pairs are ranges, both ends included.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Amounts {
    /// Apps.
    pub apps: u64,
    /// By how much the machine is smaller than the whole one.
    pub divisor: u64,
    /// Anonymous pages of an app.
    pub anon: (u64, u64),
    /// Pages of an app's own files.
    pub own_pages: (u64, u64),
    /// Pages of files that all use.
    pub shared_pages: u64,
    /// The user's files.
    pub media_files: u64,
    /// Pages of each.
    pub media_pages: u64,
    /// Threads of an app.
    pub threads: (u64, u64),
    /// Tables of pages of an app.
    pub tables: (u64, u64),
    /// Areas of memory of an app.
    pub areas: (u64, u64),
    /// Small objects of an app.
    pub small: (u64, u64),
    /// Binder pages of an app.
    pub binder: (u64, u64),
    /// Graphics buffers of an app.
    pub buffers: (u64, u64),
    /// Pages of a buffer.
    pub buffer_pages: (u64, u64),
    /// The time a launch computes, of a new and of a cached app.
    pub think: (Nanos, Nanos),
    /// The time between two turns of a use.
    pub turn: Nanos,
    /// Pages that are freed and filled in a turn.
    pub turn_anon: u64,
    /// Pages of files that are read in a turn.
    pub turn_files: u64,
    /// The time in the background after which an app is paged out.
    pub page_out_after: Nanos,
    /// Pages of the system's own programs.
    pub system_pages: u64,
    /// Those touched in a turn.
    pub system_touches: u64,
}

/// Pages of a thread's stack (`THREAD_SIZE`).
const STACK_PAGES: u64 = 4;

impl Amounts {
    /// Returns the pages that the machine's boot takes for the kernel: its drivers' memory and its threads' stacks. The
    /// rest of that boot is in the amounts.
    ///
    /// # Errors
    /// [`Error::Workload`] for a machine that the workload does not fit.
    pub fn kernel_pages(machine: &MachineSpec) -> Result<u64, Error> {
        let sizes = Sizes::of(Form::Launch, machine)?;
        let spec = sizes.spec;
        Ok(sizes.part(spec.system_kernel) + STACK_PAGES * sizes.part(spec.system_threads))
    }

    /// Returns the amounts on a machine.
    ///
    /// # Errors
    /// [`Error::Workload`] for a machine that the workload does not fit.
    pub fn of(machine: &MachineSpec) -> Result<Self, Error> {
        let sizes = Sizes::of(Form::Launch, machine)?;
        let spec = sizes.spec;
        let range = |(least, most): Range| (sizes.part(least), sizes.part(most));
        Ok(Self {
            apps: spec.apps,
            divisor: (machine.scale.denominator / machine.scale.numerator).max(1),
            anon: range(spec.anon),
            own_pages: range(spec.files),
            shared_pages: sizes.part(spec.shared_files),
            media_files: sizes.part(sizes::MEDIA_FILES),
            media_pages: sizes::MEDIA_PAGES.into(),
            threads: range(spec.threads),
            tables: range(spec.tables),
            areas: range(sizes::VM_AREAS),
            small: range(sizes::SMALL_OBJECTS),
            binder: range(sizes::BINDER_PAGES),
            buffers: range(spec.buffers),
            buffer_pages: range(spec.buffer_pages),
            think: (sizes.time(spec.think.0), sizes.time(spec.think.1)),
            turn: sizes::TURN,
            turn_anon: sizes.part(sizes::TURN_ANON),
            turn_files: sizes.part(sizes::TURN_FILES),
            page_out_after: spec.page_out_after,
            system_pages: sizes.part(spec.system_anon),
            system_touches: sizes.part(sizes::SYSTEM_TOUCHES),
        })
    }
}
