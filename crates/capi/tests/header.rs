//! Checks that `include/pageblock.h` is cbindgen's output for the sources; `PB_WRITE_HEADER=1` writes it.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// In the order of the header.
const SOURCES: &[&str] = &[
    "status", "gfp", "memory", "setup", "extent", "cpu", "bulk", "place", "drain", "contig",
    "counters", "check", "dump", "lock",
];

fn source(name: &str) -> PathBuf {
    root().join("src").join(name).with_extension("rs")
}

fn made() -> String {
    let config = cbindgen::Config::from_file(root().join("cbindgen.toml")).unwrap();
    let builder = cbindgen::Builder::new().with_config(config);
    let builder = SOURCES.iter().fold(builder, |builder, name| builder.with_src(source(name)));
    let mut text = Vec::new();
    builder.generate().unwrap().write(&mut text);
    // An allocator changes behind the references that functions take, so it must not be const.
    let text = String::from_utf8(text).unwrap();
    let text = text.replace("const struct pb_allocator *", "struct pb_allocator *");
    text.replace(" * # Safety\n * ", " * Promise: ")
}

#[test]
fn header_is_generated_from_the_sources() {
    let path = root().join("include/pageblock.h");
    let made = made();
    if std::env::var_os("PB_WRITE_HEADER").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, made).unwrap();
        return;
    }
    let there = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        there == made,
        "pageblock.h is out of date: PB_WRITE_HEADER=1 cargo test -p pageblock-capi"
    );
}

#[test]
fn every_source_is_in_the_header() {
    let lib = fs::read_to_string(source("lib")).unwrap();
    let modules = lib.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'));
    let mut modules: Vec<_> = modules.collect();
    let mut sources = SOURCES.to_vec();
    modules.sort_unstable();
    sources.sort_unstable();
    assert_eq!(modules, sources);
}

#[test]
fn unsafe_blocks_stand_in_two_files() {
    for name in SOURCES.iter().filter(|name| !["memory", "lock"].contains(name)) {
        let text = fs::read_to_string(source(name)).unwrap();
        let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        assert!(!text.contains("unsafe {") && !text.contains("unsafe impl"), "{name}.rs");
    }
}
