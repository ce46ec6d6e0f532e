//! A history whose pageblocks are taken apart, to be drawn.

use pageblock::frame::Order;
use pageblock_measure::History;
use pageblock_measure::value::history::{Cell, Content};
use pageblock_measure::value::index::unusable_free_index;
use pageblock_report::text::in_line;

use crate::error::Error;
use crate::subject::Subject;

/// A run with the pageblocks of every sample.
#[derive(Clone, Debug)]
pub struct Opened {
    /// The policy, or the recording's name, as it may be shown.
    pub name: String,
    /// The workload or the recording, likewise.
    pub workload: String,
    /// Its history.
    pub history: History,
    /// The pageblocks of each sample.
    pub cells: Vec<Vec<Cell>>,
    /// The zone of each pageblock, and its number in physical memory.
    places: Vec<(usize, u64)>,
}

impl Opened {
    /// Opens the history of a run; `None` if it has none.
    ///
    /// # Errors
    /// [`Error::History`] if it is damaged.
    pub fn of(subject: &Subject) -> Result<Option<Self>, Error> {
        let Some(history) = &subject.history else { return Ok(None) };
        let wrong = |what| Error::History { name: subject.name.clone(), what };
        let cells = history.cells().map_err(wrong)?;
        if cells.is_empty() {
            return Ok(None);
        }
        let order = history.pageblock_order;
        let zones = history.zones.iter().enumerate();
        let places = zones.flat_map(|(at, zone)| {
            (0..zone.blocks).map(move |block| (at, (zone.start >> order) + block))
        });
        Ok(Some(Self {
            name: in_line(&subject.name),
            workload: in_line(&subject.workload),
            places: places.collect(),
            history: history.clone(),
            cells,
        }))
    }

    /// Returns the sample at a share of the run.
    #[must_use]
    pub fn at(&self, share: f64) -> usize {
        let last = self.cells.len() - 1;
        ((share.clamp(0.0, 1.0) * last as f64).round() as usize).min(last)
    }

    /// Iterates over the pageblocks with memory, by their number in physical memory. Where two zones share a
    /// pageblock, the one that has memory there counts.
    pub fn present(&self, sample: usize) -> impl Iterator<Item = (u64, Cell)> {
        let cells = self.places.iter().zip(&self.cells[sample]);
        cells
            .filter(|(_, cell)| cell.content != Content::Hole)
            .map(|(&(_, number), &cell)| (number, cell))
    }

    /// Returns the number of pageblocks that pages hold which cannot be moved; the kernel's own do not count.
    #[must_use]
    pub fn held(&self, sample: usize) -> u64 {
        let held = |cell: &&Cell| cell.stuck > 0 && cell.content != Content::Reserved;
        self.cells[sample].iter().filter(held).count() as u64
    }

    /// Returns the free blocks of all zones by order.
    #[must_use]
    pub fn free_blocks(&self, sample: usize) -> Vec<u64> {
        let orders = self.history.zones.iter().map(|zone| zone.free.len()).max().unwrap_or(0);
        let of = |order: usize| {
            let zones = self.history.zones.iter();
            zones.filter_map(|zone| Some(zone.free.get(order)?[sample])).sum()
        };
        (0..orders).map(of).collect()
    }

    /// Returns the share of free memory in blocks too small for an order, in percent; `None` if nothing is free.
    #[must_use]
    pub fn unusable(&self, sample: usize, order: Order) -> Option<f64> {
        let free = self.free_blocks(sample);
        let any = free.iter().any(|&blocks| blocks > 0);
        any.then(|| unusable_free_index(&free, order) as f64 / 10.0)
    }
}
