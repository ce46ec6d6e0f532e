//! Ctrl-C: the first asks a long command to stop and print what is finished, the second ends it.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

static REQUESTED: AtomicBool = AtomicBool::new(false);

/// The exit status of a program that Ctrl-C ended, as shells count it.
const INTERRUPTED: i32 = 130;

/// Has Ctrl-C noted from now on; [`requested`] tells.
pub(crate) fn watch() -> anyhow::Result<()> {
    ctrlc::set_handler(|| {
        if REQUESTED.swap(true, SeqCst) {
            std::process::exit(INTERRUPTED);
        }
    })?;
    Ok(())
}

/// Tells whether Ctrl-C was pressed: finish the step, print what is finished.
pub(crate) fn requested() -> bool {
    REQUESTED.load(SeqCst)
}
