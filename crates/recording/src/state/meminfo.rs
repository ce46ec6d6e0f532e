//! `/proc/meminfo`.

use std::collections::BTreeMap;

use crate::state::procfs::amount;

/// `/proc/meminfo`: figures by name, without the colon.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MemInfo(BTreeMap<String, u64>);

impl MemInfo {
    /// Reads the text. Lines without a number are left out.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let figure = |line: &str| {
            let (name, rest) = line.split_once(':')?;
            Some((name.trim().to_owned(), amount(rest.split_ascii_whitespace().next()?)?))
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
