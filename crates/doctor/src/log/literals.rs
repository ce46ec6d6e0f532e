//! A search for any number of strings at once.

use aho_corasick::AhoCorasick;

/// With more strings than this a searcher examines one byte at a time, otherwise 16.
const AT_ONCE: usize = 64;

/// Finds whether a text has one of some strings. Its time grows with each group of [`AT_ONCE`] strings, not with each string.
pub(super) struct Literals(Vec<AhoCorasick>);

impl Literals {
    /// Returns a search for strings. A string that contains another is left out.
    pub(super) fn new(mut all: Vec<&str>) -> Self {
        all.sort_by_key(|text| text.len());
        let mut kept: Vec<&str> = Vec::new();
        for text in all {
            if !kept.iter().any(|known| text.contains(known)) {
                kept.push(text);
            }
        }
        let searcher = |texts| AhoCorasick::new(texts).expect("short texts make a searcher");
        Self(kept.chunks(AT_ONCE).map(searcher).collect())
    }

    /// Returns the number of searches.
    #[cfg(test)]
    pub(super) const fn searches(&self) -> usize {
        self.0.len()
    }

    /// Returns whether a text has one of the strings.
    pub(super) fn is_in(&self, text: &[u8]) -> bool {
        self.0.iter().any(|searcher| searcher.is_match(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_of_strings_is_found() {
        let names: Vec<String> = (0..5 * AT_ONCE).map(|n| format!("<{n}>")).collect();
        let literals = Literals::new(names.iter().map(String::as_str).chain(["<7>>"]).collect());
        assert_eq!(literals.0.len(), 5);
        assert!(names.iter().all(|name| literals.is_in(format!("a {name} b").as_bytes())));
        assert!(!literals.is_in(b"<320> 319> <x"));
    }
}
