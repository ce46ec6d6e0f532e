//! Arguments of `pageblock fleet`.

use std::path::PathBuf;

pub(crate) const FLEET_HELP: &str = "\
pageblock fleet /mnt/bucket/sosreports                 # a folder with a file or folder for each host
pageblock fleet rings/ metrics/ logs/ -o fleet.parquet # flight files, metrics, logs; a row a host
A host that cannot be read is named and counted, and is a row with an error. docs/fleet.md has queries to go on with.
Exit status: 0; 1 where a host cannot be read; 2 for wrong usage, or where there is no host.";

#[derive(clap::Args, Debug)]
pub(crate) struct FleetArgs {
    /// Folders with a file or folder for each host, or single hosts: copied trees, flight files, metrics, logs
    #[arg(value_name = "PATH", required = true)]
    pub(crate) paths: Vec<PathBuf>,
    /// Write the table as Parquet
    #[arg(short, long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Examine this many hosts at a time; by default the number of CPUs
    #[arg(long, value_name = "N")]
    pub(crate) jobs: Option<usize>,
    /// Print the rows as JSON instead of the summary
    #[arg(long)]
    pub(crate) json: bool,
}
