//! Proposals that no Linux has, each a [`Decide`](pageblock::decide::Decide) in a file of its own:
//! `linux-7.3,decide=superpageblocks`.

mod boundary;
mod found;
mod lifetimes;
mod owners;
mod segregated;
mod superpageblocks;
mod trees;
mod units;
mod unmapped;

pub use boundary::Boundary;
pub use lifetimes::Lifetimes;
pub use owners::Owners;
pub use superpageblocks::{Form, Superpageblocks};
pub use trees::Trees;
pub use unmapped::Unmapped;

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
        name: "lifetimes",
        summary: "pageblocks are shared by requests whose pages live about as long",
        make: || Box::new(Lifetimes::default()),
    },
    Own {
        name: "boundary",
        summary: "movable pages lie above a boundary that moves by pressure, others below (Contiguitas)",
        make: || Box::new(Boundary::default()),
    },
    Own {
        name: "trees",
        summary: "each CPU reserves 8 MiB for a class, half-full ones first (LLFree)",
        make: || Box::new(Trees::default()),
    },
    Own {
        name: "unmapped",
        summary: "anonymous memory has pageblocks of its own, outside the direct map (freetype_t)",
        make: || Box::new(Unmapped::default()),
    },
];
