//! Invariants of ARCHITECTURE.md that the text of the code shows.

use std::fs;
use std::path::{Path, PathBuf};

use crate::rings::root;
use crate::source::{code, rust_files};

/// The most lines of a file, and of a function: what one reader can hold at once.
const FILE_LINES: usize = 500;
const FUNCTION_LINES: usize = 80;

/// A source file without its unit tests, which stand at its end or in a file of their own.
struct Source {
    /// Below the crate.
    path: String,
    text: String,
}

impl Source {
    /// The lines that are code, with their numbers.
    fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.lines().map(code))
    }

    /// The lines that hold one of some words.
    fn naming(&self, words: &[&str]) -> Vec<String> {
        let names = |line: &&str| words.iter().any(|&word| has_word(line, word));
        let found = self.lines().filter(|(_, line)| names(line));
        found.map(|(n, line)| format!("{}:{n}: {}", self.path, line.trim())).collect()
    }
}

/// Tells whether a word is in a line, not as part of a longer one.
fn has_word(line: &str, word: &str) -> bool {
    let inside = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        !line[..at].ends_with(inside) && !line[at + word.len()..].starts_with(inside)
    })
}

fn without_tests(text: &str) -> &str {
    text.find("\nmod tests {").map_or(text, |at| &text[..at])
}

fn sources_of(folder: &Path) -> Vec<Source> {
    let of_tests = |path: &PathBuf| {
        path.components().any(|part| {
            ["tests", "tests.rs", "testing.rs"].map(AsRef::as_ref).contains(&part.as_os_str())
        })
    };
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).unwrap();
        let path = path.strip_prefix(folder).unwrap().display().to_string();
        Source { path, text: without_tests(&text).to_owned() }
    };
    rust_files(folder).into_iter().filter(|path| !of_tests(path)).map(read).collect()
}

fn sources() -> Vec<Source> {
    sources_of(&root().join("src"))
}

/// The lines of all sources but those `except` that hold one of some words.
fn naming(sources: &[Source], except: &[&str], words: &[&str]) -> Vec<String> {
    let others = sources.iter().filter(|source| !except.contains(&source.path.as_str()));
    others.flat_map(|source| source.naming(words)).collect()
}

#[track_caller]
fn none(found: &[String]) {
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// The folders of a crate of the workspace; none where this crate stands alone.
fn neighbour(name: &str) -> Option<PathBuf> {
    let path = root().join("..").join(name);
    if !path.is_dir() {
        eprintln!("skipped: the crate stands alone, without {name}");
        return None;
    }
    Some(path)
}

#[test]
fn no_std_no_heap_no_float_and_no_time() {
    let sources = sources();
    let lib = sources.iter().find(|source| source.path == "lib.rs").unwrap();
    assert!(lib.lines().any(|(_, line)| line == "#![no_std]"));
    // For tests, model checkers and those who ask for its locks only.
    let gates = "#[cfg(any(test, loom, shuttle, feature = \"rmw\", feature = \"std\"))]";
    assert!(lib.text.contains(&format!("{gates}\nextern crate std;")));
    assert_eq!(lib.text.matches("extern crate").count(), 1);
    let std = naming(&sources, &["lib.rs", "base/sync.rs", "base/std_locks.rs"], &["std"]);
    let gated = |line: &String| line.ends_with("#[cfg(feature = \"std\")]");
    none(&std.into_iter().filter(|line| !gated(line)).collect::<Vec<_>>());
    none(&naming(&sources, &["lib.rs"], &["extern crate", "f32", "f64", "Instant"]));
}

#[test]
fn no_dependency() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let sections = manifest.split("\n[").skip(1);
    let names = sections.filter_map(|text| text.split_once(']')).map(|(name, _)| name);
    let of_crate: Vec<_> = names.filter(|name| name.ends_with("dependencies")).collect();
    // Those of model checkers, and of tests.
    let known = [
        "target.'cfg(loom)'.dependencies",
        "target.'cfg(shuttle)'.dependencies",
        "dev-dependencies",
        "target.'cfg(target_os = \"linux\")'.dev-dependencies",
    ];
    assert_eq!(of_crate, known);
}

/// So that `tests/it/locks.rs` counts each.
#[test]
fn read_modify_writes_stand_in_one_place() {
    let names = ["fetch_add", "fetch_sub", "fetch_or", "fetch_and", "fetch_xor", "fetch_nand"];
    let more =
        ["fetch_max", "fetch_min", "fetch_update", "compare_exchange", "compare_exchange_weak"];
    let mut found = naming(&sources(), &["base/sync.rs"], &names);
    found.extend(naming(&sources(), &["base/sync.rs"], &more));
    let ours = found.into_iter().filter(|line| !line.contains("sync::fetch_add"));
    none(&ours.collect::<Vec<_>>());
}

#[test]
fn unsafe_stands_where_memory_becomes_tables() {
    let sources = sources();
    let lib = sources.iter().find(|source| source.path == "lib.rs").unwrap();
    assert!(lib.text.contains("#![deny(unsafe_code)]"));
    none(&naming(&sources, &["table/memory.rs"], &["unsafe", "allow(unsafe_code)"]));
}

#[test]
fn unsafe_blocks_of_other_crates_stand_in_their_own_files() {
    for (name, files) in [
        ("capi", ["memory.rs", "lock.rs"]),
        ("bench", ["peers.rs", ""]),
        ("guest", ["inside/memory.rs", ""]),
        ("python", ["import.rs", ""]),
    ] {
        let Some(path) = neighbour(name) else { return };
        let sources = sources_of(&path.join("src"));
        let others = sources.iter().filter(|source| !files.contains(&source.path.as_str()));
        let lines =
            others.flat_map(|source| source.lines().map(|(n, line)| (&source.path, n, line)));
        let blocks =
            lines.filter(|(_, _, line)| line.contains("unsafe {") || line.contains("unsafe impl"));
        none(
            &blocks.map(|(path, n, line)| format!("{name}/{path}:{n}: {line}")).collect::<Vec<_>>(),
        );
    }
}

/// Presets know versions, what says which preset a mistyped name meant, and the formats of `/proc`.
#[test]
fn presets_and_proc_alone_know_versions() {
    let sources = sources();
    let known = ["policy/preset.rs", "policy/notation.rs", "api/proc.rs"];
    none(&naming(&sources, &known, &["version", "KernelFormat", "major", "minor"]));
    let named = sources.iter().filter(|source| !known.contains(&source.path.as_str()));
    let literal = |line: &str| line.contains("\"linux-") || line.contains("\"debian-");
    let lines = named.flat_map(|source| source.lines().map(|(n, line)| (&source.path, n, line)));
    let found = lines.filter(|(_, _, line)| literal(line));
    none(&found.map(|(path, n, line)| format!("{path}:{n}: {line}")).collect::<Vec<_>>());
}

/// The fields of a struct that more than `scope` may name.
fn wider_fields(text: &str, name: &str, scope: &[&str]) -> Vec<String> {
    let start = text.find(&format!("pub struct {name}")).expect(name);
    let body = &text[start..start + text[start..].find("\n}").unwrap()];
    let fields = body.lines().skip(1).filter(|line| line.trim_start().starts_with("pub"));
    let wider =
        fields.filter(|line| !scope.iter().any(|scope| line.trim_start().starts_with(scope)));
    wider.map(|line| format!("{name}: {}", line.trim())).collect()
}

#[test]
fn fields_of_zones_and_caches_are_private() {
    let read = |path: &str| fs::read_to_string(root().join("src").join(path)).unwrap();
    none(&wider_fields(&read("zone/mod.rs"), "Zone<'m", &[]));
    // What stands around `percpu/cache.rs` is `percpu/`.
    none(&wider_fields(&read("percpu/cache.rs"), "CpuCache", &["pub(super)"]));
    let wide =
        "pub struct CpuCache {\n    a: u32,\n    pub(super) b: u32,\n    pub(crate) c: u32,\n}\n";
    assert_eq!(wider_fields(wide, "CpuCache", &["pub(super)"]), ["CpuCache: pub(crate) c: u32,"]);
}

/// The functions of a formatted file that are too long, with their lines.
fn long_functions(text: &str) -> Vec<(String, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut long = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let indent = line.len() - line.trim_start().len();
        let before = line.split("fn ").next().unwrap_or_default();
        let declares = line.contains("fn ")
            && before.split_whitespace().all(|word| {
                ["pub", "const", "async", "unsafe", "extern", "\"C\""].contains(&word)
                    || word.starts_with("pub(")
            });
        if !declares {
            continue;
        }
        let ends = |line: &&str| {
            line.len() - line.trim_start().len() == indent
                && (*line == format!("{:indent$}}}", "") || line.ends_with(';'))
        };
        let length = match lines[at..].iter().position(ends) {
            Some(length) => length + 1,
            None => continue,
        };
        if length > FUNCTION_LINES {
            long.push((line.trim().to_owned(), length));
        }
    }
    long
}

#[test]
fn files_have_up_to_500_lines_and_functions_up_to_80() {
    let folders: Vec<PathBuf> = match fs::read_dir(root().join("..")) {
        Ok(crates) => crates.map(|entry| entry.unwrap().path()).collect(),
        // The crate stands alone.
        Err(_) => vec![root()],
    };
    for folder in folders
        .iter()
        .flat_map(|folder| ["src", "tests", "examples", "benches"].map(|part| folder.join(part)))
    {
        if !folder.is_dir() {
            continue;
        }
        for file in rust_files(&folder) {
            let text = fs::read_to_string(&file).unwrap();
            let lines = text.lines().count();
            assert!(lines <= FILE_LINES, "{} has {lines} lines", file.display());
            assert_eq!(long_functions(&text), [], "{}", file.display());
        }
    }
}

#[test]
fn a_long_function_is_found() {
    let body = |lines| {
        format!(
            "impl X {{\n    pub(crate) fn f(\n        a: u8,\n    ) {{\n{}    }}\n}}\n",
            "        a();\n".repeat(lines)
        )
    };
    assert!(long_functions(&body(FUNCTION_LINES - 4)).is_empty());
    assert_eq!(long_functions(&body(FUNCTION_LINES - 3)).len(), 1);
}

#[test]
fn words_are_found_whole() {
    assert!(has_word("    let x = unsafe { y };", "unsafe"));
    assert!(!has_word("#![deny(unsafe_code)]", "unsafe"));
}
