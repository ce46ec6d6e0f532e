//! Imposed state: policy is bypassed, to rebuild a known state, and to follow a recorded kernel where
//! it decided otherwise. The cargo feature `replay` enables it; embedders do not need it.
//!
//! These are the only ways around the allocator's own decisions. None of them reports an event, but
//! [`Allocator::free_past_lists`](crate::alloc::Allocator::free_past_lists),
//! [`Allocator::alloc_past_lists`](crate::alloc::Allocator::alloc_past_lists) and
//! [`Zone::impose_fallback`](crate::zone::Zone::impose_fallback). Wrong use is an error that changes nothing.

mod bypass;
mod cache;
mod zone;

/// End of a CPU list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ListEnd {
    /// Where frees go and allocations come from.
    Head,
    /// Where refills go and drains come from.
    Tail,
}
