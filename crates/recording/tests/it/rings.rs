//! The order of the crate's folders: each imports only from itself and the folders before it. No files import each other
//! in a circle.

use std::fs;
use std::path::PathBuf;

use crate::circles::{circles, imports_of};
use crate::source::{code, named_after, rust_files};

/// The folders of `src`, lowest first.
const RINGS: [&str; 7] = ["input", "record", "formats", "state", "store", "open", "convert"];

fn src() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// Returns the imports in a file of a ring that it must not have.
fn wrong_names(ring: usize, text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = code(line);
        for named in named_after(line, "crate::") {
            match RINGS.iter().position(|&name| name == named) {
                Some(other) if other <= ring => {}
                Some(_) => {
                    wrong.push(format!("{number}: {} must not import from {named}", RINGS[ring]));
                }
                None => wrong.push(format!("{number}: crate::{named} is no folder of src")),
            }
        }
        if line.contains("super::super") {
            wrong.push(format!("{number}: write a path from the crate's root, not super::super"));
        }
    }
    wrong
}

#[test]
fn folders_name_only_those_before_them() {
    let mut wrong = Vec::new();
    for (ring, name) in RINGS.into_iter().enumerate() {
        for file in rust_files(&src().join(name)) {
            let text = fs::read_to_string(&file).unwrap();
            let shown = file.strip_prefix(src()).unwrap().display().to_string();
            wrong
                .extend(wrong_names(ring, &text).into_iter().map(|what| format!("{shown}:{what}")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Every file is in one of the folders, so that the test above reads it.
#[test]
fn only_the_root_is_outside_of_the_folders() {
    let mut all: Vec<String> = fs::read_dir(src())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !RINGS.contains(&name.as_str()))
        .collect();
    all.sort();
    assert_eq!(all, ["lib.rs"]);
}

#[test]
fn no_files_import_each_other_but_a_parent_and_its_parts() {
    let imports = imports_of(&src());
    assert!(imports.len() > 40, "only {} files were read", imports.len());
    assert!(imports["open::events"].contains("store::packed"));
    let circles = circles(&imports);
    assert!(circles.is_empty(), "{circles:#?}");
}

#[test]
fn an_arrow_back_is_found() {
    let state = RINGS.iter().position(|&name| name == "state").unwrap();
    assert_eq!(wrong_names(state, "use crate::record::event::Record;\n// crate::open"), [""; 0]);
    assert_eq!(
        wrong_names(state, "\nuse crate::store::pbrec;"),
        ["2: state must not import from store"]
    );
    assert_eq!(wrong_names(state, "crate::find("), ["1: crate::find is no folder of src"]);
}
