//! Tests that the library without the feature `std` needs only C's memory functions and `abort`. Builds it
//! again, as it needs another panic strategy.

use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn tmp() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("bare")
}

fn succeeded(command: &mut Command) {
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}\n{errors}");
}

fn build() -> PathBuf {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["rustc", "--lib", "--release", "--locked", "--no-default-features"]);
    cargo.args(["--crate-type", "staticlib", "--config", "profile.release.panic='abort'"]);
    cargo.arg("--manifest-path").arg(root().join("Cargo.toml")).arg("--target-dir").arg(tmp());
    succeeded(&mut cargo);
    tmp().join("release/libpageblock_capi.a")
}

#[test]
fn library_without_std_needs_memory_functions_only() {
    if Command::new("gcc").arg("--version").output().is_err() {
        eprintln!("skipped: there is no gcc");
        return;
    }
    let library = build();
    let gcc = |name: &str, options: &[&str]| {
        let mut gcc = Command::new("gcc");
        gcc.args(["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-pedantic"]).args(options);
        gcc.arg("-I").arg(root().join("include")).arg(root().join("tests/bare.c"));
        gcc.arg(&library).arg("-o").arg(tmp().join(name));
        succeeded(&mut gcc);
    };
    // The linker reports missing symbols; such a program has no start code to run it with.
    gcc("bare", &["-DBARE", "-ffreestanding", "-nostdlib", "-static", "-Wl,--gc-sections,-e,main"]);
    gcc("hosted", &[]);
    succeeded(&mut Command::new(tmp().join("hosted")));
}
