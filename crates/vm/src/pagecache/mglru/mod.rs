//! Generations of pages (the multi-generational LRU): a window of two to four for anonymous pages and for those of files.
//!
//! Source: `struct lru_gen_folio` (include/linux/mmzone.h), include/linux/mm_inline.h, mm/vmscan.c, mm/workingset.c.

mod filter;
mod hooks;
mod lists;
mod place;
mod shadow;
mod tables;
mod tiers;
mod uses;
mod walked;

use pageblock_kernel::rules::mglru::{GenAgeing, GenUses, Mglru};

use self::lists::ZoneLists;
pub(crate) use self::tables::{TABLE_ORDER, UsedTables};
pub(crate) use self::tiers::{TIERS, Tiers};
use self::walked::Walked;
pub(crate) use self::walked::is_dense;
use crate::page::{MAX_GENS, Owner, Page};

/// Generations that pages pass before they are evicted, and that count as active (`MIN_NR_GENS`).
pub(crate) const MIN_GENS: u64 = 2;
/// Pages that one eviction takes (`MIN_LRU_BATCH`).
pub(crate) const MIN_BATCH: u64 = 64;
/// Folios that one eviction looks at, and that one step gives another generation (`MAX_LRU_BATCH`).
pub(crate) const MAX_BATCH: u64 = 64 * MIN_BATCH;

/// The kinds of pages, which have generations of their own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Anon = 0,
    File = 1,
}

impl Kind {
    pub(crate) const ALL: [Self; 2] = [Self::Anon, Self::File];

    pub(crate) fn of(page: &Page) -> Self {
        if page.kind() == Owner::File { Self::File } else { Self::Anon }
    }

    pub(crate) const fn other(self) -> Self {
        match self {
            Self::Anon => Self::File,
            Self::File => Self::Anon,
        }
    }

    /// Returns the kinds that may be evicted: without swappiness only pages of files.
    pub(crate) fn evictable(swappiness: u64) -> &'static [Self] {
        if swappiness == 0 { &Self::ALL[1..] } else { &Self::ALL }
    }
}

/// Returns the place of a generation's lists and counts.
pub(crate) const fn slot(seq: u64) -> usize {
    (seq % MAX_GENS as u64) as usize
}

/// The generations of a node's pages.
#[derive(Clone, Debug)]
pub(crate) struct Generations {
    rules: Mglru,
    /// The youngest of both kinds.
    max_seq: u64,
    /// The oldest of each kind.
    min_seq: [u64; 2],
    /// When each generation began, in milliseconds.
    born_ms: [u64; MAX_GENS],
    /// Lists and counts of each zone of the machine; those of other nodes stay empty.
    zones: Vec<ZoneLists>,
    tiers: [Tiers; 2],
    pub(crate) walked: Walked,
}

impl Generations {
    pub(crate) fn new(rules: Mglru, zones: usize) -> Self {
        Self {
            rules,
            max_seq: MIN_GENS + 1,
            min_seq: [0; 2],
            born_ms: [0; MAX_GENS],
            zones: vec![ZoneLists::default(); zones],
            tiers: [Tiers::default(); 2],
            walked: Walked::new(MIN_GENS),
        }
    }

    pub(crate) const fn rules(&self) -> &Mglru {
        &self.rules
    }

    /// Returns whether a page that is found in use once is young (up to 6.13).
    pub(crate) const fn moves_at_first_use(&self) -> bool {
        matches!(self.rules.gen_uses, GenUses::First)
    }

    pub(crate) const fn max_seq(&self) -> u64 {
        self.max_seq
    }

    pub(crate) const fn min_seq(&self, kind: Kind) -> u64 {
        self.min_seq[kind as usize]
    }

    /// Returns the oldest generation of the kinds that may be evicted. Up to 6.13 that of anonymous pages is the older one.
    pub(crate) fn oldest(&self, swappiness: u64) -> u64 {
        let oldest = Kind::evictable(swappiness).iter().map(|&kind| self.min_seq(kind));
        match self.rules.gen_ageing {
            GenAgeing::ByShare => self.min_seq(Kind::evictable(swappiness)[0]),
            GenAgeing::ByNumber => oldest.min().unwrap_or(self.max_seq),
        }
    }

    /// Returns the number of generations of a kind.
    pub(crate) const fn len(&self, kind: Kind) -> u64 {
        self.max_seq - self.min_seq(kind) + 1
    }

    /// Returns whether pages of a generation count as active.
    pub(crate) const fn is_active(&self, at: usize) -> bool {
        at == slot(self.max_seq) || at == slot(self.max_seq - 1)
    }

    /// Returns when a generation began, in milliseconds.
    pub(crate) const fn born_ms(&self, seq: u64) -> u64 {
        self.born_ms[slot(seq)]
    }

    pub(crate) const fn tiers(&self, kind: Kind) -> &Tiers {
        &self.tiers[kind as usize]
    }

    pub(crate) const fn tiers_mut(&mut self, kind: Kind) -> &mut Tiers {
        &mut self.tiers[kind as usize]
    }

    /// Returns the pages of a kind in a generation.
    pub(crate) fn pages_of(&self, kind: Kind, seq: u64) -> u64 {
        self.zones.iter().map(|zone| zone.pages(kind, slot(seq))).sum()
    }

    /// Returns the pages that may be evicted.
    pub(crate) fn evictable(&self, swappiness: u64) -> u64 {
        let of = |&kind: &Kind| {
            (self.min_seq(kind)..=self.max_seq).map(|seq| self.pages_of(kind, seq)).sum::<u64>()
        };
        Kind::evictable(swappiness).iter().map(of).sum()
    }

    /// Returns the folio that was longest on a list of the oldest generation of a kind in a zone.
    pub(crate) fn oldest_folio(&self, kind: Kind, zone: usize) -> Option<u32> {
        self.zones[zone].list(kind, slot(self.min_seq(kind))).tail()
    }

    /// Returns whether no folio is on the lists of a generation of a kind.
    fn is_empty(&self, kind: Kind, seq: u64) -> bool {
        self.zones.iter().all(|zone| zone.list(kind, slot(seq)).len() == 0)
    }

    /// Moves the window of a kind on by one generation, whose refaults are kept as an average.
    pub(crate) const fn drop_oldest(&mut self, kind: Kind) {
        self.tiers[kind as usize].carry_over();
        self.min_seq[kind as usize] += 1;
    }

    /// Drops the oldest generations that have no folio left (`try_to_inc_min_seq`). Returns whether it dropped any.
    pub(crate) fn drop_empty(&mut self, swappiness: u64) -> bool {
        let mut min_seq = self.min_seq;
        for &kind in Kind::evictable(swappiness) {
            let oldest = &mut min_seq[kind as usize];
            while *oldest + MIN_GENS <= self.max_seq && self.is_empty(kind, *oldest) {
                *oldest += 1;
            }
        }
        if min_seq != self.min_seq && swappiness > 0 {
            self.keep_together(&mut min_seq);
        }
        let mut dropped = false;
        for &kind in Kind::evictable(swappiness) {
            let seq = min_seq[kind as usize];
            let changes = match self.rules.gen_ageing {
                GenAgeing::ByShare => seq != self.min_seq(kind),
                GenAgeing::ByNumber => seq > self.min_seq(kind),
            };
            if changes {
                self.tiers[kind as usize].carry_over();
                self.min_seq[kind as usize] = seq;
                dropped = true;
            }
        }
        dropped
    }

    /// Keeps the windows of the kinds from moving apart: up to 6.13 the oldest generation of anonymous pages is not younger
    /// than that of files; later neither is evicted alone while the other has four generations.
    fn keep_together(&self, min_seq: &mut [u64; 2]) {
        let [anon, file] = min_seq;
        match self.rules.gen_ageing {
            GenAgeing::ByShare => {
                *anon = (*anon).min(*file);
                *file = (*anon).max(self.min_seq(Kind::File));
            }
            GenAgeing::ByNumber => {
                let seq = self.max_seq - MIN_GENS;
                if *anon > seq && *file < seq {
                    *anon = seq;
                } else if *file > seq && *anon < seq {
                    *file = seq;
                }
            }
        }
    }

    /// Begins a generation, the youngest, at a time.
    pub(crate) const fn begin(&mut self, now_ms: u64) {
        self.max_seq += 1;
        self.born_ms[slot(self.max_seq)] = now_ms;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pageblock_kernel::Named;

    fn generations(kernel: &str) -> Generations {
        Generations::new(Named::parse(kernel).unwrap().kernel.mglru, 1)
    }

    #[test]
    fn empty_generations_are_dropped_down_to_two() {
        for kernel in ["linux-6.12", "linux-6.14", "linux-7.3"] {
            let mut of = generations(kernel);
            assert_eq!((of.len(Kind::Anon), of.len(Kind::File)), (4, 4));
            assert!(of.drop_empty(60) && !of.drop_empty(60));
            assert_eq!((of.len(Kind::Anon), of.len(Kind::File)), (2, 2), "{kernel}");
            of.begin(7);
            assert_eq!((of.len(Kind::File), of.born_ms(of.max_seq())), (3, 7));
            // Without swappiness the generations of anonymous pages stay.
            assert!(of.drop_empty(0));
            assert_eq!((of.len(Kind::Anon), of.len(Kind::File)), (3, 2), "{kernel}");
        }
    }

    /// 798c0330c2ca (6.14): anonymous pages may have fewer generations than files.
    #[test]
    fn windows_of_the_kinds_are_kept_together() {
        let kept = |kernel, anon, file| {
            let mut of = generations(kernel);
            of.max_seq = 8;
            of.min_seq = [5, 5];
            let mut min_seq = [anon, file];
            of.keep_together(&mut min_seq);
            min_seq
        };
        assert_eq!(kept("linux-6.12", 7, 5), [5, 5]);
        assert_eq!(kept("linux-6.12", 5, 7), [5, 5]);
        assert_eq!(kept("linux-6.14", 7, 5), [6, 5]);
        assert_eq!(kept("linux-6.14", 5, 7), [5, 6]);
        assert_eq!(kept("linux-6.14", 6, 7), [6, 7]);
    }
}
