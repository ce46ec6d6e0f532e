//! The guest's program: the first process, and the processes of a load that it starts.

mod devices;
pub(crate) mod fallbacks;
mod fragmented;
mod init;
pub(crate) mod memory;
mod report;
pub(crate) mod state;

use std::process::ExitCode;

use crate::load;

/// Runs the part that the arguments name: as the guest's first process it sets the guest up, starts the load, and
/// reports; else it is the load or one of its processes.
#[must_use]
pub fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if std::process::id() == 1 {
        init::run();
    }
    match load::run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            report::complain(&why);
            ExitCode::from(2)
        }
    }
}
