//! A kernel's log.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::error::{Place, Result, bail};

/// The size of a log above which it is refused: a year of a busy machine's kernel messages.
const LIMIT_MIB: u64 = 1024;

/// Reads a log from a file.
///
/// # Errors
/// If it cannot be read, or is too long.
pub fn read(path: &Path) -> Result<Vec<u8>> {
    let name = path.display().to_string();
    let mut file = File::open(path).at(|| name.clone())?;
    read_from(&mut file, &name)
}

/// Reads a log; errors name it.
///
/// # Errors
/// If it cannot be read, or is too long.
pub fn read_from(reader: &mut dyn Read, name: &str) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let limit = LIMIT_MIB << 20;
    reader.take(limit + 1).read_to_end(&mut bytes).at(|| name)?;
    if bytes.len() as u64 > limit {
        bail!("{name}: a log of more than {LIMIT_MIB} MiB; give the part with the report");
    }
    Ok(bytes)
}
