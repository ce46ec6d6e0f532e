//! The programs that a guest runs, and the shared libraries that they need, from the host.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::Error;

/// The name of the guest's program, which is built and installed beside `pageblock`.
pub const NAME: &str = "pageblock-guest";

/// A file of the host for the guest, under the path that it has there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostFile {
    /// The path in the guest.
    pub path: String,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// Returns the guest's program beside `own`, the running program, and `own` itself where it has to record; with the
/// libraries of both.
///
/// # Errors
/// [`Error::Program`] if the guest's program is not there, or [`Error::File`].
pub fn files(own: &Path, record: bool) -> Result<Vec<HostFile>, Error> {
    let guest = own.with_file_name(NAME);
    if !guest.is_file() {
        return Err(Error::Program(format!(
            "{}: the guest's program is missing; cargo build -p pageblock-cli makes it beside pageblock",
            guest.display()
        )));
    }
    let mut files = vec![HostFile { path: format!("/{NAME}"), bytes: loadable(&guest)? }];
    if record {
        files.push(HostFile { path: "/pageblock".to_owned(), bytes: loadable(own)? });
    }
    let mut needed = BTreeSet::new();
    for (program, file) in [guest.as_path(), own].into_iter().zip(&files) {
        if interpreter(&file.bytes) {
            needed.append(&mut libraries(program)?);
        }
    }
    for library in needed {
        let bytes = fs::read(&library).map_err(Error::at(&library))?;
        files.push(HostFile { path: library.display().to_string(), bytes });
    }
    Ok(files)
}

/// Reads a program without what is not loaded: symbols and debug information, which stand at its end.
fn loadable(path: &Path) -> Result<Vec<u8>, Error> {
    let mut bytes = fs::read(path).map_err(Error::at(path))?;
    let end = headers(&bytes).filter(|header| header.kind == LOAD).map(|header| header.end).max();
    match end {
        Some(end) if end <= bytes.len() as u64 => bytes.truncate(end as usize),
        _ => return Err(Error::Program(format!("{} is not a program for x86-64", path.display()))),
    }
    // No table of sections.
    bytes[0x28..0x30].fill(0);
    bytes[0x3a..0x40].fill(0);
    Ok(bytes)
}

const LOAD: u32 = 1;
const INTERPRETER: u32 = 3;

struct Segment {
    kind: u32,
    end: u64,
}

/// Returns the program headers of a 64-bit ELF file; none of another file.
fn headers(bytes: &[u8]) -> impl Iterator<Item = Segment> {
    let number = |at: usize, len: usize| {
        let field = bytes.get(at..at + len)?;
        Some(field.iter().rev().fold(0_u64, |value, &byte| value << 8 | u64::from(byte)))
    };
    let elf = bytes.starts_with(b"\x7fELF\x02\x01");
    let count = number(0x38, 2).filter(|_| elf).unwrap_or(0);
    let table = number(0x20, 8).unwrap_or(0);
    (0..count).filter_map(move |at| {
        let header = usize::try_from(table.checked_add(at * 56)?).ok()?;
        let end = number(header + 8, 8)?.checked_add(number(header + 32, 8)?)?;
        Some(Segment { kind: number(header, 4)? as u32, end })
    })
}

/// Reports whether a program needs a dynamic linker.
fn interpreter(bytes: &[u8]) -> bool {
    headers(bytes).any(|header| header.kind == INTERPRETER)
}

/// Returns the files of the libraries that a program needs, the dynamic linker among them, which is asked for them.
fn libraries(program: &Path) -> Result<BTreeSet<PathBuf>, Error> {
    let asked =
        Command::new(program).env("LD_TRACE_LOADED_OBJECTS", "1").stdin(Stdio::null()).output();
    let text = asked.map_err(Error::at(program))?.stdout;
    let mut list = BTreeSet::new();
    for line in String::from_utf8_lossy(&text).lines() {
        // `libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x...)`, or the linker's path alone.
        if let Some(path) = line.split_whitespace().find(|word| word.starts_with('/')) {
            list.insert(fs::canonicalize(path).map_err(Error::at(Path::new(path)))?);
        }
    }
    match list.is_empty() {
        true => Err(Error::Program(format!(
            "{}: its dynamic linker does not tell which libraries it needs",
            program.display()
        ))),
        false => Ok(list),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_cut_behind_what_is_loaded() {
        let own = std::env::current_exe().unwrap();
        let whole = fs::metadata(&own).unwrap().len();
        let cut = loadable(&own).unwrap();
        assert!((cut.len() as u64) < whole && interpreter(&cut));
        let error = loadable(Path::new("/proc/version")).unwrap_err().to_string();
        assert_eq!(error, "/proc/version is not a program for x86-64");
    }

    #[test]
    fn a_program_needs_its_linker() {
        let found = libraries(&std::env::current_exe().unwrap()).unwrap();
        assert!(found.iter().any(|path| path.to_string_lossy().contains("ld-")), "{found:?}");
        assert!(found.iter().all(|path| path.to_string_lossy().contains(".so")), "{found:?}");
    }
}
