use pageblock_measure::History;
use pageblock_measure::value::call_sites::{HeldBlock, PageHolder, StillHeld};

use super::*;
use crate::subject::Kind;

fn subject(name: &str) -> Subject {
    Subject {
        name: name.into(),
        kind: Kind::Simulated,
        workload: "thpfioscale".into(),
        machine: "one-socket".into(),
        seed: Some(1),
        command: "pageblock run thpfioscale".into(),
        certificate: None,
        notes: vec!["Simulated <times>".into()],
        history: Some(History { layout: History::LAYOUT, ..History::default() }),
    }
}

fn page(name: &str) -> String {
    let (title, command) = ("thpfioscale & more".to_owned(), "pageblock report r.json".to_owned());
    let (subjects, holders) = (vec![subject(name)], vec![holders(name)]);
    Page { title, command, subjects, holders, ..Page::default() }.html()
}

fn holders(name: &str) -> PageHolders {
    let holder = PageHolder {
        process: name.into(),
        functions: vec!["pipe_write".into()],
        slab: None,
        migratetype: "Unmovable",
        asked: 394_226,
        held: 3_060,
        blocks: 1,
        alone: 1,
    };
    let map = vec![HeldBlock { block: 513, holder: 0, pages: 3_060 }];
    let holders = vec![holder];
    let held = StillHeld {
        asked: 394_226,
        held: 3_060,
        lost: 7,
        blocks: 1,
        pageblock_order: 9,
        holders,
        map,
    };
    PageHolders { name: name.into(), held }
}

/// Both numbers are there, and a cell for the pageblock in the second row of 512.
#[test]
fn holders_are_a_table_and_a_picture() {
    let html = page("fio");
    assert!(html.contains("394,226 pages were asked for while it was recorded, 3,060 are held"));
    assert!(html.contains("<code>pipe_write</code>"));
    assert!(
        html.contains("fill=\"#d55e00\"><title>pageblock 513: 3060 pages, most of fio</title>")
    );
}

/// Whatever a recording calls itself, it is text on the page.
#[test]
fn names_are_text() {
    let html = page("</script><script>alert(1)</script>\u{7}");
    assert!(html.contains("&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;\\u0007"));
    assert_eq!(html.matches("<script").count(), 2, "the data and the program");
    assert!(html.contains("<title>thpfioscale &amp; more</title>"));
    assert!(html.contains("Simulated &lt;times&gt;"));
    assert!(!html.contains("{{"), "a mark of the template is left");
}

/// The page is whole without a network: nothing in it names another file.
#[test]
fn everything_is_in_the_page() {
    let html = page("linux-6.9");
    assert!(html.contains("default-src 'none'"));
    for outside in ["src=\"", "url(http", "@import", "fetch(", "XMLHttpRequest"] {
        assert!(!html.contains(outside), "{outside}");
    }
    assert!(html.contains("MIT"), "the licence of what is built in");
}

/// The program in the page was built from what is committed beside it.
#[test]
fn the_program_knows_the_layouts() {
    assert_eq!((LAYOUT, History::LAYOUT), (1, 1), "web/src/data.ts reads these");
}
