//! Opens a file or folder of any format.

pub(crate) mod capture;
pub(crate) mod events;
pub(crate) mod recording;
