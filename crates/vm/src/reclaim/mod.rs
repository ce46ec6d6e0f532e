//! Reclaim: frees pages of the LRU lists and objects of the shrinkers, and kills processes.
//!
//! Source: mm/vmscan.c, mm/oom_kill.c.

mod amounts;
pub(crate) mod direct;
mod inactive;
pub mod kswapd;
mod lists;
mod mglru;
pub mod node_reclaim;
mod oom;
mod page_out;
mod scan_control;
mod shrink_node;
mod shrinkers;
