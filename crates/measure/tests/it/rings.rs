//! The order of the crate's folders, and that files import each other in no large circle. What unit tests import is not
//! held.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use crate::source::{code, named_after, rust_files};

/// The folders of `src`, lowest first: each imports only from itself and from those before it.
const RINGS: [&str; 7] =
    ["value", "statistics", "certificate", "run", "catalogue", "tables", "compare"];

/// The most files that may import each other: a parent and its parts.
const CIRCLE: usize = 3;

/// The code of each file by its module's path: `value::history::cell`.
type Files = BTreeMap<String, String>;

fn src() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// Reads the files of the folders without their unit tests and comments.
fn files() -> Files {
    let mut files = Files::new();
    for file in RINGS.iter().flat_map(|ring| rust_files(&src().join(ring))) {
        if file.ends_with("tests.rs") {
            continue;
        }
        let name = file.strip_prefix(src()).unwrap().with_extension("").display().to_string();
        let module = name.trim_end_matches("/mod").replace('/', "::");
        let text = fs::read_to_string(&file).unwrap();
        let text = text.split("\n#[cfg(test)]\n").next().unwrap();
        files.insert(module, text.lines().map(code).collect::<Vec<_>>().join("\n"));
    }
    files
}

fn ring_of(module: &str) -> Option<usize> {
    RINGS.iter().position(|&ring| module.split("::").next() == Some(ring))
}

/// Returns the folders that a file of a ring must not name.
fn wrong_names(ring: usize, text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    for named in named_after(text, "crate::") {
        match ring_of(named) {
            Some(other) if other <= ring => {}
            Some(_) => wrong.push(format!("{} must not import from {named}", RINGS[ring])),
            None => wrong.push(format!("crate::{named} is no folder of src")),
        }
    }
    if text.contains("super::super") {
        wrong.push("write a path from the crate's root, not super::super".to_owned());
    }
    wrong
}

/// Returns the paths that a text names after a prefix: `a::b::c` of `a::b::c` and of `a::b::{c, D}`.
fn paths_after<'t>(text: &'t str, prefix: &'t str) -> impl Iterator<Item = String> + 't {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let starts = move |at: usize| !text[..at].ends_with(|c| is_part(c) || c == ':' || c == '$');
    let found = text.match_indices(prefix).filter(move |&(at, _)| starts(at));
    found.flat_map(move |(at, _)| {
        let rest = &text[at + prefix.len()..];
        let end = rest.find(|c| !is_part(c) && c != ':').unwrap_or(rest.len());
        let path = rest[..end].trim_end_matches(':');
        match rest[end..].strip_prefix('{').and_then(|group| group.split_once('}')) {
            Some((group, _)) => group
                .split(',')
                .map(|item| format!("{path}::{}", item.trim()).trim_start_matches(':').to_owned())
                .collect(),
            None => vec![path.to_owned()],
        }
    })
}

/// Returns the file that has what a path names: its longest beginning that is a module.
fn file_of<'f>(files: &'f Files, path: &str) -> Option<&'f str> {
    let mut path = path;
    loop {
        if let Some((module, _)) = files.get_key_value(path) {
            return Some(module);
        }
        path = path.rsplit_once("::")?.0;
    }
}

/// Returns for each file those that it imports from.
fn imports(files: &Files) -> BTreeMap<&str, BTreeSet<&str>> {
    let of_file = |(module, text): (&'_ String, &'_ String)| -> BTreeSet<&str> {
        let parent = module.rsplit_once("::").map_or("", |(parent, _)| parent);
        let absolute = paths_after(text, "crate::");
        let of_parent = paths_after(text, "super::").map(|path| format!("{parent}::{path}"));
        let own = paths_after(text, "self::").map(|path| format!("{module}::{path}"));
        let all = absolute.chain(of_parent).chain(own);
        all.filter_map(|path| file_of(files, &path)).filter(|other| other != module).collect()
    };
    files.iter().map(|(module, text)| (module.as_str(), of_file((module, text)))).collect()
}

/// Returns the sets of files each of which imports from each other, directly or not.
fn circles<'f>(imports: &BTreeMap<&'f str, BTreeSet<&'f str>>) -> BTreeSet<BTreeSet<&'f str>> {
    let reached = |from: &'f str| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
        while let Some(module) = next.pop() {
            next.extend(imports[module].iter().filter(|&&other| seen.insert(other)));
        }
        seen
    };
    let all: BTreeMap<&str, BTreeSet<&str>> =
        imports.keys().map(|&module| (module, reached(module))).collect();
    let circle = |(&module, reached): (&&'f str, &BTreeSet<&'f str>)| -> BTreeSet<&'f str> {
        reached.iter().copied().filter(|&other| all[other].contains(module)).collect()
    };
    all.iter().map(circle).filter(|circle| circle.len() > 1).collect()
}

#[test]
fn folders_name_only_those_before_them() {
    let mut wrong = Vec::new();
    for (module, text) in &files() {
        let names = wrong_names(ring_of(module).unwrap(), text);
        wrong.extend(names.into_iter().map(|what| format!("{module}: {what}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Every file is in one of the folders, so that the test above reads it.
#[test]
fn only_the_root_is_outside_of_the_folders() {
    let names = fs::read_dir(src()).unwrap().map(|entry| entry.unwrap().file_name());
    let outside: Vec<String> = names
        .map(|name| name.into_string().unwrap())
        .filter(|name| !RINGS.contains(&name.as_str()))
        .collect();
    assert_eq!(outside, ["lib.rs"]);
}

#[test]
fn no_more_than_three_files_import_each_other() {
    let files = files();
    for circle in circles(&imports(&files)) {
        assert!(circle.len() <= CIRCLE, "these files import each other: {circle:?}");
    }
}

/// A run is plain data: its file names nothing that computes from runs.
#[test]
fn a_run_knows_nothing_that_computes_from_it() {
    let files = files();
    let imports = imports(&files);
    let data = ["run::calibration", "run::tables"];
    let of_run: Vec<&str> =
        imports["run"].iter().copied().filter(|module| module.starts_with("run::")).collect();
    assert_eq!(of_run, data);
    for module in data {
        assert!(!imports[module].contains("run"), "{module} imports from its run");
    }
}

/// What a comparison consists of takes its runs grouped; only what a caller asks for by itself groups them.
#[test]
fn a_comparison_groups_its_runs_once() {
    let files = files();
    let group = |text: &String| text.matches("Policies::of(").count();
    let grouping: Vec<(&str, usize)> =
        files.iter().map(|(module, text)| (module.as_str(), group(text))).collect();
    let grouping: Vec<_> = grouping.into_iter().filter(|&(_, times)| times > 0).collect();
    let alone = ["compare::full", "compare::seeds", "compare::summary"];
    assert_eq!(grouping, alone.map(|module| (module, 1)));
}

#[test]
fn an_arrow_back_and_a_circle_are_found() {
    let ring = ring_of("run::formula").unwrap();
    assert_eq!(wrong_names(ring, "use crate::value::names;"), [""; 0]);
    assert_eq!(wrong_names(ring, "use crate::tables::Table;"), ["run must not import from tables"]);
    assert_eq!(wrong_names(ring, "let x = crate::Run;"), ["crate::Run is no folder of src"]);
    let file = |(module, text): (&str, &str)| (module.to_owned(), text.to_owned());
    let files: Files = [
        ("run", "pub use self::a::A;"),
        ("run::a", "use super::b::{self, B};"),
        ("run::b", "use crate::run::{c::C, D};"),
        ("run::c", "use super::{Run, a};"),
        ("run::d", "use super::Run;"),
    ]
    .map(file)
    .into();
    let found = circles(&imports(&files));
    assert_eq!(found, [["run", "run::a", "run::b", "run::c"].into()].into());
}
