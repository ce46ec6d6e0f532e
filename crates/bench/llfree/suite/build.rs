//! Finds LLFree's test suite in the sources that cargo fetched.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=Cargo.lock");
    println!("cargo::rustc-check-cfg=cfg(feature, values(\"llc\", \"tree_huge_1\"))");
    let variable = |name| env::var(name).expect("cargo sets it");
    let metadata = Command::new(variable("CARGO"))
        .args(["metadata", "--locked", "--format-version=1", "--filter-platform"])
        .arg(variable("TARGET"))
        .output()
        .expect("cargo runs");
    assert!(metadata.status.success(), "{}", String::from_utf8_lossy(&metadata.stderr));
    let metadata = String::from_utf8(metadata.stdout).expect("JSON");
    // The package is in the folder `core` of its repository.
    let parts = metadata.split('"').filter_map(|part| part.strip_suffix("/core/Cargo.toml"));
    let repository = parts.into_iter().find(|part| part.contains("llfree")).expect("LLFree");
    let eval = PathBuf::from(repository).join("eval");
    let module =
        |name: &str, file: &str| format!("#[path = {:?}]\npub mod {name};\n", eval.join(file));
    let text = module("mmap", "src/mmap.rs") + &module("integration", "tests/integration.rs");
    let out = PathBuf::from(variable("OUT_DIR"));
    fs::write(out.join("suite.rs"), text).expect("it can be written");
}
