//! `/proc/iomem`: the addresses of memory.

/// Returns the frames of memory that `/proc/iomem` lists; none if addresses are hidden.
#[must_use]
pub fn memory(iomem: &str, page_kb: u64) -> Vec<(u64, u64)> {
    let page = page_kb.max(1) * 1024;
    let range = |line: &str| {
        let range = line.trim_end().strip_suffix(" : System RAM")?;
        let (from, to) = range.split_once('-')?;
        let hex = |text: &str| u64::from_str_radix(text.trim(), 16).ok();
        let (from, to) = (hex(from)?, hex(to)?);
        (to > 0).then_some((from / page, to / page + 1))
    };
    iomem.lines().filter_map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_what_iomem_names() {
        let text = "00000000-00000fff : Reserved\n00001000-0009fbff : System RAM\n  00100000-001fffff : Kernel code\n\
                    100000000-63fffffff : System RAM\n";
        assert_eq!(memory(text, 4), [(1, 0xa0), (0x10_0000, 0x64_0000)]);
        // The content that users without privileges see.
        assert_eq!(memory("00000000-00000000 : System RAM\n", 4), []);
    }
}
