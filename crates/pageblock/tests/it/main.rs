//! Tests of the allocator through its public interface.

mod machine;
mod mistakes;
mod scenarios;
mod vectors;
