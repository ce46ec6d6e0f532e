//! The order of the crate's folders: each imports only from itself and the folders before it. No files import each other
//! in a circle.

use crate::circles::{circles_but_of_parts, imports_of};
use crate::folders::{Folders, none, src};

const FOLDERS: Folders = Folders {
    names: &["input", "record", "formats", "state", "store", "open", "convert"],
    open: &[],
};

#[test]
fn folders_name_only_those_before_them() {
    none(&FOLDERS.files(), |file| FOLDERS.wrong_names(file.at, &file.text));
}

/// Every file is in one of the folders, so that the test above reads it.
#[test]
fn only_the_root_is_outside_of_the_folders() {
    assert_eq!(FOLDERS.outside(), ["lib.rs"]);
}

#[test]
fn no_files_import_each_other_but_a_parent_and_its_parts() {
    let imports = imports_of(&src());
    assert!(imports.len() > 40, "only {} files were read", imports.len());
    assert!(imports["open::events"].contains("store::packed"));
    let circles = circles_but_of_parts(imports);
    assert!(circles.is_empty(), "{circles:#?}");
}

#[test]
fn an_arrow_back_is_found() {
    let wrong = |text| FOLDERS.wrong_names(FOLDERS.place("state").unwrap(), text);
    assert_eq!(wrong("use crate::record::event::Record;\n// crate::open"), [""; 0]);
    assert_eq!(wrong("\nuse crate::store::pbrec;"), ["2: state must not import from store"]);
    assert_eq!(wrong("crate::find("), ["1: crate::find is no folder of src"]);
}
