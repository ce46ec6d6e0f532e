//! Pageblocks of anonymous memory that are taken as huge pages and given back page by page.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::Rng;

use pageblock_simulate::sim::fragment::share_out;

use crate::inside::memory::{Mapping, PAGE, Pins};

/// The pages of a huge page, which is a pageblock where both have one order.
pub(crate) const UNIT: usize = 512;
/// The pages that one call pins.
const PINS: usize = 1024;

/// The bits of an entry of `/proc/self/pagemap` that have the frame, which only root is told.
const FRAME: u64 = (1 << 55) - 1;

/// The pages of a unit that are kept.
#[derive(Clone, Debug)]
struct Kept {
    bits: [u64; UNIT / 64],
    count: usize,
    /// The page that is pinned.
    pinned: Option<usize>,
}

impl Kept {
    const ALL: Self = Self { bits: [u64::MAX; UNIT / 64], count: UNIT, pinned: None };

    fn has(&self, page: usize) -> bool {
        self.bits[page / 64] >> (page % 64) & 1 == 1
    }

    fn remove(&mut self, page: usize) {
        debug_assert!(
            self.has(page) && self.pinned != Some(page),
            "page {page} is given back twice, or is pinned"
        );
        self.bits[page / 64] &= !(1 << (page % 64));
        self.count -= 1;
    }

    /// Returns the pages that can be given back: all but the pinned one.
    fn free_to_go(&self) -> Vec<usize> {
        (0..UNIT).filter(|&page| self.has(page) && self.pinned != Some(page)).collect()
    }
}

/// The units, in one mapping: the first ones are taken.
pub(crate) struct Units {
    // Before the mapping: pages are pinned until this goes.
    pins: Vec<Pins>,
    map: Mapping,
    pagemap: File,
    kept: Vec<Kept>,
    rng: Pcg64Mcg,
}

impl Units {
    /// Reserves addresses for `most` units.
    pub(crate) fn new(most: u64, seed: u64) -> io::Result<Self> {
        let map = Mapping::new(most.max(1) as usize * UNIT)?;
        map.want_huge()?;
        let pagemap = File::open("/proc/self/pagemap")?;
        let rng = Pcg64Mcg::new((u128::from(seed) << 64 | 0x5851_f42d_4c95_7f2d) | 1);
        Ok(Self { pins: Vec::new(), map, pagemap, kept: Vec::new(), rng })
    }

    /// Returns the number of units that are held, and of their pages.
    pub(crate) fn held(&self) -> (u64, u64) {
        let units = self.kept.iter().filter(|kept| kept.count > 0).count();
        (units as u64, self.kept.iter().map(|kept| kept.count as u64).sum())
    }

    /// Returns the number of pages that are pinned, one in a unit.
    pub(crate) fn pinned(&self) -> u64 {
        self.kept.iter().filter(|kept| kept.pinned.is_some()).count() as u64
    }

    /// Takes a huge page and splits it. Returns false if the kernel gave small pages instead, which go back at once.
    pub(crate) fn take(&mut self) -> io::Result<bool> {
        let first = self.kept.len() * UNIT;
        if first + UNIT > self.map.pages() {
            return Ok(false);
        }
        self.map.touch(first);
        if !self.is_huge(first)? {
            self.map.give_back(first, UNIT)?;
            return Ok(false);
        }
        // A split takes pages away that have only zeros (6.12, `try_to_map_unused_to_zeropage`).
        (first..first + UNIT).for_each(|page| self.map.touch(page));
        // Else khugepaged would make a huge page of what is left.
        self.map.want_small_at(first, UNIT)?;
        self.map.split(first)?;
        self.kept.push(Kept::ALL);
        Ok(true)
    }

    /// Reports whether the pages from one on are a pageblock, in its order.
    fn is_huge(&self, first: usize) -> io::Result<bool> {
        let frame = |page: usize| {
            let mut entry = [0; 8];
            let at = (self.map.address() / PAGE as u64 + page as u64) * 8;
            self.pagemap.read_exact_at(&mut entry, at)?;
            match u64::from_le_bytes(entry) & FRAME {
                0 => Err(io::Error::from(io::ErrorKind::PermissionDenied)),
                frame => Ok(frame),
            }
        };
        let start = frame(first)?;
        Ok(start.is_multiple_of(UNIT as u64) && frame(first + UNIT - 1)? == start + UNIT as u64 - 1)
    }

    /// Gives up to `count` units back that have all their pages, the last ones first. Returns how many.
    pub(crate) fn give(&mut self, count: u64) -> io::Result<u64> {
        let mut given = 0;
        for unit in (0..self.kept.len()).rev() {
            if given == count {
                break;
            }
            let kept = &mut self.kept[unit];
            if kept.count == UNIT && kept.pinned.is_none() {
                self.map.give_back(unit * UNIT, UNIT)?;
                (kept.bits, kept.count) = ([0; UNIT / 64], 0);
                given += 1;
            }
        }
        Ok(given)
    }

    /// Gives `count` pages of some units back, chosen at random, about as many of each as it has; each keeps at least one, so that no whole
    /// pageblock becomes free. Returns how many.
    pub(crate) fn release(&mut self, units: Range<usize>, count: u64) -> io::Result<u64> {
        let spare = |kept: &Kept| kept.count.saturating_sub(1) as u64;
        let spare: Vec<u64> = self.kept[units.clone()].iter().map(spare).collect();
        let shares = share_out(&spare, count);
        for (unit, &share) in units.zip(&shares) {
            self.release_of(unit, share as usize)?;
        }
        Ok(shares.iter().sum())
    }

    fn release_of(&mut self, unit: usize, count: usize) -> io::Result<()> {
        let mut pages = self.kept[unit].free_to_go();
        // The first places of a shuffle.
        for at in 0..count.min(pages.len()) {
            let other = at + (self.rng.next_u64() % (pages.len() - at) as u64) as usize;
            pages.swap(at, other);
        }
        pages.truncate(count);
        pages.sort_unstable();
        for run in pages.chunk_by(|a, b| a + 1 == *b) {
            self.map.give_back(unit * UNIT + run[0], run.len())?;
        }
        pages.iter().for_each(|&page| self.kept[unit].remove(page));
        Ok(())
    }

    /// Pins a page of each of `count` units that have none pinned, chosen at random. Returns how many.
    pub(crate) fn pin(&mut self, count: u64) -> io::Result<u64> {
        let mut units: Vec<usize> = (0..self.kept.len())
            .filter(|&unit| self.kept[unit].count > 0 && self.kept[unit].pinned.is_none())
            .collect();
        let count = units.len().min(count as usize);
        for at in 0..count {
            let other = at + (self.rng.next_u64() % (units.len() - at) as u64) as usize;
            units.swap(at, other);
        }
        units.truncate(count);
        for some in units.chunks(PINS) {
            let mut pages = Vec::with_capacity(some.len());
            for &unit in some {
                let of_unit = self.kept[unit].free_to_go();
                let page = of_unit[(self.rng.next_u64() % of_unit.len() as u64) as usize];
                pages.push((unit, page));
            }
            let places: Vec<usize> = pages.iter().map(|(unit, page)| unit * UNIT + page).collect();
            self.pins.push(Pins::new(&self.map, &places)?);
            for (unit, page) in pages {
                self.kept[unit].pinned = Some(page);
            }
        }
        Ok(count as u64)
    }

    /// Returns the number of units that were ever taken: the places of the next ones.
    pub(crate) fn places(&self) -> usize {
        self.kept.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Live: units come as pageblocks, each keeps a page and what is pinned, and what is given back is gone.
    #[test]
    fn what_is_kept_and_what_goes_back_is_as_counted() {
        let mut units = Units::new(3, 7).unwrap();
        match units.take() {
            Ok(true) => {}
            other => {
                eprintln!("SKIPPED: needs root and a free huge page ({other:?})");
                return;
            }
        }
        if !units.take().unwrap() {
            eprintln!("SKIPPED: needs two free huge pages");
            return;
        }
        assert_eq!(units.held(), (2, 1024));
        assert_eq!(units.release(1..2, 300).unwrap(), 300);
        assert_eq!(units.held(), (2, 724));
        assert_eq!(units.pin(5).unwrap(), 2, "one a unit");
        assert_eq!(units.pinned(), 2);
        // All but a page of each, and the pinned ones are those that stay.
        assert_eq!(units.release(0..2, 10_000).unwrap(), 722);
        assert_eq!(units.held(), (2, 2));
        let there: Vec<usize> =
            (0..2 * UNIT).filter(|&page| units.map.is_there(page).unwrap()).collect();
        let pinned: Vec<usize> =
            (0..2).map(|unit| unit * UNIT + units.kept[unit].pinned.expect("one a unit")).collect();
        assert_eq!(there, pinned);
        assert_eq!(units.give(2).unwrap(), 0, "only whole units are given back as such");
    }
}
