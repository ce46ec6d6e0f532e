//! Parses flag texts with a cache: a recording has a few dozen different texts in millions of lines.

use pageblock::request::Gfp;

const SLOTS: usize = 256;

/// A direct-mapped cache of parsed texts of fixed size.
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
