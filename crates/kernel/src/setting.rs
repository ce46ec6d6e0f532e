//! Switches by the names of the files and sysctls that set them on a machine.
//!
//! Source: mm/vmscan.c (`enabled_show` of lru_gen, `LRU_GEN_CORE` and the two after it), mm/huge_memory.c (`enabled_show`),
//! mm/page_alloc.c (`page_alloc_sysctl_table`).

use std::borrow::Cow;

use crate::Switch;

/// Where sysctls of memory are files.
const SYSCTLS: &str = "/proc/sys/vm/";
/// Where transparent huge pages are set.
const HUGE_PAGES: &str = "/sys/kernel/mm/transparent_hugepage/";
/// Where the multi-generational LRU is set.
const LRU_GEN: &str = "/sys/kernel/mm/lru_gen/";
/// The files of huge pages whose switches have other names.
const FILES: [(&str, &str); 7] = [
    ("enabled", "thp_enabled"),
    ("defrag", "thp_defrag"),
    ("khugepaged/defrag", "khugepaged_defrag"),
    ("khugepaged/pages_to_scan", "khugepaged_pages_to_scan"),
    ("khugepaged/scan_sleep_millisecs", "khugepaged_scan_sleep_ms"),
    ("khugepaged/alloc_sleep_millisecs", "khugepaged_alloc_sleep_ms"),
    ("khugepaged/max_ptes_none", "khugepaged_max_ptes_none"),
];

/// Returns the name of the switch that is a machine's setting: `vm.swappiness`, a file of `/proc/sys/vm`, or one below
/// `/sys/kernel/mm/transparent_hugepage` or `/sys/kernel/mm/lru_gen`. Other names are returned as they are.
pub(crate) fn switch_name(name: &str) -> Cow<'_, str> {
    let sysctl = name.strip_prefix("vm.").or_else(|| name.strip_prefix(SYSCTLS));
    if sysctl == Some("defrag_mode") {
        return Cow::Borrowed("nofragment");
    }
    if let Some(sysctl) = sysctl.filter(|sysctl| Switch::find(sysctl).is_some()) {
        return Cow::Borrowed(sysctl);
    }
    match name.strip_prefix(LRU_GEN) {
        Some("enabled") => return Cow::Borrowed("lru"),
        Some("min_ttl_ms") => return Cow::Borrowed("min_ttl_ms"),
        _ => {}
    }
    let Some(file) = name.strip_prefix(HUGE_PAGES) else { return Cow::Borrowed(name) };
    if let Some((_, switch)) = FILES.iter().find(|(known, _)| *known == file) {
        return Cow::Borrowed(switch);
    }
    // hugepages-64kB/enabled
    let size = file.strip_prefix("hugepages-").and_then(|rest| rest.strip_suffix("kB/enabled"));
    match size.map(|kb| format!("hugepages_{kb}kb")).filter(|name| Switch::find(name).is_some()) {
        Some(name) => Cow::Owned(name),
        None => Cow::Borrowed(name),
    }
}

/// Returns the value of a switch that the content of its file stands for.
fn switch_value<'v>(switch: &str, content: &'v str) -> &'v str {
    match (switch, content) {
        ("khugepaged_defrag", "0") => "off",
        ("khugepaged_defrag", "1") => "on",
        // As all kernels do that have vm.defrag_mode.
        ("nofragment", "0") => "on",
        ("nofragment", "1") => "defrag_mode",
        // The low bit says whether generations are used; the others are missing where the hardware has no such accessed bits.
        ("lru", "0" | "n" | "0x0000" | "0x0002" | "0x0004" | "0x0006") => "node",
        ("lru", "7" | "y" | "0x0001" | "0x0003" | "0x0005" | "0x0007") => "mglru",
        // The one that is chosen of several.
        _ => content
            .split_once('[')
            .and_then(|(_, rest)| rest.split_once(']'))
            .map_or(content, |of| of.0),
    }
}

/// Returns the switch that a file of a machine sets, with the value that its content stands for; `None` if no switch is this
/// setting.
#[must_use]
pub fn of_file<'c>(path: &str, content: &'c str) -> Option<(Switch, &'c str)> {
    let switch = Switch::find(&switch_name(path))?;
    Some((switch, switch_value(switch.name(), content.trim())))
}

/// Returns `NAME,switch=value,...` with the names of switches for those of settings; a file's 0 and 1 are off and on.
pub(crate) fn canonical(text: &str) -> Cow<'_, str> {
    if !text.contains("vm.") && !text.contains('/') {
        return Cow::Borrowed(text);
    }
    let part = |part: &str| match part.split_once('=') {
        Some((name, value)) => {
            let switch = switch_name(name.trim());
            format!("{switch}={}", switch_value(&switch, value.trim()))
        }
        None => part.to_owned(),
    };
    Cow::Owned(text.split(',').map(part).collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Named;

    #[test]
    fn settings_of_a_machine_are_switches() {
        for (setting, switch) in [
            ("vm.watermark_scale_factor=100", "watermark_scale_factor=100"),
            ("/proc/sys/vm/swappiness=10", "swappiness=10"),
            ("/sys/kernel/mm/transparent_hugepage/enabled=never", "thp_enabled=never"),
            ("/sys/kernel/mm/transparent_hugepage/defrag=defer", "thp_defrag=defer"),
            ("/sys/kernel/mm/transparent_hugepage/khugepaged/defrag=0", "khugepaged_defrag=off"),
            ("/sys/kernel/mm/lru_gen/enabled=7", "lru=mglru"),
            ("vm.defrag_mode=1", "nofragment=defrag_mode"),
            ("/sys/kernel/mm/lru_gen/min_ttl_ms=1000", "min_ttl_ms=1000"),
            (
                "/sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled=always",
                "hugepages_64kb=always",
            ),
        ] {
            let named = Named::parse(&format!("linux-6.12,{setting}")).expect(setting);
            assert_eq!(named.label, format!("linux-6.12,{switch}"));
            assert_eq!(named.kernel, Named::parse(&named.label).expect(switch).kernel);
        }
        for file in FILES {
            assert!(Switch::find(file.1).is_some(), "{file:?}");
        }
        for wrong in
            ["vm.no_such=1", "/sys/kernel/mm/transparent_hugepage/hugepages-3kB/enabled=always"]
        {
            let error = Named::parse(&format!("linux-6.12,{wrong}")).unwrap_err().to_string();
            assert!(error.starts_with("unknown switch '"), "{error}");
        }
    }

    #[test]
    fn files_say_what_is_set() {
        let of = |path: &str, content| of_file(path, content).map(|(switch, v)| (switch.name(), v));
        assert_eq!(of("/proc/sys/vm/swappiness", "10\n"), Some(("swappiness", "10")));
        let enabled = "/sys/kernel/mm/transparent_hugepage/enabled";
        assert_eq!(of(enabled, "always [madvise] never\n"), Some(("thp_enabled", "madvise")));
        let lru = "/sys/kernel/mm/lru_gen/enabled";
        assert_eq!(of(lru, "0x0007\n"), Some(("lru", "mglru")));
        assert_eq!(of(lru, "0x0003\n"), Some(("lru", "mglru")));
        assert_eq!(of(lru, "0x0006\n"), Some(("lru", "node")));
        assert_eq!(of(lru, "0x0013\n"), Some(("lru", "0x0013")));
        assert_eq!(of("/proc/sys/vm/overcommit_memory", "0"), None);
    }
}
