//! The pool of hugetlb pages: how it grows when an administrator asks for more.
//!
//! [`Growth`] says which request comes next; the caller serves it, by the slow path as any task, and
//! reports what it got.
//!
//! Source: `set_max_huge_pages`, `alloc_pool_huge_page`, `alloc_buddy_huge_page`,
//! `htlb_alloc_mask` (mm/hugetlb.c).

use pageblock::event::Observer;
use pageblock::frame::Pfn;
use pageblock::ids::NodeId;
use pageblock::request::{Gfp, Request};
use pageblock_kernel::rules::huge::Huge;

use crate::page::Owner;
use crate::thp::HPAGE_PMD_ORDER;
use crate::vm::Vm;

/// The pool of a machine: pages of a huge page's size that programs may map.
#[derive(Clone, Debug, Default)]
pub struct Pool {
    /// The pages, in the order in which they were allocated.
    pages: Vec<u32>,
    /// The place of the node that is asked next.
    next_node: usize,
}

impl Pool {
    /// Pages in the pool (`nr_hugepages`).
    #[must_use]
    pub fn len(&self) -> u64 {
        self.pages.len() as u64
    }

    /// Tells whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }
}

/// A write to `nr_hugepages` that wants more.
#[derive(Clone, Debug)]
pub struct Growth {
    target: u64,
    /// Nodes, by place, that failed last.
    failed: u64,
    /// Nodes asked in vain for the page at hand.
    tried: usize,
    node: usize,
}

impl Growth {
    /// A pool that is to have so many pages.
    #[must_use]
    pub const fn to(target: u64) -> Self {
        Self { target, failed: 0, tried: 0, node: 0 }
    }

    /// The next request: each page from the node after the last one's, or from the one after that
    /// where it has none. `None` where the pool is large enough, or no node has a page.
    pub fn next_request<O: Observer>(&mut self, vm: &mut Vm<'_, O>) -> Option<Request> {
        let nodes = vm.nodes.len();
        if vm.hugetlb.len() >= self.target || self.tried == nodes {
            return None;
        }
        self.node = vm.hugetlb.next_node % nodes;
        vm.hugetlb.next_node = (self.node + 1) % nodes;
        let Huge { hugetlb_movable, hugetlb_remembers, .. } = vm.kernel.huge;
        let mask = if hugetlb_movable { Gfp::GFP_HIGHUSER_MOVABLE } else { Gfp::GFP_HIGHUSER };
        let patience = if hugetlb_remembers && self.failed & 1 << self.node != 0 {
            Gfp::NORETRY
        } else {
            Gfp::RETRY_MAYFAIL
        };
        let gfp = mask | Gfp::COMP | Gfp::NOWARN | Gfp::THISNODE | patience;
        Some(Request::new(HPAGE_PMD_ORDER, gfp).on_node(NodeId(vm.nodes[self.node].id)))
    }

    /// What came of the last request.
    pub fn report<O: Observer>(&mut self, vm: &mut Vm<'_, O>, page: Option<Pfn>) {
        if let Some(pfn) = page {
            self.failed &= !(1 << self.node);
            self.tried = 0;
            vm.own(pfn, HPAGE_PMD_ORDER, Owner::Hugetlb, 0);
            vm.hugetlb.pages.push(pfn.0 as u32);
            vm.stat.htlb_buddy_alloc_success += 1;
        } else {
            self.failed |= 1 << self.node;
            self.tried += 1;
            vm.stat.htlb_buddy_alloc_fail += 1;
        }
    }
}

impl<O: Observer> Vm<'_, O> {
    /// The pool of hugetlb pages.
    #[must_use]
    pub fn hugetlb(&self) -> &Pool {
        &self.hugetlb
    }

    /// Gives pages of the pool back until it has no more than so many.
    pub fn shrink_hugetlb(&mut self, cpu: usize, to: u64) {
        while self.hugetlb.len() > to
            && let Some(pfn) = self.hugetlb.pages.pop()
        {
            self.disown(cpu, Pfn(pfn.into()));
        }
    }
}
