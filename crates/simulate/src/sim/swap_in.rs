//! A program's accesses to its memory, where parts may be swapped out.

use pageblock::request::Request;
use pageblock_vm::cache::GFP_ANON;
use pageblock_vm::space::{Slot, SpaceId};
use pageblock_vm::thp::Advice;

use super::task::{Ctx, Served};

impl Ctx<'_> {
    /// Accesses a page of a mapping of this advice, after the faults that this takes.
    pub async fn touch(&self, space: SpaceId, index: u32, write: bool, advice: Advice) -> Served {
        loop {
            match self.with(|w| w.vm.spaces().slot(space, index)) {
                Slot::Page(_) => {
                    self.with(|w| {
                        if w.vm.touch(space, index, write) {
                            w.pending += w.costs.fault_base;
                            w.vm.stat.pgfault += 1;
                        }
                    });
                    return Ok(());
                }
                Slot::Swap(_) if self.with(|w| w.vm.zram().is_some()) => {
                    self.fault_base(space, index).await?;
                }
                Slot::Swap(_) => self.swap_in(space, index).await?,
                Slot::Empty | Slot::Shadow(_) => self.fault_sized(space, index, advice).await?,
            }
        }
    }

    /// Swaps in a page of a mapping, with its neighbours in swap.
    async fn swap_in(&self, space: SpaceId, index: u32) -> Served {
        let cluster = self.with(|w| {
            w.pending += w.costs.fault_base;
            w.vm.stat.pgfault += 1;
            w.vm.stat.pgmajfault += 1;
            w.vm.swap_cluster(space, index)
        });
        for &(space, index) in &cluster {
            let pfn = self.alloc(Request::new(0, GFP_ANON)).await?;
            let cpu = self.cpu();
            self.with(|w| w.vm.add_swapped(cpu, space, index, pfn));
        }
        self.read_disk_pages(cluster.len() as u64).await;
        // This fault maps the requested page; the others are mapped by their next users.
        self.with(|w| {
            w.vm.touch(space, index, false);
        });
        Ok(())
    }
}
