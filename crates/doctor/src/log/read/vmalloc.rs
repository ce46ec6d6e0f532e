//! Failures of `vmalloc`, which maps single pages side by side: of addresses, or of pages.

use std::sync::LazyLock;

use regex_lite::Regex;
use serde::Serialize;

/// Such a line contains at least one of these strings.
pub(in crate::log) const MARKS: [&str; 2] = ["vmalloc", "vmap allocation"];

static PART: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"vmalloc: allocation failure,? allocated (\d+) of (\d+) bytes"));
static WHOLE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?:vmalloc error: size|vmalloc: allocation failure:|vmap allocation for size|vmalloc_node_range for size) (\d+)",
    )
});

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the pattern is valid")
}

/// What was missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Lack {
    /// Room among the addresses of `vmalloc`.
    Addresses,
    /// Pages, or tables to map them.
    Pages,
    /// More was asked for than the machine has.
    Machine,
}

/// A failure of `vmalloc`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Vmalloc {
    /// The size of the request in bytes.
    pub bytes: u64,
    /// The part of it that was allocated, in bytes, if it is printed.
    pub had_bytes: Option<u64>,
    /// What was missing.
    pub lack: Lack,
}

impl Vmalloc {
    /// Parses the line of a failure.
    pub(in crate::log) fn read(text: &str) -> Option<Self> {
        if !MARKS.iter().any(|mark| text.contains(mark)) {
            return None;
        }
        if let Some(found) = PART.captures(text) {
            let (had, bytes) = (found[1].parse().ok()?, found[2].parse().ok()?);
            return Some(Self { bytes, had_bytes: Some(had), lack: Lack::Pages });
        }
        let bytes = WHOLE.captures(text)?[1].parse().ok()?;
        let has = |what: &str| text.contains(what);
        let lack = if has("exceeds total pages") {
            Lack::Machine
        } else if has("failed to allocate") || has("failed to map") || has("page order") {
            Lack::Pages
        } else {
            Lack::Addresses
        };
        Some(Self { bytes, had_bytes: None, lack })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_says_what_was_missing() {
        for (text, bytes, had_bytes, lack) in [
            (
                "a: vmalloc: allocation failure, allocated 8192 of 20480 bytes, mode:0x0",
                20_480,
                Some(8192),
                Lack::Pages,
            ),
            ("a: vmalloc: allocation failure: 8192 bytes", 8192, None, Lack::Addresses),
            (
                "a: vmalloc error: size 4096, vm_struct allocation failed, mode:0xdc0",
                4096,
                None,
                Lack::Addresses,
            ),
            (
                "a: vmalloc error: size 4096, page order 0, failed to allocate pages",
                4096,
                None,
                Lack::Pages,
            ),
            ("a: vmalloc error: size 4096, exceeds total pages", 4096, None, Lack::Machine),
            (
                "vmalloc_node_range for size 8192 failed: Address range restricted to 0xf000 - 0xff00",
                8192,
                None,
                Lack::Addresses,
            ),
            (
                "vmap allocation for size 4198400 failed: use vmalloc=<size> to increase size",
                4_198_400,
                None,
                Lack::Addresses,
            ),
        ] {
            assert_eq!(Vmalloc::read(text), Some(Vmalloc { bytes, had_bytes, lack }), "{text}");
        }
        assert_eq!(Vmalloc::read("vmalloc area is 32 TB"), None);
    }
}
