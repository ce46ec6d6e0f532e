//! Proposals of 2026 that no Linux has, each a [`Decide`](pageblock::decide::Decide) in a file of its own:
//! `linux-7.3,decide=superpageblocks`.

mod owners;
mod superpageblocks;
mod trees;
mod units;

pub use owners::Owners;
pub use superpageblocks::{Form, Superpageblocks};
pub use trees::Trees;

use crate::own::Own;

/// Every proposal.
pub const ALL: &[Own] = &[
    Own {
        name: "superpageblocks",
        summary: "movable pages go to the fullest clean gigabytes, others to tainted ones (lists for each)",
        make: || Box::new(Superpageblocks::new(Form::Lists)),
    },
    Own {
        name: "superpageblocks-bitmap",
        summary: "the same choice by bitmaps over gigabytes, one for each order",
        make: || Box::new(Superpageblocks::new(Form::Bitmaps)),
    },
    Own {
        name: "owners",
        summary: "CPUs own pageblocks: their lists refill from them, and what is freed there goes back to them",
        make: || Box::new(Owners::default()),
    },
    Own {
        name: "trees",
        summary: "LLFree's trees: each CPU reserves 8 MiB for a class, half-full ones first",
        make: || Box::new(Trees::default()),
    },
];
