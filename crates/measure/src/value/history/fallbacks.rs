//! Fallbacks by the pageblocks that they took from, and by who made them.

use std::collections::{BTreeMap, BTreeSet};

use pageblock::event::Extfrag;
use pageblock::mobility::Migratetype;
use serde::{Deserialize, Serialize};

use super::cell::Cell;
use crate::value::extfrag::{ExtfragKey, Harm, type_name};

/// Fallbacks of one effect between two types.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FallbackCount {
    /// The effect: `claims`, `pollutions` or `steals`.
    pub effect: String,
    /// The type that was requested.
    #[serde(with = "type_name")]
    pub requested: Migratetype,
    /// The type of the list that served the request.
    #[serde(with = "type_name")]
    pub from: Migratetype,
    /// Events.
    pub events: u64,
    /// Different pageblocks that they took from.
    pub blocks: u64,
}

/// Who made fallbacks.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Taker {
    /// The command, or the task of a simulation.
    pub command: String,
    /// Where it asked for memory, if stacks were recorded: the function, and those that called it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<String>,
    /// Claims.
    pub claims: u64,
    /// Pollutions.
    pub pollutions: u64,
    /// Steals.
    pub steals: u64,
    /// Different pageblocks that they took from.
    pub blocks: u64,
    /// Pageblocks at the end with pages that compaction cannot move, which this taker was the last to claim
    /// or pollute since they had none.
    pub lost: u64,
    /// The pages in them that compaction cannot move.
    pub stuck: u64,
}

/// Counts fallbacks as they happen.
#[derive(Clone, Debug, Default)]
pub(super) struct Fallbacks {
    counts: BTreeMap<(Harm, Migratetype, Migratetype), u64>,
    blocks: BTreeSet<(Harm, Migratetype, Migratetype, u32)>,
    takers: BTreeMap<(String, Option<String>), usize>,
    taken: Vec<Taker>,
    taker_blocks: BTreeSet<(usize, u32)>,
    /// The taker, the kind and the block of the last fallback: most fallbacks follow one of their own kind.
    before: Option<(usize, (Harm, Migratetype, Migratetype), u32)>,
    /// By block: the last to claim or pollute it, plus one.
    last: Vec<u32>,
}

impl Fallbacks {
    /// Counts a fallback that took from the block with this number.
    pub(super) fn push(
        &mut self,
        fallback: &Extfrag,
        block: Option<usize>,
        command: &str,
        site: Option<&str>,
    ) {
        let key = ExtfragKey::from(fallback);
        let harm = key.harm();
        let kind = (harm, key.alloc_mt, key.fallback_mt);
        *self.counts.entry(kind).or_default() += 1;
        let at = self.taker(command, site);
        let taker = &mut self.taken[at];
        match harm {
            Harm::Claim => taker.claims += 1,
            Harm::Pollution => taker.pollutions += 1,
            Harm::Steal => taker.steals += 1,
        }
        let Some(block) = block else { return };
        let number = block as u32;
        if self.before.replace((at, kind, number)) != Some((at, kind, number)) {
            self.blocks.insert((kind.0, kind.1, kind.2, number));
            taker.blocks += u64::from(self.taker_blocks.insert((at, number)));
        }
        if !matches!(key.alloc_mt, Migratetype::Movable | Migratetype::Cma) {
            if block >= self.last.len() {
                self.last.resize(block + 1, 0);
            }
            self.last[block] = at as u32 + 1;
        }
    }

    fn taker(&mut self, command: &str, site: Option<&str>) -> usize {
        if let Some((at, ..)) = self.before {
            let last = &self.taken[at];
            if last.command == command && last.site.as_deref() == site {
                return at;
            }
        }
        let key = (command.to_owned(), site.map(str::to_owned));
        *self.takers.entry(key).or_insert_with(|| {
            self.taken.push(Taker {
                command: command.to_owned(),
                site: site.map(str::to_owned),
                claims: 0,
                pollutions: 0,
                steals: 0,
                blocks: 0,
                lost: 0,
                stuck: 0,
            });
            self.taken.len() - 1
        })
    }

    /// Forgets who took a block that has no page left that compaction cannot move.
    pub(super) fn recovered(&mut self, block: usize) {
        if let Some(last) = self.last.get_mut(block) {
            *last = 0;
        }
    }

    /// Returns the fallbacks by kind, and by who made them, those with the most lost blocks first; `end` is
    /// every block at the end.
    pub(super) fn finish(mut self, end: &[Cell]) -> (Vec<FallbackCount>, Vec<Taker>) {
        for (last, cell) in self.last.iter().zip(end) {
            if let Some(at) = last.checked_sub(1)
                && cell.stuck > 0
            {
                let taker = &mut self.taken[at as usize];
                taker.lost += 1;
                taker.stuck += u64::from(cell.stuck);
            }
        }
        let counts = self.counts.iter().map(|(&(harm, requested, from), &events)| {
            let first = (harm, requested, from, 0);
            let blocks =
                self.blocks.range(first..=(harm, requested, from, u32::MAX)).count() as u64;
            FallbackCount { effect: harm.name().to_owned(), requested, from, events, blocks }
        });
        let counts = counts.collect();
        self.taken.sort_by(|a, b| {
            let key = |taker: &Taker| (taker.lost, taker.blocks);
            key(b).cmp(&key(a)).then_with(|| (&a.command, &a.site).cmp(&(&b.command, &b.site)))
        });
        (counts, self.taken)
    }
}
