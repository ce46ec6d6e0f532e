//! Part of Pageblock.
