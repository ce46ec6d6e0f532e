//! Tiers of the pages of a generation by their uses, and the controller that protects those which refault.
//!
//! Source: `read_ctrl_pos`, `reset_ctrl_pos`, `positive_ctrl_err` (mm/vmscan.c).

use super::MIN_BATCH;

/// The number of tiers (`MAX_NR_TIERS`).
pub(crate) const TIERS: usize = 4;

/// What became of a kind's pages, by tier.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Tiers {
    /// Pages that refaulted, were evicted and were protected in the oldest generation.
    refaulted: [u64; TIERS],
    evicted: [u64; TIERS],
    protected: [u64; TIERS],
    /// Averages over earlier generations, each with half the weight of the next.
    average_refaulted: [u64; TIERS],
    average_total: [u64; TIERS],
}

/// Refaults of pages, with their number and a weight (`struct ctrl_pos`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Judged {
    refaulted: u64,
    total: u64,
    weight: u64,
}

impl Judged {
    /// Returns whether these pages refault rarely, or at a lower rate than `others` by the weights
    /// (`positive_ctrl_err`): then they may be evicted.
    pub(crate) const fn refaults_less_than(&self, others: &Self) -> bool {
        let few = self.refaulted < MIN_BATCH;
        few || self.refaulted * (others.total + MIN_BATCH) * others.weight
            <= (others.refaulted + 1) * self.total * self.weight
    }
}

impl Tiers {
    pub(crate) const fn note_refault(&mut self, tier: usize, pages: u64) {
        self.refaulted[tier] += pages;
    }

    pub(crate) const fn note_eviction(&mut self, tier: usize, pages: u64) {
        self.evicted[tier] += pages;
    }

    pub(crate) const fn note_protection(&mut self, tier: usize, pages: u64) {
        self.protected[tier] += pages;
    }

    /// Returns the refaults of some tiers.
    pub(crate) fn judge(&self, tiers: std::ops::Range<usize>, weight: u64) -> Judged {
        let sum = |of: &[u64; TIERS]| of[tiers.clone()].iter().sum::<u64>();
        Judged {
            refaulted: sum(&self.average_refaulted) + sum(&self.refaulted),
            total: sum(&self.average_total) + sum(&self.evicted) + sum(&self.protected),
            weight,
        }
    }

    /// Returns the last tier that may be evicted: the first of those after it refaults more than `standard`.
    pub(crate) fn last_evicted(&self, standard: &Judged, weight: u64) -> usize {
        let protected =
            |&tier: &usize| !self.judge(tier..tier + 1, weight).refaults_less_than(standard);
        (1..TIERS).find(protected).unwrap_or(TIERS) - 1
    }

    /// Adds the oldest generation to the averages.
    pub(super) const fn carry_over(&mut self) {
        let mut tier = 0;
        while tier < TIERS {
            let total = self.evicted[tier] + self.protected[tier];
            self.average_refaulted[tier] =
                (self.average_refaulted[tier] + self.refaulted[tier]) / 2;
            self.average_total[tier] = (self.average_total[tier] + total) / 2;
            tier += 1;
        }
        self.refaulted = [0; TIERS];
        self.evicted = [0; TIERS];
        self.protected = [0; TIERS];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tier_that_refaults_more_is_protected() {
        let mut tiers = Tiers::default();
        tiers.note_eviction(0, 1000);
        tiers.note_refault(0, 100);
        tiers.note_eviction(1, 1000);
        tiers.note_eviction(2, 1000);
        let last = |tiers: &Tiers| tiers.last_evicted(&tiers.judge(0..1, 1), 2);
        // Fewer refaults than a batch are chance.
        tiers.note_refault(2, 63);
        assert_eq!(last(&tiers), 3);
        tiers.note_refault(2, 400);
        assert_eq!(last(&tiers), 1);
        // What was protected counts as what was evicted.
        tiers.note_protection(2, 4000);
        assert_eq!(last(&tiers), 3);
    }

    #[test]
    fn earlier_generations_count_half() {
        let mut tiers = Tiers::default();
        tiers.note_eviction(0, 800);
        tiers.note_protection(1, 80);
        tiers.note_refault(0, 400);
        tiers.carry_over();
        tiers.note_refault(0, 10);
        let judged = tiers.judge(0..1, 1);
        assert_eq!((judged.refaulted, judged.total), (210, 400));
        assert_eq!(tiers.judge(0..TIERS, 1).total, 440);
        tiers.carry_over();
        assert_eq!(tiers.judge(0..1, 1).refaulted, 105);
    }
}
