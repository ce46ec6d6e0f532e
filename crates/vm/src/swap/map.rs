//! Swap space: places for anonymous pages on a disk.
//!
//! Source: `scan_swap_map`, `scan_swap_map_try_ssd_cluster` (mm/swapfile.c).

/// Places that are given one after another before the next free stretch is looked for
/// (`SWAPFILE_CLUSTER`).
const CLUSTER: u32 = 256;

/// The places of a swap device.
#[derive(Clone, Debug, Default)]
pub(crate) struct Swap {
    places: u32,
    used: u32,
    /// Places in use, for those below the highest that ever was.
    map: Vec<bool>,
    /// Places in use of each cluster.
    clusters: Vec<u32>,
    /// Where the next place is looked for, and how many more before the next cluster.
    next: u32,
    left: u32,
    /// The mapping and index whose page was last written to each place of `map`.
    owners: Vec<(u32, u32)>,
}

impl Swap {
    pub(crate) fn new(places: u32) -> Self {
        let clusters = vec![0; places.div_ceil(CLUSTER) as usize];
        Self { places, clusters, ..Self::default() }
    }

    /// Places that are free.
    #[must_use]
    pub(crate) fn free_places(&self) -> u64 {
        u64::from(self.places - self.used)
    }

    /// The number of places.
    #[must_use]
    pub(crate) const fn places(&self) -> u32 {
        self.places
    }

    /// A page is written to a free place, if there is one: the next after the last, so that what is
    /// written together lies together.
    pub(crate) fn take(&mut self) -> Option<u32> {
        let place = self.next_place()?;
        if place as usize >= self.map.len() {
            self.map.resize(place as usize + 1, false);
            self.owners.resize(place as usize + 1, (0, 0));
        }
        self.map[place as usize] = true;
        self.clusters[(place / CLUSTER) as usize] += 1;
        self.used += 1;
        self.next = place + 1;
        Some(place)
    }

    /// The next free place of a stretch.
    fn next_place(&mut self) -> Option<u32> {
        if self.used == self.places {
            return None;
        }
        if self.left == 0 {
            // Linux: on a disk that turns a free stretch need not be aligned; on another each CPU fills one of its own.
            if let Some(cluster) = self.clusters.iter().position(|&used| used == 0) {
                self.next = cluster as u32 * CLUSTER;
            }
            self.left = CLUSTER;
        }
        self.left = self.left.saturating_sub(1);
        let free = |place: &u32| !self.map.get(*place as usize).copied().unwrap_or(false);
        (self.next..self.places).chain(0..self.next).find(free)
    }

    /// A page of a mapping is written to a place.
    pub(crate) fn own(&mut self, place: u32, space: u32, index: u32) {
        self.owners[place as usize] = (space, index);
    }

    /// Whose page was last written to a place.
    pub(crate) fn owner(&self, place: u32) -> Option<(u32, u32)> {
        self.owners.get(place as usize).copied()
    }

    pub(crate) fn put(&mut self, place: u32) {
        debug_assert!(self.map[place as usize], "swap place {place} is free");
        self.map[place as usize] = false;
        self.clusters[(place / CLUSTER) as usize] -= 1;
        self.used -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_follow_each_other() {
        let mut swap = Swap::new(3 * CLUSTER);
        let taken: Vec<u32> = (0..CLUSTER + 2).filter_map(|_| swap.take()).collect();
        assert_eq!(taken, (0..CLUSTER + 2).collect::<Vec<_>>());
        // A place that comes back is not given before a stretch is through, and then the first free
        // cluster goes before it.
        swap.put(7);
        let rest: Vec<u32> = (2..CLUSTER).filter_map(|_| swap.take()).collect();
        assert_eq!(rest, (CLUSTER + 2..2 * CLUSTER).collect::<Vec<_>>());
        assert_eq!(swap.take(), Some(2 * CLUSTER));
        assert_eq!(swap.free_places(), u64::from(CLUSTER));
        let last: Vec<u32> = std::iter::from_fn(|| swap.take()).collect();
        assert_eq!((last.len(), last.last()), (CLUSTER as usize, Some(&7)));
        assert_eq!((swap.take(), swap.free_places()), (None, 0));
    }
}
