//! Failures of `vmalloc`, which maps pages at consecutive addresses: it lacks addresses, or pages.

use std::sync::LazyLock;

use regex::Regex;
use serde::Serialize;

/// Such a line contains at least one of these strings.
pub(in crate::log) const MARKS: [&str; 2] = ["vmalloc", "vmap allocation"];

static PART: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"vmalloc: allocation failure,? allocated (\d+) of(?: (\d+) bytes|\s*$)")
});
static WHOLE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?:vmalloc error: size|vmalloc: allocation failure:|vmap allocation for size|vmalloc_node_range for size) (\d+)",
    )
});

/// From 5.13 on large blocks are tried first. Up to 6.3 the kernel reports if there are none.
static ORDER: LazyLock<Regex> = LazyLock::new(|| pattern(r"page order (\d+)"));

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the pattern is valid")
}

/// The missing resource.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Lack {
    /// A range of addresses.
    Addresses,
    /// Pages, or tables to map them.
    Pages,
    /// Large blocks; it continues with single pages.
    Blocks,
    /// The request is larger than the machine's memory.
    Machine,
}

/// A failure of `vmalloc`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Vmalloc {
    /// The size of the request in bytes, if it is printed.
    pub bytes: Option<u64>,
    /// The part of it that was allocated, in bytes, if it is printed.
    pub had_bytes: Option<u64>,
    /// The missing resource.
    pub lack: Lack,
}

impl Vmalloc {
    /// Parses the line of a failure.
    pub(in crate::log) fn read(text: &str) -> Option<Self> {
        if !MARKS.iter().any(|mark| text.contains(mark)) {
            return None;
        }
        if let Some(found) = PART.captures(text) {
            // Mail may have wrapped the line before the request.
            let bytes = found.get(2).and_then(|bytes| bytes.as_str().parse().ok());
            return Some(Self { bytes, had_bytes: found[1].parse().ok(), lack: Lack::Pages });
        }
        let bytes = WHOLE.captures(text)?[1].parse().ok()?;
        let order = ORDER.captures(text).and_then(|found| found[1].parse::<u32>().ok());
        let has = |what: &str| text.contains(what);
        if has("failed to allocate pages") || order.is_some() {
            // The size is that of the pages that were allocated.
            let lack = if order.unwrap_or(0) > 0 { Lack::Blocks } else { Lack::Pages };
            return Some(Self { bytes: None, had_bytes: Some(bytes), lack });
        }
        let lack = if has("exceeds total pages") {
            Lack::Machine
        } else if has("failed to allocate") || has("failed to map") {
            Lack::Pages
        } else {
            Lack::Addresses
        };
        Some(Self { bytes: Some(bytes), had_bytes: None, lack })
    }

    /// Returns whether a line is the first of those about one failure.
    pub(in crate::log) fn is_first(text: &str) -> bool {
        text.contains("vmap allocation")
    }

    /// Returns the failure on a machine with this much memory in kB. Before 5.13 no line says that a request is larger or of
    /// size 0.
    pub(in crate::log) fn on(self, machine_kb: u64) -> Self {
        let is_larger = |bytes| bytes == 0 || (machine_kb > 0 && bytes >> 10 > machine_kb);
        let is_larger = self.lack == Lack::Addresses && self.bytes.is_some_and(is_larger);
        Self { lack: if is_larger { Lack::Machine } else { self.lack }, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_says_what_was_missing() {
        // Of the line with `page order 0` the printed number is the allocated part.
        for row in r#"
20480 | 8192 | Pages | a: vmalloc: allocation failure, allocated 8192 of 20480 bytes, mode:0x0
- | 8192 | Pages | vmalloc: allocation failure, allocated 8192 of
8192 | - | Addresses | a: vmalloc: allocation failure: 8192 bytes
4096 | - | Addresses | a: vmalloc error: size 4096, vm_struct allocation failed, mode:0xdc0
- | 4096 | Pages | a: vmalloc error: size 4096, page order 0, failed to allocate pages
- | 0 | Pages | a: vmalloc error: size 0, failed to allocate pages
- | 0 | Blocks | a: vmalloc error: size 0, page order 9, failed to allocate pages
4096 | - | Pages | a: vmalloc error: size 4096, failed to allocated page array size 8
4096 | - | Machine | a: vmalloc error: size 4096, exceeds total pages
8192 | - | Addresses | vmalloc_node_range for size 8192 failed: Address range restricted to 0xf000 - 0xff00
4198400 | - | Addresses | vmap allocation for size 4198400 failed: use vmalloc=<size> to increase size
"#
        .trim()
        .lines()
        {
            let (told, text) = row.rsplit_once(" | ").expect("a row has four parts");
            let Vmalloc { bytes, had_bytes, lack } = Vmalloc::read(text).expect(text);
            let number = |of: Option<u64>| of.map_or("-".to_owned(), |of| of.to_string());
            let seen = format!("{} | {} | {lack:?}", number(bytes), number(had_bytes));
            assert_eq!(seen, told, "{text}");
        }
        assert_eq!(Vmalloc::read("vmalloc area is 32 TB"), None);
        let old = Vmalloc::read("vmalloc: allocation failure: 17178820608 bytes").unwrap();
        assert_eq!((old.on(8 << 20).lack, old.on(0).lack), (Lack::Machine, Lack::Addresses));
        assert_eq!(old.on(32 << 20).lack, Lack::Addresses);
        let empty = Vmalloc::read("vmalloc: allocation failure: 0 bytes").unwrap();
        assert_eq!(empty.on(0).lack, Lack::Machine);
    }
}
