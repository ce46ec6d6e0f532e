//! Watermarks and reserves are those of the preset that is nearest to the log's version.

use pageblock_doctor::class::{Class, Confidence};
use pageblock_doctor::explain;
use pageblock_doctor::watermark::{Check, Verdict};

/// Returns the check of a zone with a min watermark of 1000 pages, 100 of them a boost, and with 100 pages of `lowmem_reserve`.
fn check(version: &str, request: &str, free: u64, lists: &str) -> Check {
    let text = format!(
        "app: page allocation failure: {request}\nCPU: 0 PID: 1 Comm: app Not tainted {version} #1\nMem-Info:\n\
         Node 0 DMA32 free:{free}kB boost:400kB min:4000kB low:5000kB high:6000kB reserved_highatomic:800KB \
         present:900000kB managed:800000kB\nlowmem_reserve[]: 0 0 100 100\n\
         Node 0 Normal free:0kB min:4000kB low:5000kB high:6000kB present:900000kB managed:800000kB\n\
         lowmem_reserve[]: 0 0 0 0\nNode 0 DMA32: {lists} = {free}kB\nNode 0 Normal: 0*4kB = 0kB\n\
         0 total pagecache pages\n"
    );
    let mut found = explain(&text);
    assert_eq!(found.len(), 1, "{text}");
    found.remove(0).zones.pop().unwrap()
}

#[test]
fn who_cannot_wait_has_the_reserves_of_its_version() {
    let mark = |version, flags| {
        let check = check(version, &format!("order:2, mode:0x0({flags})"), 9000, "2250*4kB (U)");
        (check.mark.unwrap() / 4, check.unusable_highatomic)
    };
    let harder = (375, 0);
    for version in ["4.9.1", "6.1.0", "6.6.3"] {
        assert_eq!(mark(version, "GFP_ATOMIC"), harder, "{version}");
        assert_eq!(mark(version, "GFP_KERNEL"), (1000, 800), "{version}");
    }
    // Who may not use reserves is not harder; from 6.3 on the highatomic one counts for all with a part in some.
    assert_eq!(mark("6.1.0", "GFP_ATOMIC|__GFP_NOMEMALLOC"), (500, 800));
    assert_eq!(mark("6.6.3", "GFP_ATOMIC|__GFP_NOMEMALLOC"), (500, 0));
    assert_eq!(mark("6.1.0", "GFP_KERNEL|__GFP_HIGH"), (500, 800));
    assert_eq!(mark("6.6.3", "GFP_KERNEL|__GFP_HIGH"), (500, 0));
}

#[test]
fn a_single_page_is_forgiven_the_boost_from_5_10_on() {
    let mark = |version| {
        check(version, "order:0, mode:0x0(GFP_ATOMIC)", 9000, "2250*4kB (U)").mark.unwrap() / 4
    };
    assert_eq!((mark("5.4.1"), mark("5.10.2")), (375, 338));
}

/// The walk over orders halves the mark, and neither leaves out pages again nor asks for those kept for higher zones.
#[test]
fn up_to_4_3_each_order_has_its_mark() {
    let verdict = |large: u64| {
        let small = 2250 - 4 * large;
        let lists = format!("{small}*4kB (U) 0*8kB {large}*16kB (U)");
        check("3.10.0", "order:2, mode:0xd0", 9000, &lists).verdict
    };
    // More than 500 pages must be left after the first order, without the three that the request's block takes besides.
    assert_eq!((verdict(125), verdict(126)), (Verdict::TooFewLarge, Verdict::Fits));
}

/// 4.14 prints no size of the reserve: the lists show 7936 kB of it, and 1 % of the zone and a pageblock is the most.
#[test]
fn a_highatomic_reserve_of_no_printed_size_is_what_the_lists_show_at_least() {
    let text = "app: page allocation failure: order:0, mode:0x0(GFP_KERNEL)\n\
                CPU: 1 PID: 716 Comm: app Not tainted 4.14.65 #3\nMem-Info:\n\
                Node 0 Normal free:9348kB min:3772kB low:15684kB high:16624kB present:928768kB managed:892508kB\n\
                lowmem_reserve[]: 0 0\n\
                Node 0 Normal: 353*4kB (UMH) 0*8kB 4*128kB (H) 5*256kB (H) 1*2048kB (H) 1*4096kB (H) = 9348kB\n";
    let found = explain(text).remove(0);
    let zone = &found.zones[0];
    assert_eq!((zone.unusable_highatomic, zone.hidden_highatomic), (7936, 8925 + 4096 - 7936));
    assert_eq!(zone.verdict, Verdict::BelowWithoutHighatomic);
    assert_eq!((found.class, found.confidence), (Class::OnlyHighatomic, Confidence::Medium));
}

#[test]
fn without_a_printed_size_of_swap_no_advice_says_that_nothing_can_be_reclaimed() {
    let text = "app invoked oom-killer: gfp_mask=0x140cca(GFP_HIGHUSER_MOVABLE|__GFP_COMP), order=0\n\
                CPU: 3 PID: 31738 Comm: app Not tainted 6.1.73 #0\nMem-Info:\n\
                active_anon:31000 inactive_anon:285000\n active_file:779 inactive_file:2168\n\
                Node 0 DMA32 free:33608kB boost:0kB min:52840kB low:56904kB high:60968kB \
                present:2080156kB managed:2025152kB\nlowmem_reserve[]: 0 0 0 0\n\
                Node 0 DMA32: 8402*4kB (UM) = 33608kB\n";
    let found = explain(text).remove(0);
    assert_eq!((found.class, found.confidence), (Class::Shortage, Confidence::Medium));
    assert!(!found.helps.is_empty() && !found.does_not_help.is_empty());
    let mut all = found.helps.iter().chain(&found.does_not_help);
    assert!(all.all(|advice| !advice.why.contains("next to no")));
}
