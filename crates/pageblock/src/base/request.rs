//! What a caller asks for: flags, order, type, zone and node.

use core::fmt;
use core::ops::{BitOr, BitOrAssign};

use crate::base::ids::NodeId;
use crate::base::mobility::Migratetype;

/// Flags of a request (`gfp_t`). The bits are this library's own: kernels renumber theirs, so
/// traces are read by name ([`Gfp::parse`]).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Gfp(pub u32);

macro_rules! gfp_bits {
    ($($(#[$doc:meta])* $name:ident = $bit:expr, $text:literal;)*) => {
        impl Gfp {
            $($(#[$doc])* pub const $name: Self = Self(1 << $bit);)*
            const BITS: &'static [(&'static str, Gfp)] = &[$(($text, Self(1 << $bit))),*];
        }
    };
}

gfp_bits! {
    /// Memory below 16 MiB (x86).
    DMA = 0, "__GFP_DMA";
    /// High memory is allowed.
    HIGHMEM = 1, "__GFP_HIGHMEM";
    /// Memory below 4 GiB.
    DMA32 = 2, "__GFP_DMA32";
    /// The content can be moved.
    MOVABLE = 3, "__GFP_MOVABLE";
    /// The content can be reclaimed by a shrinker.
    RECLAIMABLE = 4, "__GFP_RECLAIMABLE";
    /// May use half of the minimum watermark.
    HIGH = 5, "__GFP_HIGH";
    /// Reclaim may start I/O.
    IO = 6, "__GFP_IO";
    /// Reclaim may enter the file system.
    FS = 7, "__GFP_FS";
    /// The content is zeroed.
    ZERO = 8, "__GFP_ZERO";
    /// An allocation that may not sleep and may use reserves (up to 6.2).
    ATOMIC = 9, "__GFP_ATOMIC";
    /// The caller may reclaim, compact and wait.
    DIRECT_RECLAIM = 10, "__GFP_DIRECT_RECLAIM";
    /// kswapd may be woken.
    KSWAPD_RECLAIM = 11, "__GFP_KSWAPD_RECLAIM";
    /// The page will be dirtied: spread over nodes by their dirty limits.
    WRITE = 12, "__GFP_WRITE";
    /// No warning on failure.
    NOWARN = 13, "__GFP_NOWARN";
    /// Retry hard, without an OOM kill (`__GFP_REPEAT` up to 4.12).
    RETRY_MAYFAIL = 14, "__GFP_RETRY_MAYFAIL";
    /// Loop until served.
    NOFAIL = 15, "__GFP_NOFAIL";
    /// One light round of reclaim only.
    NORETRY = 16, "__GFP_NORETRY";
    /// All reserves may be used.
    MEMALLOC = 17, "__GFP_MEMALLOC";
    /// A compound page.
    COMP = 18, "__GFP_COMP";
    /// No reserves.
    NOMEMALLOC = 19, "__GFP_NOMEMALLOC";
    /// Only the caller's cpuset.
    HARDWALL = 20, "__GFP_HARDWALL";
    /// Only the given node.
    THISNODE = 21, "__GFP_THISNODE";
    /// Charged to the memory cgroup.
    ACCOUNT = 22, "__GFP_ACCOUNT";
    /// Memory tags are zeroed.
    ZEROTAGS = 23, "__GFP_ZEROTAGS";
    /// The page is cold in the cache (up to 4.14).
    COLD = 24, "__GFP_COLD";
    /// May not spin on a lock (6.15 and later, `alloc_pages_nolock`).
    NOLOCK = 25, "__GFP_NOLOCK";
    /// Memory-tag initialisation and other bits without an effect on placement.
    OTHER = 31, "__GFP_OTHER";
}

impl Gfp {
    /// No flag (`none` in traces).
    pub const NONE: Self = Self(0);
    /// Both reclaim bits.
    pub const RECLAIM: Self = Self(Self::DIRECT_RECLAIM.0 | Self::KSWAPD_RECLAIM.0);
    /// `GFP_ATOMIC` from 6.3 on; add [`Gfp::ATOMIC`] for 4.4 to 6.2.
    pub const GFP_ATOMIC: Self = Self(Self::HIGH.0 | Self::KSWAPD_RECLAIM.0);
    /// `GFP_KERNEL`.
    pub const GFP_KERNEL: Self = Self(Self::RECLAIM.0 | Self::IO.0 | Self::FS.0);
    /// `GFP_KERNEL_ACCOUNT`.
    pub const GFP_KERNEL_ACCOUNT: Self = Self(Self::GFP_KERNEL.0 | Self::ACCOUNT.0);
    /// `GFP_NOWAIT`.
    pub const GFP_NOWAIT: Self = Self::KSWAPD_RECLAIM;
    /// `GFP_NOIO`.
    pub const GFP_NOIO: Self = Self::RECLAIM;
    /// `GFP_NOFS`.
    pub const GFP_NOFS: Self = Self(Self::RECLAIM.0 | Self::IO.0);
    /// `GFP_USER`.
    pub const GFP_USER: Self = Self(Self::GFP_KERNEL.0 | Self::HARDWALL.0);
    /// `GFP_HIGHUSER`.
    pub const GFP_HIGHUSER: Self = Self(Self::GFP_USER.0 | Self::HIGHMEM.0);
    /// `GFP_HIGHUSER_MOVABLE`.
    pub const GFP_HIGHUSER_MOVABLE: Self = Self(Self::GFP_HIGHUSER.0 | Self::MOVABLE.0);
    /// `GFP_TRANSHUGE_LIGHT`.
    pub const GFP_TRANSHUGE_LIGHT: Self = Self(
        (Self::GFP_HIGHUSER_MOVABLE.0 & !Self::RECLAIM.0)
            | Self::COMP.0
            | Self::NOMEMALLOC.0
            | Self::NOWARN.0,
    );
    /// `GFP_TRANSHUGE`.
    pub const GFP_TRANSHUGE: Self = Self(Self::GFP_TRANSHUGE_LIGHT.0 | Self::DIRECT_RECLAIM.0);

    const MASKS: &'static [(&'static str, Gfp)] = &[
        ("GFP_TRANSHUGE", Self::GFP_TRANSHUGE),
        ("GFP_TRANSHUGE_LIGHT", Self::GFP_TRANSHUGE_LIGHT),
        ("GFP_HIGHUSER_MOVABLE", Self::GFP_HIGHUSER_MOVABLE),
        ("GFP_HIGHUSER", Self::GFP_HIGHUSER),
        ("GFP_USER", Self::GFP_USER),
        ("GFP_TEMPORARY", Self(Self::GFP_KERNEL.0 | Self::RECLAIMABLE.0)),
        ("GFP_KERNEL_ACCOUNT", Self::GFP_KERNEL_ACCOUNT),
        ("GFP_KERNEL", Self::GFP_KERNEL),
        ("GFP_NOFS", Self::GFP_NOFS),
        ("GFP_ATOMIC", Self::GFP_ATOMIC),
        ("GFP_NOIO", Self::GFP_NOIO),
        ("GFP_NOWAIT", Self::GFP_NOWAIT),
        ("GFP_DMA", Self::DMA),
        ("GFP_DMA32", Self::DMA32),
        ("__GFP_RECLAIM", Self::RECLAIM),
        ("__GFP_REPEAT", Self::RETRY_MAYFAIL),
        ("__GFP_WAIT", Self::RECLAIM),
    ];

    /// Returns whether every bit of `bits` is set.
    #[must_use]
    pub const fn has(self, bits: Self) -> bool {
        self.0 & bits.0 == bits.0
    }

    /// Returns the flags without those of `bits`.
    #[must_use]
    pub const fn without(self, bits: Self) -> Self {
        Self(self.0 & !bits.0)
    }

    /// Reads the text that tracepoints print, names joined by `|`. Names without an effect on
    /// placement and hexadecimal remainders become [`Gfp::OTHER`].
    ///
    /// # Errors
    /// The part of the text that is not a flag's name.
    pub fn parse(text: &str) -> Result<Self, &str> {
        let mut gfp = Self::NONE;
        for part in text.split('|') {
            gfp |= Self::parse_one(part).ok_or(part)?;
        }
        Ok(gfp)
    }

    fn parse_one(part: &str) -> Option<Self> {
        let known = Self::MASKS.iter().chain(Self::BITS).find(|(name, _)| *name == part);
        if let Some((_, bits)) = known {
            return Some(*bits);
        }
        match part {
            "none" | "0" => Some(Self::NONE),
            _ if part.starts_with("__GFP_") || part.starts_with("0x") => Some(Self::OTHER),
            // 4.4 and earlier print single bits without the underscores.
            _ => Self::BITS
                .iter()
                .find(|(name, _)| name.strip_prefix("__") == Some(part))
                .map(|(_, bits)| *bits),
        }
    }

    /// Returns the type of the request (`gfp_migratetype`); `None` where both mobility bits are set, which
    /// the kernel warns of.
    #[must_use]
    pub const fn migratetype(self) -> Option<Migratetype> {
        match (self.has(Self::MOVABLE), self.has(Self::RECLAIMABLE)) {
            (true, true) => None,
            (true, false) => Some(Migratetype::Movable),
            (false, true) => Some(Migratetype::Reclaimable),
            (false, false) => Some(Migratetype::Unmovable),
        }
    }
}

impl BitOr for Gfp {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Gfp {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl fmt::Display for Gfp {
    /// Writes the flags as recent kernels print them: the largest mask that fits, then single bits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("none");
        }
        let mut rest = *self;
        let mut first = true;
        for (name, bits) in Self::MASKS.iter().chain(Self::BITS) {
            if rest.has(*bits) {
                if !first {
                    f.write_str("|")?;
                }
                first = false;
                f.write_str(name)?;
                rest = rest.without(*bits);
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Gfp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// One request for a block of pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// The block's order.
    pub order: crate::base::frame::Order,
    /// The flags.
    pub gfp: Gfp,
    /// The node to start from; `None` for that of the CPU.
    pub node: Option<NodeId>,
    /// The nodes that may be used, one bit each.
    pub nodemask: u64,
}

impl Request {
    /// Returns a request without a preference for a node.
    #[must_use]
    pub const fn new(order: crate::base::frame::Order, gfp: Gfp) -> Self {
        Self { order, gfp, node: None, nodemask: u64::MAX }
    }

    /// Returns a request for memory whose content can be moved: of users, of page caches.
    #[must_use]
    pub const fn movable(order: crate::base::frame::Order) -> Self {
        Self::new(order, Gfp::GFP_HIGHUSER_MOVABLE)
    }

    /// Returns a request for memory that stays where it is: of the kernel itself, of devices.
    #[must_use]
    pub const fn unmovable(order: crate::base::frame::Order) -> Self {
        Self::new(order, Gfp::GFP_KERNEL)
    }

    /// Returns a request for memory that can be emptied on demand: caches of what can be read again.
    #[must_use]
    pub const fn reclaimable(order: crate::base::frame::Order) -> Self {
        Self::new(order, Gfp(Gfp::GFP_KERNEL.0 | Gfp::RECLAIMABLE.0))
    }

    /// Returns the same request for a caller that cannot wait: it may use half of what is kept free.
    #[must_use]
    pub const fn atomic(self) -> Self {
        let gfp = self.gfp.without(Gfp::DIRECT_RECLAIM);
        Self { gfp: Gfp(gfp.0 | Gfp::HIGH.0 | Gfp::ATOMIC.0), ..self }
    }

    /// Returns the same request restricted to some nodes: one bit each, the lowest for node 0.
    #[must_use]
    pub const fn on_nodes(self, nodemask: u64) -> Self {
        Self { nodemask, ..self }
    }

    /// Returns the same request with a preferred node.
    #[must_use]
    pub const fn on_node(self, node: NodeId) -> Self {
        Self { node: Some(node), ..self }
    }
}

impl Gfp {
    /// Returns the highest zone that the request may use, before missing zones are skipped
    /// (`gfp_zone`).
    #[must_use]
    pub const fn highest_zone(self) -> crate::base::layout::ZoneKind {
        use crate::base::layout::ZoneKind::{Dma, Dma32, HighMem, Movable, Normal};
        if self.has(Self::DMA) {
            Dma
        } else if self.has(Self::DMA32) {
            Dma32
        } else if self.has(Self(Self::HIGHMEM.0 | Self::MOVABLE.0)) {
            Movable
        } else if self.has(Self::HIGHMEM) {
            HighMem
        } else {
            Normal
        }
    }
}
