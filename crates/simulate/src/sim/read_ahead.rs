//! Memory stalls as tasks experience them, and reads of files in windows (readahead).

use std::ops::Range;

use pageblock::frame::{Order, Pfn};
use pageblock::request::{Gfp, Request};
use pageblock_vm::cache::GFP_CACHE_READ;
use pageblock_vm::page::PageFlags;
use pageblock_vm::space::SpaceId;

use super::Nanos;
use super::task::{Ctx, OutOfMemory, Served};
use super::world::World;

/// The maximum number of stalls recorded for each order, which bounds the memory of a long run.
pub const SAMPLES_MAX: usize = 1 << 22;

/// Windows that a reader may read in vain in a row, as reclaim takes the page that it waits for before it is used.
/// Where one has read so many, readers hold such a page from then on. In runs of apppressure-kill at 1/64 under eleven
/// releases from 3.10 to 6.18 no reader gets there: the most is 15,331, under 4.4.
// Linux: they always hold it, so that reclaim cannot take it.
pub(crate) const VAIN: u32 = 1 << 16;

/// Pages of a readahead window (`read_ahead_kb`, 128).
const WINDOW: u32 = 32;

/// A window that was read.
#[derive(Clone, Copy, Debug)]
struct Window {
    end: u32,
    /// The order that its folios wanted, and that of the first.
    order: Order,
    first: Order,
}

/// A task's stall on its way through the slow path.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stall {
    now: bool,
    /// The time of the first stall.
    since: Option<Nanos>,
}

impl World<'_> {
    /// Uses a page of a file for which so many windows have been read in a row; tells whether it is there, or held. A
    /// folio is marked as used at its first page, or at that of the range.
    fn use_read_page(&mut self, space: SpaceId, index: u32, first: bool, windows: u32) -> bool {
        let folio = self.vm.folio_at(space, index);
        self.readers_hold |= folio.is_none() && windows >= VAIN;
        if folio.is_none() && (windows == 0 || !self.readers_hold) {
            return false;
        }
        self.pending += self.costs.read_page;
        self.user += self.costs.user.read_page;
        self.progress += 1;
        let begins = |&folio: &u32| first || self.vm.pages()[folio].index == index;
        folio.filter(begins).into_iter().for_each(|folio| self.vm.mark_accessed(folio));
        true
    }
}

impl Ctx<'_> {
    /// Marks the task as stalled for memory, or not.
    async fn set_stalled(&self, stalled: bool) {
        self.charge_accrued().await;
        self.with(|w| w.sched.set_stalled(self.id, stalled));
    }

    /// Notes whether the task reclaims or compacts next.
    pub(crate) async fn note_stall(&self, stall: &mut Stall, stalled: bool) {
        if stall.now == stalled || !self.with(|w| w.watches_stalls) {
            return;
        }
        stall.now = stalled;
        self.set_stalled(stalled).await;
        if stalled {
            stall.since.get_or_insert_with(|| self.now());
        }
    }

    /// Ends the stall: the task has its block, or the request failed.
    pub(crate) async fn end_stall(&self, stall: Stall, request: Request) {
        let Some(since) = stall.since else { return };
        self.set_stalled(false).await;
        let time = self.now() - since;
        let name = format!("stall-order-{}", request.order);
        self.with(|w| {
            let samples = w.samples.entry(name).or_default();
            if samples.len() < SAMPLES_MAX {
                samples.push(time);
            }
        });
    }

    /// Decompresses a page that came back from zram; counts as a stall if the page was in the workingset.
    pub(crate) async fn decompress(&self, pfn: Pfn) {
        let stalls =
            self.with(|w| w.watches_stalls && w.vm.pages().get(pfn).has(PageFlags::WORKINGSET));
        if stalls {
            self.set_stalled(true).await;
        }
        self.with(World::charge_work);
        if stalls {
            self.set_stalled(false).await;
        }
    }

    /// Reads pages of a file; missing pages are read from the disk in windows. Returns how many were.
    ///
    /// # Errors
    /// If memory is exhausted.
    pub async fn read_pages(&self, space: SpaceId, range: Range<u32>) -> Served<u64> {
        let end = range.end.min(self.with(|w| w.vm.spaces().get(space).len()));
        let (mut at, mut missed) = (range.start, 0);
        let (mut vain, mut stream) = (0, None);
        while at < end {
            if self.with(|w| w.use_read_page(space, at, at == range.start, vain)) {
                self.yield_if_ahead().await;
                (at, vain) = (at + 1, 0);
                continue;
            }
            let window = at..((at / WINDOW + 1) * WINDOW).min(end);
            let last = stream.filter(|last: &Window| last.end == at).map(|l| (l.order, l.first));
            let order = self.with(|w| w.vm.window_order(last, WINDOW));
            let read = self.read_window(space, window, order).await?;
            missed += u64::from(read.end - at);
            (vain, stream) = (vain + 1, Some(read));
        }
        Ok(missed)
    }

    /// Reads the pages of a window into memory in folios of an order, up to the first that is already there. If memory
    /// is exhausted the rest is read page by page, and then the window is cut short; only its first page is waited for.
    async fn read_window(
        &self,
        space: SpaceId,
        window: Range<u32>,
        order: Order,
    ) -> Served<Window> {
        let (mut at, mut wanted, mut first, mut stalls) = (window.start, order, None, false);
        while at < window.end {
            let begun = at > window.start;
            if begun && self.with(|w| w.vm.folio_at(space, at)).is_some() {
                break;
            }
            let order = self.with(|w| w.vm.read_order(wanted, at, window.end));
            let gfp = if begun || order > 0 {
                GFP_CACHE_READ | Gfp::NORETRY | Gfp::NOWARN
            } else {
                GFP_CACHE_READ
            };
            match self.add_folio(space, at, order, gfp).await {
                Ok(pfn) => {
                    let (pages, page) = self
                        .with(|w| (w.vm.pages_from(pfn, at), *w.vm.pages().get(Pfn(pfn.into()))));
                    stalls |= page.has(PageFlags::WORKINGSET);
                    first.get_or_insert(page.order());
                    at += pages.min(window.end - at);
                }
                Err(OutOfMemory) if order > 0 => wanted = 0,
                Err(OutOfMemory) if begun => break,
                Err(OutOfMemory) => return Err(OutOfMemory),
            }
        }
        self.with(|w| w.pending += w.costs.read_miss);
        let stalls = stalls && self.with(|w| w.watches_stalls);
        if stalls {
            self.set_stalled(true).await;
        }
        self.read_disk_pages(u64::from(at - window.start)).await;
        if stalls {
            self.set_stalled(false).await;
        }
        Ok(Window { end: at, order, first: first.unwrap_or(0) })
    }
}
