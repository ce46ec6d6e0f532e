//! The program `pageblock` with a policy of one's own, which it knows by the name of this crate.
//!
//!     cargo test                                              the idea's own test
//!     cargo run --release -- policy try BASE,decide=NAME      under every workload, beside BASE
//!     cargo run --release -- run WORKLOAD --policy BASE --policy BASE,decide=NAME
//!
//! A program can have several policies: a line for each.

mod idea;

use std::process::ExitCode;

use pageblock_cli::Own;

fn main() -> ExitCode {
    pageblock_cli::main_with(vec![Own {
        name: env!("CARGO_PKG_NAME"),
        summary: idea::SUMMARY,
        make: || Box::new(idea::Idea),
    }])
}
