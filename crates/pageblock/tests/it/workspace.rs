//! What ARCHITECTURE.md says of the code of the workspace's other crates.

use std::fs;
use std::path::{Path, PathBuf};

use crate::rings::root;
use crate::source::{code, rust_files};

/// Returns the folder of a crate; `None`, and says so, if this crate stands alone, without its workspace.
fn folder(name: &str) -> Option<PathBuf> {
    let folder = root().join("..").join(name);
    if !folder.is_dir() {
        eprintln!("skipped: the crate stands alone, without its workspace");
        return None;
    }
    Some(folder)
}

/// Returns the lines of a crate's code, without those of its unit tests, with their places.
fn lines(name: &str) -> Vec<(String, String)> {
    let Some(folder) = folder(name) else { return Vec::new() };
    let mut lines = Vec::new();
    for file in rust_files(&folder.join("src")) {
        if file.ends_with("tests.rs") {
            continue;
        }
        let text = fs::read_to_string(&file).unwrap();
        let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        for (number, line) in (1..).zip(text.lines()) {
            lines.push((format!("{}:{number}", file.display()), code(line).to_owned()));
        }
    }
    lines
}

#[track_caller]
fn has_none(crates: &[&str], what: &str, is_wrong: impl Fn(&str) -> bool) {
    let all = crates.iter().flat_map(|name| lines(name));
    let wrong: Vec<_> = all.filter(|(_, line)| is_wrong(line)).map(|(place, _)| place).collect();
    assert!(wrong.is_empty(), "{what}:\n{}", wrong.join("\n"));
}

/// A rule that depends on the version is a switch, which the presets of a kernel set.
#[test]
fn what_computes_compares_no_version() {
    let crates = ["kernel", "vm", "simulate", "measure", "closed-loop"];
    has_none(&crates, "compares a version", |line| {
        compares_a_version(line) || line.contains("KernelVersion")
    });
}

/// The files that say what kernels print and which settings they have, by version.
const INTERFACES: [&str; 2] = ["recording/src/record/kernel.rs", "doctor/src/interfaces.rs"];

/// Tells whether a line compares the version of a kernel, or takes it apart.
fn compares_a_version(line: &str) -> bool {
    let with_a_pair = ["<", ">", "<=", ">="].iter().any(|comparison| {
        line.split(&format!(" {comparison} (")).skip(1).any(|rest| {
            let (first, second) = rest.split_once(", ").unwrap_or_default();
            first.parse::<u16>().is_ok() && second.starts_with(|c: char| c.is_ascii_digit())
        })
    });
    with_a_pair || [".at_least(", "kernel.major", "version.major"].iter().any(|w| line.contains(w))
}

/// What reads a real machine asks the preset that is nearest to its kernel, or one of the files with what kernels print.
#[test]
fn what_reads_machines_compares_versions_in_a_file_of_its_own() {
    let crates = ["recording", "recorder", "doctor", "replay", "trial", "watch", "plan", "report"];
    for (place, line) in crates.iter().flat_map(|name| lines(name)) {
        let may = INTERFACES.iter().any(|file| place.contains(&format!("/{file}:")));
        assert!(may || !compares_a_version(&line), "{place}: {}", line.trim());
    }
    assert!(
        compares_a_version("if version < (6, 3) {") && compares_a_version("kernel.at_least(6, 9)")
    );
    assert!(!compares_a_version("if left < (order, 3).0 && now >= (1 << order) {"));
}

#[test]
fn measures_know_no_workload() {
    let Some(workloads) = folder("simulate") else { return };
    let text = fs::read_to_string(workloads.join("src/workload/mod.rs")).unwrap();
    assert!(text.contains("pub const ALL: &[&dyn Workload]"));
    let names = [
        "thpfioscale",
        "netperf",
        "parallelio",
        "hugealloc",
        "apppressure",
        "android",
        "oscillating",
        "kernel-memory",
    ];
    for name in names {
        assert!(lines("simulate").iter().any(|(_, line)| line.contains(name)), "{name} is gone");
    }
    has_none(&["measure"], "names a workload", |line| names.iter().any(|name| line.contains(name)));
}

#[test]
fn only_the_program_has_errors_without_a_type() {
    let Some(program) = folder("cli") else { return };
    for entry in fs::read_dir(program.join("..")).unwrap() {
        let path = entry.unwrap().path();
        let Ok(manifest) = fs::read_to_string(path.join("Cargo.toml")) else { continue };
        assert_eq!(manifest.contains("\nanyhow"), path.ends_with("cli"), "{}", path.display());
    }
}

#[test]
fn readers_of_recordings_have_no_policy() {
    has_none(&["recording", "recorder"], "knows a policy", |line| {
        line.contains("policy::") || line.contains("preset::")
    });
}

/// The files that may have blocks of `unsafe`, each with a reason in it.
const UNSAFE: [&str; 6] = [
    "bench/src/peers.rs",
    "capi/src/lock.rs",
    "capi/src/memory.rs",
    "guest/src/inside/memory.rs",
    "pageblock/src/table/memory.rs",
    "python/src/import.rs",
];

/// The crates, each by its folder.
fn crates() -> Vec<String> {
    let Some(all) = folder("cli").map(|program| program.join("..")) else { return Vec::new() };
    let names = fs::read_dir(all).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn unsafe_stands_in_the_files_that_are_audited() {
    for (place, line) in crates().iter().flat_map(|name| lines(name)) {
        let is_unsafe = line.contains("unsafe {") || line.contains("unsafe impl");
        let audited = UNSAFE.iter().any(|file| place.contains(&format!("/{file}:")));
        assert!(!is_unsafe || audited, "{place}: {}", line.trim());
    }
}

/// The files beside the program's that write to standard output or error: the terminal of `watch`, and the children and
/// guests, which answer whoever started them.
const WRITES: [&str; 5] = [
    "guest/src/inside/report.rs",
    "guest/src/load/apppressure/app.rs",
    "guest/src/load/hugealloc.rs",
    "guest/src/load/mod.rs",
    "watch/src/terminal.rs",
];

#[test]
fn nothing_is_printed_but_by_the_program() {
    for (place, line) in crates().iter().flat_map(|name| lines(name)) {
        // Guests and build scripts talk to whoever started them.
        let prints = ["println!(", "eprintln!(", " print!(", "eprint!("].iter();
        assert!(prints.clone().all(|print| !line.contains(print)), "{place}: {}", line.trim());
        let writes = ["io::stdout()", "io::stderr()"].iter().any(|stream| line.contains(stream));
        let may = ["cli/src/output.rs"].iter().chain(&WRITES);
        let may = may.into_iter().any(|file| place.contains(&format!("/{file}:")));
        assert!(!writes || may || line.contains("is_terminal()"), "{place}: {}", line.trim());
    }
}

#[test]
fn replay_opens_no_file_itself() {
    has_none(&["replay"], "opens a file", |line| line.contains("File::") || line.contains("fs::"));
}

/// What ARCHITECTURE.md calls an invariant is held by a file that it names.
#[test]
fn every_invariant_names_what_holds_it() {
    let Some(program) = folder("cli") else { return };
    let top = program.join("../..");
    let text = fs::read_to_string(top.join("ARCHITECTURE.md")).unwrap();
    let mut at = None;
    let mut found = 0;
    for paragraph in text.split("\n\n") {
        if let Some(name) = paragraph.strip_prefix("### `").and_then(|rest| rest.split('`').next())
        {
            at = Some(top.join(name));
        }
        let Some(of) = &at else { continue };
        if !paragraph.starts_with("**Invariant:**") {
            continue;
        }
        let named = paragraph.split('`').skip(1).step_by(2);
        let places = |file: &str| [top.join(file), of.join(file), of.join("src").join(file)];
        let holds = |file: &&str| {
            let text = places(file).iter().find_map(|path| fs::read_to_string(path).ok());
            text.is_some_and(|text| text.contains("#[test]") || file.ends_with("clippy.toml"))
        };
        assert!(named.clone().any(|file| holds(&file)), "no test is named: {paragraph}");
        found += 1;
    }
    assert!(found > 10, "{found} invariants were found");
}

/// Returns the documents below a folder.
fn documents(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(documents(&path));
        } else if path.extension().is_some_and(|ending| ending == "md") {
            found.push(path);
        }
    }
    found
}

#[test]
fn every_source_file_that_a_document_names_exists() {
    let Some(program) = folder("cli") else { return };
    let top = program.join("../..").canonicalize().unwrap();
    let files: Vec<_> = ["crates", "examples"]
        .iter()
        .flat_map(|name| rust_files(&top.join(name)))
        .map(|path| path.display().to_string())
        .collect();
    let mut wrong = Vec::new();
    let mut named = 0;
    let pages = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "GLOSSARY.md"];
    for page in pages.iter().map(|page| top.join(page)).chain(documents(&top.join("docs"))) {
        let text = fs::read_to_string(&page).unwrap();
        for name in text.split('`').skip(1).step_by(2).filter(|name| name.ends_with(".rs")) {
            named += 1;
            if !files.iter().any(|file| file.ends_with(&format!("/{name}"))) {
                wrong.push(format!("{}: {name}", page.display()));
            }
        }
    }
    assert!(wrong.is_empty() && named > 50, "{named} named; gone:\n{}", wrong.join("\n"));
}

#[test]
fn the_first_page_is_a_screen() {
    let Some(any) = folder("cli") else { return };
    let text = fs::read_to_string(any.join("../../README.md")).unwrap();
    assert!(text.lines().count() <= 80, "README.md has {} lines", text.lines().count());
    let long: Vec<_> = text.lines().filter(|line| line.chars().count() > 110).collect();
    assert!(long.is_empty(), "README.md has lines of more than 110 characters: {long:#?}");
}
