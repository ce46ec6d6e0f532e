//! A page-frame allocator with the mechanisms of Linux's.
#![no_std]
#![deny(unsafe_code)]

pub mod alloc_flags;
pub mod event;
pub mod frame;
pub mod layout;
pub mod mobility;
pub mod policy;
pub mod preset;
pub mod request;
pub mod tuning;
pub mod zonelist;
