//! Lines as the tools print them.

use pageblock::mobility::Numbering;

use super::*;
use crate::formats::tsv::write_line;

const DECODING: Decoding = Decoding { numbering: Numbering::Modern, cma: false };

#[track_caller]
fn check(line: &str, expect: &str) {
    let parsed = TextParser::new(DECODING).parse(line.as_bytes());
    let mut text = String::new();
    match parsed {
        Ok(TextLine::Event(record)) => write_line(&mut text, &record, DECODING),
        Ok(other) => text = format!("{other:?}"),
        Err(expected) => text = format!("allowed: {:.20}", expected.0),
    }
    assert_eq!(text.trim_end(), expect, "{line}");
}

#[test]
fn the_three_formats_are_equivalent() {
    let free = "9386850200 0 26389 F 6271446 0";
    check(
        "   wl-26389   [000] ...2.  9386.850200: mm_page_free: page=00ab pfn=0x5fb1d6 order=0",
        free,
    );
    check(
        "   wl-26389   (  26389) [000] ...2.  9386.850200: mm_page_free: pfn=0x5fb1d6 order=0",
        free,
    );
    check("   a-b [1] c-26389 [000]  9386.850200999: mm_page_free:     pfn=6271446 order=0", free);
    check(
        "   wl 26389 [000]  9386.850200:     kmem:mm_page_free: page=0x1 pfn=0x5fb1d6 order=0",
        free,
    );
    check(
        "   wl 7/26389 [000]  9386.8502:   kmem:mm_page_free: page=0x1 pfn=0x5fb1d6 order=0",
        free,
    );
}

#[test]
fn event_fields_are_found_by_key() {
    check(
        "wl-1 [001] 1.5: mm_page_alloc: page=0 pfn=0x0 order=9 migratetype=1 gfp_flags=GFP_TRANSHUGE",
        "1500000 1 1 A - 9 1 GFP_TRANSHUGE",
    );
    check(
        "wl-1 [001] 1.5: mm_page_alloc_extfrag: pfn=0x10 alloc_order=0 fallback_order=5 \
         pageblock_order=9 alloc_migratetype=1 fallback_migratetype=0 fragmenting=10 change_ownership=1",
        "1500000 1 1 X 16 0 5 1 0 1",
    );
    check(
        "wl-1 [001] 1.5: mm_page_alloc_zone_locked: pfn=7 order=0 migratetype=2",
        "1500000 1 1 Z 7 0 2 1",
    );
    for unusable in [
        "mm_page_free: page=0 pfn=0x200000 order=18",
        "mm_page_free: page=0 pfn=0x10000000000000 order=0",
        "mm_page_free: pfn=0x200",
        "mm_page_pcpu_drain: pfn=0x200 order=0 migratetype=9",
        "mm_page_alloc: pfn=0x200 order=0 migratetype=0 gfp_flags=GFP_WHAT",
    ] {
        let expected = format!("1500000 1 1 E not_understood {}", unusable.replace(": ", " "));
        check(&format!("wl-1 [001] 1.5: {unusable}"), &expected);
    }
    check("wl-1 [001] d..3. 1.5: tracing_mark_write: PB S1", "1500000 1 1 M S1");
    check("wl-1 [001] d..3. 1.5: tracing_mark_write: E2", "1500000 1 1 M E2");
    check(
        "wl-1 [001] 1.5: mm_vmscan_kswapd_sleep: nid=0",
        "1500000 1 1 E mm_vmscan_kswapd_sleep nid=0",
    );
}

#[test]
fn other_lines_are_recognised() {
    for line in ["# tracer: nop", "", "cpus=2", " => __alloc_pages", "\tffffffff81234567 sym (x)"] {
        check(line, "Nothing");
    }
    check("CPU:1 [LOST 25 EVENTS]", "Lost { cpu: Some(1), events: 25 }");
    check("CPU 0 [7 EVENTS DROPPED]", "Lost { cpu: Some(0), events: 7 }");
    check("CPU:0 [EVENTS DROPPED]", "Lost { cpu: Some(0), events: 1 }");
    check("hello", "allowed: an event as ftrace,");
    check("wl-1 [001] 1.5: mm_page_free: pfn=0xzz order=0", "allowed: a number after pfn=,");
}

/// `perf script` prints the group of an event; tracefs and trace-cmd do not.
#[test]
fn text_of_perf_script_is_told_from_that_of_others() {
    let folder = tempfile::tempdir().unwrap();
    let is = |text: &str| {
        let path = folder.path().join("trace.txt");
        std::fs::write(&path, text).unwrap();
        is_perf_script(&path).unwrap()
    };
    assert!(is(
        "# captured on: x\n   wl 26389 [000]  9386.850200:     kmem:mm_page_free: page=0x1 pfn=0x5fb1d6 order=0\n"
    ));
    assert!(!is(
        "   wl-26389 [000] ..... 9386.850200: mm_page_free: page=0x1 pfn=0x5fb1d6 order=0\n"
    ));
    assert!(!is(""));
}
