//! The program `pageblock` with the small changes of Linux that docs/linux-patch.md compares, each a policy:
//!
//!     cargo run --release -- policy list
//!     cargo run --release -- policy try linux-6.12,decide=look-8

mod placement;

use std::process::ExitCode;

use pageblock::decide::{Decide, Kept};
use pageblock_cli::Own;
use placement::{Freed, Placement};

/// Linux as it is.
const LINUX: Placement = Placement {
    freed: Freed::Linux,
    kept: Kept::Head,
    full: 16,
    looks: 0,
    fallbacks: false,
    finishes: false,
};

/// A policy with a name.
macro_rules! own {
    ($name:literal, $summary:literal, $($field:ident: $value:expr),+) => {
        Own {
            name: $name,
            summary: $summary,
            make: || -> Box<dyn Decide> { Box::new(Placement { $($field: $value,)+ ..LINUX }.start()) },
        }
    };
}

fn main() -> ExitCode {
    pageblock_cli::main_with(vec![
        own!("freed-half", "freed to the head where less than half of the pageblock is free", freed: Freed::Share(2)),
        own!("freed-eighth", "freed to the head where less than an eighth of the pageblock is free", freed: Freed::Share(8)),
        own!("freed-quarter", "freed to the head where less than a quarter of the pageblock is free", freed: Freed::Share(4)),
        own!("freed-or-half", "freed to the tail where half of the pageblock is free, too", freed: Freed::OrShare(2)),
        own!("freed-or-eighth", "freed to the tail where an eighth of the pageblock is free, too", freed: Freed::OrShare(8)),
        own!("freed-fuller", "freed to the head where the pageblock is fuller than the head's", freed: Freed::Fuller),
        own!("tail-16", "to the tail of a CPU list where a sixteenth of the pageblock is free", kept: Kept::Tail),
        own!("tail-4", "to the tail of a CPU list where a quarter is free", kept: Kept::Tail, full: 4),
        own!("zone-16", "past CPU lists where a sixteenth of the pageblock is free", kept: Kept::Zone),
        own!("zone-4", "past CPU lists where a quarter is free", kept: Kept::Zone, full: 4),
        own!("zone-2", "past CPU lists where half is free", kept: Kept::Zone, full: 2),
        own!("tail-eighth", "tail-16 and freed-eighth", kept: Kept::Tail, freed: Freed::Share(8)),
        own!("tail-half", "tail-16 and freed-half", kept: Kept::Tail, freed: Freed::Share(2)),
        own!("zone-eighth", "zone-16 and freed-eighth", kept: Kept::Zone, freed: Freed::Share(8)),
        own!("zone-half", "zone-16 and freed-half", kept: Kept::Zone, freed: Freed::Share(2)),
        own!("zone-8", "zone-16 and look-8", kept: Kept::Zone, looks: 8),
        own!("zone-half-8", "zone-16, freed-half and look-8", kept: Kept::Zone, freed: Freed::Share(2), looks: 8),
        own!("look-4", "serves from the fullest of the first 4 pageblocks of the list", looks: 4),
        own!("look-8", "serves from the fullest of the first 8", looks: 8),
        own!("look-16", "serves from the fullest of the first 16", looks: 16),
        own!("look-32", "serves from the fullest of the first 32", looks: 32),
        own!("fallback", "claims the emptiest, and steals from the fullest, of the first 8", fallbacks: true),
        own!("finish-8", "serves from the pageblock that served last, if it is among the first 8", looks: 8, finishes: true),
        own!("half-8", "freed-half and look-8", freed: Freed::Share(2), looks: 8),
        own!("fuller-8", "freed-fuller and look-8", freed: Freed::Fuller, looks: 8),
        own!("eighth-8", "freed-eighth and look-8", freed: Freed::Share(8), looks: 8),
        own!("eighth-fallback", "freed-eighth and fallback", freed: Freed::Share(8), fallbacks: true),
        own!("quarter-8-fallback", "freed-quarter, look-8 and fallback", freed: Freed::Share(4), looks: 8, fallbacks: true),
        own!("half-fallback", "freed-half and fallback", freed: Freed::Share(2), fallbacks: true),
        own!("fuller-fallback", "freed-fuller and fallback", freed: Freed::Fuller, fallbacks: true),
        own!("fuller-8-fallback", "freed-fuller, look-8 and fallback", freed: Freed::Fuller, looks: 8, fallbacks: true),
    ])
}
