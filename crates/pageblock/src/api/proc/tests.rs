//! What the files of `/proc` say.

use super::*;
use crate::api::alloc::Allocator;
use crate::api::setup::Setup;
use crate::base::frame::FrameRange;
use crate::base::ids::{CpuId, NodeId};
use crate::base::layout::ZoneSpec;
use crate::base::request::{Gfp, Request};
use crate::policy::Policy;
use std::mem::MaybeUninit;
use std::string::{String, ToString};
use std::vec;

/// Two nodes of 2048 pages, one with a lower zone that begins within its first block; one page
/// of node 0 is in use.
fn check(policy: &str, dump: impl FnOnce(&Allocator<'_>) -> String, expect: &str) {
    let zone = |node, kind, start, end| {
        let span = FrameRange::new(start, end);
        ZoneSpec::full(node, kind, span)
    };
    let zones = [
        zone(NodeId(0), ZoneKind::Dma, 1, 1024),
        zone(NodeId(0), ZoneKind::Normal, 1024, 2048),
        zone(NodeId(1), ZoneKind::Normal, 2048, 4096),
    ];
    let setup = Setup::new(Policy::parse(policy).unwrap(), &zones, &[NodeId(0)]);
    let mut memory = vec![MaybeUninit::uninit(); setup.metadata_size().unwrap()];
    let mut allocator = Allocator::new(&mut memory, &setup).unwrap();
    allocator.release(FrameRange::new(1, 4096)).unwrap();
    let request = Request::new(4, Gfp::GFP_KERNEL);
    allocator.alloc(CpuId(0), &request, &mut ()).unwrap();
    let text = dump(&allocator);
    assert_eq!(text, expect, "{text}");
}

#[test]
fn buddyinfo_counts_blocks_of_every_type() {
    check(
        "linux-4.20",
        |allocator| BuddyInfo(allocator).to_string(),
        "\
Node 0, zone      DMA      1      1      1      1      1      1      1      1      1      1      0 
Node 0, zone   Normal      0      0      0      0      1      1      1      1      1      1      0 
Node 1, zone   Normal      0      0      0      0      0      0      0      0      0      0      2 
",
    );
}

#[test]
fn pagetypeinfo_starts_anew_for_each_node() {
    let kernel = KernelFormat { version: (4, 20), cma: true };
    check(
            "linux-4.20",
            |allocator| PageTypeInfo { allocator, kernel }.to_string(),
            "\
Page block order: 9
Pages per block:  512

Free pages count per migrate type at order       0      1      2      3      4      5      6      7      8      9     10 
Node    0, zone      DMA, type    Unmovable      0      0      0      0      0      0      0      0      0      0      0 
Node    0, zone      DMA, type      Movable      1      1      1      1      1      1      1      1      1      1      0 
Node    0, zone      DMA, type  Reclaimable      0      0      0      0      0      0      0      0      0      0      0 
Node    0, zone      DMA, type   HighAtomic      0      0      0      0      0      0      0      0      0      0      0 
Node    0, zone      DMA, type          CMA      0      0      0      0      0      0      0      0      0      0      0 
Node    0, zone      DMA, type      Isolate      0      0      0      0      0      0      0      0      0      0      0 
Node    0, zone   Normal, type    Unmovable      0      0      0      0      1      1      1      1      1      1      0 
Node    0, zone   Normal, type      Movable      0      0      0      0      0      0      0      0      0      0      0 
Node    0, zone   Normal, type  Reclaimable      0      0      0      0      0      0      0      0      0      0      0 
Node    0, zone   Normal, type   HighAtomic      0      0      0      0      0      0      0      0      0      0      0 
Node    0, zone   Normal, type          CMA      0      0      0      0      0      0      0      0      0      0      0 
Node    0, zone   Normal, type      Isolate      0      0      0      0      0      0      0      0      0      0      0 

Number of blocks type     Unmovable      Movable  Reclaimable   HighAtomic          CMA      Isolate 
Node 0, zone      DMA            0            2            0            0            0            0 
Node 0, zone   Normal            2            0            0            0            0            0 
Page block order: 9
Pages per block:  512

Free pages count per migrate type at order       0      1      2      3      4      5      6      7      8      9     10 
Node    1, zone   Normal, type    Unmovable      0      0      0      0      0      0      0      0      0      0      0 
Node    1, zone   Normal, type      Movable      0      0      0      0      0      0      0      0      0      0      2 
Node    1, zone   Normal, type  Reclaimable      0      0      0      0      0      0      0      0      0      0      0 
Node    1, zone   Normal, type   HighAtomic      0      0      0      0      0      0      0      0      0      0      0 
Node    1, zone   Normal, type          CMA      0      0      0      0      0      0      0      0      0      0      0 
Node    1, zone   Normal, type      Isolate      0      0      0      0      0      0      0      0      0      0      0 

Number of blocks type     Unmovable      Movable  Reclaimable   HighAtomic          CMA      Isolate 
Node 1, zone   Normal            0            4            0            0            0            0 
",
        );
}

#[test]
fn zoneinfo_of_an_old_kernel() {
    let kernel = KernelFormat::new(3, 13);
    let last = |text: String| text[text.find("Node 1").unwrap()..].to_string();
    check(
        "linux-3.13",
        |allocator| last(ZoneInfo { allocator, kernel }.to_string()),
        "\
Node 1, zone   Normal
  pages free     2048
        min      102
        low      127
        high     153
        spanned  2048
        present  2048
        managed  2048
        protection: (0, 0, 0, 0)
      nr_free_pages 2048
      nr_alloc_batch 26
      nr_free_cma  0
  pagesets
    cpu: 0
              count: 0
              high:  6
              batch: 1
  vm stats threshold: 2
  all_unreclaimable: 0
  start_pfn:         2048
",
    );
}

#[test]
fn vmstat_has_sums_over_zones() {
    let kernel = KernelFormat::new(6, 18);
    check(
        "linux-6.18",
        |allocator| VmStat { allocator, kernel }.to_string(),
        "\
nr_free_pages 4079
nr_free_pages_blocks 3072
nr_free_cma 0
pgalloc_dma 0
pgalloc_dma32 0
pgalloc_normal 16
pgalloc_movable 0
pgfree 0
",
    );
}
