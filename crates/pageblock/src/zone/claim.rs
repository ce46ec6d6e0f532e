//! The effect of a fallback: the block's pageblock is claimed, its free pages move, or only the block is split.
//!
//! Source: `steal_suitable_fallback`, `try_to_claim_block`, `__rmqueue_claim`, `__rmqueue_steal` of Linux
//! 3.10 to 7.3.

use crate::base::alloc_flags::AllocFlags;
use crate::base::event::{Event, Extfrag, Observer};
use crate::base::frame::Order;
use crate::base::mobility::Migratetype::{self, Cma, HighAtomic};
use crate::policy::source::PolicySource;
use crate::policy::{ClaimRule, FallbackPick};
use crate::table::map::Index;
use crate::zone::Zone;
use crate::zone::fallback::{Fallback, Outcome};

impl<P: PolicySource> Zone<'_, P> {
    /// Serves a request as [`find_fallback`](Self::find_fallback) decided.
    ///
    /// Returns the block's first frame, and the type that a CPU list remembers for it (up to 6.9). The caller
    /// reports failed claims. Each boosts the watermark.
    pub(crate) fn take_fallback(
        &mut self,
        order: Order,
        start: Migratetype,
        fallback: Fallback,
        flags: AllocFlags,
        observer: &mut impl Observer,
    ) -> Option<(Index, Migratetype)> {
        let i = self.map.index(fallback.pfn)?;
        // The caller's decision is stale: the block was taken or merged since.
        if self.map.free_list(i, fallback.order) != Some(fallback.from) || fallback.order < order {
            return None;
        }
        let event = |zone: &Self, page: Index, printed: Migratetype, owned: bool| {
            Event::Extfrag(Extfrag {
                pfn: zone.map.pfn(page),
                alloc_order: order,
                fallback_order: fallback.order,
                alloc_migratetype: start,
                fallback_migratetype: printed,
                change_ownership: owned,
            })
        };
        match self.policy.claim_rule {
            ClaimRule::TypesAgree => {
                let page = self.take_strict(i, order, start, fallback, flags, observer)?;
                let owned = self.map.block_type(page) == start;
                observer.event(event(self, page, fallback.from, owned));
                Some((page, start))
            }
            ClaimRule::CompatibleCounts => {
                self.refile(i, start, fallback, flags, observer);
                let owned = self.map.block_type(i) == start;
                observer.event(event(self, i, fallback.from, owned));
                let page = self.rmqueue_smallest(order, start)?;
                self.trace_zone_locked(page, order, start, start, observer);
                Some((page, start))
            }
            rule => {
                let (new, rest) = self.move_and_split(i, order, start, fallback, rule);
                let owned = match rule {
                    ClaimRule::RestTakenEventAfter => new == start,
                    ClaimRule::RestTaken | ClaimRule::RestStays => {
                        matches!(fallback.outcome, Outcome::Claim | Outcome::ClaimWhole)
                    }
                    _ => self.map.block_type(i) == start,
                };
                let printed =
                    if rule == ClaimRule::RestTakenEventAfter { new } else { fallback.from };
                observer.event(event(self, i, printed, owned));
                self.trace_zone_locked(i, order, start, start, observer);
                Some((i, rest))
            }
        }
    }

    /// Moves the pageblock's free pages, then splits the block that was found (up to 4.9). Returns the type that
    /// the block is treated as, and the remainder's type.
    fn move_and_split(
        &mut self,
        i: Index,
        order: Order,
        start: Migratetype,
        fallback: Fallback,
        rule: ClaimRule,
    ) -> (Migratetype, Migratetype) {
        let Fallback { order: found, from, outcome, .. } = fallback;
        let mut list = from;
        match outcome {
            Outcome::ClaimWhole => self.set_block_types(i, found, start),
            // Nothing moves out of a pageblock that extends past the zone.
            Outcome::Claim if self.retype_block(i, start) > 0 => list = start,
            Outcome::Refile if self.move_freepages_block(i, start) > 0 => list = start,
            Outcome::Claim | Outcome::Refile => {}
            Outcome::Single => {}
        }
        let claimed = matches!(outcome, Outcome::Claim | Outcome::ClaimWhole);
        let moved = claimed || outcome == Outcome::Refile;
        let follows_move = matches!(rule, ClaimRule::RestTakenEventAfter | ClaimRule::RestFollows);
        let new = if claimed || (follows_move && moved) { start } else { from };
        let rest = match rule {
            _ if from == Cma => Cma,
            ClaimRule::RestStays | ClaimRule::RestFollows => new,
            _ => start,
        };
        debug_assert_eq!(
            self.map.free_list(i, found),
            Some(list),
            "the block moved to another list"
        );
        self.remove(i, found, list);
        self.expand(i, order, found, rest);
        (new, rest)
    }

    /// Puts the block that was found on the list of the requested type, without splitting it (4.12 to 6.9).
    pub(crate) fn refile(
        &mut self,
        i: Index,
        start: Migratetype,
        fallback: Fallback,
        flags: AllocFlags,
        observer: &mut impl Observer,
    ) {
        let Fallback { order, from, outcome, .. } = fallback;
        if outcome == Outcome::ClaimWhole {
            self.set_block_types(i, order, start);
        } else if self.map.block_type(i) != HighAtomic {
            self.boost_watermark(start, flags, observer);
        }
        match outcome {
            Outcome::ClaimWhole | Outcome::Single => self.move_to_list(i, order, from, start),
            Outcome::Claim => {
                self.retype_block(i, start);
            }
            Outcome::Refile => {
                self.move_freepages_block(i, start);
            }
        }
        debug_assert_eq!(
            self.map.free_block_of(i).map(|(_, _, list)| list),
            Some(start),
            "the block is not on the list of the requested type"
        );
    }

    /// Splits the block that was found. The remainder stays on the list of the pageblock's type (from 6.10).
    fn take_strict(
        &mut self,
        i: Index,
        order: Order,
        start: Migratetype,
        fallback: Fallback,
        flags: AllocFlags,
        observer: &mut impl Observer,
    ) -> Option<Index> {
        let Fallback { order: found, from, outcome, .. } = fallback;
        let steals = self.policy.fallback_pick == FallbackPick::ClaimThenSteal;
        match outcome {
            Outcome::ClaimWhole => {
                debug_assert!(self.is_whole_block(found), "a part of a pageblock is claimed whole");
                self.remove(i, found, from);
                self.set_block_types(i, found, start);
                self.expand(i, order, found, start);
                Some(i)
            }
            Outcome::Claim => {
                self.boost_watermark(start, flags, observer);
                self.retype_block(i, start);
                debug_assert_eq!(
                    self.map.block_type(i),
                    start,
                    "a claimed pageblock kept its type"
                );
                let page = self.rmqueue_smallest(order, start)?;
                self.trace_zone_locked(page, order, start, start, observer);
                Some(page)
            }
            Outcome::Refile | Outcome::Single => {
                if !steals && self.map.block_type(i) != HighAtomic {
                    self.boost_watermark(start, flags, observer);
                }
                self.remove(i, found, from);
                self.expand(i, order, found, from);
                Some(i)
            }
        }
    }
}
