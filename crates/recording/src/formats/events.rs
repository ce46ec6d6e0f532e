//! The events of a file in any of the formats.

use std::collections::BTreeMap;

use super::capture::Capture;
use crate::input::error::Error;
use crate::record::event::{Record, What};
use crate::record::losses::{Losses, LostByCpu};

/// Streams the events of a file. After an error the stream ends.
pub struct Events {
    capture: Box<dyn Capture>,
    /// [`Capture::is_selected`].
    selected: bool,
}

/// Events of the slab allocator and of accounting, which capture all of `kmem:*`: they say nothing of pages.
const NOT_OF_PAGES: [&str; 9] = [
    "kmalloc",
    "kmalloc_node",
    "kfree",
    "kmem_cache_alloc",
    "kmem_cache_alloc_node",
    "kmem_cache_free",
    "rss_stat",
    "mm_calculate_totalreserve_pages",
    "mm_setup_per_zone_wmarks",
];

impl Events {
    /// Takes the events of an open capture.
    pub(crate) fn of(capture: Box<dyn Capture>) -> Self {
        Self { selected: capture.is_selected(), capture }
    }

    /// Returns how many bytes of the file, as stored, were read; for a compressed file with random access, which is
    /// decompressed first, the decompressed bytes.
    #[must_use]
    pub fn file_bytes_read(&self) -> u64 {
        self.capture.bytes_read()
    }

    /// Returns the total that corresponds to [`Events::file_bytes_read`].
    #[must_use]
    pub fn file_bytes(&self) -> Option<u64> {
        self.capture.bytes()
    }

    /// Returns the names of processes that stand among the events, as far as the file was read.
    pub(crate) fn comms(&self) -> Option<&BTreeMap<u32, String>> {
        self.capture.comms()
    }

    /// Returns all losses at once, if the file says so: a `.pbrec` does, and counts none below.
    pub(crate) fn losses(&self) -> Option<&Losses> {
        self.capture.losses()
    }

    /// Returns the number of events that the recorder lost, as far as the file was read; `events.tsv` does not
    /// say and counts as complete.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.capture.lost()
    }

    /// Returns [`Events::lost`] by CPU.
    #[must_use]
    pub fn lost_by_cpu(&self) -> LostByCpu {
        self.capture.lost_by_cpu()
    }

    /// Returns, after the last event, the losses beyond [`Events::lost_by_cpu`] whose positions the file does
    /// not say.
    #[must_use]
    pub fn lost_unplaced(&self) -> LostByCpu {
        self.capture.lost_unplaced()
    }
}

impl<C: Capture + 'static> From<C> for Events {
    fn from(capture: C) -> Self {
        Self::of(Box::new(capture))
    }
}

impl Iterator for Events {
    type Item = Result<Record, Error>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let record = self.capture.next();
            match &record {
                Some(Ok(Record { what: What::Other(other), .. }))
                    if !self.selected && NOT_OF_PAGES.contains(&&*other.name) => {}
                _ => return record,
            }
        }
    }
}
