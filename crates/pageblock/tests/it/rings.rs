//! The order of the crate's folders and of the workspace's crates: each names only itself and what stands
//! before it.

use std::fs;
use std::path::PathBuf;

use crate::folders::{Folders, none};

/// The module of unit tests that makes a whole allocator stands outside of the order.
const FOLDERS: Folders = Folders {
    names: &["policy", "base", "table", "zone", "percpu", "access", "slowpath", "api", "replay"],
    open: &["testing"],
};

/// The workspace's crates, lowest first.
const CRATES: [&str; 21] = [
    "pageblock",
    "files",
    "kernel",
    "recording",
    "measure",
    "doctor",
    "vm",
    "recorder",
    "replay",
    "simulate",
    "guest",
    "closed-loop",
    "trial",
    "report",
    "picture",
    "watch",
    "bench",
    "plan",
    "capi",
    "python",
    "cli",
];

pub(crate) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn folders_import_only_from_those_before_them() {
    none(&FOLDERS.files(), |file| FOLDERS.wrong_names(file.at, &file.text));
}

/// Every file stands in one of the folders, so that the test above reads it.
#[test]
fn only_the_root_and_its_tests_stand_outside_of_the_folders() {
    assert_eq!(FOLDERS.outside(), ["lib.rs", "testing.rs"]);
}

#[test]
fn arrow_back_is_found() {
    let wrong = |text| FOLDERS.wrong_names(FOLDERS.place("zone").unwrap(), text);
    assert!(wrong("use crate::table::map::Index;\n// crate::api\n").is_empty());
    assert_eq!(
        wrong("use crate::base::frame::Pfn;\nuse crate::api::alloc::Allocator;"),
        ["2: zone must not import from api"]
    );
    assert_eq!(
        wrong("    let at = crate::percpu::cache::MAX_LISTS;"),
        ["1: zone must not import from percpu"]
    );
    assert_eq!(wrong("use crate::frame::Pfn;"), ["1: crate::frame is no folder of src"]);
}

/// The crates of the workspace that a manifest names as dependencies. Those of tests are free.
fn dependencies(manifest: &str) -> Vec<String> {
    let mut of_the_crate = false;
    let mut named = Vec::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            of_the_crate = line.ends_with("dependencies]") && !line.contains("dev-dependencies");
        } else if of_the_crate && line.starts_with("pageblock") {
            let name = line.split(['.', ' ', '=']).next().unwrap_or_default();
            named.push(name.strip_prefix("pageblock-").unwrap_or(name).to_owned());
        }
    }
    named
}

#[test]
fn crates_depend_only_on_those_before_them() {
    let crates = root().join("..");
    if !crates.join("cli").is_dir() {
        eprintln!("skipped: the crate stands alone, without its workspace");
        return;
    }
    let mut wrong = Vec::new();
    for entry in fs::read_dir(&crates).unwrap() {
        let path = entry.unwrap().path();
        let Ok(manifest) = fs::read_to_string(path.join("Cargo.toml")) else { continue };
        let name = path.canonicalize().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
        let Some(at) = CRATES.iter().position(|&known| known == name) else {
            wrong.push(format!("{name} has no place in the order of crates"));
            continue;
        };
        for other in dependencies(&manifest) {
            if !CRATES[..at].contains(&other.as_str()) {
                wrong.push(format!("{name} must not depend on {other}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn dependency_of_a_crate_is_found() {
    let manifest = "[dependencies]\npageblock.workspace = true\npageblock-cli = { path = \"x\" }\n\
                    [dev-dependencies]\npageblock-simulate.workspace = true\n";
    assert_eq!(dependencies(manifest), ["pageblock", "cli"]);
}
