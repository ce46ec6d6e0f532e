//! Tests of the allocator through its public interface.

mod cpu_lists;
mod driver;
mod embedders;
mod emptying;
mod fast_path;
mod folders;
mod hostile;
mod hotplug;
mod imposed;
mod invariants;
mod locks;
mod machine;
mod mechanisms;
mod mistakes;
mod model;
mod packing;
mod properties;
mod ranges;
mod rings;
mod scenarios;
mod sharing;
mod source;
mod strict;
mod tables;
mod vectors;
mod workspace;
