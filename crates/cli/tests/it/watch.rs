//! `pageblock watch` where there is no terminal: one screen, or a line that says why not.

use std::fs;
use std::path::Path;

use crate::{pageblock, prints, refuses};

#[test]
fn a_pipe_gets_a_screen_or_a_line() {
    refuses("watch", "error: standard input and output are not a terminal; --once prints");
    let folder = tempfile::tempdir().expect("a folder");
    let run = folder.path().join("run.json");
    let made = pageblock(&format!(
        "run thpfioscale-madvhugepage --policy linux-6.9 --policy linux-6.10 --scale 1/64 --seeds 1 --pictures --save {}",
        run.display()
    ));
    assert_eq!(made.status, 0, "{}", made.stderr);
    let screens = prints(&format!("watch {} --once", run.display()));
    for part in
        ["linux-6.9 on thpfioscale", "linux-6.10 on thpfioscale", "mixed", "fallbacks so far"]
    {
        assert!(screens.contains(part), "no {part:?} in {screens}");
    }
    assert!(!screens.contains('\u{1b}'));
    // By default its end is seen, on request another moment.
    let begun = prints(&format!("watch {} --once --at 0", run.display()));
    assert!(screens.contains("/97]") || screens.contains("/96]"), "{screens}");
    assert!(begun.contains(" [1/"), "{begun}");
    refuses(&format!("watch {} --once --at 1.5", run.display()), "error: --at 1.5 is not a share");
}

#[test]
fn a_copied_machine_has_a_screen_without_root() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../doctor/tests/machines/6.18-24g");
    if !root.is_dir() {
        eprintln!("skipped: the crate stands alone, without the doctor's machines");
        return;
    }
    let screen = prints(&format!("watch --once --interval 0.5s --root {}", root.display()));
    assert!(
        screen.contains("without: map, fallback events") && screen.contains("Normal"),
        "{screen}"
    );
    assert!(screen.contains("without fallback events (not this machine)"), "{screen}");
}

#[test]
fn other_files_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = folder.path().join("text");
    fs::write(&text, "This is no recording.\n").unwrap();
    refuses(&format!("watch {} --once", text.display()), "error: ");
    refuses("watch /there/is/nothing --once", "error: /there/is/nothing: No such file");
    refuses(&format!("watch --once --root {}", folder.path().display()), "error: ");
    let run = folder.path().join("run.json");
    let made = pageblock(&format!(
        "run netperf-udp --policy linux-6.9 --scale 1/64 --save {}",
        run.display()
    ));
    assert_eq!(made.status, 0, "{}", made.stderr);
    refuses(
        &format!("watch {} --once", run.display()),
        &format!("error: {}: nothing to show: it has no history", run.display()),
    );
}
