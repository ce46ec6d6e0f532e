//! Huge pages: their faults, khugepaged, the pool of hugetlb pages.

use pageblock_vm::hugetlb::Growth;
use pageblock_vm::khugepaged::KhugepagedStep;
use pageblock_vm::mthp;
use pageblock_vm::space::{Slot, SpaceId};
use pageblock_vm::thp::{Advice, HPAGE_PMD_ORDER, fault_requests};

use super::task::{Ctx, OutOfMemory, Served};

impl Ctx<'_> {
    /// Tries to fault a huge page of a mapping; returns whether that succeeded.
    pub async fn fault_huge(&self, space: SpaceId, index: u32, advice: Advice) -> bool {
        let order = HPAGE_PMD_ORDER;
        let node = self.with(|w| w.sched.node_of(w.sched.cpu_of(self.id)));
        let huge = self.with(|w| w.vm.kernel().huge);
        if !self.with(|w| w.vm.has_room(space, index, order)) {
            return false;
        }
        let mut wanted = false;
        for request in fault_requests(&huge, advice, node, order) {
            if !std::mem::replace(&mut wanted, true) {
                self.with(|w| w.vm.enter_khugepaged(space));
            }
            if let Ok(pfn) = self.alloc(request).await {
                let cpu = self.cpu();
                let added = self.with(|w| {
                    w.pending += w.costs.fault_huge;
                    w.user += w.costs.user.fault_huge;
                    w.vm.stat.pgfault += 1;
                    w.vm.stat.thp_fault_alloc += 1;
                    w.vm.add_or_free(cpu, space, index, pfn, order)
                });
                self.yield_if_ahead().await;
                return added;
            }
        }
        self.with(|w| w.vm.stat.thp_fault_fallback += u64::from(wanted));
        false
    }

    /// Faults memory of a mapping at an index, in the largest size below a huge page that is enabled, fits and
    /// is available, else a single page.
    pub async fn fault_sized(&self, space: SpaceId, index: u32, advice: Advice) -> Served {
        let (node, huge) =
            self.with(|w| (w.sched.node_of(w.sched.cpu_of(self.id)), w.vm.kernel().huge));
        if !mthp::is_enabled(&huge, advice) {
            return self.fault_base(space, index).await;
        }
        // An earlier fault brought it.
        if self.with(|w| matches!(w.vm.spaces().slot(space, index), Slot::Page(_))) {
            self.with(|w| w.vm.touch(space, index, true));
            return Ok(());
        }
        for (order, first) in self.with(|w| w.vm.mthp_orders(space, index, advice)) {
            let Ok(pfn) = self.alloc(mthp::request(&huge, advice, node, order)).await else {
                self.with(|w| w.vm.stat.anon_fault_fallback += 1);
                continue;
            };
            let cpu = self.cpu();
            let added = self.with(|w| w.vm.add_or_free(cpu, space, first, pfn, order));
            if added {
                self.with(|w| {
                    w.pending += w.costs.fault_base << order;
                    w.user += w.costs.user.fault_base << order;
                    w.vm.stat.pgfault += 1;
                    w.vm.stat.anon_fault_alloc += 1;
                    w.progress += 1;
                });
                self.yield_if_ahead().await;
                return if self.with(|w| w.vm.is_killed(space)) {
                    Err(OutOfMemory)
                } else {
                    Ok(())
                };
            }
        }
        self.fault_base(space, index).await
    }

    /// Sets the size of the hugetlb pool in pages (`nr_hugepages`); returns the size that it reached.
    pub async fn set_hugetlb(&self, pages: u64) -> u64 {
        let cpu = self.cpu();
        self.with(|w| w.vm.shrink_hugetlb(cpu, pages));
        let mut growth = Growth::to(pages);
        while let Some(request) = self.with(|w| growth.next_request(&mut w.vm)) {
            let page = self.alloc(request).await.ok();
            self.with(|w| growth.report(&mut w.vm, page));
            self.yield_if_ahead().await;
        }
        self.with(|w| w.vm.hugetlb().len())
    }
}

/// Collapses small pages into huge pages.
pub(crate) async fn khugepaged(ctx: Ctx<'_>) {
    loop {
        let step = ctx.with(|w| {
            let step = w.vm.step_khugepaged();
            w.charge_work();
            step
        });
        match step {
            KhugepagedStep::Ran => ctx.yield_if_ahead().await,
            KhugepagedStep::Sleep(ns) => ctx.sleep(ns).await,
            KhugepagedStep::Wants(place, request) => match ctx.alloc(request).await {
                Ok(huge) => {
                    let cpu = ctx.cpu();
                    ctx.with(|w| {
                        w.vm.collapse_or_free(cpu, place, huge);
                        w.charge_work();
                    });
                    ctx.yield_if_ahead().await;
                }
                Err(OutOfMemory) => {
                    let ns = ctx.with(|w| w.vm.collapse_failed());
                    ctx.sleep(ns).await;
                }
            },
        }
    }
}
