//! Finds the tests of the crates that an adapter stands in for, in the sources that cargo fetched.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of a dependency's sources.
fn sources(metadata: &str, package: &str) -> PathBuf {
    let manifest = format!("/{package}/Cargo.toml");
    let end = metadata.find(&manifest).unwrap_or_else(|| panic!("{package} is no dependency"));
    let start = metadata[..end].rfind('"').expect("JSON") + 1;
    PathBuf::from(&metadata[start..end]).join(package)
}

fn modules(folder: &Path, files: &[&str]) -> String {
    let module = |file: &&str| {
        let path = folder.join(file);
        let name = path.file_stem().expect("a file").to_str().expect("a name").to_owned();
        format!("#[path = {path:?}]\nmod {name};\n")
    };
    files.iter().map(module).collect()
}

fn main() {
    println!("cargo::rerun-if-changed=Cargo.lock");
    // The suites' tests of statistics ask for it.
    println!("cargo::rustc-check-cfg=cfg(feature, values(\"stats\"))");
    println!("cargo::rustc-check-cfg=cfg(audit)");
    println!("cargo::rustc-cfg=feature=\"stats\"");
    let variable = |name| env::var(name).expect("cargo sets it");
    let target = variable("TARGET");
    let metadata = Command::new(variable("CARGO"))
        .args(["metadata", "--locked", "--format-version=1", "--filter-platform"])
        .arg(target)
        .output()
        .expect("cargo runs");
    assert!(metadata.status.success(), "{}", String::from_utf8_lossy(&metadata.stderr));
    let metadata = String::from_utf8(metadata.stdout).expect("JSON");
    let suite = sources(&metadata, "frame-alloc-0.1.0");
    // Its other tests look into its own allocator.
    let text = modules(&suite, &["tests/conformance.rs", "tests/property.rs"]);
    let out = PathBuf::from(variable("OUT_DIR"));
    fs::write(out.join("frame_alloc.rs"), text).expect("it can be written");
}
