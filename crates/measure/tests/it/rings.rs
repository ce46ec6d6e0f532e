//! The order of the crate's folders, and that files import each other in no large circle. What unit tests import is not
//! held.

use crate::circles::{Imports, circles, imports_in, imports_of};
use crate::folders::{File, Folders, none, src};
use crate::source::code;

const FOLDERS: Folders = Folders {
    names: &["value", "statistics", "certificate", "run", "catalogue", "tables", "compare"],
    open: &[],
};

/// The most files that may import each other: a parent and its parts.
const CIRCLE: usize = 3;

/// Returns the files of the folders without their unit tests.
fn files() -> Vec<File> {
    let files = FOLDERS.files().into_iter().filter(|file| !file.name.ends_with("tests.rs"));
    let without_tests = |file: File| {
        let text = file.text.split("\n#[cfg(test)]\n").next().unwrap().to_owned();
        File { text, ..file }
    };
    files.map(without_tests).collect()
}

fn imports() -> Imports {
    imports_of(&src())
}

#[test]
fn folders_name_only_those_before_them() {
    none(&files(), |file| FOLDERS.wrong_names(file.at, &file.text));
}

/// Every file is in one of the folders, so that the test above reads it.
#[test]
fn only_the_root_is_outside_of_the_folders() {
    assert_eq!(FOLDERS.outside(), ["lib.rs"]);
}

#[test]
fn no_more_than_three_files_import_each_other() {
    for circle in circles(&imports()) {
        assert!(circle.len() <= CIRCLE, "these files import each other: {circle:?}");
    }
}

/// A run is plain data: its file names nothing that computes from runs.
#[test]
fn a_run_knows_nothing_that_computes_from_it() {
    let imports = imports();
    let data = ["run::calibration", "run::measured", "run::tables"];
    let of_run: Vec<&String> =
        imports["run"].iter().filter(|module| module.starts_with("run::")).collect();
    assert_eq!(of_run, data.each_ref());
    for module in data {
        assert!(!imports[module].contains("run"), "{module} imports from its run");
    }
}

/// What a comparison consists of takes its runs grouped; only what a caller asks for by itself groups them.
#[test]
fn a_comparison_groups_its_runs_once() {
    let group = |file: &File| {
        let code: String = file.text.lines().map(code).collect();
        (file.name.clone(), code.matches("Policies::of(").count())
    };
    let grouping = files().iter().map(group).filter(|&(_, times)| times > 0).collect::<Vec<_>>();
    let alone = ["compare/full.rs", "compare/seeds.rs", "compare/summary.rs"];
    assert_eq!(grouping, alone.map(|file| (file.to_owned(), 1)));
}

#[test]
fn an_arrow_back_and_a_circle_are_found() {
    let wrong = |text| FOLDERS.wrong_names(FOLDERS.place("run").unwrap(), text);
    assert_eq!(wrong("use crate::value::names;"), [""; 0]);
    assert_eq!(wrong("use crate::tables::Table;"), ["1: run must not import from tables"]);
    assert_eq!(wrong("let x = crate::Run;"), ["1: crate::Run is no folder of src"]);
    let file = |(module, text): (&str, &str)| (module.to_owned(), text.to_owned());
    let texts = [
        ("run", "pub use self::a::A;"),
        ("run::a", "use super::b::{self, B};"),
        ("run::b", "use crate::run::{c::C, D};"),
        ("run::c", "use super::{Run, a};"),
        ("run::d", "use super::Run;"),
    ]
    .map(file);
    let found = circles(&imports_in(&texts.into()));
    assert_eq!(found, [["run", "run::a", "run::b", "run::c"].map(str::to_owned).into()].into());
}
