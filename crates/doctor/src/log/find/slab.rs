//! Slab caches whose allocation of a page failed.

use std::sync::LazyLock;

use regex::Regex;
use serde::Serialize;

use super::about::About;
use crate::log::Line;

/// Such a line contains at least one of these strings.
pub(in crate::log) const MARKS: [&str; 2] = [UNABLE, CACHE_LINE];
const UNABLE: &str = ": Unable to allocate memory on ";
const CACHE_LINE: &str = "object size:";
/// The largest number of lines between the two lines.
const BETWEEN: usize = 6;

static FLAGS: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"gfp=(0x[0-9a-f]+(?:\([A-Za-z0-9_|]+\))?)"));
static CACHE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"cache: ([^,(]+)(?:\(\d+:([^)]*)\))?, object size.*?(?:min order: (\d+)|, order: (\d+)|$)",
    )
});

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the pattern is valid")
}

/// A slab cache whose allocation failed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Slab {
    /// The line that reports it.
    pub line: usize,
    /// Its name.
    pub cache: Option<String>,
    /// Its memory cgroup, which is a part of its name up to 5.8.
    pub cgroup: Option<String>,
}

/// Reads the two lines about a cache.
#[derive(Default)]
pub(super) struct Parser {
    first: Option<(Line, String)>,
}

impl Parser {
    /// Reads a line. After the second, returns the number of the first and the cache.
    pub(super) fn push(&mut self, line: &Line) -> Option<(Line, About)> {
        let text = &line.text;
        if text.contains(UNABLE) && (text.contains("SLUB") || text.contains("SLAB")) {
            let flags = FLAGS.captures(text).map_or(String::new(), |found| found[1].to_owned());
            self.first = Some((line.clone(), flags));
            return None;
        }
        if !text.contains(CACHE_LINE) {
            return None;
        }
        let (first, flags) = self.first.take()?;
        let found = CACHE.captures(text).filter(|_| line.number - first.number <= BETWEEN)?;
        let word = |group: usize| found.get(group).map(|word| word.as_str().to_owned());
        let order = word(3).or(word(4)).and_then(|order| order.parse().ok());
        Some((first, About::Slab { cache: word(1), cgroup: word(2), order, flags }))
    }
}

impl Slab {
    /// Makes it of what its lines say.
    pub(super) fn of(line: usize, about: &About) -> Option<Self> {
        match about {
            About::Slab { cache, cgroup, .. } => {
                Some(Self { line, cache: cache.clone(), cgroup: cgroup.clone() })
            }
            _ => None,
        }
    }

    /// Returns whether the lines are about this cache.
    pub(super) fn is_of(&self, about: &About) -> bool {
        matches!(about, About::Slab { cache, cgroup, .. } if *cache == self.cache && *cgroup == self.cgroup)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_of_every_version_are_read() {
        for (first, second, cache, cgroup, order, flags) in [
            (
                "SLUB: Unable to allocate memory on node -1 (gfp=0x20)",
                "  cache: kmalloc-1024(1793:c8ed), object size: 1024, buffer size: 1024, default order: 3, min order: 0",
                "kmalloc-1024",
                Some("c8ed"),
                0,
                "0x20",
            ),
            (
                "SLUB: Unable to allocate memory on CPU 3 (of node 0) on node -1, gfp=0x900(GFP_NOWAIT|__GFP_ZERO)",
                "  cache: page->ptl, object size: 72, buffer size: 72, default order: 0, min order: 0",
                "page->ptl",
                None,
                0,
                "0x900(GFP_NOWAIT|__GFP_ZERO)",
            ),
            (
                "SLAB: Unable to allocate memory on node 0 (gfp=0x20)",
                "  cache: TCP, object size: 1728, order: 1",
                "TCP",
                None,
                1,
                "0x20",
            ),
        ] {
            let mut parser = Parser::default();
            let line =
                |number, text: &str| Line { number, text: text.to_owned(), ..Line::default() };
            assert_eq!(parser.push(&line(4, first)), None);
            assert_eq!(parser.push(&line(5, "  node 0: slabs: 663, objs: 20964, free: 0")), None);
            let about = About::Slab {
                cache: Some(cache.to_owned()),
                cgroup: cgroup.map(str::to_owned),
                order: Some(order),
                flags: flags.to_owned(),
            };
            assert_eq!(parser.push(&line(6, second)), Some((line(4, first), about)));
            assert_eq!(parser.push(&line(7, second)), None);
        }
    }
}
