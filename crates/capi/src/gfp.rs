//! Flags of a request (`gfp_t`), in the allocator's numbering; kernels renumber theirs.
//!
//! cbindgen reads only literals, so the values are repeated here and compared at compile time.

use pageblock::request::Gfp;

macro_rules! same {
    ($($here:ident = $there:ident;)*) => {
        const _: () = { $(assert!($here == Gfp::$there.0);)* };
    };
}

/// Memory below 16 MiB (x86).
pub const PB_GFP_BIT_DMA: u32 = 1 << 0;
/// High memory is allowed.
pub const PB_GFP_BIT_HIGHMEM: u32 = 1 << 1;
/// Memory below 4 GiB.
pub const PB_GFP_BIT_DMA32: u32 = 1 << 2;
/// The content can be moved.
pub const PB_GFP_BIT_MOVABLE: u32 = 1 << 3;
/// The content can be reclaimed by a shrinker.
pub const PB_GFP_BIT_RECLAIMABLE: u32 = 1 << 4;
/// May use half of the min watermark.
pub const PB_GFP_BIT_HIGH: u32 = 1 << 5;
/// Reclaim may start I/O.
pub const PB_GFP_BIT_IO: u32 = 1 << 6;
/// Reclaim may enter the file system.
pub const PB_GFP_BIT_FS: u32 = 1 << 7;
/// The content should be zeroed, which is up to the caller.
pub const PB_GFP_BIT_ZERO: u32 = 1 << 8;
/// An allocation that may not sleep and may use reserves (up to 6.2).
pub const PB_GFP_BIT_ATOMIC: u32 = 1 << 9;
/// The caller may reclaim, compact and wait.
pub const PB_GFP_BIT_DIRECT_RECLAIM: u32 = 1 << 10;
/// kswapd may be woken.
pub const PB_GFP_BIT_KSWAPD_RECLAIM: u32 = 1 << 11;
/// The page will be dirtied: spread over nodes by their dirty limits.
pub const PB_GFP_BIT_WRITE: u32 = 1 << 12;
/// No warning on failure.
pub const PB_GFP_BIT_NOWARN: u32 = 1 << 13;
/// Retry hard, without an OOM kill (`__GFP_REPEAT` up to 4.12).
pub const PB_GFP_BIT_RETRY_MAYFAIL: u32 = 1 << 14;
/// Loop until served.
pub const PB_GFP_BIT_NOFAIL: u32 = 1 << 15;
/// Only one light round of reclaim.
pub const PB_GFP_BIT_NORETRY: u32 = 1 << 16;
/// All reserves may be used.
pub const PB_GFP_BIT_MEMALLOC: u32 = 1 << 17;
/// A compound page.
pub const PB_GFP_BIT_COMP: u32 = 1 << 18;
/// No reserves.
pub const PB_GFP_BIT_NOMEMALLOC: u32 = 1 << 19;
/// Only the caller's cpuset.
pub const PB_GFP_BIT_HARDWALL: u32 = 1 << 20;
/// Only the given node.
pub const PB_GFP_BIT_THISNODE: u32 = 1 << 21;
/// Charged to the memory cgroup.
pub const PB_GFP_BIT_ACCOUNT: u32 = 1 << 22;
/// Memory tags are zeroed.
pub const PB_GFP_BIT_ZEROTAGS: u32 = 1 << 23;
/// The page is cold in the cache (up to 4.14).
pub const PB_GFP_BIT_COLD: u32 = 1 << 24;
/// May not spin on a lock (6.15 and later, `alloc_pages_nolock`).
pub const PB_GFP_BIT_NOLOCK: u32 = 1 << 25;
/// Memory-tag initialisation and other bits without an effect on placement.
pub const PB_GFP_BIT_OTHER: u32 = 0x8000_0000;
/// No flag.
pub const PB_GFP_NONE: u32 = 0;
/// Both reclaim bits.
pub const PB_GFP_RECLAIM: u32 = PB_GFP_BIT_DIRECT_RECLAIM | PB_GFP_BIT_KSWAPD_RECLAIM;
/// For callers that cannot wait: may use part of the reserves.
pub const PB_GFP_ATOMIC: u32 = PB_GFP_BIT_HIGH | PB_GFP_BIT_KSWAPD_RECLAIM;
/// For the kernel itself; unmovable.
pub const PB_GFP_KERNEL: u32 =
    PB_GFP_BIT_DIRECT_RECLAIM | PB_GFP_BIT_KSWAPD_RECLAIM | PB_GFP_BIT_IO | PB_GFP_BIT_FS;
/// Like PB_GFP_KERNEL, without waiting.
pub const PB_GFP_NOWAIT: u32 = PB_GFP_BIT_KSWAPD_RECLAIM;
/// Like PB_GFP_KERNEL, without I/O.
pub const PB_GFP_NOIO: u32 = PB_GFP_BIT_DIRECT_RECLAIM | PB_GFP_BIT_KSWAPD_RECLAIM;
/// Like PB_GFP_KERNEL, without entering file systems.
pub const PB_GFP_NOFS: u32 = PB_GFP_BIT_DIRECT_RECLAIM | PB_GFP_BIT_KSWAPD_RECLAIM | PB_GFP_BIT_IO;
/// For user memory.
pub const PB_GFP_USER: u32 = PB_GFP_BIT_DIRECT_RECLAIM
    | PB_GFP_BIT_KSWAPD_RECLAIM
    | PB_GFP_BIT_IO
    | PB_GFP_BIT_FS
    | PB_GFP_BIT_HARDWALL;
/// For user memory, also from high memory.
pub const PB_GFP_HIGHUSER: u32 = PB_GFP_BIT_DIRECT_RECLAIM
    | PB_GFP_BIT_KSWAPD_RECLAIM
    | PB_GFP_BIT_IO
    | PB_GFP_BIT_FS
    | PB_GFP_BIT_HARDWALL
    | PB_GFP_BIT_HIGHMEM;
/// For movable user memory, from every zone.
pub const PB_GFP_HIGHUSER_MOVABLE: u32 = PB_GFP_BIT_DIRECT_RECLAIM
    | PB_GFP_BIT_KSWAPD_RECLAIM
    | PB_GFP_BIT_IO
    | PB_GFP_BIT_FS
    | PB_GFP_BIT_HARDWALL
    | PB_GFP_BIT_HIGHMEM
    | PB_GFP_BIT_MOVABLE;
/// For a huge page, if one is available without effort.
pub const PB_GFP_TRANSHUGE_LIGHT: u32 = PB_GFP_BIT_IO
    | PB_GFP_BIT_FS
    | PB_GFP_BIT_HARDWALL
    | PB_GFP_BIT_HIGHMEM
    | PB_GFP_BIT_MOVABLE
    | PB_GFP_BIT_COMP
    | PB_GFP_BIT_NOMEMALLOC
    | PB_GFP_BIT_NOWARN;
/// For a huge page, with reclaim and compaction.
pub const PB_GFP_TRANSHUGE: u32 = PB_GFP_BIT_IO
    | PB_GFP_BIT_FS
    | PB_GFP_BIT_HARDWALL
    | PB_GFP_BIT_HIGHMEM
    | PB_GFP_BIT_MOVABLE
    | PB_GFP_BIT_COMP
    | PB_GFP_BIT_NOMEMALLOC
    | PB_GFP_BIT_NOWARN
    | PB_GFP_BIT_DIRECT_RECLAIM;

same! {
    PB_GFP_NONE = NONE;
    PB_GFP_BIT_DMA = DMA;
    PB_GFP_BIT_HIGHMEM = HIGHMEM;
    PB_GFP_BIT_DMA32 = DMA32;
    PB_GFP_BIT_MOVABLE = MOVABLE;
    PB_GFP_BIT_RECLAIMABLE = RECLAIMABLE;
    PB_GFP_BIT_HIGH = HIGH;
    PB_GFP_BIT_IO = IO;
    PB_GFP_BIT_FS = FS;
    PB_GFP_BIT_ZERO = ZERO;
    PB_GFP_BIT_ATOMIC = ATOMIC;
    PB_GFP_BIT_DIRECT_RECLAIM = DIRECT_RECLAIM;
    PB_GFP_BIT_KSWAPD_RECLAIM = KSWAPD_RECLAIM;
    PB_GFP_BIT_WRITE = WRITE;
    PB_GFP_BIT_NOWARN = NOWARN;
    PB_GFP_BIT_RETRY_MAYFAIL = RETRY_MAYFAIL;
    PB_GFP_BIT_NOFAIL = NOFAIL;
    PB_GFP_BIT_NORETRY = NORETRY;
    PB_GFP_BIT_MEMALLOC = MEMALLOC;
    PB_GFP_BIT_COMP = COMP;
    PB_GFP_BIT_NOMEMALLOC = NOMEMALLOC;
    PB_GFP_BIT_HARDWALL = HARDWALL;
    PB_GFP_BIT_THISNODE = THISNODE;
    PB_GFP_BIT_ACCOUNT = ACCOUNT;
    PB_GFP_BIT_ZEROTAGS = ZEROTAGS;
    PB_GFP_BIT_COLD = COLD;
    PB_GFP_BIT_NOLOCK = NOLOCK;
    PB_GFP_BIT_OTHER = OTHER;
    PB_GFP_RECLAIM = RECLAIM;
    PB_GFP_ATOMIC = GFP_ATOMIC;
    PB_GFP_KERNEL = GFP_KERNEL;
    PB_GFP_NOWAIT = GFP_NOWAIT;
    PB_GFP_NOIO = GFP_NOIO;
    PB_GFP_NOFS = GFP_NOFS;
    PB_GFP_USER = GFP_USER;
    PB_GFP_HIGHUSER = GFP_HIGHUSER;
    PB_GFP_HIGHUSER_MOVABLE = GFP_HIGHUSER_MOVABLE;
    PB_GFP_TRANSHUGE_LIGHT = GFP_TRANSHUGE_LIGHT;
    PB_GFP_TRANSHUGE = GFP_TRANSHUGE;
}
