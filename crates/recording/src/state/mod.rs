//! The state and the settings of a machine, from the files beside the events.

pub(crate) mod files;
pub(crate) mod meminfo;
pub(crate) mod paths;
pub(crate) mod procfs;
pub(crate) mod recording;
pub(crate) mod snapshot;
pub(crate) mod window;
pub(crate) mod zoneinfo;
