//! First contact: `pageblock` alone, and `pageblock demo`.

use std::path::PathBuf;

use crate::{Ran, pageblock, prints, refuses};

#[test]
fn alone_it_says_in_a_screen_what_each_user_can_do() {
    let text = prints("");
    assert!(text.lines().count() <= 14, "{text}");
    for user in ["operator", "kernel developer", "researcher", "embedder"] {
        assert!(text.lines().any(|line| line.trim_start().starts_with(user)), "{user}: {text}");
    }
    // What it names exists.
    let help = prints("--help");
    let is_command =
        |word: &str| help.lines().any(|line| line.trim_start().starts_with(&format!("{word} ")));
    let named: Vec<_> =
        text.lines().skip(1).flat_map(|line| line.split("pageblock ").skip(1)).collect();
    let named = named.iter().map(|rest| rest.split([' ', ',', ';']).next().unwrap_or_default());
    let commands: Vec<_> = named.filter(|word| word.starts_with(char::is_lowercase)).collect();
    assert!(commands.len() >= 9, "{commands:?}");
    assert!(commands.iter().all(|command| is_command(command)), "{commands:?}");
}

#[test]
fn the_demo_needs_no_file_and_names_its_page() {
    let page = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("demo.html");
    let Ran { status, stdout, stderr } = pageblock(&format!("demo -o {}", page.display()));
    assert_eq!((status, stderr.as_str()), (0, ""));
    for part in [
        "\nMixed pageblocks at the end ",
        "\nFragmenting fallbacks, movable ",
        "Next: pageblock doctor",
    ] {
        assert!(stdout.contains(part), "{part}: {stdout}");
    }
    let place = format!("\nPictures: file://{}\n", page.canonicalize().unwrap().display());
    assert!(stdout.contains(&place), "{stdout}");
    let html = std::fs::read_to_string(&page).unwrap();
    // Commands that it names can be repeated: none reads the folder that is gone.
    assert!(html.contains("linux-6.10") && html.contains("pageblock demo"));
    assert!(!html.contains("pageblock report"));
}

#[test]
fn the_recording_of_the_demo_is_extracted_once() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("extracted");
    let _ = std::fs::remove_dir_all(&folder);
    let arguments = format!("demo --extract {}", folder.display());
    prints(&arguments);
    assert!(prints(&format!("recording info {}", folder.display())).contains("6.12.94"));
    refuses(&arguments, &format!("error: {}: ", folder.display()));
    let nowhere = folder.join("none/x");
    let why = format!(
        "error: {}: there is no folder {}",
        nowhere.display(),
        folder.join("none").display()
    );
    refuses(&format!("demo --extract {}", nowhere.display()), &why);
}
