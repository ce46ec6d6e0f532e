//! The program `pageblock`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    pageblock_cli::main()
}
