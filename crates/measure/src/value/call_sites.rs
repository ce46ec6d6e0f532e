//! Who asked for pages, who still holds them, and who waited for them, by the functions that called the allocator.

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

/// The call sites of the events that have a stack, and what was asked for with and without one.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct CallSites {
    /// Those that took pages of blocks of another type (`mm_page_alloc_extfrag`), the most events first.
    pub fallbacks: Vec<CallSite>,
    /// Those that asked for pages (`mm_page_alloc`), the most pages first.
    pub requests: Vec<CallSite>,
    /// Who still holds pages that do not move, at the end.
    pub held: StillHeld,
    /// Who waited for compaction or reclaim of its own, the longest first.
    pub waits: Vec<Wait>,
}

/// Pages other than movable ones that were asked for while events were recorded, less those that were freed.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct StillHeld {
    /// The pages that were asked for.
    pub asked: u64,
    /// Those that are still held at the end.
    pub held: u64,
    /// Events that were lost: frees may be among them, and then fewer pages are held.
    pub lost: u64,
    /// The pageblocks that they are in.
    pub blocks: u64,
    /// The order of a pageblock.
    pub pageblock_order: u8,
    /// By holder, the most pageblocks first.
    pub holders: Vec<PageHolder>,
    /// The pageblocks, by number: the holder (its place in `holders`) with the most pages in it, and all held pages.
    pub map: Vec<HeldBlock>,
}

/// Who holds pages.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct PageHolder {
    /// The command that asked.
    pub process: String,
    /// The function that asked for memory, and those that called it; none without a stack.
    pub functions: Vec<String>,
    /// The slab cache, where the function is known to serve one; "slab" where it is another.
    pub slab: Option<&'static str>,
    /// The type that it asked for.
    pub migratetype: &'static str,
    /// The pages that it asked for.
    pub asked: u64,
    /// Those that it still holds at the end.
    pub held: u64,
    /// The pageblocks that they are in.
    pub blocks: u64,
    /// Those in which nobody else holds such pages.
    pub alone: u64,
}

/// A pageblock with held pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct HeldBlock {
    /// The number of the pageblock: its first frame over its size.
    pub block: u64,
    /// The holder with the most pages.
    pub holder: u32,
    /// All held pages in it.
    pub pages: u32,
}

/// What a task did itself because its request could not be served.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitFor {
    /// It compacted memory.
    Compaction,
    /// It reclaimed memory.
    Reclaim,
}

/// The times that a command waited, by what for, the order, and from where.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Wait {
    /// The command.
    pub process: String,
    /// What it did itself.
    pub waited_for: WaitFor,
    /// The requested order.
    pub order: u8,
    /// The function that asked for memory, and those that called it; none without a stack.
    pub functions: Vec<String>,
    /// How often.
    pub times: u64,
    /// How often it was in vain: no zone was compacted with success, no page was reclaimed.
    pub in_vain: u64,
    /// The time of all, in microseconds.
    pub total_us: u64,
    /// The longest, in microseconds.
    pub longest_us: u64,
}
