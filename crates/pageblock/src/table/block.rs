//! The state of a pageblock in the page map: its type, its isolation, and hints.

use crate::base::frame::Order;
use crate::base::mobility::Migratetype;
use crate::base::sync::{Acquire, AtomicU16, Relaxed};
use crate::policy::source::PolicySource;
use crate::table::bits::OWNERS;
use crate::table::map::{Index, PageMap};

// The lower byte of a pageblock's word: sparse, skip hint, type below an isolation, type that counts: ps bbb ttt.
// The upper one belongs to the bits of frames (`bits.rs`), if they have any.
const TYPE_BITS: u8 = 0b111;
const BELOW: u8 = 3;
const BELOW_BITS: u8 = TYPE_BITS << BELOW;
const SKIP: u8 = 0b100_0000;
const SPARSE: u8 = 0b1000_0000;

/// Returns the byte of a pageblock of a type that is not isolated.
pub(super) const fn block_byte(mt: Migratetype) -> u8 {
    (mt as u8) << BELOW | mt as u8
}

/// Returns whether the word is that of a pageblock of this type that is not being emptied (`zone/packing.rs`).
#[inline(always)]
pub(crate) fn is_of(word: u16, mt: Migratetype) -> bool {
    word as u8 & (SPARSE | TYPE_BITS) == mt as u8
}

/// Returns whether the word is that of a pageblock whose frames have [states of their own](super::bits).
#[inline(always)]
pub(crate) fn is_mixed(word: u16) -> bool {
    word & OWNERS != 0
}

/// Returns whether the word is that of a pageblock of the key's type that is not being emptied, and, if frames
/// have bits, owned by the key's CPU.
#[inline(always)]
pub(crate) fn is_kept(word: u16, key: u16) -> bool {
    const KEY: u16 = OWNERS | SPARSE as u16 | TYPE_BITS as u16;
    word & KEY == key
}

/// Returns whether the word is that of a pageblock that is being emptied.
#[inline(always)]
pub(crate) fn empties(word: u16) -> bool {
    word as u8 & SPARSE != 0
}

/// Returns the type of a pageblock by its word, and the three bits that encode it.
#[inline(always)]
pub(crate) fn types_in(word: &AtomicU16) -> (usize, Migratetype) {
    let known = word.load(Relaxed) as u8;
    (usize::from(known & TYPE_BITS), type_in(known))
}

/// Returns the type encoded in the three lowest bits.
fn type_in(byte: u8) -> Migratetype {
    Migratetype::from_index((byte & TYPE_BITS) as usize).unwrap_or(Migratetype::Movable)
}

impl<P: PolicySource> PageMap<'_, P> {
    pub(crate) fn blocks(&self) -> u32 {
        self.blocks.len() as u32
    }

    fn block(&self, i: Index) -> &AtomicU16 {
        &self.blocks[(i >> self.pageblock_order) as usize]
    }

    /// Returns the lower byte of the pageblock of a frame.
    #[inline(always)]
    fn known(&self, i: Index) -> u8 {
        self.block(i).load(Relaxed) as u8
    }

    /// Sets the lower byte of the pageblock of a frame.
    #[inline(always)]
    fn set_known(&self, i: Index, known: u8) {
        let word = self.block(i);
        word.store(word.load(Relaxed) & OWNERS | u16::from(known), Relaxed);
    }

    /// Returns the type of the pageblock that holds the frame (`get_pageblock_migratetype`).
    pub(crate) fn block_type(&self, i: Index) -> Migratetype {
        type_in(self.known(i))
    }

    /// Returns the word of the pageblock of a frame at an offset; `None` if it lies outside the tables.
    #[inline(always)]
    pub(crate) fn word_at(&self, offset: usize) -> Option<u16> {
        // Below 64, so that the shift needs no masking.
        let word = self.blocks.get(offset >> (self.pageblock_order & 63))?;
        Some(word.load(Acquire))
    }

    /// Returns the key for [`is_kept`], for pageblocks of a type.
    pub(crate) fn key(&self, mt: Migratetype) -> u16 {
        self.owner | mt as u16
    }

    /// Returns the words of all pageblocks.
    pub(crate) fn words(&self) -> &[AtomicU16] {
        self.blocks
    }

    /// Sets the type of a pageblock, which ends its isolation.
    pub(crate) fn set_block_type(&self, i: Index, mt: Migratetype) {
        // Not SPARSE: a pageblock that is being emptied counts towards one type (`zone/packing.rs`).
        self.set_known(i, self.known(i) & SKIP | block_byte(mt));
    }

    /// Starts or ends the isolation of a pageblock. Returns the type below it, which stays.
    pub(crate) fn set_isolated(&self, i: Index, isolated: bool) -> Migratetype {
        let old = self.known(i);
        let below = type_in(old >> BELOW);
        let counts = if isolated { Migratetype::Isolate } else { below };
        self.set_known(i, old & (SKIP | BELOW_BITS) | counts as u8);
        below
    }

    /// Returns the type of the CPU list that a freed block goes to; `None` if it goes to the zone because its
    /// pageblock is isolated or being emptied (`zone/packing.rs`).
    pub(crate) fn cpu_list_type(&self, i: Index, order: Order) -> Option<Migratetype> {
        let byte = self.known(i);
        let emptying = byte & SPARSE != 0 && order < self.pageblock_order;
        let mt = type_in(byte);
        (mt != Migratetype::Isolate && !emptying).then_some(mt)
    }

    /// Returns the type of a frame's pageblock, if that is being emptied.
    #[inline(always)]
    pub(crate) fn emptying_type(&self, i: Index) -> Option<Migratetype> {
        let byte = self.known(i);
        (byte & SPARSE != 0).then(|| type_in(byte))
    }

    /// Returns whether pageblock number `block` is being emptied.
    pub(crate) fn is_sparse(&self, block: u32) -> bool {
        self.blocks[block as usize].load(Relaxed) as u8 & SPARSE != 0
    }

    /// Sets whether pageblock number `block` is being emptied.
    pub(crate) fn set_sparse(&self, block: u32, sparse: bool) {
        let word = &self.blocks[block as usize];
        let old = word.load(Relaxed);
        let new = if sparse { old | u16::from(SPARSE) } else { old & !u16::from(SPARSE) };
        if new != old {
            word.store(new, Relaxed);
        }
    }

    /// Returns compaction's skip hint.
    pub(crate) fn skip(&self, i: Index) -> bool {
        self.known(i) & SKIP != 0
    }

    /// Returns the last pageblock without a skip hint among those that hold the frames from `low` to `high`, as its
    /// number.
    pub(crate) fn last_without_hint(&self, low: Index, high: Index) -> Option<u32> {
        let first = low >> self.pageblock_order;
        let words = self.blocks.get(first as usize..=(high >> self.pageblock_order) as usize)?;
        let at = words.iter().rposition(|word| word.load(Relaxed) as u8 & SKIP == 0)?;
        Some(first + at as u32)
    }

    pub(crate) fn set_skip(&self, i: Index, skip: bool) {
        let old = self.known(i);
        self.set_known(i, if skip { old | SKIP } else { old & !SKIP });
    }
}
