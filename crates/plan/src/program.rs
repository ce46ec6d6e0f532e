//! Which program this is.

/// Returns the version.
#[must_use]
pub const fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// Returns the version with a digest of the sources: what one build kept answers for no other.
#[must_use]
pub fn build() -> String {
    format!("{}-{}", version(), env!("PAGEBLOCK_BUILD"))
}
