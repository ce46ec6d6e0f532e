//! When zones were boosted for atomic requests: each at most once a second.

use std::collections::BTreeMap;

use pageblock::ids::ZoneIndex;
use pageblock::request::Request;

use super::world::World;
use super::{Nanos, SECOND};

/// The time of the last such boost of each zone.
#[derive(Debug, Default)]
pub(crate) struct AtomicBoosts(BTreeMap<ZoneIndex, Nanos>);

impl AtomicBoosts {
    /// Returns whether a zone may be boosted now, and notes that it is.
    fn may(&mut self, zone: ZoneIndex, now: Nanos) -> bool {
        let rests = self.0.get(&zone).is_some_and(|&last| now < last + SECOND);
        if !rests {
            self.0.insert(zone, now);
        }
        !rests
    }
}

impl World<'_> {
    /// Boosts the zones of a request that enters the slow path, if it is atomic and the kernel does so.
    pub(crate) fn boost_for_atomic(&mut self, cpu: usize, request: &Request) {
        let now = self.now();
        let boosts = &mut self.atomic_boosts;
        self.vm.boost_for_atomic(cpu, request, |zone| boosts.may(zone, now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_is_boosted_once_a_second() {
        let mut boosts = AtomicBoosts::default();
        let [a, b] = [0, 1].map(ZoneIndex);
        assert!(boosts.may(a, 5) && !boosts.may(a, SECOND + 4) && boosts.may(b, 6));
        assert!(boosts.may(a, SECOND + 5) && !boosts.may(a, 2 * SECOND));
    }
}
