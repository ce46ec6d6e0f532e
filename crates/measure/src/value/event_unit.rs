//! The unit of `mm_page_alloc_extfrag` events, which changed with Linux 6.10.

use pageblock::policy::{ClaimRule, Policy};
use serde::{Deserialize, Serialize};

/// The note of every comparison with policies on both sides of Linux 6.10.
pub const NOTE_ACROSS_6_10: &str = "Linux 6.10 lies between these policies: counts of \
    mm_page_alloc_extfrag are not comparable across it (before 6.10 one event is one stolen block, \
    whose pages are then served without an event; from 6.10 on one event is one stolen page), so their \
    rows have no percentage. Compare \"Pages allocated into a block of another type\" instead.";

/// The note below the title of a section whose counts differ in their unit.
pub const NOTE_OF_SECTION: &str = "one event is a block before Linux 6.10 and a page from then on: \
    compare \"Pages allocated into a block of another type\"";

/// The unit of a `mm_page_alloc_extfrag` event.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EventUnit {
    /// Before 6.10: a stolen block, whose pages are then served without an event.
    Block,
    /// From 6.10 on: a stolen page.
    Page,
}

impl EventUnit {
    /// Returns the unit under a policy.
    #[must_use]
    pub const fn of(policy: &Policy) -> Self {
        match policy.claim_rule {
            ClaimRule::TypesAgree => Self::Page,
            _ => Self::Block,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_changes_with_6_10_and_follows_the_switch() {
        let unit = |text| EventUnit::of(&Policy::parse(text).unwrap());
        assert_eq!(unit("linux-3.10"), EventUnit::Block);
        assert_eq!(unit("linux-6.9"), EventUnit::Block);
        assert_eq!(unit("linux-6.10"), EventUnit::Page);
        assert_eq!(unit("linux-6.9,claim_rule=types_agree"), EventUnit::Page);
        assert_eq!(unit("linux-6.12,claim_rule=compatible_counts"), EventUnit::Block);
    }
}
