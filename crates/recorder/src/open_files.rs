//! The limit of open files, which a machine with hundreds of CPUs exceeds.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What else is open at a time.
const OTHERS: u64 = 64;

/// Raises the soft limit where it is too small for so many files. The command inherits it, so it stays where it suffices; where it
/// cannot be raised, opening a file says so.
pub(crate) fn allow(files: usize) {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let needed = files as u64 + OTHERS;
    if current.is_some_and(|current| current < needed) {
        let current = maximum.map_or(Some(needed), |maximum| Some(needed.min(maximum)));
        let _ = setrlimit(Resource::Nofile, Rlimit { current, maximum });
    }
}
