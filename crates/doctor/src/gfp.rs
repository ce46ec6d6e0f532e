//! What a request's flags allow (`gfp_t`), by name or by the number that a version gives them.

use serde::Serialize;

use crate::log::{Report, ZoneKind};

/// What a request may do. From the flags' names where they are printed (from 4.6), else from the numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Flags {
    /// `__GFP_DMA`.
    pub dma: bool,
    /// `__GFP_DMA32`.
    pub dma32: bool,
    /// `__GFP_HIGHMEM`.
    pub highmem: bool,
    /// `__GFP_MOVABLE`.
    pub movable: bool,
    /// `__GFP_HIGH`: may use a part of the reserves.
    pub high: bool,
    /// May use more of the reserves, as the caller cannot wait (`__GFP_ATOMIC` up to 6.2, then `__GFP_HIGH` without
    /// direct reclaim).
    pub harder: bool,
    /// `__GFP_DIRECT_RECLAIM`, up to 4.3 `__GFP_WAIT`.
    pub direct_reclaim: bool,
    /// `__GFP_IO`.
    pub io: bool,
    /// `__GFP_FS`.
    pub fs: bool,
    /// `__GFP_MEMALLOC`: no watermarks hold.
    pub memalloc: bool,
    /// `__GFP_NORETRY`.
    pub noretry: bool,
    /// `GFP_TRANSHUGE` or `GFP_TRANSHUGE_LIGHT`, where flags are printed by name.
    pub huge: bool,
}

/// A kernel's version as two numbers.
pub type Version = (u32, u32);

/// Returns the version of a report; `None` if it has none.
#[must_use]
pub fn version(report: &Report) -> Option<Version> {
    let mut parts = report.version.as_ref()?.split('.');
    let major = parts.next()?.parse().ok()?;
    let digits = parts.next()?.split(|c: char| !c.is_ascii_digit()).next()?;
    Some((major, digits.parse().ok()?))
}

impl Flags {
    /// Decodes the flags of a report; `None` if it has none.
    #[must_use]
    pub fn of(report: &Report) -> Option<Self> {
        let version = version(report);
        match (&report.flags, report.mode) {
            (Some(names), _) => Some(Self::named(names)),
            // Names are printed from 4.6 on.
            (None, Some(mode)) => Some(Self::numbered(mode, version.is_some_and(|v| v >= (4, 4)))),
            (None, None) => None,
        }
    }

    /// Returns those of `GFP_KERNEL`.
    pub(crate) fn kernel() -> Self {
        Self::named("GFP_KERNEL")
    }

    fn named(names: &str) -> Self {
        let mut flags = Self::default();
        names.split('|').for_each(|name| flags.add(name));
        if flags.high && !flags.direct_reclaim {
            flags.harder = true;
        }
        flags
    }

    fn add(&mut self, name: &str) {
        let reclaim = |flags: &mut Self, io, fs| {
            (flags.direct_reclaim, flags.io, flags.fs) = (true, flags.io | io, flags.fs | fs);
        };
        match name {
            "GFP_ATOMIC" => self.high = true,
            "GFP_KERNEL" | "GFP_KERNEL_ACCOUNT" | "GFP_USER" | "GFP_TEMPORARY" => {
                reclaim(self, true, true);
            }
            "GFP_NOFS" => reclaim(self, true, false),
            "GFP_NOIO" => reclaim(self, false, false),
            "GFP_HIGHUSER" => {
                reclaim(self, true, true);
                self.highmem = true;
            }
            "GFP_HIGHUSER_MOVABLE" => {
                reclaim(self, true, true);
                (self.highmem, self.movable) = (true, true);
            }
            "GFP_TRANSHUGE" => {
                reclaim(self, true, true);
                (self.highmem, self.movable, self.huge) = (true, true, true);
            }
            "GFP_TRANSHUGE_LIGHT" => {
                self.huge = true;
                (self.io, self.fs, self.highmem, self.movable) = (true, true, true, true);
            }
            "GFP_DMA" | "__GFP_DMA" => self.dma = true,
            "GFP_DMA32" | "__GFP_DMA32" => self.dma32 = true,
            "__GFP_HIGHMEM" => self.highmem = true,
            "__GFP_MOVABLE" => self.movable = true,
            "__GFP_HIGH" => self.high = true,
            "__GFP_ATOMIC" => self.harder = true,
            "__GFP_DIRECT_RECLAIM" | "__GFP_RECLAIM" | "__GFP_WAIT" => self.direct_reclaim = true,
            "__GFP_IO" => self.io = true,
            "__GFP_FS" => self.fs = true,
            "__GFP_MEMALLOC" => self.memalloc = true,
            "__GFP_NORETRY" => self.noretry = true,
            _ => {}
        }
    }

    /// Decodes the numbers of 3.10 to 4.5; `since_4_4`: `__GFP_WAIT` has become two bits.
    fn numbered(mode: u64, since_4_4: bool) -> Self {
        let has = |bit: u64| mode & bit != 0;
        let direct_reclaim = if since_4_4 { has(0x40_0000) } else { has(0x10) };
        Self {
            dma: has(1),
            highmem: has(2),
            dma32: has(4),
            movable: has(8),
            high: has(0x20),
            harder: if since_4_4 { has(0x8_0000) } else { !has(0x10) },
            direct_reclaim,
            io: has(0x40),
            fs: has(0x80),
            memalloc: has(0x2000),
            noretry: has(0x1000),
            huge: false,
        }
    }

    /// Tells whether the caller can do without: it asked the kernel not to try hard (`__GFP_NORETRY`) for more than it
    /// tries hard for, or asked as page faults ask for huge pages.
    #[must_use]
    pub const fn is_optional(self, order: u32) -> bool {
        order > crate::class::COSTLY_ORDER && (self.noretry || self.huge)
    }

    /// Returns the highest zone that the request may use.
    #[must_use]
    pub const fn highest_zone(self) -> ZoneKind {
        match self {
            Self { dma: true, .. } => ZoneKind::DMA,
            Self { dma32: true, .. } => ZoneKind::DMA32,
            Self { highmem: true, movable: true, .. } => ZoneKind::Movable,
            Self { highmem: true, .. } => ZoneKind::HighMem,
            _ => ZoneKind::Normal,
        }
    }

    /// Returns the request in the words of the kernel's documentation.
    #[must_use]
    pub const fn kind(self) -> &'static str {
        match self {
            Self { memalloc: true, .. } => "may use all reserves",
            Self { direct_reclaim: false, high: true, .. } => {
                "cannot wait or reclaim (atomic); may use a part of the reserves"
            }
            Self { direct_reclaim: false, .. } => "cannot wait or reclaim",
            Self { io: false, .. } => "may reclaim, but not start I/O",
            Self { fs: false, .. } => "may reclaim, but not call file systems",
            _ => "may reclaim and compact",
        }
    }
}
