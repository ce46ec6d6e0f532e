//! One value that says which kernel it is: the allocator's policy, the rules around the allocator, and an
//! administrator's settings.
//!
//! A kernel version is a row of values ([`preset`]); a what-if is one changed switch. In text a kernel is
//! `NAME,switch=value,...`, where `NAME` is a preset; a file says the same in TOML ([`mod@file`]).
//!
//! ```
//! use pageblock_kernel::{Kernel, Named};
//!
//! let before = Named::parse("linux-4.20")?.kernel;
//! let after = Named::parse("linux-5.0")?.kernel;
//! let changed: Vec<_> = before.diff(&after).map(|(switch, ..)| switch.name()).collect();
//! assert!(changed.contains(&"slab_min_scan"));
//! # Ok::<(), pageblock_kernel::KernelError>(())
//! ```

pub mod file;
pub mod named;
pub mod preset;
pub mod rules;
pub mod switch;

use pageblock::policy::{Policy, Value};

pub use named::{KernelError, Named};
pub use switch::Switch;

/// Declares the groups of a kernel's rules.
macro_rules! groups {
    ($($(#[doc = $doc:literal])* $group:ident: $Group:ty,)*) => {
        /// A resolved kernel: no default and no version number remains.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub struct Kernel {
            /// The page allocator's switches and settings.
            pub allocator: Policy,
            $($(#[doc = $doc])* pub $group: $Group,)*
        }

        /// The rules around the allocator: a kernel without its policy.
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct Rules {
            $(pub(crate) $group: $Group,)*
        }

        impl Rules {
            /// The rules of 3.10.
            pub(crate) const V3_10: Self = Self { $($group: <$Group>::V3_10,)* };

            pub(crate) const fn around(self, allocator: Policy) -> Kernel {
                Kernel { allocator, $($group: self.$group,)* }
            }
        }
    };
}

groups! {
    /// Settings of `/proc/sys/vm` that the allocator does not read.
    sysctl: rules::sysctl::Sysctl,
    /// Compaction of a zone.
    compaction: rules::compaction::Compaction,
    /// Compaction in the background.
    kcompactd: rules::kcompactd::Kcompactd,
    /// Background reclaim.
    kswapd: rules::kswapd::Kswapd,
    /// Choice of pages to reclaim.
    reclaim: rules::reclaim::Reclaim,
    /// Caches of dentries, inodes and buffers.
    shrinkers: rules::shrinkers::Shrinkers,
    /// Write-back, the block layer and XFS's log.
    writeback: rules::writeback::Writeback,
    /// Slabs, zram, processes.
    memory: rules::memory::Memory,
    /// Huge pages.
    huge: rules::huge::Huge,
}

impl Kernel {
    /// Returns the switches in which two kernels differ, with both values.
    pub fn diff<'k>(
        &'k self,
        other: &'k Self,
    ) -> impl Iterator<Item = (Switch, Value, Value)> + 'k {
        Switch::all().map(move |s| (s, s.get(self), s.get(other))).filter(|(_, a, b)| a != b)
    }
}
