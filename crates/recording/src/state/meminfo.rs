//! `/proc/meminfo`.

use std::collections::BTreeMap;

/// The limit of figures, far above real ones: sums of some of them fit.
const LIMIT: i128 = 1 << 54;

/// `/proc/meminfo`: figures by name, without the colon.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MemInfo(BTreeMap<String, u64>);

impl MemInfo {
    /// Reads the text. Lines without a number are left out.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let figure = |line: &str| {
            let (name, rest) = line.split_once(':')?;
            // Some figures can go below zero for a moment.
            let value: i128 = rest.split_ascii_whitespace().next()?.parse().ok()?;
            Some((name.trim().to_owned(), value.clamp(0, LIMIT) as u64))
        };
        Self(text.lines().filter_map(figure).collect())
    }

    /// Returns a figure by its name, such as `MemTotal`, in kB; the numbers of huge pages (`HugePages_Total` and the like) are
    /// counts. `None` if this kernel does not have it.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<u64> {
        self.0.get(name).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_their_names() {
        let info = MemInfo::parse(
            "MemTotal:       24684084 kB\nHugePages_Total:       3\nActive(anon):   12 kB\nVmallocUsed: -4 kB\nnoise\nx: y\n",
        );
        assert_eq!(info.get("MemTotal"), Some(24_684_084));
        assert_eq!((info.get("HugePages_Total"), info.get("Active(anon)")), (Some(3), Some(12)));
        assert_eq!(
            (info.get("VmallocUsed"), info.get("x"), info.get("Total")),
            (Some(0), None, None)
        );
    }
}
