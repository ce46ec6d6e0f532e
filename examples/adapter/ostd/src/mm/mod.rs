//! Physical memory.

pub mod frame;

pub use frame::{Frame, UniqueFrame};

/// The bytes of a page.
pub const PAGE_SIZE: usize = 4096;

/// A physical address.
pub type Paddr = usize;

/// What lies at a physical address.
pub trait HasPaddr {
    /// Returns the address.
    fn paddr(&self) -> Paddr;
}
