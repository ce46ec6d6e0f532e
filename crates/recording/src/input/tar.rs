//! The subset of tar that `static.tar` needs: names and contents of regular files.

use crate::input::bytes::Input;
use crate::input::error::Error;

const BLOCK_BYTES: usize = 512;
/// The maximum size of a file: real ones are settings and format files of a few kilobytes each.
const FILE_LIMIT_BYTES: u64 = 16 << 20;
const ARCHIVE_LIMIT_BYTES: u64 = 64 << 20;

/// Calls `each` with the name and content of every regular file.
///
/// # Errors
/// If the archive is damaged or exceeds 64 MiB, or a file in it 16 MiB, or `each` fails.
pub(crate) fn each_file(
    mut input: Input,
    mut each: impl FnMut(&str, Vec<u8>) -> Result<(), Error>,
) -> Result<(), Error> {
    loop {
        let at = input.place();
        if at.offset > ARCHIVE_LIMIT_BYTES {
            return Err(Error::unexpected(at, "more data", "an archive of at most 64 MiB"));
        }
        let mut header = [0u8; BLOCK_BYTES];
        input.read_exact(&mut header, "a tar header")?;
        if header.iter().all(|&b| b == 0) {
            return Ok(());
        }
        if !header[257..].starts_with(b"ustar") {
            return Err(Error::malformed(
                at,
                &header[257..262],
                "a tar header with the mark ustar",
            ));
        }
        let size = octal(&header[124..136]).filter(|&size| size <= FILE_LIMIT_BYTES);
        let Some(size) = size else {
            return Err(Error::malformed(at, &header[124..136], "an octal size up to 16 MiB"));
        };
        let mut content = vec![0; size as usize];
        input.read_exact(&mut content, "a file of a tar archive")?;
        let mut padding = vec![0; content.len().next_multiple_of(BLOCK_BYTES) - content.len()];
        input.read_exact(&mut padding, "the padding of a tar archive")?;
        if matches!(header[156], b'0' | 0) {
            each(&String::from_utf8_lossy(until_nul(&header[..100])), content)?;
        }
    }
}

fn until_nul(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len())]
}

fn octal(field: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(until_nul(field)).ok()?;
    u64::from_str_radix(text.trim(), 8).ok()
}
