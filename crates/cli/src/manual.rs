//! `pageblock completions` and `pageblock man`: what clap makes of the arguments.

use std::path::Path;

use anyhow::Context;
use clap::CommandFactory;
use clap_complete::Shell;

use crate::Verdict;
use crate::args::Args;
use crate::output;

/// Prints the script that completes for a shell.
pub(crate) fn completions(shell: Shell) -> anyhow::Result<Verdict> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "pageblock", &mut script);
    // Not for people: a script keeps every character.
    output::write(&script)?;
    Ok(Verdict::Yes)
}

/// Writes `pageblock.1`, `pageblock-run.1` and so on.
pub(crate) fn man(folder: &Path) -> anyhow::Result<Verdict> {
    let place = || folder.display().to_string();
    std::fs::create_dir_all(folder).with_context(place)?;
    clap_mangen::generate_to(Args::command(), folder).with_context(place)?;
    output::print(&format!("manual pages in {}\n", output::in_line(&place())))?;
    Ok(Verdict::Yes)
}
