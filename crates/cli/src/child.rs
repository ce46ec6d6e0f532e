//! Commands that run while this program does something for them.

use std::io::ErrorKind;
use std::process::{Child, Command, ExitStatus};

use anyhow::{Context, bail};

/// Starts a command; nothing for none.
pub(crate) fn start(command: &[String]) -> anyhow::Result<Option<Child>> {
    let Some((program, arguments)) = command.split_first() else { return Ok(None) };
    match Command::new(program).args(arguments).spawn() {
        Ok(child) => Ok(Some(child)),
        Err(error) if error.kind() == ErrorKind::NotFound => bail!("{program}: no such command"),
        Err(error) => Err(error).with_context(|| program.clone()),
    }
}

/// Returns the exit status of a command, by the convention of shells where a signal ended it.
pub(crate) fn exit_status(status: ExitStatus) -> u8 {
    use std::os::unix::process::ExitStatusExt;

    let signal = || status.signal().map_or(1, |signal| 128 + signal);
    u8::try_from(status.code().unwrap_or_else(signal)).unwrap_or(1)
}
