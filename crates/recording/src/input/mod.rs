//! Files as bytes and lines, with the position of each for messages.

pub(crate) mod bytes;
pub(crate) mod compression;
pub(crate) mod error;
pub(crate) mod source;
pub(crate) mod tar;
