//! Which program this is.

/// Returns the version with a digest of the sources: what one build kept answers for no other.
#[must_use]
pub fn build() -> String {
    format!("{}-{}", env!("CARGO_PKG_VERSION"), env!("PAGEBLOCK_BUILD"))
}
