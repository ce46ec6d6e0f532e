//! `pageblock completions` and `pageblock man`.

use std::path::PathBuf;
use std::process::Command;

use crate::{file, prints, ran, refuses};

#[test]
fn bash_completes_commands_policies_and_workloads() {
    let script = file("completions.bash", &prints("completions bash"));
    let complete = |words: &str| {
        let words: Vec<&str> = words.split(' ').collect();
        let (last, before) = (words[words.len() - 1], words[words.len() - 2]);
        let asked = format!(
            "source {}; COMP_WORDS=({}); COMP_CWORD={}; _pageblock pageblock '{last}' '{before}'; \
             echo \"${{COMPREPLY[@]}}\"",
            script.display(),
            words.join(" "),
            words.len() - 1
        );
        let ran = ran(Command::new("bash").args(["--norc", "-c", &asked]));
        assert_eq!((ran.status, ran.stderr.as_str()), (0, ""));
        ran.stdout.trim().to_owned()
    };
    assert_eq!(complete("pageblock mac"), "machine");
    assert_eq!(complete("pageblock policy show linux-6.1"), {
        let names = prints("policy list --json");
        let names: Vec<serde_json::Value> = serde_json::from_str(&names).unwrap();
        let names = names.iter().filter_map(|policy| policy["name"].as_str());
        names.filter(|name| name.starts_with("linux-6.1")).collect::<Vec<_>>().join(" ")
    });
    assert!(complete("pageblock run thpf").starts_with("thpfioscale thpfioscale-defrag"));
    assert!(complete("pageblock run x --machine sky").contains("skylake-1s"));
}

#[test]
fn other_shells_have_completions_too() {
    for (shell, word) in [
        ("zsh", "thpfioscale"),
        ("fish", "machine"),
        ("elvish", "machine"),
        ("powershell", "machine"),
    ] {
        assert!(prints(&format!("completions {shell}")).contains(word), "{shell}");
    }
    refuses("completions sh", "error: invalid value 'sh' for '<SHELL>'");
}

#[test]
fn every_command_has_a_manual_page_that_man_shows() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("man/man1");
    prints(&format!("man {}", folder.display()));
    for page in ["pageblock.1", "pageblock-verify.1", "pageblock-machine-from.1"] {
        let text = std::fs::read_to_string(folder.join(page)).unwrap();
        assert!(text.contains(".SH NAME") && text.contains(".SH SYNOPSIS"), "{page}");
    }
    if Command::new("man").arg("--version").output().is_err() {
        eprintln!("skipped: there is no man");
        return;
    }
    let page = folder.join("pageblock-run.1");
    let ran = ran(Command::new("man").args(["-P", "cat", "-l"]).arg(&page).env("MANWIDTH", "200"));
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(ran.stdout.contains("--policy <POLICY>"), "{}", ran.stdout);
    refuses("man /dev/null", "error: /dev/null: ");
}
