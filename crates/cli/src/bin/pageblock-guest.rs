//! The program that guests of `pageblock guest` run, from their first process on.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    pageblock_guest::inside::main()
}
