//! Who asked for pages, by the functions that called the allocator.

use serde::Serialize;

/// What a call site did.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct CallSite {
    /// The function that asked for memory, and those that called it.
    pub functions: Vec<String>,
    /// The type that it asked for.
    pub migratetype: &'static str,
    /// Its events.
    pub events: u64,
    /// The pages that it got in them.
    pub pages: u64,
    /// Of fallbacks those by which the block changed its type.
    pub claimed: u64,
}

/// The call sites of the events that have a stack.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct CallSites {
    /// Those that took pages of blocks of another type (`mm_page_alloc_extfrag`), the most events first.
    pub fallbacks: Vec<CallSite>,
    /// Those that asked for pages (`mm_page_alloc`), the most pages first.
    pub requests: Vec<CallSite>,
}
