//! Whole runs of frames under the zone's lock, word by word.

use super::{FrameBits, GROUP, GROUP_ORDER, NOBODY};
use crate::base::frame::Order;
use crate::table::map::Index;

impl FrameBits<'_> {
    /// Puts `n` blocks that follow each other, of less than a pageblock and not in use, on a CPU list, as movable or not;
    /// or makes their first frames parts of a block. Under the zone's lock.
    pub(crate) fn set_run(&self, i: Index, order: Order, n: u32, listed: Option<bool>) {
        let size = 1usize << order;
        // The first frames of blocks, where several are in a group.
        let starts =
            if order < GROUP_ORDER { usize::MAX / (usize::MAX >> (GROUP - size)) } else { 1 };
        let (mut at, end) = (i as usize, i as usize + n as usize * size);
        for block in
            (at >> self.pageblock_order..end).take_while(|b| b << self.pageblock_order < end)
        {
            let first = (block << self.pageblock_order) as Index;
            if !self.is_mixed(first) {
                self.mix(first);
            }
        }
        while at < end {
            let place = at % GROUP;
            let frames = (end - at).min(GROUP - place);
            let mask = starts << place & usize::MAX >> (GROUP - frames - place);
            let now = self.words(at / GROUP);
            let with = |word: usize, is: bool| if is { word | mask } else { word & !mask };
            let (kind, held) = (with(now.kind, listed == Some(true)), listed.is_some());
            self.put(at / GROUP, now, kind, with(now.held, held));
            at += frames.max(size);
        }
    }

    /// Frees a block in a mixed pageblock and merges it with the free blocks beside it, up to the order `cap`, which is
    /// at most the pageblock's; returns the order of the merged block. Under the zone's lock.
    #[inline]
    pub(crate) fn free(&self, i: Index, order: Order, cap: Order) -> Order {
        if !self.is_mixed(i) {
            // It was filled, and blocks are smaller than pageblocks.
            self.mix(i);
        }
        let words = self.words_of(i);
        let (mut at, mut order) = (i as usize % GROUP, order);
        if words.in_use >> at & 1 != 0 {
            self.flip(i, NOBODY);
        }
        let in_use = words.in_use & !(1 << at);
        let held = words.held & !(1 << at);
        let mut kind = words.kind | 1 << at;
        // A buddy that is free has no larger order: it would hold this block.
        while order < cap.min(GROUP_ORDER) {
            let buddy = at ^ (1 << order);
            let tails = !(in_use | kind | held);
            let free = kind & !(in_use | held) & 1 << buddy != 0;
            if !free || (order > 0 && tails >> (buddy + (1 << order) / 2) & 1 == 0) {
                break;
            }
            kind &= !(1 << (at | buddy));
            at &= buddy;
            order += 1;
        }
        self.put(i as usize / GROUP, words, kind, held);
        let mut i = (i & !(GROUP as Index - 1)) | at as Index;
        while order >= GROUP_ORDER && order < cap {
            let buddy = i ^ (1 << order);
            if self.words_of(buddy).free() & 1 == 0 || !self.has_order(buddy, order) {
                break;
            }
            let group = (i | buddy) as usize / GROUP;
            let now = self.words(group);
            self.put(group, now, now.kind & !1, now.held);
            i &= buddy;
            order += 1;
        }
        order
    }
}
