//! The order of the crate's folders: each imports only from itself and the folders before it, and names only their
//! fields of `Vm`.

use std::fs;

use crate::folders::{Folders, none, src};
use crate::source::{code, named_after};

/// Every folder may import the machine, and what it is made of.
const FOLDERS: Folders = Folders {
    names: &[
        "base",
        "page",
        "slab",
        "pagecache",
        "swap",
        "fs",
        "huge",
        "compact",
        "reclaim",
        "slowpath",
    ],
    open: &["config", "node", "vm"],
};

/// The fields of `Vm` that belong to a folder.
const FIELDS: [(&str, &str); 12] = [
    ("inject", "base"),
    ("stat", "base"),
    ("stalls", "base"),
    ("work", "base"),
    ("pages", "page"),
    ("placed", "page"),
    ("slabs", "slab"),
    ("pagecache", "pagecache"),
    ("swap", "swap"),
    ("fs", "fs"),
    ("huge", "huge"),
    ("compact", "compact"),
];

/// The fields of a node that belong to a folder.
const NODE_FIELDS: [(&str, &str); 2] = [("kcompactd", "compact"), ("kswapd", "reclaim")];

/// The fields of `Vm` that belong to no folder.
const MACHINE: [&str; 5] = ["allocator", "kernel", "config", "nodes", "observer"];

fn place(folder: &str) -> usize {
    FOLDERS.place(folder).unwrap()
}

/// Returns the imports and fields in a text of a folder that it must not name.
fn wrong_names(at: usize, text: &str) -> Vec<String> {
    let mut wrong = FOLDERS.wrong_names(at, text);
    // Others have fields of their own.
    let opens_vm = text.contains("crate::vm::");
    let not_its = |number: i32, field: &str, owner: &str| {
        format!("{number}: {} must not name {owner}'s `{field}`", FOLDERS.names[at])
    };
    for (number, line) in (1..).zip(text.lines()) {
        let line = code(line);
        for named in named_after(line, "self.").chain(named_after(line, "vm.")) {
            let owner = FIELDS.iter().find(|&&(field, _)| field == named);
            if let Some((field, owner)) = owner
                && opens_vm
                && !line.contains(&format!("{field}("))
                && place(owner) > at
            {
                wrong.push(not_its(number, field, owner));
            }
        }
        for (field, owner) in NODE_FIELDS {
            if line.contains(&format!("].{field}")) && place(owner) > at {
                wrong.push(not_its(number, field, owner));
            }
        }
    }
    wrong
}

#[test]
fn folders_name_only_those_before_them() {
    none(&FOLDERS.files(), |file| wrong_names(file.at, &file.text));
}

/// Every file is in one of the folders, so that the test above reads it.
#[test]
fn only_the_machine_is_outside_of_the_folders() {
    assert_eq!(FOLDERS.outside(), ["check.rs", "config.rs", "lib.rs", "node.rs", "vm.rs"]);
}

/// A new field of `Vm` must be given to a folder, so that the first test knows it.
#[test]
fn every_field_of_the_machine_has_its_owner() {
    let text = fs::read_to_string(src().join("vm.rs")).unwrap();
    let (_, body) = text.split_once("pub struct Vm<'m, O> {\n").unwrap();
    let (body, _) = body.split_once("\n}\n").unwrap();
    let fields: Vec<&str> = body
        .lines()
        .filter_map(|line| code(line).trim().strip_prefix("pub"))
        .filter_map(|line| line.strip_prefix("(crate)").unwrap_or(line).trim().split(':').next())
        .collect();
    let mut known: Vec<&str> = FIELDS.iter().map(|&(field, _)| field).chain(MACHINE).collect();
    let mut found = fields.clone();
    known.sort_unstable();
    found.sort_unstable();
    assert_eq!(found, known);
}

/// A subsystem's own fields are private to its folder, so that the compiler keeps others out.
#[test]
fn fields_of_subsystems_are_private_to_their_folders() {
    for (file, name) in [
        ("pagecache/mod.rs", "PageCache"),
        ("swap/mod.rs", "Swap"),
        ("fs/mod.rs", "FileSystem"),
        ("huge/mod.rs", "HugePages"),
        ("slab/caches.rs", "Slabs"),
        ("page/table.rs", "PageTable"),
        ("compact/mod.rs", "ZoneCompact"),
    ] {
        let text = fs::read_to_string(src().join(file)).unwrap();
        let (_, body) = text.split_once(&format!("pub struct {name} {{")).unwrap_or_else(|| {
            text.split_once(&format!("pub(crate) struct {name} {{")).expect("the struct is there")
        });
        let (body, _) = body.split_once("\n}").unwrap();
        for line in body.lines().map(|line| code(line).trim()) {
            let open = line.starts_with("pub ") || line.starts_with("pub(crate)");
            assert!(!open, "{file}: {name} opens a field: {line}");
        }
    }
}

#[test]
fn an_arrow_back_is_found() {
    let swap = place("swap");
    assert!(
        wrong_names(swap, "use crate::page::Owner;\n// crate::reclaim, self.huge\n").is_empty()
    );
    assert_eq!(
        wrong_names(swap, "use crate::vm::Vm;\nuse crate::reclaim::kswapd::Kswapd;"),
        ["2: swap must not import from reclaim"]
    );
    assert_eq!(
        wrong_names(swap, "use crate::vm::Vm;\n        self.fs.inodes.get(inode);"),
        ["2: swap must not name fs's `fs`"]
    );
    assert_eq!(wrong_names(swap, "use crate::vm::Vm;\n        sc.fs = true;"), [""; 0]);
    assert_eq!(
        wrong_names(swap, "use crate::inode::Inode;"),
        ["1: crate::inode is no folder of src"]
    );
}
