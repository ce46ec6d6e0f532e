//! The formats of captures: each file turns bytes into events.

pub(crate) mod capture;
pub(crate) mod events;
pub(crate) mod llfree;
pub(crate) mod perf_data;
pub(crate) mod text;
pub(crate) mod trace_dat;
pub(crate) mod tsv;
