//! Ctrl-C, and requests to end: they end a long command at once, unless it has results to print. In that case the first
//! Ctrl-C asks it to stop and print them, and the second ends it. Whatever ends the program, no file that is half written stays.

use std::io::IsTerminal;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use crate::output;

/// The exit status of a program that Ctrl-C ended, by the convention of shells.
pub(crate) const INTERRUPTED: u8 = 130;

/// What a signal does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// It ends the program, as without a handler.
    Ends,
    /// It ends the program unless there are results to print ([`watch`]).
    Prints,
    /// It only asks the command to stop ([`watch_quietly`]).
    Asks,
}

struct State {
    mode: Mode,
    /// The finished results to be printed, in words.
    finished: Option<String>,
    requested: bool,
    /// Ctrl-C was pressed again.
    insisted: bool,
}

static STATE: Mutex<State> =
    Mutex::new(State { mode: Mode::Ends, finished: None, requested: false, insisted: false });

/// Tells that a stop was requested.
static REQUESTED: Condvar = Condvar::new();

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Installs the handler of the signals that end a program, before any file is written. Under `nohup` a closed terminal
/// stays ignored.
pub(crate) fn install() -> anyhow::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    if !is_ignored(SIGHUP) {
        signals.add_signal(SIGHUP)?;
    }
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for signal in signals.forever() {
            handle(signal);
        }
    })?;
    Ok(())
}

/// Reports whether this process was started with a signal ignored.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

fn handle(signal: i32) {
    // The lock is held until the program ends, if it does.
    let mut state = state();
    match state.mode {
        Mode::Ends => {
            pageblock_files::remove_unfinished();
            if emulate_default_handler(signal).is_err() {
                std::process::exit(INTERRUPTED.into());
            }
        }
        Mode::Asks => {
            state.insisted = state.requested;
            state.requested = true;
            REQUESTED.notify_all();
        }
        Mode::Prints => print_or_end(&mut state),
    }
}

fn print_or_end(state: &mut State) {
    let end = || {
        pageblock_files::remove_unfinished();
        std::process::exit(INTERRUPTED.into())
    };
    if state.requested {
        end();
    }
    // Erase a progress bar first.
    let erase = if std::io::stderr().is_terminal() { "\r\x1b[2K" } else { "" };
    let Some(finished) = &state.finished else {
        output::note(&format!("{erase}Interrupted: nothing is finished yet.\n"));
        end()
    };
    output::note(&format!(
        "{erase}Interrupted: {finished}. Press Ctrl-C again to quit without printing.\n"
    ));
    state.requested = true;
}

/// From now on a signal ends the program, or asks it to stop and print what is finished ([`keep`]).
pub(crate) fn watch() {
    state().mode = Mode::Prints;
}

/// From now on a signal only asks the command to stop ([`requested`]), and asks more strongly the second time
/// ([`insisted`]). It never ends the program, which has to switch off what it switched on.
pub(crate) fn watch_quietly() {
    state().mode = Mode::Asks;
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
