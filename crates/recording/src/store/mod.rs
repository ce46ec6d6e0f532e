//! Events as columns, and a whole recording as one file.

pub mod columnar;
pub(crate) mod fingerprint;
pub(crate) mod names;
pub(crate) mod packed;
pub(crate) mod pbrec;
pub(crate) mod rows;
pub(crate) mod seal;
pub(crate) mod stream;
pub mod table;
