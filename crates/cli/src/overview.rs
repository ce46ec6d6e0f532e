//! What `pageblock` prints without arguments.

use std::ffi::OsString;

use clap::CommandFactory;

use crate::args::Args;

/// What the program can do, by kind of user.
pub(crate) const TEXT: &str = "\
pageblock: see why memory is fragmented, and which policy would have helped.

  operator          why did an allocation fail?           dmesg | pageblock explain
                    is memory fragmented, does it hurt?   pageblock doctor
                    live; for weeks; on many machines     pageblock watch | flight | fleet
  kernel developer  what would my change do?              pageblock run hugealloc --policy linux-6.9 --policy linux-6.10
                    which change did it?                  pageblock bisect hugealloc linux-6.9 linux-6.12
                    the same requests, another kernel     pageblock record, then pageblock replay
  researcher        every kernel, workload and seed       pageblock sweep grid.toml; pip install pageblock
  embedder          the allocator as a library            cargo add pageblock; pageblock.h

  First: pageblock demo (ten seconds, needs nothing). All commands: pageblock --help; one: pageblock COMMAND --help
";

/// Says which commands a command line without one could have, as in `pageblock policy`.
pub(crate) fn missing(words: impl Iterator<Item = OsString>) -> String {
    let program = Args::command();
    let (mut command, mut path) = (&program, program.get_name().to_owned());
    for word in words {
        let Some(found) = command.find_subcommand(&word) else { break };
        command = found;
        path = format!("{path} {}", command.get_name());
    }
    let names: Vec<_> = command.get_subcommands().map(clap::Command::get_name).collect();
    format!("error: a command is missing: {path} {}", names.join(" | "))
}
