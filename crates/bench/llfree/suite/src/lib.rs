//! LLFree's test suite on Pageblock: `cargo test -- --skip recover --skip zeroed_steals_from_huge`. The two skipped use
//! calls that Pageblock does not have: tables recovered from persistent memory, and a tree's class changed.
