//! Who still holds pages that do not move: requests, less what was freed.

use std::collections::BTreeMap;

use pageblock::frame::{Order, Pfn, pages};
use pageblock::mobility::Migratetype;
use pageblock_measure::value::call_sites::{HeldBlock, PageHolder, StillHeld};
use pageblock_recording::CALLED_BY;

use super::stacks::{functions, process, site, slab};

/// The frames of one entry of the table.
const CHUNK: u64 = 512;

/// A holder: who asked, for which type, with which stack.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Key {
    pid: u32,
    mt: Migratetype,
    site: String,
    slab: Option<&'static str>,
}

/// A request whose stack may follow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) pfn: Pfn,
    pub(super) order: Order,
    holder: u32,
}

/// Follows which frames are held by whom.
#[derive(Default)]
pub(super) struct HolderFinder {
    /// By chunk of frames: the number of each frame's holder, from 1; 0 if it is free, or not known.
    frames: BTreeMap<u64, Box<[u32]>>,
    keys: Vec<Key>,
    numbers: BTreeMap<Key, u32>,
    /// Pages asked for, by holder.
    asked: Vec<u64>,
}

impl HolderFinder {
    fn holder(&mut self, key: Key) -> u32 {
        if let Some(&number) = self.numbers.get(&key) {
            return number;
        }
        self.keys.push(key.clone());
        self.asked.push(0);
        let number = self.keys.len() as u32;
        self.numbers.insert(key, number);
        number
    }

    /// Follows a request that was served.
    pub(super) fn request(
        &mut self,
        pid: u32,
        pfn: Pfn,
        order: Order,
        mt: Migratetype,
    ) -> Option<Request> {
        if mt == Migratetype::Movable || mt == Migratetype::Cma {
            self.freed(pfn, order);
            return None;
        }
        let holder = self.holder(Key { pid, mt, site: String::new(), slab: None });
        self.asked[holder as usize - 1] += pages(order);
        self.set(pfn, order, None, holder);
        Some(Request { pfn, order, holder })
    }

    /// Follows the stack of a request.
    pub(super) fn stack(&mut self, request: Request, stack: &str) {
        let old = request.holder;
        let Key { pid, mt, .. } = self.keys[old as usize - 1];
        let site = site(stack).join(CALLED_BY);
        let holder = self.holder(Key { pid, mt, site, slab: slab(stack) });
        self.asked[old as usize - 1] -= pages(request.order);
        self.asked[holder as usize - 1] += pages(request.order);
        // Another CPU may have freed it, and somebody got it again.
        self.set(request.pfn, request.order, Some(old), holder);
    }

    /// Follows a free, or that the free scanner took a block.
    pub(super) fn freed(&mut self, pfn: Pfn, order: Order) {
        self.set(pfn, order, None, 0);
    }

    /// Sets the holder of frames; of those that `only` holds, if it is named.
    fn set(&mut self, pfn: Pfn, order: Order, only: Option<u32>, holder: u32) {
        let (mut at, end) = (pfn.0, pfn.0 + pages(order));
        while at < end {
            let chunk = at / CHUNK;
            let to = end.min((chunk + 1) * CHUNK);
            let frames = match (holder, self.frames.get_mut(&chunk)) {
                (_, Some(frames)) => frames,
                (0, None) => {
                    at = to;
                    continue;
                }
                (_, None) => {
                    self.frames.entry(chunk).or_insert_with(|| vec![0; CHUNK as usize].into())
                }
            };
            let range = (at % CHUNK) as usize..((to - 1) % CHUNK) as usize + 1;
            for frame in &mut frames[range] {
                if only.is_none_or(|only| *frame == only) {
                    *frame = holder;
                }
            }
            at = to;
        }
    }

    /// Returns who holds what, after the last event.
    pub(super) fn finish(self, names: &BTreeMap<u32, String>, pageblock: Order) -> StillHeld {
        // Processes with one name are one holder.
        let mut merged: BTreeMap<(String, &str, Option<&str>, &str), usize> = BTreeMap::new();
        let mut holders: Vec<PageHolder> = Vec::new();
        let mut of = Vec::with_capacity(self.keys.len());
        for (key, asked) in self.keys.iter().zip(&self.asked) {
            let process = process(names, key.pid);
            let merge = (process.clone(), key.site.as_str(), key.slab, key.mt.name());
            let at = *merged.entry(merge).or_insert_with(|| {
                holders.push(PageHolder {
                    process,
                    functions: functions(&key.site),
                    slab: key.slab,
                    migratetype: key.mt.name(),
                    asked: 0,
                    held: 0,
                    blocks: 0,
                    alone: 0,
                });
                holders.len() - 1
            });
            holders[at].asked += asked;
            of.push(at);
        }
        let mut blocks: BTreeMap<u64, BTreeMap<usize, u32>> = BTreeMap::new();
        for (chunk, frames) in &self.frames {
            for (frame, &holder) in
                (chunk * CHUNK..).zip(frames.iter()).filter(|(_, holder)| **holder > 0)
            {
                let own = blocks.entry(frame >> pageblock).or_default();
                *own.entry(of[holder as usize - 1]).or_default() += 1;
            }
        }
        Self::sum(holders, &blocks, pageblock)
    }

    /// Adds the pages of each pageblock up.
    fn sum(
        mut holders: Vec<PageHolder>,
        blocks: &BTreeMap<u64, BTreeMap<usize, u32>>,
        pageblock: Order,
    ) -> StillHeld {
        for own in blocks.values() {
            for (&at, &held) in own {
                holders[at].held += u64::from(held);
                holders[at].blocks += 1;
                holders[at].alone += u64::from(own.len() == 1);
            }
        }
        let mut order: Vec<usize> = (0..holders.len()).collect();
        order.sort_by_key(|&at| {
            let PageHolder { blocks, held, asked, .. } = holders[at];
            std::cmp::Reverse((blocks, held, asked))
        });
        let mut place = vec![0_u32; holders.len()];
        for (to, &from) in order.iter().enumerate() {
            place[from] = to as u32;
        }
        let map = blocks.iter().map(|(&block, own)| {
            let most = own.iter().max_by_key(|&(&at, &held)| (held, std::cmp::Reverse(place[at])));
            HeldBlock {
                block,
                holder: most.map_or(0, |(&at, _)| place[at]),
                pages: own.values().sum(),
            }
        });
        let map: Vec<HeldBlock> = map.collect();
        let mut sorted: Vec<(u32, PageHolder)> = place.into_iter().zip(holders).collect();
        sorted.sort_by_key(|(place, _)| *place);
        let holders: Vec<PageHolder> = sorted.into_iter().map(|(_, holder)| holder).collect();
        StillHeld {
            asked: holders.iter().map(|holder| holder.asked).sum(),
            held: holders.iter().map(|holder| holder.held).sum(),
            lost: 0,
            blocks: blocks.len() as u64,
            pageblock_order: pageblock,
            holders,
            map,
        }
    }
}
