//! Gives `PAGEBLOCK_BUILD`: a digest of the sources that decide what the program computes, so that nothing that another
//! build kept is taken for its own. Of a released package, whose siblings are elsewhere, the version decides.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// The crates whose code decides what is computed.
const CRATES: [&str; 10] = [
    "pageblock",
    "kernel",
    "vm",
    "recording",
    "measure",
    "replay",
    "closed-loop",
    "simulate",
    "doctor",
    "plan",
];

fn main() -> io::Result<()> {
    let manifest = env::var("CARGO_MANIFEST_DIR").map_err(io::Error::other)?;
    let mut digest = blake3::Hasher::new();
    for name in CRATES {
        let sources = Path::new(&manifest).join("..").join(name).join("src");
        if !sources.is_dir() {
            continue;
        }
        println!("cargo::rerun-if-changed={}", sources.display());
        let mut files = Vec::new();
        files_below(&sources, &mut files)?;
        files.sort_unstable();
        for file in files {
            let content = fs::read(&file)?;
            digest.update(&(content.len() as u64).to_le_bytes());
            digest.update(&content);
        }
    }
    println!("cargo::rustc-env=PAGEBLOCK_BUILD={}", &digest.finalize().to_hex()[..16]);
    Ok(())
}

fn files_below(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            files_below(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}
