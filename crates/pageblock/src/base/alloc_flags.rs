//! Allocation flags: what one attempt may use (`ALLOC_*` of `mm/internal.h`).
//!
//! A request's [`crate::request::Gfp`] says what the caller is; these flags say what the attempt
//! that is being made may take. The slow path changes them from attempt to attempt.

use core::fmt;

/// The watermark that an attempt must leave (`ALLOC_WMARK_*`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Watermark {
    /// The minimum: the slow path.
    Min = 0,
    /// The low watermark: the fast path.
    Low = 1,
    /// The high watermark: the last attempt before an OOM kill.
    High = 2,
}

/// What one attempt may use; the watermark is the value of the two lowest bits.
///
/// The bits are the kernel's where versions agree. FAIR and NOFRAGMENT shared a bit there and have
/// one each here, so that a flag means the same under every policy.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct AllocFlags(pub u16);

macro_rules! alloc_bits {
    ($($(#[$doc:meta])* $name:ident = $bit:literal;)*) => {
        impl AllocFlags {
            $($(#[$doc])* pub const $name: Self = Self($bit);)*
            const BITS: &'static [(&'static str, Self)] = &[$((stringify!($name), Self($bit))),*];
        }
    };
}

alloc_bits! {
    /// No watermark is tested, and all reserves are open.
    NO_WATERMARKS = 0x4;
    /// An OOM victim: half of what is left of the minimum (4.14 and later).
    OOM = 0x8;
    /// The caller cannot wait (`ALLOC_NON_BLOCK`, 6.3 and later; `ALLOC_HARDER` before).
    NON_BLOCK = 0x10;
    /// `__GFP_HIGH`: half of the minimum (`ALLOC_MIN_RESERVE`, 6.3 and later; `ALLOC_HIGH` before).
    MIN_RESERVE = 0x20;
    /// Only zones of the caller's cpuset.
    CPUSET = 0x40;
    /// Blocks of the contiguous memory area may be used.
    CMA = 0x80;
    /// No part of a block of another type (5.1 and later).
    NOFRAGMENT = 0x100;
    /// The reserve of high-order blocks may be used (6.3 and later).
    HIGHATOMIC = 0x200;
    /// No lock may be waited for (6.15 and later).
    TRYLOCK = 0x400;
    /// kswapd may be woken by a watermark boost (5.0 and later).
    KSWAPD = 0x800;
    /// The pass that spends fair batches (3.16 to 4.7).
    FAIR = 0x1000;
}

impl AllocFlags {
    /// The minimum watermark, and nothing else.
    pub const WMARK_MIN: Self = Self(Watermark::Min as u16);
    /// The low watermark, and nothing else.
    pub const WMARK_LOW: Self = Self(Watermark::Low as u16);
    /// The high watermark, and nothing else.
    pub const WMARK_HIGH: Self = Self(Watermark::High as u16);
    /// [`AllocFlags::NON_BLOCK`] by its name up to 6.2.
    pub const HARDER: Self = Self::NON_BLOCK;
    /// [`AllocFlags::MIN_RESERVE`] by its name up to 6.2.
    pub const HIGH: Self = Self::MIN_RESERVE;
    /// Flags that open part of a reserve (`ALLOC_RESERVES`, 6.3 and later).
    pub const RESERVES: Self =
        Self(Self::NON_BLOCK.0 | Self::MIN_RESERVE.0 | Self::HIGHATOMIC.0 | Self::OOM.0);
    const WMARK_MASK: u16 = 3;

    /// Returns whether every bit of `bits` is set. For watermarks see [`AllocFlags::watermark`].
    #[must_use]
    pub const fn has(self, bits: Self) -> bool {
        self.0 & bits.0 == bits.0
    }

    /// Returns whether some bit of `bits` is set.
    #[must_use]
    pub const fn has_any(self, bits: Self) -> bool {
        self.0 & bits.0 != 0
    }

    /// Returns the flags and those of `bits`.
    #[must_use]
    pub const fn with(self, bits: Self) -> Self {
        Self(self.0 | bits.0)
    }

    /// Returns the flags without those of `bits`.
    #[must_use]
    pub const fn without(self, bits: Self) -> Self {
        Self(self.0 & !bits.0)
    }

    /// Returns the watermark to test; `None` under [`AllocFlags::NO_WATERMARKS`].
    #[must_use]
    pub const fn watermark(self) -> Option<Watermark> {
        if self.has(Self::NO_WATERMARKS) {
            return None;
        }
        Some(self.selected_watermark())
    }

    /// Returns the watermark that the lowest bits name, tested or not (`alloc_flags & ALLOC_WMARK_MASK`).
    #[must_use]
    pub const fn selected_watermark(self) -> Watermark {
        match self.0 & Self::WMARK_MASK {
            0 => Watermark::Min,
            1 => Watermark::Low,
            _ => Watermark::High,
        }
    }

    /// Returns the flags with another watermark.
    #[must_use]
    pub const fn with_watermark(self, mark: Watermark) -> Self {
        Self((self.0 & !Self::WMARK_MASK) | mark as u16)
    }
}

impl fmt::Debug for AllocFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.watermark() {
            Some(mark) => write!(f, "{mark:?}")?,
            None => f.write_str("None")?,
        }
        for (name, bits) in Self::BITS {
            if self.has(*bits) {
                write!(f, "|{name}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watermark_is_a_field_beside_the_bits() {
        let flags = AllocFlags::WMARK_LOW.with(AllocFlags::CPUSET).with(AllocFlags::NOFRAGMENT);
        assert_eq!(flags.watermark(), Some(Watermark::Low));
        let high = flags.with_watermark(Watermark::High);
        assert_eq!(high.watermark(), Some(Watermark::High));
        assert!(high.has(AllocFlags::CPUSET.with(AllocFlags::NOFRAGMENT)));
        assert!(!high.without(AllocFlags::CPUSET).has(AllocFlags::CPUSET));
    }

    #[test]
    fn no_watermarks_hides_the_selected_one() {
        let flags = AllocFlags::WMARK_HIGH.with(AllocFlags::NO_WATERMARKS);
        assert_eq!(flags.watermark(), None);
        assert_eq!(flags.selected_watermark(), Watermark::High);
    }

    #[test]
    fn bits_do_not_overlap() {
        let mut seen = AllocFlags::WMARK_MASK;
        for (_, bits) in AllocFlags::BITS {
            assert_eq!(seen & bits.0, 0, "{bits:?}");
            seen |= bits.0;
        }
    }
}
