//! Flags of requests as kernels print them: names, and up to 4.5 in logs their bits.

use pageblock::request::Gfp;

use crate::record::kernel::KernelVersion;

/// The bits that have one meaning from 3.10 to 4.5.
const BITS: [(u64, Gfp); 11] = [
    (0x1, Gfp::DMA),
    (0x2, Gfp::HIGHMEM),
    (0x4, Gfp::DMA32),
    (0x8, Gfp::MOVABLE),
    (0x20, Gfp::HIGH),
    (0x40, Gfp::IO),
    (0x80, Gfp::FS),
    (0x1000, Gfp::NORETRY),
    (0x2000, Gfp::MEMALLOC),
    (0x4000, Gfp::COMP),
    (0x1_0000, Gfp::NOMEMALLOC),
];
/// Those of 4.4 and 4.5. `__GFP_WAIT` has become two bits.
const FROM_4_4: [(u64, Gfp); 3] =
    [(0x8_0000, Gfp::ATOMIC), (0x40_0000, Gfp::DIRECT_RECLAIM), (0x200_0000, Gfp::KSWAPD_RECLAIM)];
/// `__GFP_WAIT` up to 4.3.
const WAIT: u64 = 0x10;

/// Returns the flags that have these bits in a kernel up to 4.5; without a version in one up to 4.3.
#[must_use]
pub fn numbered(bits: u64, kernel: Option<&KernelVersion>) -> Gfp {
    let has = |rows: &[(u64, Gfp)]| {
        let set = rows.iter().filter(|(bit, _)| bits & bit != 0);
        set.fold(Gfp::NONE, |all, &(_, flag)| all | flag)
    };
    let of_version = match kernel {
        Some(kernel) if kernel.splits_gfp_wait() => has(&FROM_4_4),
        _ if bits & WAIT != 0 => Gfp::RECLAIM,
        // Who could not wait was atomic.
        _ => Gfp::ATOMIC,
    };
    has(&BITS) | of_version
}

/// Returns the flags that a kernel's text names, without a version one up to 6.2; names that are not known are left out.
#[must_use]
pub fn named(names: &str, kernel: Option<&KernelVersion>) -> Gfp {
    let known = names.split('|').filter_map(|name| Gfp::parse(name).ok());
    let flags = known.fold(Gfp::NONE, |all, flag| all | flag);
    let is_atomic = flags.has(Gfp::GFP_ATOMIC) && !flags.has(Gfp::DIRECT_RECLAIM);
    let has_bit = kernel.is_none_or(KernelVersion::has_gfp_atomic);
    if is_atomic && has_bit { flags | Gfp::ATOMIC } else { flags }
}

const SLOTS: usize = 256;

/// A direct-mapped cache of parsed texts of fixed size: a recording has a few dozen different texts in millions of lines.
#[derive(Debug)]
pub(crate) struct GfpTexts {
    slots: Vec<(Box<[u8]>, Gfp)>,
}

impl Default for GfpTexts {
    fn default() -> Self {
        Self { slots: vec![(Box::default(), Gfp::NONE); SLOTS] }
    }
}

impl GfpTexts {
    /// Returns the flags that the text names; `None` if it is not such a text.
    #[inline]
    pub(crate) fn get(&mut self, text: &[u8]) -> Option<Gfp> {
        if text.is_empty() {
            return None;
        }
        let slot = &mut self.slots[slot_of(text)];
        if *slot.0 != *text {
            let gfp = Gfp::parse(std::str::from_utf8(text).ok()?).ok()?;
            *slot = (text.into(), gfp);
        }
        Some(slot.1)
    }
}

#[inline]
fn slot_of(text: &[u8]) -> usize {
    let mut hash = text.len() as u64;
    let mut words = text.chunks_exact(8);
    for word in &mut words {
        let word = u64::from_le_bytes(word.try_into().expect("a chunk of 8 bytes"));
        hash = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        hash ^= hash >> 29;
    }
    for &byte in words.remainder() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    (hash ^ (hash >> 32)) as usize % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_have_the_meaning_of_their_version() {
        let version = |text| KernelVersion::parse(text).unwrap();
        let atomic = Gfp::HIGH | Gfp::ATOMIC;
        assert_eq!(numbered(0x20, Some(&version("3.10"))), atomic);
        assert_eq!(numbered(0x208_0020, Some(&version("4.4.1"))), atomic | Gfp::KSWAPD_RECLAIM);
        for (bits, kernel) in [(0xd0, None), (0x240_00c0, Some(version("4.5")))] {
            assert_eq!(numbered(bits, kernel.as_ref()), Gfp::GFP_KERNEL);
        }
        let names = "GFP_NOIO|__GFP_NORETRY|GFP_LATER";
        assert_eq!(named(names, None), Gfp::GFP_NOIO | Gfp::NORETRY);
        for (kernel, has_bit) in [("6.2", true), ("6.3", false)] {
            let atomic = named("GFP_ATOMIC", Some(&version(kernel)));
            assert_eq!(atomic.without(Gfp::ATOMIC), Gfp::GFP_ATOMIC);
            assert_eq!(atomic.has(Gfp::ATOMIC), has_bit);
        }
    }
}
