//! Tests of the allocator through its public interface.

mod driver;
mod locks;
mod machine;
mod mechanisms;
mod mistakes;
mod model;
mod properties;
mod scenarios;
mod sharing;
mod strict;
mod vectors;
