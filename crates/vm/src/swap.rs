//! Swap space: places for anonymous pages on a disk.

/// The places of a swap device.
#[derive(Clone, Debug, Default)]
pub struct Swap {
    places: u32,
    /// The first place that was never used.
    fresh: u32,
    free: Vec<u32>,
    /// The mapping and index whose page was last written to each place, up to `fresh`.
    owners: Vec<(u32, u32)>,
}

impl Swap {
    pub(crate) fn new(places: u32) -> Self {
        Self { places, fresh: 0, free: Vec::new(), owners: Vec::new() }
    }

    /// Places that are free.
    #[must_use]
    pub fn free_places(&self) -> u64 {
        u64::from(self.places - self.fresh) + self.free.len() as u64
    }

    /// The number of places.
    #[must_use]
    pub const fn places(&self) -> u32 {
        self.places
    }

    /// A page is written to a free place, if there is one.
    pub(crate) fn take(&mut self) -> Option<u32> {
        if let Some(place) = self.free.pop() {
            return Some(place);
        }
        let place = self.fresh;
        (place < self.places).then(|| {
            self.fresh += 1;
            self.owners.push((0, 0));
            place
        })
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
        self.free.push(place);
    }
}
