//! Imposed changes of a CPU cache.

use crate::base::decide::End;
use crate::base::error::FrameError;
use crate::base::frame::{Order, Pfn};
use crate::base::ids::ListIndex;
use crate::base::mobility::Migratetype::{self, Movable};
use crate::percpu::cache::{CacheState, CpuCache, drained_type};
use crate::policy::source::PolicySource;
use crate::replay::ListEnd;
use crate::table::map::{FrameState, Index};
use crate::zone::Zone;

impl<P: PolicySource> CpuCache<'_, P> {
    /// Returns the first block of a list, which is allocated next.
    #[must_use]
    pub fn next(&self, zone: &Zone<'_, P>, list: ListIndex) -> Option<Pfn> {
        (list.index() < self.nr_lists())
            .then(|| self.head(zone.map(), list))
            .flatten()
            .map(|i| zone.map().pfn(i))
    }

    /// Returns the last block of a list, which is drained next.
    #[must_use]
    pub fn last(&self, zone: &Zone<'_, P>, list: ListIndex) -> Option<Pfn> {
        (list.index() < self.nr_lists())
            .then(|| self.tail(zone.map(), list))
            .flatten()
            .map(|i| zone.map().pfn(i))
    }

    /// Returns the blocks of a list, first to last.
    pub fn blocks<'z>(
        &'z self,
        zone: &'z Zone<'_, P>,
        list: ListIndex,
    ) -> impl Iterator<Item = Pfn> {
        let known = (list.index() < self.nr_lists()).then(|| self.iter(zone.map(), list));
        known.into_iter().flatten().map(|i| zone.map().pfn(i))
    }

    /// Returns the list that holds a block, by its order and remembered type; `None` where the block is on
    /// no CPU list. The list may be another CPU's.
    #[must_use]
    pub fn list_of(&self, zone: &Zone<'_, P>, pfn: Pfn) -> Option<ListIndex> {
        let FrameState::CpuList { order, cached } = zone.state(pfn)? else { return None };
        if zone.policy().remembers_list() && cached.is_mergeable() {
            return self.list_index(order, cached);
        }
        let lists = self.lists().filter(|&list| self.list_order(list) == order);
        lists.into_iter().find(|&list| self.blocks(zone, list).any(|block| block == pfn))
    }

    /// Returns a block on a list of this CPU: its first frame, its order and the list.
    fn own_block(
        &self,
        zone: &Zone<'_, P>,
        pfn: Pfn,
    ) -> Result<(Index, Order, ListIndex), FrameError> {
        let list = self.list_of(zone, pfn).ok_or(FrameError::NotFree(pfn))?;
        let order = self.list_order(list);
        let i = zone.block_index(pfn, order)?;
        if self.contains(zone.map(), i, list) {
            Ok((i, order, list))
        } else {
            Err(FrameError::OtherCpu(pfn))
        }
    }

    /// Takes a block off this CPU's list; it is allocated then.
    ///
    /// # Errors
    /// [`FrameError::NotFree`] where it is on no CPU list, [`FrameError::OtherCpu`] where it is on none of this
    /// CPU's; nothing changes then.
    pub fn impose_take(&mut self, zone: &mut Zone<'_, P>, pfn: Pfn) -> Result<Order, FrameError> {
        let (i, order, list) = self.own_block(zone, pfn)?;
        self.unlink(zone.map(), i, list);
        let movable = list.index() % crate::base::mobility::MIGRATE_PCPTYPES == Movable as usize;
        zone.map().set(i, FrameState::Allocated { order, movable });
        Ok(order)
    }

    /// Puts an allocated block on a list of this CPU: at the head as a free does, or at the tail as a
    /// refill does. Returns its list; none, and nothing changes, where the order has none or that has no room (packed
    /// placement).
    ///
    /// # Errors
    /// [`FrameError::NotAllocated`].
    pub fn impose_put(
        &mut self,
        zone: &mut Zone<'_, P>,
        pfn: Pfn,
        order: Order,
        mt: Migratetype,
        end: ListEnd,
    ) -> Result<Option<ListIndex>, FrameError> {
        let i = zone.block_index(pfn, order)?;
        if !zone.map().is_allocated(i, order) {
            return Err(FrameError::NotAllocated(pfn));
        }
        let Some(list) = self.list_index(order, mt) else { return Ok(None) };
        let end = match end {
            ListEnd::Head => End::Head,
            ListEnd::Tail => End::Tail,
        };
        Ok(self.push(zone.map(), i, order, (list, mt), end).then_some(list))
    }

    /// Returns the type that a drain would free a block of this CPU's list to.
    #[must_use]
    pub fn drain_type(&self, zone: &Zone<'_, P>, pfn: Pfn) -> Option<Migratetype> {
        zone.map().index(pfn).map(|i| drained_type(zone, i))
    }

    /// Imposes the limits and the tuning state.
    pub fn impose_state(&mut self, state: CacheState) {
        self.set_state(state);
    }

    /// Imposes a page count that differs from the pages on the lists, to ask what the cache would do.
    pub fn impose_count(&mut self, pages: u32) {
        self.set_count(pages);
    }

    /// Counts an allocation, which halves `free_count`.
    pub fn impose_alloc(&mut self) {
        self.note_alloc();
    }

    /// Drains one block of this CPU's list to the zone, and returns the type that it is freed to.
    ///
    /// # Errors
    /// [`FrameError::NotFree`] where it is on no CPU list, [`FrameError::OtherCpu`] where it is on none of this
    /// CPU's; nothing changes then.
    pub fn impose_drain(
        &mut self,
        zone: &mut Zone<'_, P>,
        pfn: Pfn,
    ) -> Result<Migratetype, FrameError> {
        let (i, order, list) = self.own_block(zone, pfn)?;
        let mt = drained_type(zone, i);
        self.unlink(zone.map(), i, list);
        Self::give_back(zone, i, order, &mut ());
        Ok(mt)
    }
}
