//! Links at a fixed address. Given here, not as flags of the compiler, which `RUSTFLAGS` would replace.

fn main() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/kernel.ld");
    println!("cargo:rerun-if-changed={script}");
    println!("cargo:rustc-link-arg-bins=-T{script}");
    println!("cargo:rustc-link-arg-bins=--no-pie");
}
