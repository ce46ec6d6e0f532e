//! Segregation by lifetime: requests whose pages live about as long share pageblocks, apart from others (as TCMalloc's page
//! heap does by spans, OSDI 2021, and LLAMA by predicted classes, ASPLOS 2020; for Linux nobody posted it).
//!
//! A class is told by what a kernel has at hand, the request's flags:
//!
//! * *in flight*, microseconds to milliseconds: the request may not wait (buffers of the network)
//! * *of a process*, until that ends: zeroed (`__GFP_ZERO`: anonymous memory, page tables)
//! * *kept*, until reclaim or a driver frees it: all others (slabs, files)
//!
//! A kernel could know more: the call site (memory allocation profiling has a tag for each), the process.
//!
//! A pageblock has the class of the request that opened or claimed it, until it is wholly free. How blocks are chosen, what
//! it costs and what is left out: [`segregated`](super::segregated). What a fallback takes is chosen by type alone.

use pageblock::request::Gfp;

use super::segregated::{Class, Segregated};

/// The policy.
pub type Lifetimes = Segregated<Lifetime>;

/// How long pages live.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Lifetime {
    /// Until the network or a disk is done with them.
    InFlight,
    /// Until the process ends.
    OfProcess,
    /// Until they are reclaimed.
    #[default]
    Kept,
}

impl Class for Lifetime {
    const UNOPENED: Option<Self> = None;
    const LASTING: bool = false;

    fn of(gfp: Gfp) -> Self {
        match gfp {
            _ if !gfp.has(Gfp::DIRECT_RECLAIM) => Self::InFlight,
            _ if gfp.has(Gfp::ZERO) => Self::OfProcess,
            _ => Self::Kept,
        }
    }
}
