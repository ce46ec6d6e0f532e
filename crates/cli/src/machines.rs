//! `pageblock machine list | show | from`.

use pageblock_plan::machines;

use crate::args::MachineCommand;
use crate::{Verdict, output};

pub(crate) fn run(command: &MachineCommand) -> anyhow::Result<Verdict> {
    let text = match command {
        MachineCommand::List => machines::names().map(|name| format!("{name}\n")).collect(),
        MachineCommand::Show { machine } => machines::known(machine)?.to_owned(),
        MachineCommand::From { folder, name } => machines::from(folder, name.as_deref())?,
    };
    output::print(&text)?;
    Ok(Verdict::Yes)
}
