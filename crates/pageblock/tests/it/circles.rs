//! Circles among the files of a crate: files that import each other, directly or through others. For tests of `crates/measure`
//! and `crates/recording`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::source::{code, rust_files};

/// The modules of a crate by their path, such as `state::paths` (the root is empty), and the modules each of them names.
pub(crate) type Imports = BTreeMap<String, BTreeSet<String>>;

/// Returns the module of a file below `src`.
fn module_of(file: &Path) -> String {
    let parts: Vec<String> = file
        .with_extension("")
        .iter()
        .map(|part| part.to_string_lossy().into_owned())
        .filter(|part| part != "mod" && part != "lib")
        .collect();
    parts.join("::")
}

/// Returns the code of a file without comments and unit tests, in one line.
fn code_of(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    text.lines().map(code).map(str::trim).collect::<Vec<_>>().join(" ")
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Returns the paths that begin with a prefix in a code; a group is all of its first names.
fn paths_after(code: &str, prefix: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices(prefix) {
        if code[..at].ends_with(|c| is_name(c) || c == '$' || c == ':') {
            continue;
        }
        let mut rest = &code[at + prefix.len()..];
        let mut path = Vec::new();
        loop {
            if let Some(group) = rest.strip_prefix('{') {
                let group = group.split('}').next().unwrap_or_default();
                for name in group.split(',').map(str::trim) {
                    let name = name.split(|c| !is_name(c)).next().unwrap_or_default();
                    found.push(path.iter().cloned().chain([name.to_owned()]).collect());
                }
                break;
            }
            let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
            path.push(rest[..end].to_owned());
            match rest[end..].strip_prefix("::") {
                Some(more) => rest = more,
                None => {
                    found.push(path);
                    break;
                }
            }
        }
    }
    found
}

/// Returns the module that a path from `base` names: the longest beginning that is one.
fn resolve(modules: &BTreeSet<String>, base: &str, path: &[String]) -> String {
    let mut module = base.to_owned();
    for name in path {
        let part = if module.is_empty() { name.clone() } else { format!("{module}::{name}") };
        if !modules.contains(&part) {
            break;
        }
        module = part;
    }
    module
}

fn parent(module: &str) -> &str {
    module.rsplit_once("::").map_or("", |(parent, _)| parent)
}

/// Returns which module names which, from the texts of the modules. A parent that uses its parts without a prefix does not
/// name them.
pub(crate) fn imports_in(texts: &BTreeMap<String, String>) -> Imports {
    let modules: BTreeSet<String> = texts.keys().cloned().collect();
    let mut imports = Imports::new();
    for (module, text) in texts {
        let code = code_of(text);
        let mut named = BTreeSet::new();
        for (prefix, base) in
            [("crate::", ""), ("super::", parent(module)), ("self::", module.as_str())]
        {
            let paths = paths_after(&code, prefix);
            named.extend(paths.iter().map(|path| resolve(&modules, base, path)));
        }
        named.remove(module);
        imports.insert(module.clone(), named);
    }
    imports
}

/// Returns which file of a crate names which.
pub(crate) fn imports_of(src: &Path) -> Imports {
    let files = rust_files(src).into_iter().filter(|file| !file.ends_with("tests.rs"));
    let texts = files.map(|file| {
        let module = module_of(file.strip_prefix(src).unwrap());
        (module, fs::read_to_string(file).unwrap())
    });
    imports_in(&texts.collect())
}

/// Returns the modules that a module reaches.
fn reached(imports: &Imports, from: &str) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    let mut next: Vec<&String> = imports[from].iter().collect();
    while let Some(module) = next.pop() {
        if all.insert(module.clone()) {
            next.extend(&imports[module]);
        }
    }
    all
}

/// Returns the circles: sets of modules that all reach each other.
pub(crate) fn circles(imports: &Imports) -> BTreeSet<BTreeSet<String>> {
    let reached: BTreeMap<&String, _> =
        imports.keys().map(|module| (module, reached(imports, module))).collect();
    let circle = |(&module, all): (&&String, &BTreeSet<String>)| -> BTreeSet<String> {
        all.iter().filter(|&other| reached[other].contains(module)).cloned().collect()
    };
    reached.iter().map(circle).filter(|circle| circle.len() > 1).collect()
}

/// Returns the circles of files that each import also from their parts. A parent and its parts are none.
pub(crate) fn circles_but_of_parts(mut imports: Imports) -> Vec<BTreeSet<String>> {
    let modules: Vec<String> = imports.keys().cloned().collect();
    for part in &modules {
        if let Some(of_parent) = imports.get_mut(parent(part)).filter(|_| !part.is_empty()) {
            of_parent.insert(part.clone());
        }
    }
    let is_of_one = |circle: &BTreeSet<String>| {
        circle.iter().any(|top| {
            !top.is_empty() && circle.iter().all(|part| part == top || parent(part) == top)
        })
    };
    circles(&imports).into_iter().filter(|circle| !is_of_one(circle)).collect()
}

#[test]
fn a_circle_is_found() {
    let of = |files: &[(&str, &str)]| {
        let texts = files.iter().map(|&(module, text)| (module.to_owned(), text.to_owned()));
        circles_but_of_parts(imports_in(&texts.collect())).into_iter().flatten().collect::<Vec<_>>()
    };
    let (a, b) = ("use crate::b::{\n    B,\n    C,\n};", "fn f() -> crate::a::A {}");
    assert_eq!(of(&[("", "mod a;"), ("a", a), ("b", b)]), ["a", "b"]);
    assert_eq!(of(&[("", "mod a;"), ("a", a), ("b", "// crate::a::A")]), [""; 0]);
    let tests = "#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}";
    assert_eq!(of(&[("", "mod a;"), ("a", a), ("b", tests)]), [""; 0]);
    // A parent and its part; a part of a part through another file.
    assert_eq!(of(&[("", ""), ("a", "use self::p::P;"), ("a::p", "use super::{A};")]), [""; 0]);
    let through = [("", ""), ("a", ""), ("a::p", "use crate::b::B;"), ("b", "use crate::a::A;")];
    assert_eq!(of(&through), ["a", "a::p", "b"]);
    // Whoever imports from the crate's root imports from all.
    assert_eq!(of(&[("", "pub use a::A;"), ("a", "use crate::find;")]), ["", "a"]);
}
