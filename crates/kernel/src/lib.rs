//! One value that says which kernel it is: the allocator's policy, the rules around the allocator, and an
//! administrator's settings.
//!
//! A kernel version is a row of values ([`mod@preset`]); a what-if is one changed switch. In text a kernel is
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

mod changes;
pub mod file;
pub mod named;
pub mod own;
pub mod proposals;
pub mod rules;
pub mod setting;
pub mod switch;

use pageblock::policy::{Policy, Switches, Value};
pub use pageblock::preset;

pub use named::{KernelError, Named};
pub use switch::Switch;

/// Declares the parts of a kernel.
macro_rules! parts {
    ($($(#[doc = $doc:literal])* $part:ident: $Part:ty,)*) => {
        /// A resolved kernel: no default and no version number remains.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub struct Kernel {
            $($(#[doc = $doc])* pub $part: $Part,)*
        }

        impl Kernel {
            /// The values of 3.10, on which those of later kernels are based.
            const V3_10: Self = Self { $($part: <$Part as Switches>::V3_10,)* };
        }

        $(impl switch::Part for $Part {
            fn of(kernel: &Kernel) -> &Self {
                &kernel.$part
            }

            fn of_mut(kernel: &mut Kernel) -> &mut Self {
                &mut kernel.$part
            }
        })*

        impl Switch {
            /// Returns every switch, the allocator's first, then part by part.
            pub fn all() -> impl Iterator<Item = Self> {
                core::iter::empty()$(.chain(<$Part as Switches>::SWITCHES.iter().map(Self::of)))*
            }
        }
    };
}

parts! {
    /// The page allocator's switches and settings.
    allocator: Policy,
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
    /// Generations of pages.
    mglru: rules::mglru::Mglru,
    /// Caches of dentries, inodes and buffers.
    shrinkers: rules::shrinkers::Shrinkers,
    /// The page cache in large folios.
    pagecache: rules::pagecache::PageCache,
    /// Write-back, the block layer and XFS's log.
    writeback: rules::writeback::Writeback,
    /// Slabs, zram, processes.
    memory: rules::memory::Memory,
    /// Huge pages.
    huge: rules::huge::Huge,
    /// Who gets a CPU.
    scheduler: rules::scheduler::Schedule,
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
