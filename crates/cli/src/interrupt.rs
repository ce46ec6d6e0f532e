//! Ctrl-C: ends a long command at once, unless it has results to print. Then the first asks it to stop
//! and print them, the second ends it.

use std::io::IsTerminal;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The exit status of a program that Ctrl-C ended, as shells count it.
pub(crate) const INTERRUPTED: u8 = 130;

struct State {
    /// What is finished and to be printed, in words.
    finished: Option<String>,
    requested: bool,
}

static STATE: Mutex<State> = Mutex::new(State { finished: None, requested: false });

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has Ctrl-C handled from now on.
pub(crate) fn watch() -> anyhow::Result<()> {
    ctrlc::set_handler(|| {
        // Held until the program ends, where it does: nobody begins to write a file meanwhile.
        let mut state = state();
        if state.requested {
            std::process::exit(INTERRUPTED.into());
        }
        // A progress bar is erased first.
        let erase = if std::io::stderr().is_terminal() { "\r\x1b[2K" } else { "" };
        let Some(finished) = &state.finished else {
            eprintln!("{erase}Interrupted: nothing is finished yet.");
            std::process::exit(INTERRUPTED.into());
        };
        eprintln!("{erase}Interrupted: {finished}. Press Ctrl-C again to quit without printing.");
        state.requested = true;
    })?;
    Ok(())
}

/// Says what is finished: from now on the first Ctrl-C asks to print it ([`requested`]).
pub(crate) fn keep(finished: String) {
    state().finished = Some(finished);
}

/// Tells whether Ctrl-C was pressed: stop, and print what is finished.
pub(crate) fn requested() -> bool {
    state().requested
}
