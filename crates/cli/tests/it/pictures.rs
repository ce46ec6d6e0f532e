//! `report` and `plot`: runs and recordings become pictures, or a line says why not.

use std::path::PathBuf;

use crate::{Ran, compares, file, pageblock, prints};

fn path(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_file(&path);
    path
}

/// Runs the program, which must fail with one line that has this in it.
#[track_caller]
fn refuses(arguments: &str, expect: &str) {
    let Ran { status, stdout, stderr } = pageblock(arguments);
    assert_eq!((status, stdout.as_str(), stderr.lines().count()), (2, "", 1), "{stderr}");
    assert!(stderr.contains(expect), "{arguments}: {stderr}");
}

/// Two policies of a small machine, with pictures.
fn saved(name: &str, more: &str) -> PathBuf {
    let saved = path(name);
    compares(&format!(
        "run thpfioscale-madvhugepage --policy linux-6.9 --policy linux-6.10 --scale 1/64 --seeds 1 --save {} {more}",
        saved.display()
    ));
    saved
}

#[test]
fn runs_become_a_page_and_drawings() {
    let saved = saved("pictured.json", "--pictures");
    let saved = saved.display();
    let page = path("pictured.html");
    let ran = pageblock(&format!("report {saved} -o {}", page.display()));
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(ran.stderr.contains("2 of 2 with pictures"), "{}", ran.stderr);
    let html = std::fs::read_to_string(&page).unwrap();
    for part in ["<h2>The answer</h2>", "Pages reclaimed", "linux-6.10", "id=\"data\""] {
        assert!(html.contains(part), "{part}");
    }
    assert!(html.contains("--policy linux-6.9 --scale 1/64 --pictures --save FILE</code>"));

    for kind in ["map", "orders", "matrix", "timeline", "frontier"] {
        let text = prints(&format!("plot {kind} {saved} --plain"));
        assert!(text.contains("linux-6.10"), "{kind}: {text}");
        let long = text.lines().find(|line| line.chars().count() > 72);
        assert!(long.is_none() && text.is_ascii(), "{kind}: {long:?}");
        let svg = path(&format!("pictured-{kind}.svg"));
        prints(&format!("plot {kind} {saved} -o {}", svg.display()));
        let svg = std::fs::read_to_string(svg).unwrap();
        assert!(svg.starts_with("<svg") && svg.contains("linux-6.10"), "{kind}");
    }
    let png = path("pictured.png");
    prints(&format!("plot map {saved} --at 0.5 -o {}", png.display()));
    assert!(std::fs::read(png).unwrap().starts_with(b"\x89PNG"));
}

#[test]
fn runs_without_pictures_say_how_to_get_them() {
    let saved = saved("unpictured.json", "");
    let page = path("unpictured.html");
    let ran = pageblock(&format!("report {} -o {}", saved.display(), page.display()));
    assert_eq!(ran.status, 0);
    assert!(ran.stderr.contains("0 of 2 with pictures"), "{}", ran.stderr);
    assert!(ran.stderr.contains("run ... --pictures"), "{}", ran.stderr);
    assert!(std::fs::read_to_string(&page).unwrap().contains("Pages reclaimed"));
    let saved = saved.display();
    refuses(&format!("plot map {saved} --plain"), "nothing to draw: no run has its history");
}

#[test]
fn wrong_input_is_a_line_and_leaves_nothing() {
    let saved = saved("damaged.json", "--pictures");
    let json = std::fs::read_to_string(&saved).unwrap();
    let at = json.find("\"cells\": \"").unwrap() + 60;
    let cut = file("cut.json", &format!("{}{}", &json[..at], &json[at + 400..]));
    let page = path("wrong.html");
    let out = page.display();
    let cut = cut.display();
    refuses(&format!("report {cut} -o {out}"), &format!("{cut}: history.cells: "));
    refuses(&format!("report /nonexistent -o {out}"), "/nonexistent: No such file");
    refuses(&format!("report {} -o /nonexistent/x.html", saved.display()), "/nonexistent/x.html");
    let text = file("no-recording.txt", "not a recording\n");
    refuses(&format!("report {} -o {out}", text.display()), "no-recording.txt");
    let empty = file("no-runs.json", "[]");
    refuses(&format!("report {} -o {out}", empty.display()), "the file contains no runs");
    refuses(&format!("report {} --seed 9 -o {out}", saved.display()), "--seed 9: no run of");
    refuses(
        &format!("plot map {} -o x.gif", saved.display()),
        "allowed: a name that ends with .svg or .png",
    );
    refuses(&format!("plot map {} --plain --at 2", saved.display()), "--at 2 is not a share");
    refuses(
        "run thpfioscale --policy linux-6.9 --scale 1/64 --pictures",
        "--pictures: nothing would keep them",
    );
    assert!(!page.exists());
}
