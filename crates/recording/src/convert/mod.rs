//! Writes a recording in another form.

mod anonymise;
mod cache;
pub(crate) mod folder;
pub mod llfree;
pub(crate) mod pack;
pub(crate) mod part;
pub(crate) mod salvage;

#[cfg(test)]
mod tests;
