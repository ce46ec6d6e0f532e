//! Ctrl-C: ends a long command at once, unless it has results to print. In that case the first Ctrl-C asks it
//! to stop and print them, and the second ends it.

use std::io::IsTerminal;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::output;

/// The exit status of a program that Ctrl-C ended, by the convention of shells.
pub(crate) const INTERRUPTED: u8 = 130;

struct State {
    /// The finished results to be printed, in words.
    finished: Option<String>,
    requested: bool,
    /// Ctrl-C was pressed again.
    insisted: bool,
}

static STATE: Mutex<State> =
    Mutex::new(State { finished: None, requested: false, insisted: false });

/// Tells that a stop was requested.
static REQUESTED: Condvar = Condvar::new();

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Installs the handler of Ctrl-C.
pub(crate) fn watch() -> anyhow::Result<()> {
    ctrlc::set_handler(|| {
        // The lock is held until the program exits, if it does, so that no file is being written meanwhile.
        let mut state = state();
        if state.requested {
            std::process::exit(INTERRUPTED.into());
        }
        // Erase a progress bar first.
        let erase = if std::io::stderr().is_terminal() { "\r\x1b[2K" } else { "" };
        let Some(finished) = &state.finished else {
            output::note(&format!("{erase}Interrupted: nothing is finished yet.\n"));
            std::process::exit(INTERRUPTED.into());
        };
        output::note(&format!(
            "{erase}Interrupted: {finished}. Press Ctrl-C again to quit without printing.\n"
        ));
        state.requested = true;
    })?;
    Ok(())
}

/// Installs a handler by which Ctrl-C, or a request to end, only asks the command to stop ([`requested`]), and asks more
/// strongly the second time ([`insisted`]). It never ends the program, which has to switch off what it switched on.
pub(crate) fn watch_quietly() -> anyhow::Result<()> {
    ctrlc::set_handler(|| {
        let mut state = state();
        state.insisted = state.requested;
        state.requested = true;
        REQUESTED.notify_all();
    })?;
    Ok(())
}

/// Returns a flag that SIGUSR1 sets, if it is to be watched.
pub(crate) fn flag_of_usr1(watched: bool) -> anyhow::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    if watched {
        signal_hook::flag::register(signal_hook::consts::SIGUSR1, Arc::clone(&flag))?;
    }
    Ok(flag)
}

/// Sets what is finished: from now on the first Ctrl-C requests to print it ([`requested`]).
pub(crate) fn keep(finished: String) {
    state().finished = Some(finished);
}

/// Reports whether Ctrl-C was pressed: the command should stop and print its results.
pub(crate) fn requested() -> bool {
    state().requested
}

/// Reports whether Ctrl-C was pressed a second time: the command should leave the rest of its work.
pub(crate) fn insisted() -> bool {
    state().insisted
}

/// Waits for a time, or until Ctrl-C; reports whether it was pressed.
pub(crate) fn wait(time: Duration) -> bool {
    let waited = REQUESTED.wait_timeout_while(state(), time, |state| !state.requested);
    waited.unwrap_or_else(PoisonError::into_inner).0.requested
}
