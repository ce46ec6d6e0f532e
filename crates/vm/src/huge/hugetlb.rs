//! The pool of hugetlb pages: how it grows when an administrator asks for more.
//!
//! [`Growth`] makes the requests; the caller allocates like any task, by the slow path if needed, and reports the
//! result.
//!
//! Source: `set_max_huge_pages`, `alloc_pool_huge_page`, `alloc_buddy_huge_page`,
//! `htlb_alloc_mask` (mm/hugetlb.c).

use pageblock::event::Observer;
use pageblock::frame::Pfn;
use pageblock::ids::NodeId;
use pageblock::request::{Gfp, Request};
use pageblock_kernel::rules::huge::Huge;

use super::thp::HPAGE_PMD_ORDER;
use crate::page::Owner;
use crate::vm::Vm;

/// The pool of a machine: huge pages that programs may map.
#[derive(Clone, Debug, Default)]
pub struct Pool {
    /// The pages, in the order in which they were allocated.
    pages: Vec<u32>,
    /// The node that the next page is requested from.
    next_node: usize,
}

impl Pool {
    /// Returns the number of pages in the pool (`nr_hugepages`).
    #[must_use]
    pub fn len(&self) -> u64 {
        self.pages.len() as u64
    }

    /// Returns whether the pool has no pages.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }
}

/// A write to `nr_hugepages` that grows the pool.
#[derive(Clone, Debug)]
pub struct Growth {
    target: u64,
    /// One bit for each node whose last request failed.
    failed: u64,
    /// Nodes whose requests for the current page failed.
    tried: usize,
    node: usize,
}

impl Growth {
    /// Returns the growth of a pool to `target` pages.
    #[must_use]
    pub const fn to(target: u64) -> Self {
        Self { target, failed: 0, tried: 0, node: 0 }
    }

    /// Returns the next request: each page from the node after the last page's, or from the node after that if the
    /// request fails. `None` if the pool is large enough or no node has a page.
    pub fn next_request<O: Observer>(&mut self, vm: &mut Vm<'_, O>) -> Option<Request> {
        let nodes = vm.nodes.len();
        if vm.huge.hugetlb.len() >= self.target || self.tried == nodes {
            return None;
        }
        self.node = vm.huge.hugetlb.next_node % nodes;
        vm.huge.hugetlb.next_node = (self.node + 1) % nodes;
        let Huge { hugetlb_movable, hugetlb_remembers, .. } = vm.kernel.huge;
        let mask = if hugetlb_movable { Gfp::GFP_HIGHUSER_MOVABLE } else { Gfp::GFP_HIGHUSER };
        let effort = if hugetlb_remembers && self.failed & 1 << self.node != 0 {
            Gfp::NORETRY
        } else {
            Gfp::RETRY_MAYFAIL
        };
        let gfp = mask | Gfp::COMP | Gfp::NOWARN | Gfp::THISNODE | effort;
        Some(Request::new(HPAGE_PMD_ORDER, gfp).on_node(NodeId(vm.nodes[self.node].id)))
    }

    /// Adds the page that the last request got, or notes that it failed.
    pub fn report<O: Observer>(&mut self, vm: &mut Vm<'_, O>, page: Option<Pfn>) {
        if let Some(pfn) = page {
            self.failed &= !(1 << self.node);
            self.tried = 0;
            vm.own(pfn, HPAGE_PMD_ORDER, Owner::Hugetlb, 0);
            vm.huge.hugetlb.pages.push(pfn.0 as u32);
            vm.stat.htlb_buddy_alloc_success += 1;
        } else {
            self.failed |= 1 << self.node;
            self.tried += 1;
            vm.stat.htlb_buddy_alloc_fail += 1;
        }
    }
}

impl<O: Observer> Vm<'_, O> {
    /// Returns the pool of hugetlb pages.
    #[must_use]
    pub fn hugetlb(&self) -> &Pool {
        &self.huge.hugetlb
    }

    /// Frees pages of the pool until it has at most `to`.
    pub fn shrink_hugetlb(&mut self, cpu: usize, to: u64) {
        while self.huge.hugetlb.len() > to
            && let Some(pfn) = self.huge.hugetlb.pages.pop()
        {
            self.disown(cpu, Pfn(pfn.into()));
        }
    }
}
